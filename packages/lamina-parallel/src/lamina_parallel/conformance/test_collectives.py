"""Collectives compared with their definition under `pmap` and `vmap`, and their derivatives."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lamina_autodiff import grad, jvp, vjp
from lamina_batching import vmap
from lamina_ir.testing import assert_close
from lamina_tracing import jit, lax

import lamina_parallel
from lamina_parallel import axis_index, axis_size, pdot, pmap, pmax, pmean, pmin, psum, xeinsum

from lamina_parallel.conformance.backend import ROWS
from lamina_parallel.conformance.reference import CASES, on_axes

pytestmark = pytest.mark.collectives

RNG = np.random.default_rng(1)
X = RNG.normal(size=(ROWS, ROWS, ROWS, 3)).astype(np.float32)
WIDE = RNG.normal(size=(2, 2, ROWS, ROWS, 3)).astype(np.float32)
IDS = [f"{name}{sorted(params.items())}" for name, params in CASES]
NONLINEAR = ("pmax", "pmin", "pargmax", "pargmin", "axis_index")


def function_with(name: str, axes: Any, params: dict[str, Any], **more: Any) -> Any:
    """Return the function of one member that applies a collective."""
    fun = getattr(lamina_parallel, name)
    if name == "axis_index":
        return lambda x: fun(axes)
    return lambda x: fun(x, axes, **params, **more)


@pytest.mark.parametrize("mapper", [pmap, vmap])
@pytest.mark.parametrize("name, params", CASES, ids=IDS)
def test_collective_equals_its_definition(name: str, params: dict[str, Any], mapper: Any) -> None:
    got = mapper(function_with(name, "i", params), axis_name="i")(X)
    assert_close(got, on_axes(name, X, params), slack=4, what=name)


@pytest.mark.parametrize("name, params", CASES, ids=IDS)
def test_first_of_two_axis_names_varies_slowest(name: str, params: dict[str, Any]) -> None:
    for names, axes in ((("i", "j"), (0, 1)), (("j", "i"), (1, 0))):
        fun = function_with(name, names, params)
        wanted = on_axes(name, WIDE, params, axes, ranks=2)
        for outer, inner in ((pmap, vmap), (vmap, pmap), (pmap, pmap)):
            got = outer(inner(fun, axis_name="j"), axis_name="i")(WIDE)
            assert_close(got, wanted, slack=4, what=f"{name} over {names}")


@pytest.mark.parametrize("name, params", CASES, ids=IDS)
def test_collective_in_nested_maps_uses_only_named_axis(name: str, params: dict[str, Any]) -> None:
    x = WIDE.reshape(4, *WIDE.shape[2:])
    wide = np.stack([x, 2 * x])
    inner = vmap(pmap(function_with(name, "i", params), axis_name="i"), axis_name="j")(wide)
    assert_close(inner, on_axes(name, wide, params, (1,), ranks=2), slack=8, what=name)


GROUPS = [[0, 3], [2, 1]]
GROUPED = [(name, params) for name, params in (
    ("psum", {}), ("pmean", {}), ("pmax", {}), ("pmin", {}), ("all_gather", {}), ("all_gather", {"axis": 1, "tiled": True}),
    ("psum_scatter", {"tiled": True}), ("all_to_all", {"split_axis": 0, "concat_axis": 1, "tiled": True}))]


@pytest.mark.parametrize("mapper", [pmap, vmap])
@pytest.mark.parametrize("name, params", GROUPED, ids=[f"{n}{sorted(p.items())}" for n, p in GROUPED])
def test_groups_are_independent(name: str, params: dict[str, Any], mapper: Any) -> None:
    got = mapper(function_with(name, "i", params, axis_index_groups=GROUPS), axis_name="i")(X)
    assert_close(got, on_axes(name, X, params, groups=GROUPS), slack=4, what=name)


def test_groups_of_sums_may_differ_in_size() -> None:
    groups = [[0, 1, 2], [3]]
    for fun in (psum, pmean, pmax, pmin):
        got = pmap(lambda x, fun=fun: fun(x, "i", axis_index_groups=groups), axis_name="i")(X)
        assert_close(got, on_axes(fun.__name__, X, {}, groups=groups), slack=4)


@pytest.mark.parametrize("groups", [[[0, 1], [2]], [[0, 1], [1, 2, 3]], [[0, 1], [2, 9]]])
def test_groups_must_contain_every_member_once(groups: Any) -> None:
    with pytest.raises(ValueError, match="axis_index_groups"):
        pmap(lambda x: psum(x, "i", axis_index_groups=groups), axis_name="i")(X)


@pytest.mark.parametrize("mapper", [pmap, vmap])
def test_products_over_the_mapped_axis(mapper: Any) -> None:
    a, b = X[:, 0], X[:, 1]
    wanted = np.einsum("iab,icb->ac", a, b)
    for fun in (lambda x, y: pdot(x, y, "i", ((1,), (1,))), lambda x, y: xeinsum("ab{i},cb{i}->ac", x, y)):
        got = mapper(fun, axis_name="i")(a, b)
        assert_close(got, np.broadcast_to(wanted, (ROWS, *wanted.shape)), slack=10)


def test_axis_size_is_a_python_integer() -> None:
    seen = []
    got = pmap(lambda x: x * (seen.append((axis_size("i"), psum(1, "i"))) or axis_size("i")), axis_name="i")(X)
    assert_close(got, X * ROWS)
    assert seen[0] == (ROWS, ROWS) and all(isinstance(n, int) for n in seen[0])


def test_collectives_accept_trees() -> None:
    got = pmap(lambda x: psum({"x": x, "pair": (x > 0, 2.0)}, "i"), axis_name="i")(X)
    assert_close(got["x"], on_axes("psum", X, {}), slack=4)
    assert np.asarray(got["pair"][0]).tolist() == np.broadcast_to((X > 0).sum(0), X.shape).tolist()
    assert np.asarray(got["pair"][1]).ravel().tolist() == [2.0 * ROWS] * np.asarray(got["pair"][1]).size


def test_axis_names_are_hashable_and_inner_axis_shadows() -> None:
    name = ("a", 3)
    assert_close(pmap(lambda x: psum(x, (name,)), axis_name=name)(X), on_axes("psum", X, {}), slack=4)
    got = pmap(lambda row: vmap(lambda x: psum(x, "i"), axis_name="i")(row), axis_name="j")(X)
    assert_close(got, np.broadcast_to(X.sum(1, keepdims=True), X.shape), slack=4)


def test_collectives_inside_jit_and_loops() -> None:
    assert_close(pmap(jit(lambda x: psum(x, "i")), axis_name="i")(X), on_axes("psum", X, {}), slack=4)
    assert_close(jit(pmap(lambda x: psum(x, "i"), axis_name="i"))(X), on_axes("psum", X, {}), slack=4)
    turned = pmap(lambda x: lax.fori_loop(0, 3, lambda k, v: lamina_parallel.pshuffle(v, "i", [3, 0, 1, 2]), x), axis_name="i")
    assert_close(turned(X), np.roll(X, 3, 0))
    total = pmap(lambda x: lax.scan(lambda c, v: (c + psum(v, "i"), c), np.zeros((ROWS, 3), np.float32), x)[0], axis_name="i")
    assert_close(total(X), np.broadcast_to(X.sum((0, 1)), (ROWS, ROWS, 3)), slack=8)


@pytest.mark.order
@pytest.mark.parametrize("mapper", [pmap, vmap])
@pytest.mark.parametrize("name, params", CASES, ids=IDS)
def test_derivative_equals_that_of_function_of_all_members(name: str, params: dict[str, Any], mapper: Any) -> None:
    fun = mapper(function_with(name, "i", params), axis_name="i")
    t = RNG.normal(size=X.shape).astype(np.float32)
    y, pushed = jvp(fun, (X,), (t,))
    if np.asarray(y).dtype.kind != "f":
        assert not np.asarray(pushed).astype(bool).any()
        return
    if name in NONLINEAR:  # the derivative belongs to the member that attains it
        k = np.argmax(X, 0) if name == "pmax" else np.argmin(X, 0)
        wanted = np.broadcast_to(np.take_along_axis(t, k[None], 0), X.shape)
    else:
        wanted = on_axes(name, t, params)
    assert_close(pushed, wanted, slack=4, what=f"jvp of {name}")
    w = RNG.normal(size=y.shape).astype(np.float32)
    back, = vjp(fun, X)[1](w)
    np.testing.assert_allclose(np.vdot(w, np.asarray(pushed)), np.vdot(np.asarray(back), t), rtol=1e-3, atol=1e-3)


@pytest.mark.order
@pytest.mark.parametrize("mapper", [pmap, vmap])
def test_pmax_divides_derivative_equally_among_ties(mapper: Any) -> None:
    x = np.array([1, 3, 3, 2], np.float32)
    back, = vjp(mapper(lambda v: pmax(v, "i"), axis_name="i"), x)[1](np.array([1, 0, 1, 0], np.float32))
    assert np.asarray(back).tolist() == [0, 1, 1, 0]


@pytest.mark.order
@pytest.mark.parametrize("mapper", [pmap, vmap])
def test_gradient_inside_map_is_that_of_all_members(mapper: Any) -> None:
    x = np.arange(4, dtype=np.float32)
    assert_close(mapper(grad(lambda v: psum(v * v, "i")), axis_name="i")(x), 2 * ROWS * x)
    outside = grad(lambda x: lax.reduce_sum(mapper(lambda v: v * psum(v, "i"), axis_name="i")(x), (0,)))
    assert_close(outside(x), np.full(ROWS, 2 * x.sum(), np.float32))
    second = grad(lambda x: lax.reduce_sum(outside(x) * x * x, (0,)))
    weights = np.sum(2 * x * x)
    assert_close(second(x), (weights + 4 * x * x.sum()).astype(np.float32))


@pytest.mark.parametrize("call", [
    lambda x: lamina_parallel.ppermute(x, "i", [(0, 9)]), lambda x: lamina_parallel.ppermute(x, "i", [(0, 1), (2, 1)]),
    lambda x: lamina_parallel.pshuffle(x, "i", [0, 0, 1, 2]), lambda x: lamina_parallel.pbroadcast(x, "i", ROWS),
    lambda x: lamina_parallel.all_to_all(x[:2], "i", 0, 0)],
    ids=["outside", "twice into one", "no permutation", "no member", "cannot be split"])
def test_params_that_do_not_fit_axis_size_raise_value_error(call: Any) -> None:
    with pytest.raises(ValueError):
        pmap(call, axis_name="i")(X)


def test_unbound_axis_raises_name_error() -> None:
    with pytest.raises(NameError, match="k"):
        pmap(lambda x: psum(x, "k"), axis_name="i")(X)
    with pytest.raises(NameError, match="i"):
        axis_index("i")
