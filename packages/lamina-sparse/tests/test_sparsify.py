"""`sparsify`: every primitive has a sparse rule or a reason; results agree with the dense function."""
import re

import lamina_numpy as lnp
import lamina_sparse as sparse
import numpy as np
import pytest
from lamina_autodiff import checkpoint, custom_jvp, grad
from lamina_ir import prims
from lamina_sparse import BCOO, CSR, sparse_rules, sparsify
from lamina_tracing import jit, lax

X = np.array([[0, 1, 0, 2], [3, 0, 0, 0], [0, 0, 0, 4]], np.float32)
Y = np.arange(12, dtype=np.float32).reshape(3, 4)
V = np.array([1, 2, 3, 4], np.float32)
SQUARE = np.array([[0, .5, 0], [.25, 0, 0], [0, 0, 1]], np.float32)


@pytest.mark.parametrize("prim", prims.ALL, ids=lambda p: p.name)
def test_every_primitive_has_a_rule_or_a_reason(prim):
    assert sparse_rules.has_rule_or_reason(prim)


def duplicated(x):
    mat = BCOO.fromdense(x)
    ends = np.array(x.shape, np.int32)[None]
    return BCOO((np.concatenate([mat.data * 0.25, mat.data * 0.75, [7]]), np.concatenate([mat.indices, mat.indices, ends])),
                shape=x.shape)


UNARY = ["abs", "arcsin", "arcsinh", "arctan", "arctanh", "cbrt", "ceil", "conj", "expm1", "floor", "log1p", "negative",
         "real", "round", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh"]


@pytest.mark.parametrize("name", UNARY)
def test_elementwise_functions(name):
    f = getattr(lnp, name)
    small = X / 8
    for mat in (BCOO.fromdense(small), duplicated(small)):
        got = sparsify(f)(mat)
        assert isinstance(got, BCOO) and np.allclose(got.todense(), f(small), atol=1e-6)


@lambda f: custom_jvp(f)
def custom(x):
    return lnp.sin(x)


custom.defjvp(lambda primals, tangents: (custom(*primals), tangents[0]))

FUNCTIONS = [
    lambda x: x + x, lambda x: x - 2 * x, lambda x: x * Y, lambda x: Y * x, lambda x: x + Y, lambda x: Y - x,
    lambda x: x / (Y + 1), lambda x: x @ V, lambda x: V[:3] @ x, lambda x: x.T @ x,
    lambda x: lnp.einsum("ij,kj->ik", x, Y), lambda x: x.sum(), lambda x: x.sum(0),
    lambda x: x.mean(1, keepdims=True), lambda x: x[1], lambda x: x[:, 1:3], lambda x: x[::-1, ::2],
    lambda x: x[np.array([2, 0])], lambda x: x.reshape(-1), lambda x: x[None, :, None], lambda x: lnp.squeeze(x[:1]),
    lambda x: lnp.broadcast_to(x, (2, 3, 4)), lambda x: lnp.concatenate([x, x], 1), lambda x: x ** 3,
    lambda x: x ** 2.0, lambda x: jit(lnp.sin)(x), lambda x: checkpoint(lnp.sin)(x), lambda x: custom(x),
    lambda x: lnp.cos(sparse.todense(x)), lambda x: x.astype("int32"), lambda x: x.astype("float16"),
    lambda x: lax.dynamic_slice(x, (1, 1), (2, 2)), lambda x: lax.stop_gradient(x), lambda x: (x, Y, 3.0),
    lambda x: lnp.outer(V, V), lambda x: lnp.swapaxes(x, 0, 1),
    lambda x: lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: x * 3, x),
    lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x)),
    lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2, x),
]


@pytest.mark.parametrize("k", range(len(FUNCTIONS)))
def test_functions(k):
    f = FUNCTIONS[k]
    for mat in (BCOO.fromdense(X), duplicated(X), CSR.fromdense(X)):
        for g in (sparsify(f), jit(sparsify(f))):
            got, want = g(mat), f(lnp.asarray(X))
            pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
            for a, b in pairs:
                assert np.allclose(sparse.todense(a), b, atol=1e-6)


def test_scan_over_a_batch_dimension_and_with_a_sparse_constant():
    def f(a, xs):
        return lax.scan(lambda c, x: (a @ c + x.sum(), x * 2), lnp.ones(3), xs)
    xs = np.stack([X, 2 * X])
    got, ys = sparsify(f)(BCOO.fromdense(SQUARE), BCOO.fromdense(xs, n_batch=1))
    want, dense_ys = f(lnp.asarray(SQUARE), xs)
    assert np.allclose(got, want) and isinstance(ys, BCOO) and np.allclose(ys.todense(), dense_ys)
    with pytest.raises(NotImplementedError, match="got one with n_batch=0"):
        sparsify(f)(BCOO.fromdense(SQUARE), BCOO.fromdense(xs))


def test_carried_formats_must_not_change():
    with pytest.raises(NotImplementedError, match=re.escape("`while` must keep the format of value 0: ('BCOO', 4, 0, 0)")):
        sparsify(lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + c, x))(BCOO.fromdense(X))


@pytest.mark.parametrize("f, name", [(lnp.cos, "cos"), (lnp.exp, "exp"), (lambda x: x > 1, "gt"), (lnp.sort, "sort"),
                                     (lnp.cumsum, "cumsum"), (lambda x: x.max(), "reduce_max")], ids=str)
def test_missing_rules_name_the_primitive(f, name):
    with pytest.raises(NotImplementedError, match=f"sparsify of `{name}` is not defined: .*todense"):
        sparsify(f)(BCOO.fromdense(X))


def test_mixed_operands_without_a_rule():
    with pytest.raises(NotImplementedError, match="`concatenate` of sparse and dense arrays has a dense result"):
        sparsify(lambda x: lnp.concatenate([x, Y]))(BCOO.fromdense(X))
    with pytest.raises(NotImplementedError, match="a dense operand must have the shape"):
        sparsify(lambda x: x + 1)(BCOO.fromdense(X))


def test_derivatives_of_sparsified_functions():
    mat = BCOO.fromdense(X)
    f = sparsify(lambda x, v: (lnp.sin(x) @ v).sum())
    assert np.allclose(grad(lambda v: f(mat, v))(V), np.sin(X).sum(0))
    assert np.allclose(sparse.grad(f)(mat, V).todense(), np.where(X != 0, np.cos(X) * V, 0), atol=1e-6)
    value, (dx, dv) = sparse.value_and_grad(f, argnums=(0, 1))(mat, V)
    assert np.allclose(value, (np.sin(X) @ V).sum(), atol=1e-5) and dx.nse == 4 and dv.shape == (4,)


def test_outer_tracers_and_trees():
    mat = BCOO.fromdense(X)
    out = jit(lambda w: sparsify(lambda t, k: {"a": t["m"] @ w, "b": k})({"m": mat}, k=2))(V)
    assert np.allclose(out["a"], X @ V) and out["b"] == 2
