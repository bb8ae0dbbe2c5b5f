"""Convolutions of long lines: the values of short ones, without memory beyond the operands."""
import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_numpy._numerics import convolution
from lamina_tracing import make_jaxpr

R = np.random.RandomState(0)
LINES = {np.float32: 1e-4, np.complex64: 1e-4, np.float16: 2e-2, np.int32: 1e-4}


def line(n, dtype):
    x = R.randn(n) + 1j * R.randn(n) if dtype is np.complex64 else R.randint(-3, 4, n) if dtype is np.int32 else R.randn(n)
    return x.astype(dtype)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("dtype", LINES)
@pytest.mark.parametrize("sizes", [(40, 7), (7, 40), (9, 9), (4, 4), (5, 1)])
def test_all_ways_give_the_same(monkeypatch, sizes, dtype, mode):
    x, y = line(sizes[0], dtype), line(sizes[1], dtype)
    for few, most in (0, 0), (0, 1 << 20), (1 << 12, 1 << 20):
        monkeypatch.setattr(convolution, "_FEW_WINDOWS", few)
        monkeypatch.setattr(convolution, "_MOST_WINDOWS", most)
        for ours, numpys in ((lnp.convolve, np.convolve), (lnp.correlate, np.correlate)):
            got = ours(x, y, mode)
            wanted = numpys(x.astype(np.complex128 if dtype is np.complex64 else float), y, mode)
            assert got.dtype == (np.float32 if dtype is np.int32 else dtype)
            np.testing.assert_allclose(got, wanted, rtol=LINES[dtype], atol=20 * LINES[dtype])


def test_short_ones_are_one_loop_without_tables():
    program = make_jaxpr(lnp.convolve)(np.ones(64, np.float32), np.ones(5, np.float32))
    ops = [e.primitive.name for e in program.jaxpr.eqns]
    assert "gather" not in ops and "dot_general" not in ops and ops.count("reduce_sum") == 1


def test_a_long_line_takes_no_memory_beyond_its_own():
    program = make_jaxpr(lnp.convolve)(np.ones(100_000, np.float32), np.ones(1000, np.float32))
    assert max(v.aval.size for e in program.jaxpr.eqns for v in e.outvars) < 110_000
    assert all(np.size(c) < 110_000 for c in program.consts)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize(("n", "m"), [(3, 2), (10, 3), (40, 12), (600, 20), (20, 20)])
def test_infinite_elements_count_where_they_overlap_alone(n, m, mode):
    rng = np.random.default_rng(0)
    x, k = rng.normal(size=n).astype(np.float32), rng.normal(size=m).astype(np.float32)
    k[m // 2], k[-1] = np.inf, np.nan
    for name in ("convolve", "correlate"):
        for a, v in ((x, k), (k, x)):
            with np.errstate(invalid="ignore"):
                wanted = getattr(np, name)(a, v, mode)
                got = getattr(lnp, name)(a, v, mode)
            np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-4, atol=1e-4)
