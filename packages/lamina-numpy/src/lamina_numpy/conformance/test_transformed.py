"""Functions under `vmap` equal a loop over examples; under `grad` they equal finite differences."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lamina_autodiff import grad, jvp, vjp
from lamina_batching import vmap
from lamina_ir.testing import assert_close
from lamina_tracing import jit, make_jaxpr

import lamina_numpy as lnp

RNG = np.random.default_rng(9)
X = RNG.normal(size=(3, 4)).astype(np.float32)
P = np.abs(X) + np.float32(0.6)
K = np.array([2, 0, 1, 1])

SMOOTH: dict[str, Any] = {
    "sin": lnp.sin, "exp": lnp.exp, "tanh": lnp.tanh, "square": lnp.square, "arctan2": lambda x: lnp.arctan2(x, 1 + x * x),
    "power": lambda x: (1 + x * x) ** 1.5, "log1p": lambda x: lnp.log1p(x * x), "logaddexp": lambda x: lnp.logaddexp(x, 0.5),
    "sum": lambda x: lnp.sum(x * x, 0), "mean": lambda x: lnp.mean(x * x, axis=1, keepdims=True),
    "prod": lambda x: lnp.prod(x, 1),
    "var": lambda x: lnp.var(x, 0), "std": lambda x: lnp.std(x, 1), "cumsum": lambda x: lnp.cumsum(x * x, 1),
    "cumprod": lambda x: lnp.cumprod(x, 0), "matmul": lambda x: x @ x.T, "dot": lambda x: lnp.dot(x, lnp.arange(4.0)),
    "einsum": lambda x: lnp.einsum("ij,kj->ik", x, x), "outer": lambda x: lnp.outer(x[0], x[1]),
    "where": lambda x: lnp.where(x > 0.05, x, 2 * x),
    "maximum": lambda x: lnp.maximum(x, X[::-1]), "max": lambda x: lnp.max(x, 0), "sort": lambda x: lnp.sort(x, 1),
    "take": lambda x: x[:, K] * x, "at": lambda x: x.at[0].add(x[1] * x[2]),
    "concatenate": lambda x: lnp.concatenate([x, x * x], 1),
    "reshape": lambda x: x.reshape(2, 6) ** 2, "pad": lambda x: lnp.pad(x * x, 1, mode="edge"),
    "roll": lambda x: lnp.roll(x, 1, 0) * x,
    "norm": lambda x: lnp.linalg.norm(x, axis=1), "solve": lambda x: lnp.linalg.solve(x @ x.T + lnp.eye(3), x[:, 0]),
    "det": lambda x: lnp.linalg.det(x[:, :3] + 2 * lnp.eye(3)), "convolve": lambda x: lnp.convolve(x[0], x[1]),
    "clip": lambda x: lnp.clip(x, -5, 5) ** 2, "interp": lambda x: lnp.interp(x, lnp.arange(-4.0, 5.0), lnp.arange(9.0) ** 2),
    "trapezoid": lambda x: lnp.trapezoid(x * x, axis=1), "cross": lambda x: lnp.cross(x[:, :3], x[:, 1:]),
    "fft": lambda x: lnp.abs(lnp.fft.fft(x)) ** 2,
}


@pytest.mark.core
@pytest.mark.parametrize("name", SMOOTH)
def test_vmap_equals_loop_over_examples(name: str) -> None:
    f, batch = SMOOTH[name], np.stack([X, 2 * X, X[::-1]])
    assert_close(vmap(f)(batch), np.stack([np.asarray(f(lnp.asarray(x))) for x in batch]), slack=20)
    assert_close(jit(f)(X), f(lnp.asarray(X)), slack=20)


@pytest.mark.order
@pytest.mark.parametrize("name", SMOOTH)
def test_derivative_equals_finite_difference(name: str) -> None:
    f, t = SMOOTH[name], RNG.normal(size=X.shape).astype(np.float32)
    y, pushed = jvp(f, (X,), (t,))
    h = np.float32(2e-3)
    ahead, behind = (np.asarray(f(lnp.asarray(X + s * t))).astype(float) for s in (h, -h))
    scale = max(1.0, float(np.abs(np.asarray(y)).max()))
    np.testing.assert_allclose(np.asarray(pushed), (ahead - behind) / (2 * h), rtol=2e-2, atol=5e-3 * scale)
    w = RNG.normal(size=np.shape(y)).astype(np.float32)
    back, = vjp(f, X)[1](w)
    np.testing.assert_allclose(np.vdot(w, np.asarray(pushed)), np.vdot(np.asarray(back), t), rtol=2e-3, atol=2e-3 * scale)


@pytest.mark.order
def test_second_derivatives_equal_finite_differences() -> None:
    loss = lambda x: lnp.sum(lnp.sin(x) * x**2)
    second = grad(lambda x: lnp.sum(grad(loss)(x)))(X)
    assert_close(second, 2 * np.sin(X) + 4 * X * np.cos(X) - X**2 * np.sin(X), slack=5)


@pytest.mark.order
def test_derivatives_at_kinks_and_ties() -> None:
    assert grad(lnp.abs)(0.0) == 0 and float(grad(lambda x: lnp.maximum(x, 0.0))(2.0)) == 1
    assert float(grad(lambda x: lnp.where(x > 0, x, 0.0))(-1.0)) == 0
    shared = grad(lambda x: lnp.max(x))(lnp.array([1.0, 3.0, 3.0]))
    assert shared.tolist() == [0, 0.5, 0.5]
    assert grad(lambda x: lnp.sum(lnp.floor(x)))(lnp.asarray(X)).tolist() == np.zeros_like(X).tolist()


@pytest.mark.core
def test_traced_data_dependent_lengths_need_size() -> None:
    x = np.array([0, 3, 0, 5], np.int32)
    assert jit(lambda x: lnp.nonzero(x, size=3, fill_value=-1)[0])(x).tolist() == [1, 3, -1]
    assert jit(lambda x: lnp.unique(x, size=3, fill_value=9))(x).tolist() == [0, 3, 5]
    assert jit(lambda x: lnp.bincount(x, length=6))(x).tolist() == [2, 0, 0, 1, 0, 1]
    for f in (lnp.nonzero, lnp.unique, lambda x: lnp.bincount(x)):
        with pytest.raises(TypeError):
            jit(f)(x)


@pytest.mark.core
def test_functions_that_take_functions() -> None:
    dots = lnp.vectorize(lambda a, b: lnp.sum(a * b), signature="(n),(n)->()")
    assert_close(dots(X, X[0]), X @ X[0], slack=4)
    assert_close(lnp.apply_along_axis(lambda v: v.sum(), 1, X), X.sum(1), slack=4)
    assert_close(lnp.piecewise(X, [X < 0, X >= 0], [lambda v: -v, lambda v: v]), np.abs(X))


@pytest.mark.cost
def test_function_is_inlined_and_traced_once() -> None:
    program = make_jaxpr(lambda x: lnp.sin(lnp.add(x, 1.0)) * 2)(X)
    assert [e.primitive.name for e in program.eqns] == ["add", "sin", "mul"]
    traced = []
    f = jit(lambda x: (traced.append(1), lnp.sum(x))[1])
    f(X), f(X + 1), f(lnp.asarray(X))
    assert traced == [1]
