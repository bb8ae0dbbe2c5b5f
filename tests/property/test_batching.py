"""Properties of batching: vmap equals a loop, and it commutes with differentiation."""
from __future__ import annotations

import numpy as np
import pytest
from sample_cases import ONLY, cases, reversible
from hypothesis import given
from hypothesis import strategies as st
from lamina_autodiff import grad
from lamina_autodiff.extend import jvp_rules
from lamina_batching import vmap
from lamina_batching.extend import batching_rules
from lamina_batching.testing import make_other_example, check_sample
from lamina_ir import MissingRuleError, dtypes, prims
from lamina_ir.testing import assert_close
from lamina_ir.testing.samples import samples_of
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof

pytestmark = pytest.mark.usefixtures("on_numpy")
OPS = [p for p in prims.ALL if samples_of(p) and not p.axis_params and not p.effectful and p in batching_rules
       and p.name != "xla_pmap"]


@pytest.mark.parametrize("prim", OPS, ids=str)
@given(data=st.data())
def test_vmap_matches_a_loop(prim, data):
    sample = data.draw(cases(prim))
    if not sample.args:
        return
    try:
        check_sample(sample)
    except MissingRuleError as e:
        assert prim.name in ("reduce", "reduce_window") and "initial values must not be batched" in str(e)


SMOOTH = [p for p in OPS if p not in jvp_rules.missing_rules and any(sample.differentiable for sample in samples_of(p))]


@pytest.mark.parametrize("prim", SMOOTH, ids=str)
@given(data=st.data())
def test_grad_of_vmap_is_vmap_of_grad(prim, data):
    sample = data.draw(cases(prim, wide=True))
    if not (sample.differentiable and reversible(sample)):
        return
    at = [i for i, a in enumerate(sample.args) if dtypes.is_inexact(a.dtype) and i in ONLY.get(prim.name, range(99))]

    def loss(*xs):
        args = list(sample.args)
        for i, x in zip(at, xs):
            args[i] = x
        out = bind(prim, *args, **sample.params)
        total = 0.0
        for o in out if prim.multiple else (out,):
            if dtypes.is_complex(typeof(o).dtype):
                o = lax.add(lax.real(o), lax.imag(o))
            if dtypes.is_float(typeof(o).dtype):
                total = total + lax.reduce_sum(lax.convert_element_type(o, np.float64), tuple(range(typeof(o).ndim)))
        return total

    rng = np.random.default_rng(0)
    args = [np.stack([make_other_example(prim, sample.args[i], k, rng) for k in range(3)]) for i in at]
    numbers = tuple(range(len(at)))
    one = vmap(grad(loss, numbers))(*args)
    other = grad(lambda *xs: lax.reduce_sum(vmap(loss)(*xs), (0,)), numbers)(*args)
    loop = [grad(loss, numbers)(*(a[k] for a in args)) for k in range(3)]
    for k in numbers:
        wanted = np.stack([np.asarray(rows[k]) for rows in loop])
        assert_close(one[k], wanted, slack=20, what=f"vmap of grad, {sample.id}")
        assert_close(other[k], wanted, slack=20, what=f"grad of vmap, {sample.id}")
