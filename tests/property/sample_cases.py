"""Random samples of every primitive for property-based tests: each family varies shapes, dtypes and params.

`cases(prim)` is a hypothesis strategy of `lamina_ir.testing.samples.Sample`. Structure is drawn, so that it shrinks; values
come from a seeded generator, in the domain of the primitive's samples. A family without a function here uses the
samples unchanged, in every dtype that the type rule accepts.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import draw_elementwise
import draw_factorizations
import draw_indexing
import draw_programs
import draw_reductions
import draw_shapes
import draw_windows
from drawing import Draw, accepted, kind_of, redtype, widened
from hypothesis import strategies as st
from lamina_ir import Primitive, aval_of, dtypes, prims
from lamina_ir.testing.samples import Sample, samples_of

__all__ = ["ONLY", "cases", "index_cases", "reversible", "special_cases"]

# operands with a known derivative, if it is unknown for the others; those raise a clear error
ONLY = {"polygamma": (1,), "zeta": (1,), "igamma_grad_a": (1,), "random_gamma_grad": (1,),
        "regularized_incomplete_beta": (2,)}


SPECIAL = {"f": (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, -3.0, 10.0, 50.0),
           "c": (0j, 1 + 0j, 1j, -1j, -1 - 1j, 3 - 2j, -0.5 + 4j)}


@st.composite
def special_cases(draw: Callable[..., Any], prim: Primitive) -> Sample:
    """Return a sample of an elementwise primitive at signed zeros, infinities, NaN, halves, and ends of integer ranges."""
    d = Draw(draw, False)
    sample = d.pick([r for r in samples_of(prim) if r.args])
    new = {a.dtype: d.dtype(kind_of(a.dtype)) for a in sample.args}
    n = d.int(1, 6)

    def values(dtype: np.dtype) -> np.ndarray:
        kind = kind_of(dtype)
        if kind in "iu":
            ends = dtypes.iinfo(dtype)
            pool: Sequence[Any] = (0, 1, 2, 3, 5, ends.max, ends.min, ends.max - 1) + ((-1, -2) if kind == "i" else ())
            return np.array([int(d.pick(pool)) for _ in range(n)], dtype)
        return np.array([d.pick((True, False) if kind == "b" else SPECIAL[kind]) for _ in range(n)]).astype(dtype)

    args = tuple(values(new[a.dtype]) for a in sample.args)
    if not accepted(prim, args, sample.params):
        args = tuple(values(a.dtype) for a in sample.args)
    if prim is prims.pow_p and kind_of(args[0].dtype) != kind_of(args[1].dtype):
        args = args[0], args[1] % np.asarray(8, args[1].dtype)  # an exponent that its base's dtype cannot hold
    return Sample(prim, args, sample.params)


MODULES = (draw_elementwise, draw_shapes, draw_reductions, draw_windows, draw_indexing, draw_factorizations,
         draw_programs)
FAMILIES: dict[str, Callable[[Draw, Primitive], Sample]] = {k: v for module in MODULES for k, v in module.FAMILY.items()}


@st.composite
def cases(draw: Callable[..., Any], prim: Primitive, wide: bool = False) -> Sample:
    """Return a sample of `prim`.

    Args:
      prim: the primitive.
      wide: only 64-bit floats and complex numbers, for differences.
    """
    d = Draw(draw, wide)
    make = FAMILIES.get(prim.family)
    if make is None:
        sample = d.pick(samples_of(prim))
        sample = sample if prim.subprograms or prim.axis_params or prim.family == "callbacks" else redtype(d, sample)
    else:
        sample = make(d, prim)
        assert accepted(prim, sample.args, sample.params) or prim.infer(*map(aval_of, sample.args), **sample.params)
    return widened(d, sample)


def reversible(sample: Sample) -> bool:
    """Whether a reverse derivative is defined; it is not for a loop without bound."""
    return sample.prim is not prims.while_p or sample.params["max_iters"] is not None


@st.composite
def index_cases(draw: Callable[..., Any]) -> tuple[np.ndarray, Any]:
    """Return an array and a NumPy index expression for it: integers, slices, None, `...`, integer arrays, a mask."""
    d = Draw(draw, True)
    shape = d.shape(1, 4, empty=False)
    parts: list[Any] = []
    common = d.shape(0, 2, empty=False)
    for n in shape[:d.int(0, len(shape))]:
        if d.int(0, 5) == 0:
            parts.append(None)
        what = d.int(0, 5)
        if what <= 1:
            parts.append(d.int(-n, n - 1))
        elif what <= 3:
            ends = [d.pick((None, *range(-n - 1, n + 2))) for _ in range(2)]
            parts.append(slice(*ends, d.pick((None, 1, 2, -1, -2))))
        elif what == 4:
            parts.append(d.rng.integers(-n, n, common[:d.int(0, len(common))] and common))
        else:
            parts.append(np.asarray(d.rng.integers(-n, n, common)))
    if d.flag():
        parts.append(...)
    return d.array(shape, np.dtype("float64")), tuple(parts)
