"""Every primitive, on every sample: tangents equal finite differences, cotangents are their transpose."""
from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from lamina_autodiff import jvp, vjp
from lamina_ir import MissingRuleError, UnboundedLoopError, config, dtypes, evaluate_primitive, prims
from lamina_ir.testing import tolerance
from lamina_ir.testing.samples import canonicalize_results, samples_of
from lamina_tracing.extend import bind

from lamina_autodiff.conformance.differences import differences, host, inner, noise

# Collectives are tested over named axes. Maps over devices get their derivatives from the layer above.
# stop_gradient has a zero derivative although it is not constant; it has its own test.
LEFT_OUT = ("stop_gradient", "xla_pmap")
# Without known derivative, not smooth, or opaque: an implementation may reject these.
MAY_REFUSE = {
    "nextafter": "steps from one float to the next", "rng_uniform": "its draws cannot be repeated",
    "geqrf": "its packed form", "hessenberg": "no smooth invariant", "tridiagonal": "no smooth invariant",
    "schur": "no smooth invariant", "reduce": "its computation is opaque", "reduce_window": "its computation is opaque",
}
# No closed form is known for the operands that are not listed.
KNOWN_OPERANDS = {"polygamma": (1,), "zeta": (1,), "igamma_grad_a": (1,), "random_gamma_grad": (1,),
                  "regularized_incomplete_beta": (2,)}


def diff_operands(sample: Any) -> list[int]:
    """Return the positions of the differentiated operands."""
    return [i for i, a in enumerate(sample.args) if dtypes.is_inexact(a.dtype)
            and i in KNOWN_OPERANDS.get(sample.prim.name, range(99))]


SAMPLES = [s for p in prims.ALL if p.family not in ("collectives", "maps") and p.name not in LEFT_OUT for s in samples_of(p)
           if s.differentiable and diff_operands(s)
           and all(np.isfinite(a).all() for a in s.args if dtypes.is_inexact(a.dtype))]


class Case:
    """A sample as a function of its inexact operands, in 64 bits unless it has a region with fixed types."""

    def __init__(self, sample: Any) -> None:
        self.prim, self.params = sample.prim, sample.params
        wide = {} if sample.prim.subprograms else {"float32": "float64", "complex64": "complex128"}
        self.full = [np.asarray(a, wide.get(a.dtype.name, a.dtype)) for a in sample.args]
        self.moving = diff_operands(sample)
        self.point = [self.full[i] for i in self.moving]

    def _with(self, xs: Any) -> list[Any]:
        args: list[Any] = list(self.full)
        for i, x in zip(self.moving, xs):
            args[i] = x
        return args

    def fun(self, *xs: Any) -> list[Any]:
        """Apply the primitive, to be differentiated."""
        out = bind(self.prim, *self._with(xs), **self.params)
        out = canonicalize_results(self.prim, out if self.prim.multiple else (out,), bind)
        return [o for o in out if dtypes.is_inexact(o.dtype)]

    def one(self, *xs: Any) -> list[Any]:
        """Evaluate the primitive with NumPy."""
        out = evaluate_primitive(self.prim, self._with(xs), self.params)
        out = canonicalize_results(self.prim, out if self.prim.multiple else (out,))
        return [np.asarray(o) for o in out if dtypes.is_inexact(np.asarray(o).dtype)]

    def coarseness(self) -> float:
        return max(tolerance(np.asarray(v).dtype) for v in [*self.point, *self.one(*self.point)])

    def may_refuse(self, error: Exception) -> bool:
        if self.prim.name == "while" and self.params["max_iters"] is None and isinstance(error, UnboundedLoopError):
            return True  # residuals of a loop of unknown length cannot be stored
        return self.prim.name in MAY_REFUSE and isinstance(error, MissingRuleError) and self.prim.name in str(error)


def is_precise(sample: Any) -> bool:
    """Return whether finite differences are usable: finite results of at least 32 bits."""
    with config.enable_x64(True), np.errstate(all="ignore"):
        case = Case(sample)
        return case.coarseness() < 1e-4 and all(np.isfinite(v).all() for v in case.one(*case.point))


@pytest.mark.parametrize("sample", [s for s in SAMPLES if is_precise(s)], ids=lambda s: s.id)
def test_tangents_equal_finite_differences(sample):
    with config.enable_x64(True):
        case = Case(sample)
        coarse = case.coarseness()
        eps, rtol, atol = (1e-5, 1e-3, 1e-4) if coarse < 1e-8 else (2.0 ** -7, 3e-2, 3e-2)
        direction = [noise(np.random.default_rng(0), x) for x in case.point]
        try:
            value, tangent = jvp(case.fun, tuple(case.point), tuple(direction))
        except MissingRuleError as e:
            assert case.may_refuse(e), str(e)
            return
        want, expected = case.one(*case.point), differences(case.one, case.point, direction, eps)
        for v, w, t, d in zip(value, want, tangent, expected, strict=True):
            np.testing.assert_allclose(host(v), host(w), rtol=10 * coarse, atol=10 * coarse)
            assert np.asarray(t).dtype == np.asarray(v).dtype and np.shape(t) == np.shape(v)
            np.testing.assert_allclose(host(t), d, rtol=rtol, atol=atol)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.id)
def test_cotangents_are_transpose_of_tangents(sample):
    with config.enable_x64(True):
        case = Case(sample)
        tol = max(1e-7, 20 * case.coarseness())
        rng = np.random.default_rng(1)
        direction = [noise(rng, x) for x in case.point]
        try:
            tangent = jvp(case.fun, tuple(case.point), tuple(direction))[1]
            value, pull = vjp(case.fun, *case.point)
            ct = [noise(rng, v) for v in value]
            back = pull(ct)
        except (MissingRuleError, UnboundedLoopError) as e:
            assert case.may_refuse(e), str(e)
            return
        for b, x in zip(back, case.point, strict=True):
            assert np.shape(b) == x.shape and np.asarray(b).dtype == x.dtype
        np.testing.assert_allclose(inner(ct, tangent), inner(back, direction), rtol=tol, atol=tol)


def test_stop_gradient_has_zero_derivative():
    stopped = functools.partial(bind, prims.stop_gradient_p)
    value, tangent = jvp(lambda x: bind(prims.mul_p, stopped(x), x), (np.float32(3),), (np.float32(1),))
    assert (float(value), float(tangent)) == (9, 3)
