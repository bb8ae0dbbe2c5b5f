"""`pmap`: mapped axes of arguments and results, nesting, transformations, errors."""
from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from lamina_autodiff import grad, jvp, vjp
from lamina_batching import vmap
from lamina_ir.testing import assert_close
from lamina_tracing import jit, lax, make_jaxpr

from lamina_parallel import axis_index, pmap, psum

from lamina_parallel.conformance.backend import ROWS, devices

X = np.random.default_rng(0).normal(size=(ROWS, 2, ROWS)).astype(np.float32)
devices()  # fails early if there are too few


def test_function_is_applied_to_each_member() -> None:
    assert_close(pmap(lambda row: lax.sin(row) * 2)(X), np.sin(X) * 2)
    assert_close(pmap(lambda row: lax.reduce_sum(row, (0,)))(X), X.sum(1))


def test_function_sees_shape_of_one_member() -> None:
    got = pmap(lambda row: (row.shape, lax.cumsum(row, axis=1))[1])(X)
    assert_close(got, np.stack([np.cumsum(row, 1) for row in X]))


@pytest.mark.parametrize("axis", [0, 2, -1])
def test_in_axes_select_the_mapped_axis(axis: int) -> None:
    got = pmap(lambda x, w: x * w, in_axes=(axis, None))(X, np.float32(3))
    assert_close(got, np.moveaxis(X, axis, 0) * 3)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_out_axes_select_the_result_axis(axis: int) -> None:
    assert_close(pmap(lambda x: -x, out_axes=axis)(X), np.moveaxis(-X, 0, axis))


def test_axes_can_be_tree_prefixes() -> None:
    def f(pair: Any, w: Any) -> Any:
        return {"sum": pair["a"] + pair["b"][0], "w": w}

    args = {"a": X, "b": (X.transpose(1, 0, 2),)}
    got = pmap(f, in_axes=({"a": 0, "b": 1}, None), out_axes={"sum": 1, "w": None})(args, np.float32(2))
    assert_close(got["sum"], np.moveaxis(X + X, 0, 1))
    assert_close(got["w"], np.float32(2))


def test_keyword_arguments_are_mapped_over_axis_0() -> None:
    assert_close(pmap(lambda x, *, y: x + y)(X, y=2 * X), 3 * X)


def test_static_arguments_are_python_values() -> None:
    def f(x: Any, n: Any) -> Any:
        assert type(n) is int
        return x * float(n) if n > 1 else x

    both = pmap(f, static_broadcasted_argnums=1)
    assert_close(both(X, 3), X * 3)
    assert_close(both(X, 1), X)


def test_axis_size_without_mapped_argument() -> None:
    got = pmap(lambda: axis_index("i"), axis_name="i", axis_size=ROWS)()
    assert_close(got, np.arange(ROWS, dtype=np.int32))


def test_pmap_as_decorator_with_options() -> None:
    @functools.partial(pmap, axis_name="i")
    def f(x: Any) -> Any:
        return x - psum(x, "i")

    assert_close(f(X), X - X.sum(0))


def test_results_have_types_of_the_function() -> None:
    for x in (np.arange(ROWS, dtype=np.int32), np.arange(ROWS) > 1, X.astype(np.float16), X.astype(np.complex64)):
        assert_close(pmap(lambda v: v)(x), x)
    total = pmap(lambda v: psum(v, "i"), axis_name="i")(np.arange(ROWS, dtype=np.int32))
    assert_close(total, np.full(ROWS, ROWS * (ROWS - 1) // 2, np.int32))


def test_closed_over_values_are_shared_by_members() -> None:
    assert_close(jit(lambda w: pmap(lambda x: x * w)(X))(np.float32(3)), X * 3)
    assert_close(grad(lambda w: lax.reduce_sum(pmap(lambda x: x * w)(X), (0, 1, 2)))(np.float32(1)), X.sum(), slack=10)


ORDERS: dict[str, Any] = {
    "pmap": pmap, "jit(pmap)": lambda f: jit(pmap(f)), "pmap(jit)": lambda f: pmap(jit(f)),
    "pmap(vmap)": lambda f: pmap(vmap(f)), "vmap(pmap)": lambda f: vmap(pmap(f), in_axes=1, out_axes=1),
    "jit(vmap(pmap))": lambda f: jit(vmap(pmap(f), in_axes=1, out_axes=1)), "pmap(pmap)": lambda f: pmap(pmap(f), in_axes=0),
}
Y = X[:2, :, :3]  # two by two members, for four devices


@pytest.mark.parametrize("order", ORDERS)
def test_pmap_and_vmap_nested_in_every_order(order: str) -> None:
    assert_close(ORDERS[order](lambda x: lax.sin(x) * x)(Y), np.sin(Y) * Y)


@pytest.mark.order
@pytest.mark.parametrize("order", ORDERS)
def test_derivatives_through_nested_maps(order: str) -> None:
    mapped = ORDERS[order](lambda x: lax.sin(x) * x)
    first_derivative, second_derivative = np.cos(Y) * Y + np.sin(Y), 2 * np.cos(Y) - np.sin(Y) * Y
    _, tangent = jvp(mapped, (Y,), (np.ones_like(Y),))
    assert_close(tangent, first_derivative, slack=5)
    first = lambda x: vjp(mapped, x)[1](np.ones_like(Y))[0]
    assert_close(first(Y), first_derivative, slack=5)
    assert_close(jvp(first, (Y,), (np.ones_like(Y),))[1], second_derivative, slack=5)


@pytest.mark.order
def test_gradient_of_shared_argument_is_summed_over_members() -> None:
    def loss(w: Any) -> Any:
        return lax.reduce_sum(pmap(lambda w, x: lax.sin(w * x), in_axes=(None, 0))(w, X), (0, 1, 2))

    assert_close(grad(loss)(np.float32(0.5)), np.float32(np.sum(np.cos(0.5 * X.astype(float)) * X)), slack=10)


@pytest.mark.order
def test_grad_inside_pmap_is_per_member() -> None:
    got = pmap(grad(lambda x: lax.reduce_sum(lax.sin(x), (0, 1))))(X)
    assert_close(got, np.cos(X), slack=2)


def test_control_flow_inside_pmap_is_per_member() -> None:
    signs = np.array([1, -1, 2, -2], np.int32)
    got = pmap(lambda s, x: lax.cond(s > 0, lambda v: v * 2, lambda v: -v, x))(signs, X)
    assert_close(got, np.where(signs[:, None, None] > 0, 2 * X, -X))
    turns = pmap(lambda n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + c[0]), (0, 0))[1])
    assert_close(turns(np.arange(ROWS, dtype=np.int32)), np.array([n * (n - 1) // 2 for n in range(ROWS)], np.int32))


def test_pmap_can_be_staged() -> None:
    program = make_jaxpr(pmap(lambda x: x * 2))(X)
    assert [(a.shape, a.dtype) for a in program.out_avals] == [(X.shape, X.dtype)]


@pytest.mark.parametrize("call", [
    lambda: pmap(lambda x, y: x)(X, X[:3]), lambda: pmap(lambda x: x, in_axes=(0, 0))(X),
    lambda: pmap(lambda x: x, in_axes=None)(X), lambda: pmap(lambda x: x)(np.float32(1)),
    lambda: pmap(lambda x: x, in_axes=5)(X), lambda: pmap(lambda x: x, out_axes=7)(X),
    lambda: pmap(lambda x: x, devices=[])(X), lambda: pmap(lambda x: x)(np.ones((0, 2), np.float32)),
    lambda: pmap(lambda x: x, axis_size=ROWS - 1)(X), lambda: pmap(lambda x, n: x, static_broadcasted_argnums=1)(X),
], ids=["sizes differ", "too many entries", "nothing mapped", "rank 0", "axis of an argument", "axis of a result", "no device",
        "no row", "axis_size", "a static argument left out"])
def test_wrong_values_raise_value_error_that_names_pmap(call: Any) -> None:
    with pytest.raises(ValueError, match="pmap"):
        call()


@pytest.mark.parametrize("call", [
    lambda: pmap(lambda x: x)("a"), lambda: pmap(lambda x: x, in_axes="a")(X), lambda: pmap(lambda x: "a")(X),
    lambda: pmap(3)], ids=["argument", "in_axes", "result", "function"])
def test_wrong_types_raise_type_error_that_names_pmap(call: Any) -> None:
    with pytest.raises(TypeError, match="pmap"):
        call()


@pytest.mark.cost
def test_function_is_traced_once_per_argument_types() -> None:
    traced = []

    def f(x: Any) -> Any:
        traced.append(x.shape)
        return x + 1

    mapped = pmap(f)
    for k in range(3):
        assert_close(mapped(X + k), X + k + 1)
    assert traced == [X.shape[1:]]
    mapped(X[:, 0])
    assert traced == [X.shape[1:], (ROWS,)]
