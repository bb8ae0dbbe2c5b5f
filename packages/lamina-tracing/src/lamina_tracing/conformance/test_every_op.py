"""Every primitive, on every sample: eager, staged and jitted results equal the NumPy evaluation."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lamina_ir import AxisEnv, aval_of, check, evaluate, evaluate_primitive, evaluate_spmd, prims
from lamina_ir.testing import assert_close
from lamina_ir.testing.samples import canonicalize_results, samples_of
from lamina_tracing import eval_shape, jit, make_jaxpr
from lamina_tracing.extend import bind

SAMPLES = [s for p in prims.ALL if p.family != "collectives" and p.name != "rng_uniform" for s in samples_of(p)]


def function_of(sample: Any) -> Any:
    """Return a sample as a function that returns a list."""
    def fun(*xs: Any) -> list[Any]:
        out = bind(sample.prim, *xs, **sample.params)
        return list(out if sample.prim.multiple else (out,))
    return fun


def assert_equal(sample: Any, got: Any, want: Any) -> None:
    got, want = canonicalize_results(sample.prim, got), canonicalize_results(sample.prim, want)
    for g, w in zip(got, want, strict=True):
        assert_close(np.asarray(g), np.asarray(w), slack=10.0)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.id)
def test_primitive_equals_numpy_evaluation(sample):
    out = evaluate_primitive(sample.prim, sample.args, sample.params)
    want = [np.asarray(o) for o in (out if sample.prim.multiple else (out,))]
    assert_equal(sample, [np.asarray(g) for g in function_of(sample)(*sample.args)], want)
    assert_equal(sample, [np.asarray(g) for g in jit(function_of(sample))(*sample.args)], want)
    closed = make_jaxpr(function_of(sample))(*sample.args)
    check(closed)
    assert_equal(sample, [np.asarray(g) for g in evaluate(closed, *sample.args)], want)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.id)
def test_results_have_inferred_types(sample):
    out = sample.prim.infer(*map(aval_of, sample.args), **sample.params)
    want = [(a.shape, str(a.dtype)) for a in (out if sample.prim.multiple else (out,))]
    assert [(o.shape, str(o.dtype)) for o in eval_shape(function_of(sample), *sample.args)] == want
    assert [(a.shape, str(a.dtype)) for a in make_jaxpr(function_of(sample))(*sample.args).out_avals] == want


@pytest.mark.collectives
@pytest.mark.parametrize("sample", [s for p in prims.ALL if p.family == "collectives" for s in samples_of(p)],
                         ids=lambda s: s.id)
def test_staged_collective_equals_numpy_evaluation_on_all_members(sample):
    env = AxisEnv([("i", 4), ("j", 2)])
    operands = [[np.asarray(np.roll(a, d) if a.dtype == bool else a * (1 + d % 3) + a.dtype.type(d % 5), a.dtype)
                 for d in range(8)] for a in sample.args]
    want = sample.prim.numpy(env, *operands, **sample.params)
    closed = make_jaxpr(function_of(sample), axis_env=[("i", 4), ("j", 2)])(*sample.args)
    check(closed)
    got = evaluate_spmd(closed, env, operands)
    for g, w in zip(got, want if sample.prim.multiple else (want,), strict=True):
        np.testing.assert_allclose(np.stack(g), np.stack(w), rtol=1e-6)


def test_rng_uniform_has_type_and_bounds():
    sample = samples_of(prims.rng_uniform_p)[0]
    lo, hi = sample.args[:2]
    for run in (function_of(sample), jit(function_of(sample))):
        out = np.asarray(run(*sample.args)[0])
        assert out.shape == sample.params["shape"] and (out >= lo).all() and (out <= hi).all()
