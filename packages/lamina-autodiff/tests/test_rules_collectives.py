"""Derivatives of collectives without a runtime, on many devices in lockstep: the dot-product test over all devices."""
import numpy as np
import pytest
from lamina_autodiff import jvp, linear_transpose
from lamina_ir import evaluate_spmd, prims, shaped
from lamina_ir.testing.samples import samples_of
from lamina_ir.testing.samples.collectives import AXES, per_device
from lamina_tracing import make_jaxpr
from lamina_tracing.extend import bind

ENV = [*zip(AXES.names, AXES.sizes)]
SAMPLES = [s for p in prims.ALL if p.family == "collectives" for s in samples_of(p) if s.args
           and all(a.dtype.kind == "f" for a in s.args)]


def function(sample):
    def fun(*xs):
        out = bind(sample.prim, *xs, **sample.params)
        return tuple(out) if sample.prim.multiple else (out,)
    return fun


def on_all_devices(fun, each):
    """Run `fun` on all devices; stack each result over the devices."""
    program = make_jaxpr(fun, axis_env=ENV)(*[x[0] for x in each])
    return [np.stack(r).astype(np.float64) for r in evaluate_spmd(program, AXES, each)]


def integers_like(sample, seed):
    rng = np.random.default_rng(seed)
    return [[rng.integers(-9, 9, x.shape).astype(x.dtype) for _ in range(AXES.size)] for x in sample.args]


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.prim not in (prims.pmax_p, prims.pmin_p)], ids=lambda s: s.id)
def test_transposes_satisfy_dot_product_test(sample):
    fun, xs = function(sample), integers_like(sample, 0)
    ys = on_all_devices(fun, xs)
    ws = [np.random.default_rng(1).integers(-9, 9, y.shape).astype(np.float32) for y in ys]
    back = on_all_devices(lambda *ct: linear_transpose(fun, *sample.args)(ct), [list(w) for w in ws])
    assert sum(np.vdot(y, w) for y, w in zip(ys, ws)) == sum(np.vdot(x, b) for x, b in zip(xs, back, strict=True))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.id)
def test_tangents_equal_finite_differences(sample):
    fun, xs, ts = function(sample), per_device(sample), integers_like(sample, 2)
    n = len(xs)
    outs = on_all_devices(lambda *v: jvp(fun, v[:n], v[n:])[1], [*xs, *ts])
    eps = 2.0 ** -7
    ends = [on_all_devices(fun, [[np.asarray(a + s * eps * t, a.dtype) for a, t in zip(x, tx)]
                                 for x, tx in zip(xs, ts)]) for s in (1, -1)]
    for out, up, down in zip(outs, *ends, strict=True):
        np.testing.assert_allclose(out, (up - down) / (2 * eps), rtol=1e-3, atol=2e-2)


def test_pmax_divides_derivative_equally_among_ties():
    env = [("i", 4)]
    program = make_jaxpr(lambda x, t: jvp(lambda x: bind(prims.pmax_p, x, axes=("i",), axis_index_groups=((0, 1, 3), (2,)))[0],
                                          (x,), (t,))[1], axis_env=env)(1.0, 1.0)
    got, = evaluate_spmd(program, env, [[2.0, 2.0, 9.0, 1.0], [1.0, 10.0, 100.0, 1000.0]])
    assert [float(g) for g in got] == [5.5, 5.5, 100.0, 5.5]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("row, share", [([1, np.inf, 2, np.inf], .5), ([-np.inf] * 4, .25), ([1, 3, -np.inf, 2], 1),
                                        ([2, 1, 3, 4], 0), ([0] * 8192, 2. ** -13)])
def test_pmax_derivative_of_infinite_and_many_ties(dtype, row, share):
    """Only the second member has a nonzero tangent."""
    env, dtype = [("i", len(row))], shaped((), dtype).dtype
    xs, ts = np.array(row, dtype), (np.arange(len(row)) == 1).astype(dtype)
    program = make_jaxpr(lambda x, t: jvp(lambda x: bind(prims.pmax_p, x, axes=("i",), axis_index_groups=None)[0],
                                          (x,), (t,))[1], axis_env=env)(xs[0], ts[0])
    got, = evaluate_spmd(program, env, [list(xs), list(ts)])
    assert {float(g) for g in got} == {share}
