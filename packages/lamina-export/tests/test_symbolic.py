"""A function exported for symbolic sizes gives the results of the original at each size, or the export is refused."""
import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_batching import vmap
from lamina_export import DisabledSafetyCheck, SymbolicScope, deserialize, export, symbolic_shape
from lamina_export.shape_polymorphism import make_family
from lamina_export.fit_dim_expressions import Fit, count_samples
from lamina_ir import ShapeDtypeStruct
from lamina_tracing import jit, lax


def export_symbolic(f, *shapes, constraints=(), dtype="float32", **more):
    scope = SymbolicScope(constraints)
    return export(jit(f), **more)(*[ShapeDtypeStruct(symbolic_shape(s, scope=scope), dtype) for s in shapes])


def attention(q, k, v):
    s = lnp.einsum("btd,bsd->bts", q, k) / np.sqrt(q.shape[-1])
    s = s - s.max(-1, keepdims=True)
    return lnp.exp(s) / lnp.exp(s).sum(-1, keepdims=True) @ v


CASES = {
    "mean": (lambda x: x.mean(0) - x.var(1).sum(), ["a, b"]),
    "flatten": (lambda x: x.reshape(-1) / x.shape[0], ["a, b"]),
    "products": (lambda x, w: lnp.tanh(x @ w), ["a, b", "b, c"]),
    "attention": (attention, ["b, t, d", "b, s, d", "b, s, d"]),
    "rows": (lambda x: vmap(lambda r: lnp.dot(r, r) + r.shape[0])(x), ["a, b"]),
    "scan": (lambda x: lax.scan(lambda c, y: (c + y, c * y), x[0], x), ["a, b"]),
    "while": (lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + lnp.asarray(x)[i], lnp.zeros(x.shape[1:])), ["a, b"]),
    "strides": (lambda x: (x[::2], x[1:], x[::-1], x[-1]), ["a + 1"]),
    "windows": (lambda x, k: lax.conv_general_dilated(x, k, (2, 2), "SAME"), ["n, 1, h, w", "2, 1, 3, 3"]),
    "pools": (lambda x: x.reshape(-1, 2).sum(1), ["2*a"]),
    "eights": (lambda x: x.reshape(-1, 8).sum(0), ["a"], ["mod(a, 8) == 0"]),
    "padded": (lambda x: lnp.pad(x, (0, -x.shape[0] % 8)), ["a"]),
    "triangle": (lambda x: x[:, None] * lnp.tri(x.shape[0]) + lnp.arange(x.shape[0]), ["a"]),
    "joined": (lambda x, y: lnp.concatenate([x, y, x]), ["a", "b"]),
    "sorted": (lambda x: (lnp.sort(x), lnp.cumsum(x), lnp.argmax(x)), ["a"]),
    "solve": (lambda x: lnp.linalg.solve(x @ x.T + 9 * lnp.eye(len(x)), x[:, 0]), ["a, 3"]),
    "derivatives": (lambda x: grad(lambda x: (x ** 2).mean())(x), ["a, b"]),
    "halves": (lambda x: x[:x.shape[0] // 2] * x.shape[0] ** 2 / (x.shape[0] + 1), ["a"], ["a >= 2"]),
    "few": (lambda x: x * (2 if x.shape[0] > 4 else 2), ["a"], ["a <= 6"]),
}


@pytest.mark.parametrize("name", CASES)
def test_exported_function_matches_original_at_each_size(name):
    f, shapes, *rest = CASES[name]
    e = deserialize(export_symbolic(f, *shapes, constraints=rest[0] if rest else ()).serialize())
    assert e.uses_global_constants
    draw = np.random.RandomState(0)
    for base in (1, 2, 3, 6):
        sizes = {n: {"eights": 8, "halves": 2}.get(name, 1) * (base + i) if name != "few" else base
                 for i, n in enumerate(e._family.names)}
        args = [draw.rand(*a.shape).astype(np.float32) for a in e.at_sizes(**sizes).in_avals]
        got, want = e.call(*args), f(*args)
        for g, w in zip(*map(leaves, (got, want))):
            assert g.shape == w.shape and g.dtype == w.dtype
            np.testing.assert_allclose(g, w, rtol=2e-5, atol=2e-6)


def leaves(x):
    return [y for z in x for y in leaves(z)] if isinstance(x, tuple) else [x]


def test_types_have_symbolic_sizes():
    e = export_symbolic(lambda x, k: lax.conv_general_dilated(x, k, (2, 2), "VALID"), "n, 1, h, w", "2, 1, 3, 3",
                        constraints=["h >= 3", "w >= 3"])
    assert [a.str_long() for a in e.out_avals] == ["float32[n,2,floordiv(h - 1, 2),floordiv(w - 1, 2)]"]
    assert e.in_avals[0].shape[0].scope is e.in_avals[0].shape[2].scope
    again = deserialize(e.serialize())
    assert [a.str_long() for a in again.in_avals + again.out_avals] == [a.str_long() for a in e.in_avals + e.out_avals]


def test_vjp_has_symbolic_sizes():
    e = export_symbolic(lambda x, w: lnp.sin(x @ w).mean(), "a, b", "b")
    for e in (e, deserialize(e.serialize(vjp_order=2))):
        v = e.vjp()
        assert [a.str_long() for a in v.in_avals] == ["float32[a,b]", "float32[b]", "float32[]"]
        assert [a.str_long() for a in v.out_avals] == ["float32[a,b]", "float32[b]"]
        x, w = np.random.RandomState(0).rand(4, 3).astype(np.float32), np.ones(3, np.float32)
        want = grad(lambda x, w: lnp.sin(x @ w).mean(), (0, 1))(x, w)
        for got in (v.call(x, w, np.float32(1)), grad(e.call, (0, 1))(x, w)):
            np.testing.assert_allclose(got[0], want[0], rtol=1e-5)
            np.testing.assert_allclose(got[1], want[1], rtol=1e-5)
        assert len(v.vjp().out_avals) == 3


def branch_on_size(x):
    return x if x.shape[0] > 5 else 2 * x


@pytest.mark.parametrize("f, shapes, words", [
    (branch_on_size, ["a"], "at a = 1 it does other operations.*constraints"),
    (lambda x: x if x.shape[0] != 1025 else -x, ["a"], "at a = 1025"),
    (lambda x: x + x if x.shape[0] % 2 else x * 2, ["a"], "not one program for all sizes of a"),
    (lambda x: x * np.arange(x.shape[0], dtype=np.float32), ["a"], "an array that it holds as a constant"),
    (lambda x: x.squeeze(), ["a, b"], "at a = 1, b = 1 it gives"),
    (lambda x: x / np.log(x.shape[0] + 1), ["a"], "no expression was found"),
    (lambda x: [x] * x.shape[0], ["a"], "structure of the result depends on sizes"),
    (lambda x: x, ["a*b"], "the sizes a, b cannot be computed"),
    (lambda x, y: x.sum() + y.sum(), ["a", "max(a, 5)"], "at a = 1 it takes float32.1., float32.5."),
])
def test_function_whose_program_depends_on_size_is_refused(f, shapes, words):
    with pytest.raises(ValueError, match=words):
        export_symbolic(f, *shapes)


def test_constraints_exclude_sizes_with_another_program():
    e = export_symbolic(branch_on_size, "a", constraints=["a >= 6"])
    assert np.array_equal(e.call(np.ones(6, np.float32)), np.ones(6))
    with pytest.raises(ValueError, match=r"must keep a >= 6. a = 5 is given by size 0 of args\[0\]"):
        e.call(np.ones(5, np.float32))
    e = export_symbolic(branch_on_size, "a", constraints=["a >= 6"],
                        disabled_checks=[DisabledSafetyCheck.shape_assertions()])
    assert np.array_equal(e.call(np.ones(5, np.float32)), np.ones(5))
    with pytest.raises(ValueError, match="no size"):
        export_symbolic(branch_on_size, "a", constraints=["a >= 6", "mod(a, 4) == 1", "mod(a, 4) == 2"])


def test_sizes_are_computed_from_arguments():
    e = export_symbolic(lambda x, y: x.sum() + y.sum(), "2*c + d, c", "d*c", constraints=["c >= 3"])
    assert e.call(np.ones((10, 3), np.float32), np.ones(12, np.float32)) == 42
    for shapes, words in [(((10, 2), (12,)), "must keep c >= 3"), (((10, 3), (11,)), r"size 0 of args\[1\], float32\[11\], "
                                                                                     r"must be c\*d = 12"),
                          (((6, 3), (0,)), "must keep d >= 1")]:
        with pytest.raises(ValueError, match=words):
            e.call(*[np.ones(s, np.float32) for s in shapes])
    with pytest.raises(ValueError, match=r"must be 2\*c for an int c; got 3"):
        export_symbolic(lambda x: x, "2*c").call(np.ones(3, np.float32))


def test_at_sizes_has_a_module():
    e = export_symbolic(lambda x: x * 2, "a, b")
    with pytest.raises(ValueError, match="symbolic, and a module needs known sizes"):
        e.mlir_module()
    one = e.at_sizes(a=2, b=3)
    assert "tensor<2x3xf32>" in one.mlir_module() and not one.uses_global_constants
    for wrong in ({"a": 2}, {"a": 2, "b": 3, "c": 4}, {"a": 0, "b": 1}):
        with pytest.raises(ValueError, match="at_sizes"):
            e.at_sizes(**wrong)
    with pytest.warns(DeprecationWarning):
        assert e.uses_shape_polymorphism


def test_scopes_and_static_arguments():
    a, b = (ShapeDtypeStruct(symbolic_shape(s), "float32") for s in "ab")
    with pytest.raises(ValueError, match="of 2 scopes"):
        export(jit(lambda x, y: x))(a, b)
    rows = ShapeDtypeStruct((*a.shape, 8), "float32")
    e = export(jit(lambda x, w, n: (x @ w) * n, static_argnums=2))(rows, np.ones(8, np.float32), 3)
    assert [x.str_long() for x in e.in_avals] == ["float32[a,8]", "float32[8]"]


@pytest.mark.parametrize("text", ["2*a + 3", "a*b - b", "floordiv(a - 1, 2)", "mod(-a, 8)", "8*floordiv(a + 7, 8)", "a^3",
                                  "a*b*c",
                                  "floordiv(a, 2)*b", "floordiv(a^2 - a, 2)", "floordiv(a + b, 2)", "floordiv(3*a, 4)"])
def test_size_expressions_are_found_from_samples(text):
    from lamina_export.symbolic_dim import evaluate
    from lamina_export.symbolic_scope import parse_dim
    import random
    names = [n for n in "abc" if n in text.replace("mod", "").replace("floordiv", "")]
    draw, scope = random.Random(3), SymbolicScope()
    samples = [{n: draw.randrange(20, 200) for n in names} for _ in range(count_samples(len(names)) + 20)]
    e = parse_dim(text, scope)
    found = Fit(samples, scope).fit_ints([evaluate(e, s) for s in samples])
    for values in ({"a": 1, "b": 1, "c": 1}, {"a": 7, "b": 2, "c": 3}, {"a": 1000, "b": 31, "c": 5}):
        assert evaluate(found, values) == evaluate(e, values)
    assert Fit(samples, scope).fit_ints([hash((i, "nothing")) % 1000 for i in range(len(samples))]) is None
    assert make_family.__module__ == "lamina_export.shape_polymorphism"
