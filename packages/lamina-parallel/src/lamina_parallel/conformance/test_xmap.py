"""`xmap`: named axes, their positions in arguments and results, and resources, which never change a result."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_batching import vmap
from lamina_ir.testing import assert_close
from lamina_tracing import jit, lax

from lamina_parallel import Mesh, SerialLoop, axis_index, pmax, pmean, ppermute, psum, serial_loop, xeinsum, xmap

from lamina_parallel.conformance.backend import devices

RNG = np.random.default_rng(2)
A, B = RNG.normal(size=(4, 8)).astype(np.float32), RNG.normal(size=(8, 4)).astype(np.float32)


def test_named_axes_are_mapped_to_positions_of_results() -> None:
    assert_close(xmap(lambda v: v * 2, {0: "b"}, {0: "b"})(A), A * 2)
    assert_close(xmap(lambda v: lax.sin(v), {1: "b"}, {0: "b"})(A), np.sin(A.T))
    assert_close(xmap(lambda v: -v, {0: "b", 1: "c"}, {0: "c", 1: "b"})(A), -A.T)
    assert_close(xmap(lambda v: lax.cumsum(v, axis=0), ["b", ...], {1: "b"})(A), np.cumsum(A, 1).T, slack=4)


def test_matrix_product_maps_rows_and_columns() -> None:
    f = xmap(lambda a, b: lax.dot(a, b), in_axes=({0: "left"}, {1: "right"}), out_axes=["left", "right", ...])
    assert_close(f(A, B), A @ B, slack=4)


def test_arguments_without_axis_are_shared_and_sizes_can_be_given() -> None:
    assert_close(xmap(lambda x, w: x * w, ({0: "b"}, {}), {0: "b"})(A, np.float32(3)), A * 3)
    got = xmap(lambda x: x * axis_index("c").astype(np.float32), {}, {0: "c"}, axis_sizes={"c": 3})(A)
    assert_close(got, np.stack([0 * A, A, 2 * A]))


def test_arguments_and_results_may_be_trees() -> None:
    f = xmap(lambda d: (d["x"] + d["w"], {"w": d["w"]}), ({"x": {0: "b"}, "w": {}},), ({1: "b"}, {}))
    out, rest = f({"x": A, "w": np.float32(1)})
    assert_close(out, A.T + 1)
    assert_close(rest["w"], np.float32(1))


@pytest.mark.collectives
def test_named_axes_are_reduced_by_name() -> None:
    norm = xmap(lambda v: v / psum(v, "b"), {0: "b"}, {0: "b"})
    assert_close(norm(A), A / A.sum(0), slack=100)
    assert_close(xmap(lambda v: psum(v, ("b", "c")), ["b", "c"], {})(A), A.sum(), slack=4)
    assert_close(xmap(lambda v: pmax(v, "c") - pmean(v, "b"), ["b", "c"], ["b", "c"])(A),
                 A.max(1, keepdims=True) - A.mean(0), slack=4)


@pytest.mark.collectives
@pytest.mark.parametrize("spec, wanted", [
    ("{i,k},{k,j}->{i,j}", A @ B), ("{i,k},{k,i}->{i}", np.einsum("ik,ki->i", A, B)), ("{i,k},{k,j}->", (A @ B).sum()),
    ("{i,k},{k,j}->{k}", np.einsum("ik,kj->k", A, B))])
def test_einsum_over_names_is_einsum_over_positions(spec: str, wanted: Any) -> None:
    wanted = np.asarray(wanted)
    left = [name for name in "ijk" if name in spec.split("->")[1]]
    f = xmap(lambda a, b: xeinsum(spec, a, b), (["i", "k"], ["k", "j" if "{k,j}" in spec else "i"]), left)
    assert_close(f(A, B), wanted, slack=20)


def test_xmap_inside_and_outside_other_transformations() -> None:
    named = xmap(lambda x: lax.reduce_sum(lax.sin(x), (0,)), {0: "b"}, {0: "b"})
    assert_close(jit(named)(A), np.sin(A).sum(1), slack=4)
    assert_close(vmap(named)(np.stack([A, 2 * A])), np.stack([np.sin(A).sum(1), np.sin(2 * A).sum(1)]), slack=4)
    assert_close(xmap(vmap(lambda v: v * 2), {0: "b"}, {0: "b"})(A), A * 2)
    inner = xmap(lambda v: xmap(lambda a: a * psum(a, ("b", "c")), {0: "c"}, {0: "c"})(v), {0: "b"}, {0: "b"})
    assert_close(inner(A), A * A.sum(), slack=20)


@pytest.mark.order
def test_grad_of_and_inside_xmap() -> None:
    loss = xmap(lambda x, w: psum((w * x) * (w * x), "b"), ({0: "b"}, {}), {})
    x, w = np.array([1, 2, 4, 8], np.float32), np.float32(3)
    gx, gw = grad(loss, (0, 1))(x, w)
    assert_close(gx, 2 * w * w * x)
    assert_close(gw, np.float32(2 * w * (x * x).sum()))
    assert_close(grad(grad(loss, 1), 1)(x, w), np.float32(2 * (x * x).sum()))
    inside = xmap(grad(lambda x: lax.sin(x) * x), {0: "b"}, {0: "b"})
    assert_close(inside(x), np.cos(x) * x + np.sin(x))


def with_collectives(x: Any, w: Any) -> Any:
    y = psum(x * w, "i") + axis_index("b").astype(np.float32)
    z = ppermute(y, "b", [(k, (k + 3) % 8) for k in range(8)])
    return z - pmax(y, "b"), psum(z, ("b", "i"))


def with_numpy(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    y = x.T @ w + np.arange(8, dtype=np.float32)
    z = np.roll(y, 3)
    return z - y.max(), np.asarray(z.sum() * 4)


W = np.array([1, -2, 3, 1], np.float32)
ON_MESH: tuple[dict[str, Any], ...] = ({}, {"b": "x"}, {"b": ("y", "x")}, {"i": "y", "b": "x"}, {"i": ("x", "y")})
LOOPS: tuple[dict[str, Any], ...] = ({"b": SerialLoop(2)}, {"b": SerialLoop(8)}, {"i": SerialLoop(2)}, {"b": "serial"})


@pytest.mark.collectives
@pytest.mark.parametrize("resources", ON_MESH, ids=str)
def test_mesh_resources_do_not_change_results(resources: dict[str, Any]) -> None:
    f = xmap(with_collectives, (["i", "b"], {0: "i"}), (["b"], {}), axis_resources=resources)
    with Mesh(np.reshape(np.array(devices(4), object), (2, 2)), ("x", "y")):
        for got in (f(A, W), jit(f)(A, W)):
            for a, b in zip(got, with_numpy(A, W), strict=True):
                assert_close(a, b, slack=20)


@pytest.mark.collectives
@pytest.mark.parametrize("resources", LOOPS, ids=str)
def test_serial_loops_do_not_change_results(resources: dict[str, Any]) -> None:
    f = xmap(with_collectives, (["i", "b"], {0: "i"}), (["b"], {}), axis_resources=resources)
    with serial_loop("serial", 4):
        for got in (f(A, W), jit(f)(A, W)):
            for a, b in zip(got, with_numpy(A, W), strict=True):
                assert_close(a, b, slack=20)


@pytest.mark.order
@pytest.mark.parametrize("resources", [{"b": "x"}, {"i": "y", "b": "x"}, {"b": SerialLoop(4)}], ids=str)
def test_resources_do_not_change_derivatives(resources: dict[str, Any]) -> None:
    def loss(options: Any) -> Any:
        f = xmap(with_collectives, (["i", "b"], {0: "i"}), (["b"], {}), axis_resources=options)
        return lambda x, w: lax.reduce_sum(f(x, w)[0] * np.arange(8, dtype=np.float32), (0,)) + f(x, w)[1]

    wanted = grad(loss({}), (0, 1))(A, W)
    with Mesh(np.reshape(np.array(devices(4), object), (2, 2)), ("x", "y")):
        for a, b in zip(jit(grad(loss(resources), (0, 1)))(A, W), wanted, strict=True):
            assert_close(a, b, slack=20)


@pytest.mark.parametrize("call", [
    lambda: xmap(lambda x: x, {0: "b"}, {0: "c"}), lambda: xmap(lambda x: x, {0: "b"}, {})(A),
    lambda: xmap(lambda x, y: x, ({0: "b"}, {0: "b"}), {0: "b"})(A, B), lambda: xmap(lambda x: x, {5: "b"}, {0: "b"})(A),
    lambda: xmap(lambda x: x, {0: "b"}, {0: "b"}, axis_sizes={"b": 3})(A),
    lambda: xmap(lambda x: x, {0: "b"}, {0: "b"}, axis_resources={"b": "nowhere"})(A),
    lambda: xmap(lambda x: x, {0: "b"}, {0: "b"}, axis_resources={"b": SerialLoop(3)})(A), lambda: SerialLoop(0)],
    ids=["unknown name", "a name left over", "sizes differ", "no such dimension", "axis_sizes", "no such resource",
         "uneven iterations", "no iteration"])
def test_wrong_arguments_raise_value_error(call: Any) -> None:
    with pytest.raises(ValueError):
        call()
