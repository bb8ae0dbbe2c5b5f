"""`vmap`: mapped input and output axes, errors, and axes of nested maps."""
from __future__ import annotations

import collections
import functools

import numpy as np
import pytest
from lamina_batching import vmap
from lamina_ir import MissingRuleError, Primitive, UnboundAxisError
from lamina_tracing import jit, lax, make_jaxpr
from lamina_tracing.extend import bind

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)
Point = collections.namedtuple("Point", "x y")


def test_every_in_axis_and_out_axis_equals_loop():
    a = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    for i in range(-3, 3):
        for o in range(-2, 2):
            got = vmap(lambda row: lax.sin(row), in_axes=i, out_axes=o)(a)
            want = np.stack([np.sin(r) for r in np.moveaxis(a, i, 0)], axis=o)
            np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6)


@pytest.mark.parametrize("seed", range(25))
def test_two_arguments_over_any_axes_equal_loop(seed):
    rng = np.random.default_rng(seed)
    size, rank = rng.integers(1, 4), rng.integers(0, 3)
    example = tuple(rng.integers(1, 4, rank))
    axes = [None if rng.random() < 0.3 else int(rng.integers(-rank - 1, rank + 1)) for _ in range(2)]
    if axes == [None, None]:
        axes[0] = 0
    out = int(rng.integers(-rank - 1, rank + 1))
    rows = [[rng.normal(size=example).astype(np.float32) for _ in range(size if a is not None else 1)] for a in axes]
    args = [r[0] if a is None else np.stack(r, axis=a) for r, a in zip(rows, axes)]
    got = vmap(lambda x, y: lax.sub(lax.mul(x, y), x), in_axes=tuple(axes), out_axes=out)(*args)
    want = [x * y - x for x, y in zip(*[r * size if a is None else r for r, a in zip(rows, axes)])]
    np.testing.assert_allclose(np.asarray(got), np.stack(want, axis=out), rtol=1e-5, atol=1e-6)


def test_axes_can_be_tree_prefixes():
    tree = {"a": X, "b": (X.T, np.float32(2))}
    out = vmap(lambda t: {"sum": lax.add(t["a"], t["b"][0]), "two": t["b"][1]},
               in_axes=({"a": 0, "b": (1, None)},), out_axes={"sum": 1, "two": None})(tree)
    np.testing.assert_array_equal(np.asarray(out["sum"]), (X + X).T)
    assert np.shape(out["two"]) == ()


def test_named_tuples_and_none_keep_their_type():
    out = vmap(lambda p, nothing: Point(p.y, nothing))(Point(X, X + 1), None)
    assert type(out) is Point and out.y is None
    np.testing.assert_array_equal(np.asarray(out.x), X + 1)


def test_keyword_arguments_are_mapped_over_axis_0():
    got = vmap(lambda x, *, scale: lax.mul(x, scale))(X, scale=np.float32([1, 10]))
    np.testing.assert_array_equal(np.asarray(got), X * [[1], [10]])


def test_result_independent_of_axis_is_broadcast():
    got = vmap(lambda x: np.float32([1, 2]), out_axes=1)(X)
    np.testing.assert_array_equal(np.asarray(got), [[1, 1], [2, 2]])


def test_axis_size_without_mapped_argument():
    assert np.shape(vmap(lambda: np.float32(3), axis_size=4)()) == (4,)
    assert np.shape(vmap(lambda x: x, in_axes=None, axis_size=4)(X)) == (4, 2, 3)


def test_nested_maps_have_separate_axes():
    outer = vmap(lambda x: vmap(lambda y: lax.sub(x, y))(np.float32([10, 20])))(np.float32([1, 2, 3]))
    np.testing.assert_array_equal(np.asarray(outer), [[-9, -19], [-8, -18], [-7, -17]])


def test_inner_map_shadows_equal_axis_name():
    sizes = []

    def inner(x):
        sizes.append(lax.psum(1, "i"))
        return x

    def outer(row):
        out = vmap(inner, axis_name="i")(row)
        sizes.append(lax.psum(1, "i"))
        return out

    vmap(outer, axis_name="i")(X)
    assert sizes == [3, 2]


def test_axis_name_is_unbound_after_map():
    with pytest.raises(UnboundAxisError, match="'i'"):
        vmap(lambda x: x, axis_name="i")(X), lax.psum(X, "i")


def test_primitives_on_unmapped_values_run_once():
    closed = make_jaxpr(vmap(lambda x, y: lax.add(x, lax.sin(y)), in_axes=(0, None)))(X, np.float32(1))
    sine = next(e for e in closed.eqns if e.primitive.name == "sin")
    assert sine.outvars[0].aval.shape == ()


def test_function_runs_once_for_any_size():
    count = []
    vmap(lambda x: count.append(x.shape) or x)(np.zeros((1000, 2), np.float32))
    assert count == [(2,)]


def test_axis_of_size_zero():
    assert np.shape(vmap(lambda x: lax.reduce_sum(x, (0,)))(np.zeros((0, 3), np.float32))) == (0,)


def test_mapped_function_keeps_name_and_docstring():
    @vmap
    def scaled(x):
        """Twice `x`."""
        return lax.mul(x, 2.0)

    assert scaled.__name__ == "scaled" and scaled.__doc__ == "Twice `x`."


def test_vmap_inside_jit_and_of_jit():
    f = lambda x: lax.reduce_sum(lax.sin(x), (0,))  # noqa: E731
    want = np.sin(X).sum(1)
    for mapped in (jit(vmap(f)), vmap(jit(f)), jit(vmap(jit(f)))):
        np.testing.assert_allclose(np.asarray(mapped(X)), want, rtol=1e-6)


def g(x, y):
    return lax.add(x, y)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: vmap(3), TypeError, "vmap: expected a function; got int"),
    (lambda: vmap(g, in_axes="x"), TypeError, "vmap of `g`: in_axes must be an int, None, or a tuple"),
    (lambda: vmap(g, in_axes=(0, True))(X, X), TypeError, "in_axes.1. .for argument `y`. must be an int or None"),
    (lambda: vmap(g, in_axes=(0,))(X, X), ValueError, "one entry per positional argument; got 1 entries .* for 2 arguments"),
    (lambda: vmap(g, in_axes=(0, (0, 0)))(X, X), ValueError, "in_axes\\[1\\] must be a prefix of argument `y`"),
    (lambda: vmap(g)(X, X[:1]), ValueError, r"inconsistent sizes of the mapped axis: .*2: x.*; 1: y"),
    (lambda: vmap(g, axis_size=5)(X, X), ValueError, "x, .* has 2 along axis 0; expected 5, as axis_size says"),
    (lambda: vmap(g, in_axes=(2, 0))(X, X), ValueError, r"in_axes 2 is out of range for x, float32\[2,3\]"),
    (lambda: vmap(g)(1.0, X), ValueError, r"x has rank 0 .* use None for arguments that are not mapped"),
    (lambda: vmap(g, in_axes=None)(X, X), ValueError, "at least one in_axes entry must not be None, or axis_size"),
    (lambda: vmap(g, out_axes=None)(X, X), ValueError, "out_axes is None for output, which depends on the mapped axis"),
    (lambda: vmap(g, out_axes=3)(X, X), ValueError, "out_axes 3 is out of range for output"),
    (lambda: vmap(g, out_axes=(0, 0))(X, X), ValueError, "out_axes must be a prefix of the function.s output"),
    (lambda: vmap(lambda x: "no")(X), TypeError, "the function returned str at output: "),
    (lambda: vmap(g)(X, "no"), TypeError, "y: expected")])
def test_wrong_arguments_are_rejected_by_name(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_missing_rule_error_names_rule_file():
    lonely_p = Primitive("lonely", infer=lambda x: x, numpy=lambda x: x, family="elementwise")
    with pytest.raises(MissingRuleError, match="`lonely` has no rule; add a rule to lamina_batching/rules/elementwise.py"):
        vmap(functools.partial(bind, lonely_p))(X)


def test_error_leaves_thread_usable():
    with pytest.raises(ZeroDivisionError):
        vmap(lambda x: 1 / 0, axis_name="i")(X)
    assert np.shape(lax.sin(X)) == (2, 3)
    with pytest.raises(UnboundAxisError):
        lax.psum(X, "i")


@pytest.mark.parametrize("other", [lax.sin, functools.partial(lax.mul, 2.0), "text", {"f": lax.sin, "n": "text"}, object(),
                                   Point(lax.cos, ["a", b"b"])], ids=repr)
def test_unmapped_arguments_are_passed_unchanged(other):
    seen = []

    def f(given, x):
        seen.append(given)
        return lax.neg(x)

    for call in (vmap(f, (None, 0)), lambda o, x: jit(lambda x: vmap(f, (None, 0))(o, x))(x),
                 vmap(vmap(f, (None, 0)), (None, 0))):
        np.testing.assert_array_equal(np.asarray(call(other, X)), -X)
    assert all(type(s) is type(other) for s in seen) and len(seen) == 3
    assert seen[0] is other or isinstance(other, (dict, tuple))
    with pytest.raises(TypeError, match=r"given: .*None in its place in in_axes"):
        vmap(f)(lax.sin, X)
