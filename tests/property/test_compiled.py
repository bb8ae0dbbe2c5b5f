"""Laws of the compiler: a compiled op does what its NumPy meaning says, and `jit` of it what it does alone."""
from __future__ import annotations

import lamina
import numpy as np
import pytest
from law_cases import cases, special_cases
from hypothesis import given
from hypothesis import strategies as st
from lamina_ir import dtypes, evaluate_primitive, prims
from lamina_ir.testing import assert_close
from lamina_ir.testing.samples import canonicalize_results, samples_of
from lamina_lowering import lowering_rules, platform_rules
from lamina_tracing.extend import bind

ROWS = platform_rules("cuda" if lamina.default_backend() == "gpu" else "cpu")
OPS = [p for p in prims.ALL if samples_of(p) and not p.axis_params and not p.effectful and p in lowering_rules
       and p not in ROWS.missing_rules and p.name != "xla_pmap" and p.family != "maps"]


def run(row):
    out = bind(row.prim, *row.args, **row.params)
    return [np.asarray(x) for x in (out if row.prim.multiple else (out,))]


@pytest.mark.parametrize("prim", OPS, ids=str)
@given(data=st.data())
def test_compiled_op_has_its_numpy_meaning(prim, data):
    row = data.draw(cases(prim))
    wanted = evaluate_primitive(prim, row.args, row.params)
    slack = 4.0 + max([a.size for a in row.args], default=0) / 4  # sums are added up in different orders
    pairs = zip(canonicalize_results(prim, run(row)),
                canonicalize_results(prim, wanted if prim.multiple else (wanted,)), strict=True)
    for got, want in pairs:
        assert_close(got, want, what=f"{row.id} {row.params}", slack=slack)


@pytest.mark.parametrize("prim", [p for p in OPS if p.family in ("elementwise", "special") and p.elementwise], ids=str)
@given(data=st.data())
def test_compiled_op_has_its_numpy_meaning_at_special_values(prim, data):
    row = data.draw(special_cases(prim))
    wanted = prim.numpy(*row.args, **row.params)
    for got, want in zip(run(row), wanted if prim.multiple else (wanted,), strict=True):
        assert_close(got, want, what=f"{row.args} {row.params}", slack=10)


@pytest.mark.parametrize("prim", OPS, ids=str)
@given(data=st.data())
def test_jit_is_eager(prim, data):
    row = data.draw(cases(prim))
    got = lamina.jit(lambda *xs: bind(row.prim, *xs, **row.params))(*row.args)
    for a, b in zip(got if prim.multiple else (got,), run(row), strict=True):
        a = np.asarray(a)
        if dtypes.is_inexact(b.dtype):
            assert_close(a, b, slack=2.0)
        else:
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype
