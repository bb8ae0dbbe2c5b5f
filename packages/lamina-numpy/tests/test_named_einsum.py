"""`einsum` with names of mapped axes in braces is the positional `einsum` with letters for them."""
import numpy as np
import pytest
from lamina_autodiff import checkpoint, grad
from lamina_batching import vmap
from lamina_ir import UnboundAxisError
from lamina_tracing import jit, lax, make_jaxpr

import lamina_numpy as jnp

R = np.random.default_rng(0)


def draw(*shape):
    return np.round(R.normal(size=shape), 2).astype(np.float32)


# (subscripts with the names i, j; the positional ones, in which I, J are letters in front; shapes, mapped ones too)
CASES = [
    ("{i},{i}->{}", "I,I->", [(4,), (4,)]),
    ("ab{i},bc{i}->ac{i}", "Iab,Ibc->Iac", [(4, 2, 3), (4, 3, 5)]),
    ("ab{i},bc{i}->ac", "Iab,Ibc->ac", [(4, 2, 3), (4, 3, 5)]),
    ("ab{i},bc->ac", "Iab,bc->ac", [(4, 2, 3), (3, 5)]),
    ("a{i},b{i}->ba{i}", "Ia,Ib->Iba", [(4, 2), (4, 3)]),
    ("ab{i}->b", "Iab->b", [(4, 2, 3)]),
    ("aa{i}->a", "Iaa->a", [(4, 3, 3)]),
    ("...a{i},...a{i}->...", "I...a,I...a->...", [(4, 2, 3, 5), (4, 2, 3, 5)]),
    ("ab{i},bc{i},cd{i}->ad", "Iab,Ibc,Icd->ad", [(4, 2, 3), (4, 3, 5), (4, 5, 2)]),
    ("ab{i},bc,ca{i}->{i}", "Iab,bc,Ica->I", [(4, 2, 3), (3, 5), (4, 5, 2)]),
    ("a{i}, a{i}", "Ia,Ia->", [(4, 2), (4, 2)]),
    ("a{i},ab", "Ia,ab->Ib", [(4, 2), (2, 3)]),
]


def map_einsum(spec, operands):
    mapped = [text.strip().endswith("{i}") for text in spec.partition("->")[0].split(",")]
    return vmap(lambda *xs: jnp.einsum(spec, *xs), in_axes=tuple(0 if m else None for m in mapped), axis_name="i")(*operands)


@pytest.mark.parametrize("spec, positional, shapes", CASES, ids=[c[0] for c in CASES])
def test_names_are_letters(spec, positional, shapes):
    xs = [draw(*s) for s in shapes]
    want = np.asarray(jnp.einsum(positional, *xs))
    kept = positional.split("->")[1].startswith("I")
    got = map_einsum(spec, xs)
    np.testing.assert_allclose(got, want if kept else np.broadcast_to(want, (4, *want.shape)), rtol=1e-5, atol=1e-5)
    for k in range(len(xs)):
        a = grad(lambda x: map_einsum(spec, [*xs[:k], x, *xs[k + 1:]]).sum())(xs[k])  # noqa: B023
        b = grad(lambda x: jnp.einsum(positional, *xs[:k], x, *xs[k + 1:]).sum() * (1 if kept else 4))(xs[k])  # noqa: B023
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_what_is_not_mentioned_is_carried():
    x, y, w, b = draw(8, 3), draw(8, 2), draw(3, 2), draw(2)

    def loss(x, y, w, b):
        pred = jnp.einsum("{in_features},{in_features}->{}", x, w) + b
        return jnp.mean(jnp.sum((y - pred) ** 2, axis="out_features"), axis="batch")

    f = vmap(loss, (0, None, 0, None), axis_name="in_features")
    f = vmap(f, (None, 0, 1, 0), axis_name="out_features")
    f = vmap(f, (0, 0, None, None), axis_name="batch")
    want = np.mean(np.sum((y - (x @ w + b)) ** 2, 1))
    np.testing.assert_allclose(f(x, y, w, b), np.full((8, 2, 3), want), rtol=1e-5)


def test_two_names():
    x, y = draw(2, 3, 5), draw(3, 5)
    f = vmap(vmap(lambda x, y: jnp.einsum("a{i,j},a{j}->{i}", x, y), (0, 0), axis_name="j"), (0, None), axis_name="i")
    np.testing.assert_allclose(f(x, y), np.broadcast_to(np.einsum("ija,ja->i", x, y)[:, None], (2, 3)), rtol=1e-5)


def test_a_name_of_one_operand_is_summed_before_the_product():
    program = str(make_jaxpr(lambda x, y: jnp.einsum("ab{i},bc{j}->ac{j}", x, y), axis_env=[("i", 4), ("j", 2)])(
        draw(200, 2), draw(2, 300)))
    assert program.index("psum") < program.index("dot_general")


def test_under_jit_and_loops():
    x, y = draw(4, 3), draw(4, 3)

    def dot(x, y):
        return jnp.einsum("a{i},a{i}->", x, y)

    for f in (jit(dot), lambda x, y: lax.scan(lambda c, v: (c, dot(v, y)), 0, x[None])[1][0], checkpoint(dot)):
        np.testing.assert_allclose(vmap(f, axis_name="i")(x, y), np.full(4, (x * y).sum()), rtol=1e-5)


def test_the_order_of_products_is_of_letters():
    path = jnp.einsum_path("ij{n},jk{n},kl->il{n}", np.ones((2, 30)), np.ones((30, 4)), np.ones((4, 5)))[0]
    assert path == jnp.einsum_path("ij,jk,kl->il", np.ones((2, 30)), np.ones((30, 4)), np.ones((4, 5)))[0]


def test_precision_and_preferred_element_type():
    x = draw(4, 2, 3).astype("float16")
    out = vmap(lambda x: jnp.einsum("ab{i},cb{i}->ac", x, x, preferred_element_type=np.float32, precision="highest"),
               axis_name="i")(x)
    np.testing.assert_allclose(out[0], np.einsum("iab,icb->ac", *[x.astype("float32")] * 2), rtol=1e-3)
    assert out.dtype == np.float32
    same = vmap(lambda x: jnp.einsum("a{i},a{i}->", x > 0, x > 0), axis_name="i")(x[:, 0])
    assert same.dtype == bool and bool(same.all())


@pytest.mark.parametrize("spec, error, said", [
    ("a{j},a{j}->", UnboundAxisError, "axis name 'j' is not bound; bound here: 'i'"),
    ("a{i},a{i}->", ValueError, r"operand 1 of 'a\{i\},a\{i\}->' has no axis 'i': it is float32\[3\].*Leave the name out"),
    ("a{i},a->{j}", ValueError, "the result's axis 'j' is in no operand"),
    ("a{i,i},a->", ValueError, "may occur once"),
    ("{i}a,a->", ValueError, "each term is letters and then names in braces"),
    ("a{i},a->b", ValueError, "label 'b' of the result"),
    ("a{i}->", ValueError, "names 1 operands; got 2")])
def test_errors(spec, error, said):
    with pytest.raises(error, match=said):
        vmap(lambda x: jnp.einsum(spec, x, jnp.ones(3)), axis_name="i")(draw(4, 3))


def test_lax_speaks_the_same_language():
    x, y = draw(4, 2, 3), draw(4, 3, 5)
    for spec in ("ab{i},bc{i}->ac", "ab{i}, bc{i} -> ca{i}"):
        got, want = (vmap(lambda x, y: f(spec, x, y), axis_name="i")(x, y) for f in (lax.xeinsum, jnp.einsum))  # noqa: B023
        np.testing.assert_allclose(got, want, rtol=1e-6)
