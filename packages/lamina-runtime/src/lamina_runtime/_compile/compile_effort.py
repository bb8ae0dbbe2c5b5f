"""Decide how much optimisation the compiler applies to a program.

There are two cheap settings. `cheap` selects XLA's emitter of single loops, which compiles a kernel in less
than half of the time. `rolled_loops` disables LLVM's loop unrolling.

`cheap` is used for programs of a few equations (see `_count_equations`). It is also used for longer programs of small
arrays, if results depend on the emitter in the last digit at most (see `_Steady`).

The emitter decides whether a product and a sum are fused into one instruction that rounds once. Both results are
equally good; 33 of 150 random programs differed in the last digit. Programs that draw random numbers must have
reproducible digits, so nothing in them may be fused. Unrolled loops sum in another order, so programs that sum floats
are always compiled with unrolling: their digits are then the usual ones.

All times were measured with jaxlib 0.10.2. Later versions have one emitter only.
"""
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, Literal, dtypes, prims
from lamina_ir.extend.unchecked import get_primitives

__all__ = ["CompileEffort", "compile_effort"]


# Families whose single loops are as fast as fused ones at every array size.
_ANY_SIZE_FAMILIES = frozenset(("elementwise", "shape", "indexing", "calls"))
_CHEAP_FAMILIES = _ANY_SIZE_FAMILIES | {"reductions", "sorting"}
_FEW = 12  # equations of a small program
_SMALL, _TINY = 1 << 14, 1 << 12  # elements of an array
_MAX_UPDATES = 512  # of a scatter: it becomes a loop over single updates
_MAX_PRODUCT, _MAX_PRODUCT_WIDTH = 256, 8  # elements and columns of a small matrix product
_SLOW_WIDTHS, _SHORT_WIDTHS = range(33, 64), range(2, 8)  # lengths of the last dimension
_NON_SUMMING = frozenset((  # families that add no floats
    "elementwise", "shape", "indexing", "sorting", "random_bits", "random_keys", "calls", "factorizations", "fft"))
_AS_FAST_ROLLED = frozenset(("elementwise", "random_bits", "calls"))  # families that run as fast rolled, at any length
_VIEWS = get_primitives("broadcast_in_dim expand_dims reshape squeeze stop_gradient")  # no kernels
_SHAPES = _VIEWS | get_primitives("copy iota transpose")
# Calls of functions, some with custom rules: the compiler inlines them.
_CALLS = get_primitives("xla_call custom_jvp_call custom_vjp_call custom_vmap_call")

_LIBRARIES = frozenset(("factorizations", "fft"))  # library calls, plus one or two loops that copy operands or results
_STEADY_FAMILIES = frozenset(("elementwise", "shape", "indexing", "sorting", "random_bits", "reductions"))
_MAX_STEADY = 128  # equations of a program that `_Steady` accepts
# Exact on floats. Max and min are not in the set: with several zeros or NaNs, the emitter decides which one is
# returned.
_EXACT = get_primitives("""
    abs argmax argmin bitcast_convert_type ceil complex conj convert_element_type copy dynamic_slice dynamic_update_slice eq
    floor gather ge gt imag is_finite le lt ne neg real select sign sort stop_gradient""")
_SELECTING = get_primitives("clamp cummax cummin max min reduce_max reduce_min")
_MIN_MAX_OR_REDUCE = _SELECTING | {prims.reduce_p}
_ROUNDED_ONCE = get_primitives("add div mul sub")  # each rounds its result once, with either emitter
_CHEAP_EITHER_WAY = _EXACT | _SELECTING | _ROUNDED_ONCE  # compile quickly, whether unrolled or not
_MULTIPLY = get_primitives("dot_general mul")
_SUMS = get_primitives("add sub")
_SCATTERS = get_primitives("scatter scatter_add scatter_max scatter_min scatter_mul")
# Other floats are computed in these types; when the result is rounded depends on the emitter.
_WIDE = frozenset((np.dtype(np.float32), np.dtype(np.float64)))


class CompileEffort(NamedTuple):
    """The compile settings of a program.

    Attributes:
      cheap: use the emitter of single loops.
      rolled_loops: do not unroll loops.
    """

    cheap: bool = False
    rolled_loops: bool = False


def compile_effort(closed: ClosedJaxpr) -> CompileEffort:
    """Return the cheap compile settings with which a program runs as fast as with the default ones.

    Measured on 1 to 8 equations with jaxlib 0.10.2: the compile time is about halved. Run times with the cheap emitter:

    - elementwise, shape and indexing primitives: equal or better at every size. Exception: large arrays with a last
      dimension of 2 to 7 take longer, so they use the default emitter.
    - reductions: equal for small arrays, slower for large ones.
    - scatters, which become loops over single updates: equal up to some hundred updates, then slower.

    With a last dimension of 33 to 63, unrolled loops of `exp` and similar functions compile in many times the time of
    rolled loops. The default emitter is not affected, so it compiles such programs if they sum floats.
    """
    if not (_count_equations(closed, {}) <= _FEW or _Steady().accepts(closed)):
        return CompileEffort()
    sums, slow_widths, large = _scan(closed)
    return CompileEffort(cheap=not (sums and slow_widths), rolled_loops=not (sums or large))


def _scan(closed: ClosedJaxpr) -> tuple[bool, bool, bool]:
    """Return (floats are summed, a loop is slow to compile unrolled, a large array is faster with unrolled loops)."""
    sums = slow_widths = large = False
    for e in closed.jaxpr.eqns:
        p, family = e.primitive, e.primitive.family
        if family == "elementwise" and p in _CHEAP_EITHER_WAY:
            continue
        avals = [v.aval for v in (*e.invars, *e.outvars)]
        if p in _CALLS or p is prims.linear_solve_p:
            inner = _scan(e.params["solve" if p is prims.linear_solve_p else "call_jaxpr"])
            sums, slow_widths, large = (a or b for a, b in zip((sums, slow_widths, large), inner))
        elif family not in _NON_SUMMING:
            sums = sums or p not in _EXACT | _SELECTING and any(dtypes.is_inexact(a.dtype) for a in avals)
        elif family == "elementwise":
            slow_widths = slow_widths or any(
                a.shape and a.shape[-1] in _SLOW_WIDTHS and dtypes.is_inexact(a.dtype) for a in avals)
        if family not in _AS_FAST_ROLLED and p not in _SHAPES and max((a.size for a in avals), default=0) > _TINY:
            large = True
    return sums, slow_widths, large


def _count_equations(closed: ClosedJaxpr, known: dict[ClosedJaxpr, int], level: int = 0) -> int:
    """Count the equations of a program and of the programs it calls, up to `_FEW + 1`.

    The result is also `_FEW + 1` if an equation does not suit the cheap emitter, or if calls are nested deeply. `known`
    caches the counts of called programs.
    """
    if level > _FEW:
        return _FEW + 1
    count = 0
    for e in closed.jaxpr.eqns:
        family, is_call = e.primitive.family, e.primitive in _CALLS
        large = family not in _ANY_SIZE_FAMILIES and any(v.aval.size > _SMALL for v in e.invars)
        if not is_call and (family not in _CHEAP_FAMILIES and not _is_small_product(e) or large):
            return _FEW + 1
        if e.primitive in _SCATTERS and e.invars[-1].aval.size > _MAX_UPDATES or _is_slow_as_single_loop(e):
            return _FEW + 1
        if is_call:
            called = e.params["call_jaxpr"]
            if called not in known:
                known[called] = _count_equations(called, known, level + 1)
            count += known[called]
        elif e.primitive not in _VIEWS or e.outvars[0].aval.size > _SMALL:
            count += 1
        if count > _FEW or e.primitive is prims.xla_pmap_p or e.primitive is prims.shard_map_p:
            return _FEW + 1
    return count


def _is_slow_as_single_loop(e: Eqn) -> bool:
    """Return whether a single loop takes up to 2x as long: a large result with a short last dimension, or a large pad
    between elements."""
    if e.primitive is prims.pad_p and e.outvars[0].aval.size > _SMALL and any(c[2] for c in e.params["padding_config"]):
        return True
    for v in e.outvars:
        if len(v.aval.shape) > 1 and v.aval.shape[-1] in _SHORT_WIDTHS and v.aval.size > _SMALL:
            return True
    return False


def _is_small_product(e: Eqn) -> bool:
    """Return whether an equation is a product of small matrices.

    Larger ones run longer with the cheap emitter if other equations use the result.
    """
    avals = [v.aval for v in (*e.invars, *e.outvars)]
    return e.primitive.family == "products" and avals[-1].dtype in _WIDE and all(
        a.size <= _MAX_PRODUCT and (not a.shape or a.shape[-1] <= _MAX_PRODUCT_WIDTH) for a in avals)


class _Steady:
    """Check whether the cheap emitter preserves the quality of a program's digits, and its speed.

    One pass collects four facts:

    - the number of equations, of all and of those with large arrays;
    - the values that may hold a product that could be fused with a sum;
    - whether a last digit depends on the emitter;
    - whether random bits are drawn.
    """

    def __init__(self) -> None:
        self.count = self.large = 0
        self.digits_vary = self.draws = False

    def accepts(self, closed: ClosedJaxpr) -> bool:
        """Return whether the cheap emitter suits the program. Programs that draw random bits need exact digits."""
        return (self._results_with_product(closed, [False] * len(closed.in_avals), 0) is not None
                and not (self.digits_vary and self.draws))

    def _results_with_product(self, closed: ClosedJaxpr, args: list[bool], level: int) -> list[bool] | None:
        """Return which results may hold a product, given which arguments may; None if the program is rejected."""
        products = {v for v, product in zip(closed.jaxpr.invars, args) if product}
        for e in closed.jaxpr.eqns:
            p = e.primitive
            self.count += 1
            if self.count > _MAX_STEADY:
                return None
            operands = [type(v) is not Literal and v in products for v in e.invars]
            outs: list[bool] | None = [p in _MULTIPLY or any(operands)] * len(e.outvars)
            if p in _CALLS or p is prims.linear_solve_p:
                called = e.params["solve" if p is prims.linear_solve_p else "call_jaxpr"]
                outs = self._results_with_product(called, operands, level + 1) if level < _FEW else None
            elif p.family in _LIBRARIES:
                outs = [False] * len(e.outvars)
            elif not self._is_steady(e, any(operands)):
                return None
            if outs is None:
                return None
            products.update(v for v, product in zip(e.outvars, outs) if product)
        return [type(v) is not Literal and v in products for v in closed.jaxpr.outvars]

    def _is_steady(self, e: Eqn, reads_product: bool) -> bool:
        """Return whether one equation is accepted; update the collected facts."""
        p, family = e.primitive, e.primitive.family
        avals = [v.aval for v in (*e.invars, *e.outvars)]
        if max((a.size for a in avals), default=0) > _SMALL:
            self.large += 1
            if self.large > _FEW or family not in _ANY_SIZE_FAMILIES or _is_slow_as_single_loop(e):
                return False
        if _is_small_product(e):
            self.digits_vary = True
            return True
        if family not in _STEADY_FAMILIES or (p in _SCATTERS and e.invars[-1].aval.size > _MAX_UPDATES):
            return False
        floats = {a.dtype for a in avals if dtypes.is_inexact(a.dtype)}
        self.draws = self.draws or family == "random_bits"
        if not floats or family == "shape" or p in _EXACT:
            return True
        # An add or sub of a product may be fused with it into one instruction (fma), which rounds once.
        if p not in _ROUNDED_ONCE or reads_product and p in _SUMS:
            self.digits_vary = True
        return floats <= _WIDE and p not in _MIN_MAX_OR_REDUCE and family in ("elementwise", "reductions")
