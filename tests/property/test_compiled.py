"""Properties of compilation: a compiled primitive matches its NumPy evaluation, and `jit` matches eager calls."""
from __future__ import annotations

import lamina
import numpy as np
import pytest
from sample_cases import cases, special_cases
from hypothesis import given
from hypothesis import strategies as st
from lamina_ir import dtypes, evaluate_primitive, prims
from lamina_ir.testing import assert_close
from lamina_ir.testing.samples import canonicalize_results, samples_of
from lamina_lowering import lowering_rules, platform_rules
from lamina_tracing.extend import bind

RULES = platform_rules("cuda" if lamina.default_backend() == "gpu" else "cpu")
OPS = [p for p in prims.ALL if samples_of(p) and not p.axis_params and not p.effectful and p in lowering_rules
       and p not in RULES.missing_rules and p.name != "xla_pmap" and p.family != "maps"]


def run(sample):
    out = bind(sample.prim, *sample.args, **sample.params)
    return [np.asarray(x) for x in (out if sample.prim.multiple else (out,))]


@pytest.mark.parametrize("prim", OPS, ids=str)
@given(data=st.data())
def test_compiled_primitive_matches_numpy(prim, data):
    sample = data.draw(cases(prim))
    wanted = evaluate_primitive(prim, sample.args, sample.params)
    slack = 4.0 + max([a.size for a in sample.args], default=0) / 4  # the order of additions differs
    pairs = zip(canonicalize_results(prim, run(sample)),
                canonicalize_results(prim, wanted if prim.multiple else (wanted,)), strict=True)
    for got, want in pairs:
        assert_close(got, want, what=f"{sample.id} {sample.params}", slack=slack)


@pytest.mark.parametrize("prim", [p for p in OPS if p.family in ("elementwise", "special") and p.elementwise], ids=str)
@given(data=st.data())
def test_compiled_primitive_matches_numpy_at_special_values(prim, data):
    sample = data.draw(special_cases(prim))
    wanted = prim.numpy(*sample.args, **sample.params)
    for got, want in zip(run(sample), wanted if prim.multiple else (wanted,), strict=True):
        assert_close(got, want, what=f"{sample.args} {sample.params}", slack=10)


@pytest.mark.parametrize("prim", OPS, ids=str)
@given(data=st.data())
def test_jit_matches_eager_call(prim, data):
    sample = data.draw(cases(prim))
    got = lamina.jit(lambda *xs: bind(sample.prim, *xs, **sample.params))(*sample.args)
    for a, b in zip(got if prim.multiple else (got,), run(sample), strict=True):
        a = np.asarray(a)
        if dtypes.is_inexact(b.dtype):
            assert_close(a, b, slack=2.0)
        else:
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype
