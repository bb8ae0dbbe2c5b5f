"""Derivatives of indexing: JVP against finite differences, and VJP against JVP."""
from __future__ import annotations

import lamina_autodiff as ad
import numpy as np
import pytest
from lamina_ir import MissingRuleError, config, prims
from lamina_ir.prims import GatherDimensionNumbers, ScatterDimensionNumbers
from lamina_ir.testing.samples import samples_of
from lamina_tracing import lax, make_jaxpr
from lamina_tracing.extend import bind

OPS = (prims.dynamic_slice_p, prims.dynamic_update_slice_p, prims.gather_p, prims.scatter_p, prims.scatter_add_p,
       prims.scatter_mul_p, prims.scatter_min_p, prims.scatter_max_p)
ROWS = [s for p in OPS for s in samples_of(p) if s.args[0].dtype == np.float32]
POINTS = ScatterDimensionNumbers((), (0,), (0,))


@pytest.fixture(autouse=True)
def x64():
    """Run each test in 64-bit mode."""
    with config.enable_x64(True):
        yield


def close(got, want, **tolerances):
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), **tolerances)


def function_of_floats(row):
    """Return the primitive as a function of its float operands, and the operands, in double precision."""
    at = [i for i, a in enumerate(row.args) if a.dtype.kind == "f"]

    def fun(*xs):
        args = list(row.args)
        for i, x in zip(at, xs, strict=True):
            args[i] = x
        return bind(row.prim, *args, **row.params)

    return fun, [row.args[i].astype(np.float64) for i in at]


@pytest.mark.parametrize("row", ROWS, ids=lambda s: s.id)
def test_jvp_equals_finite_differences(row):
    fun, xs = function_of_floats(row)
    rng = np.random.default_rng(0)
    ts = [rng.normal(size=x.shape) for x in xs]
    out, tangent = ad.jvp(fun, tuple(xs), tuple(ts))
    h = 1e-6
    up = np.asarray(fun(*(x + h * t for x, t in zip(xs, ts, strict=True))))
    down = np.asarray(fun(*(x - h * t for x, t in zip(xs, ts, strict=True))))
    close(out, fun(*xs), rtol=1e-12)
    close(tangent, (up - down) / (2 * h), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("row", ROWS, ids=lambda s: s.id)
def test_vjp_is_transpose_of_jvp(row):
    fun, xs = function_of_floats(row)
    rng = np.random.default_rng(1)
    for chosen in range(len(xs) + 1):  # each operand separately, then all
        def part(*some, chosen=chosen):
            full = list(some) if chosen == len(xs) else [*xs[:chosen], *some, *xs[chosen + 1:]]
            return fun(*full)

        given = xs if chosen == len(xs) else [xs[chosen]]
        ts = [rng.normal(size=x.shape) for x in given]
        out, tangent = ad.jvp(part, tuple(given), tuple(ts))
        ct = rng.normal(size=np.shape(out))
        cts = ad.vjp(part, *given)[1](ct)
        close(np.vdot(ct, np.asarray(tangent)), sum(np.vdot(np.asarray(c), t) for c, t in zip(cts, ts, strict=True)),
                                   rtol=1e-9)


def test_scatter_with_duplicate_indices():
    x, indices = np.zeros(3), np.array([[1], [1]])
    out, back = ad.vjp(lambda u: lax.scatter(x, indices, u, POINTS), np.array([5.0, 7.0]))
    (ct,) = back(np.array([1.0, 10.0, 100.0]))
    assert sorted(np.asarray(ct)) == [0.0, 10.0]
    assert np.asarray(out)[1] == np.array([5.0, 7.0])[np.argmax(np.asarray(ct))]


@pytest.mark.parametrize("factors", [(2.0, 3.0), (0.0, 3.0), (2.0, 0.0), (0.0, 0.0)])
def test_scatter_mul_with_zero_factors(factors):
    indices = np.array([[1], [1]])
    grad = ad.grad(lambda u: lax.reduce_sum(lax.scatter_mul(np.full(3, 5.0), indices, u, POINTS), (0,)))
    close(grad(np.array(factors)), [5 * factors[1], 5 * factors[0]])


@pytest.mark.parametrize("op", [lax.scatter_min, lax.scatter_max])
def test_scatter_min_and_max_with_ties(op):
    indices = np.array([[0], [0]])
    fun = lambda x, u: lax.reduce_sum(op(x, indices, u, POINTS), (0,))
    gx, gu = ad.grad(fun, argnums=(0, 1))(np.array([2.0, 1.0]), np.array([2.0, 2.0]))
    close(gx, [1 / 3, 1.0])
    close(gu, [1 / 3, 1 / 3])


def test_gather_outside_bounds_has_zero_derivative():
    dims = GatherDimensionNumbers((), (0,), (0,))
    fun = lambda x: lax.reduce_sum(lax.mul(lax.gather(x, np.array([[1], [9]]), dims, (1,), mode="fill", fill_value=3.0),
                                           np.array([2.0, 5.0])), (0,))
    close(ad.grad(fun)(np.arange(3.0)), [0.0, 2.0, 0.0])


def test_dynamic_slice_transposes_to_dynamic_update_slice():
    back = ad.linear_transpose(lambda x: lax.dynamic_slice(x, (1,), (2,)), np.zeros(4))
    text = str(make_jaxpr(back)(np.zeros(2)))
    assert "dynamic_update_slice" in text
    assert "scatter" not in text


def test_scatter_transpose_rejects_overlapping_windows():
    with pytest.raises(MissingRuleError, match="unique_indices=True"):
        put = lambda u: lax.scatter(np.zeros(3), np.array([[1], [1]]), u, POINTS)
        ad.linear_transpose(put, np.zeros(2))(np.zeros(3))
