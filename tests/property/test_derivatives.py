"""Properties of derivatives: jvp is the limit of differences, vjp is its transpose, in every dtype and for empty arrays."""
from __future__ import annotations

import pytest
from sample_cases import ONLY, cases, reversible
from hypothesis import given
from hypothesis import strategies as st
from lamina_autodiff.extend import jvp_rules
from lamina_autodiff.testing import check_sample
from lamina_ir import prims
from lamina_ir.testing.samples import samples_of

pytestmark = pytest.mark.usefixtures("on_numpy")
# piecewise constant: differences may cross a jump
STEPS = ("round", "floor", "ceil", "sign", "nextafter", "reduce_precision")
OPS = [p for p in prims.ALL if not p.axis_params and not p.effectful and p not in jvp_rules.missing_rules
       and p.name not in ("stop_gradient", "xla_pmap") and any(sample.differentiable for sample in samples_of(p))]


@pytest.mark.parametrize("prim", OPS, ids=str)
@given(data=st.data())
def test_jvp_is_the_limit_of_differences_and_vjp_its_transpose(prim, data):
    sample = data.draw(cases(prim, wide=True))
    if sample.differentiable and reversible(sample) and prim.name not in STEPS:
        check_sample(sample, ONLY.get(prim.name))


@pytest.mark.parametrize("prim", [p for p in OPS if not p.subprograms], ids=str)
@given(data=st.data())
def test_vjp_is_the_transpose_of_jvp_in_every_dtype(prim, data):
    sample = data.draw(cases(prim))
    if sample.differentiable and reversible(sample) and prim.name not in STEPS:
        check_sample(sample, ONLY.get(prim.name))
