"""How much work the compiler is given: the cheap settings compile each kernel in some 3 ms instead of 8, by an emitter of
single loops, and leave loops as they are instead of writing their turns out one behind the other.

They serve programs of a few equations (`_few`), and longer ones of small arrays (`_steady`): what copies, compares, chooses and
counts, what the LAPACK and FFT libraries do, and what rounds floats. Whether a product and a sum are joined into one
instruction that rounds once is the emitter's choice: no better and no worse, of 150 drawn programs 33 differed in the last
digit. Programs that draw random numbers keep their digits, so nothing in them may be joined. Turns that are written out are
summed in another order, so programs that sum floats have that done, for the digits that others get. Measured with
jaxlib 0.10.2; later versions have the one emitter.
"""
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, Literal, dtypes

__all__ = ["Effort", "effort"]

_PLAIN = frozenset(("elementwise", "shape", "indexing", "calls"))
_CHEAP = _PLAIN | {"reductions", "sorting"}
_FEW, _SMALL, _UPDATES = 12, 1 << 14, 512
_TINY, _PRODUCT = 1 << 12, 256
_NARROW, _DEAR, _SHORT = 8, range(33, 64), range(2, 8)  # numbers in a row
_APART = frozenset((  # what adds no float to another
    "elementwise", "shape", "indexing", "sorting", "random_bits", "random_keys", "calls", "factorizations", "fft"))
_SINGLE = frozenset(("elementwise", "random_bits", "calls"))  # loops that are as quick rolled, however long
_VIEWS = frozenset(("broadcast_in_dim", "expand_dims", "reshape", "squeeze", "stop_gradient"))  # no kernels
_SHAPES = _VIEWS | {"copy", "iota", "transpose"}
# Functions, some with rules of their own: the compiler writes them out where they are called.
_CALLS = frozenset(("xla_call", "custom_jvp_call", "custom_vjp_call", "custom_vmap_call"))

_LIBRARIES = frozenset(("factorizations", "fft"))  # beside a loop or two that copies what they read and make
_STEADY = frozenset(("elementwise", "shape", "indexing", "sorting", "random_bits", "reductions"))
_MANY = 128
# Of floats. Extremes are not among them: which zero, or which NaN, they give depends on what the emitter makes of them.
_EXACT = frozenset((
    "abs", "argmax", "argmin", "bitcast_convert_type", "ceil", "complex", "conj", "convert_element_type", "copy",
    "dynamic_slice", "dynamic_update_slice", "eq", "floor", "gather", "ge", "gt", "imag", "is_finite", "le", "lt", "ne", "neg",
    "real", "select", "sign", "sort", "stop_gradient"))
_CHOSEN = frozenset(("clamp", "cummax", "cummin", "max", "min", "reduce_max", "reduce_min"))
_EXTREMES = _CHOSEN | {"reduce"}
_ROUNDS = frozenset(("add", "div", "mul", "sub"))  # each as it stands, whoever compiles it
_MULTIPLY = frozenset(("dot_general", "mul"))
_WIDE = frozenset((np.dtype(np.float32), np.dtype(np.float64)))  # others are computed in these, and rounded now or later


class Effort(NamedTuple):
    """How a program is compiled: by the emitter of single loops; and with loops that stay loops."""

    cheap: bool = False
    rolled: bool = False


def effort(closed: ClosedJaxpr) -> Effort:
    """The cheap compile settings that serve a program as well as the usual ones.

    Measured on 1 to 8 equations, jaxlib 0.10.2: half the compile time; run times of elementwise, shape and indexing ops
    are equal or better at every size, but of large arrays with rows of 2 to 7 numbers (up to twice as long: they keep the usual
    emitter), of reductions equal for small arrays and up to 1.6 times longer for large ones; those of scatters,
    which become loops over single updates, equal up to some hundred of them and up to 4 times longer beyond.
    Written out turns of `exp` and its like over rows of 33 to 63 numbers compile in up to 190 ms, rolled in 15; the emitter
    of fused loops (36 ms) has no such rows, so it takes the programs among them that sum floats.
    """
    return closed.memo("effort", lambda: _effort(closed))


def _effort(closed: ClosedJaxpr) -> Effort:
    if not (_weigh(closed, {}) <= _FEW or _Steady().takes(closed)):
        return Effort()
    sums, rows, large = _look(closed)
    return Effort(cheap=not (sums and rows), rolled=not (sums or large))


def _look(closed: ClosedJaxpr) -> tuple[bool, bool, bool]:
    """Whether floats are summed; whether there are functions of rows whose turns are dear to write out; and whether there are
    large arrays that written out turns are quicker for."""
    sums = rows = large = False
    for e in closed.jaxpr.eqns:
        name, family = e.primitive.name, e.primitive.family
        around = [v.aval for v in (*e.invars, *e.outvars)]
        if name in _CALLS or name == "linear_solve":
            inner = _look(e.params["solve" if name == "linear_solve" else "call_jaxpr"])
            sums, rows, large = (a or b for a, b in zip((sums, rows, large), inner))
        elif family not in _APART:
            sums = sums or name not in _EXACT | _CHOSEN and any(dtypes.is_inexact(a.dtype) for a in around)
        elif family == "elementwise" and name not in _EXACT | _CHOSEN | _ROUNDS:
            rows = rows or any(a.shape and a.shape[-1] in _DEAR and dtypes.is_inexact(a.dtype) for a in around)
        if family not in _SINGLE and name not in _SHAPES and max((a.size for a in around), default=0) > _TINY:
            large = True
    return sums, rows, large


def _weigh(closed: ClosedJaxpr, known: dict[ClosedJaxpr, int], level: int = 0) -> int:
    """Equations, those of called programs among them, up to one more than a few; `known` has programs seen before. Calls many
    levels deep are no few."""
    if level > _FEW:
        return _FEW + 1
    count = 0
    for e in closed.jaxpr.eqns:
        family, is_call = e.primitive.family, e.primitive.name in _CALLS
        large = family not in _PLAIN and any(v.aval.size > _SMALL for v in e.invars)
        if not is_call and (family not in _CHEAP and not _is_small_product(e) or large):
            return _FEW + 1
        if e.primitive.name.startswith("scatter") and e.invars[-1].aval.size > _UPDATES or _has_short_rows(e):
            return _FEW + 1
        if is_call:
            called = e.params["call_jaxpr"]
            if called not in known:
                known[called] = _weigh(called, known, level + 1)
            count += known[called]
        elif e.primitive.name not in _VIEWS or e.outvars[0].aval.size > _SMALL:
            count += 1
        if count > _FEW or e.primitive.name in ("xla_pmap", "shard_map"):
            return _FEW + 1
    return count


def _has_short_rows(e: Eqn) -> bool:
    """Whether it makes a large array of rows of a few numbers: their single loops take up to twice the time."""
    return any(len(v.aval.shape) > 1 and v.aval.shape[-1] in _SHORT and v.aval.size > _SMALL for v in e.outvars)


def _is_small_product(e: Eqn) -> bool:
    """A product of matrices of a few rows and columns: larger ones run up to twice as long where something follows them."""
    around = [v.aval for v in (*e.invars, *e.outvars)]
    return e.primitive.family == "linalg" and around[-1].dtype in _WIDE and all(
        a.size <= _PRODUCT and (not a.shape or a.shape[-1] <= _NARROW) for a in around)


class _Steady:
    """One look at a program: how many equations it has, of large arrays and in all, which of its values may hold a product
    that a sum could be joined with, whether a last digit depends on the emitter, and whether random bits are drawn."""

    def __init__(self) -> None:
        self.count = self.large = 0
        self.loose = self.draws = False

    def takes(self, closed: ClosedJaxpr) -> bool:
        """Whether its digits stay as good as they are, drawn ones what they are, and its speed."""
        return self._products_out(closed, [False] * len(closed.in_avals), 0) is not None and not (self.loose and self.draws)

    def _products_out(self, closed: ClosedJaxpr, given: list[bool], level: int) -> list[bool] | None:
        """Which results may hold a product, where those `given` do; None: the program is no steady one."""
        products = {v for v, product in zip(closed.jaxpr.invars, given) if product}
        for e in closed.jaxpr.eqns:
            p = e.primitive
            self.count += 1
            if self.count > _MANY:
                return None
            read = [type(v) is not Literal and v in products for v in e.invars]
            outs: list[bool] | None = [p.name in _MULTIPLY or any(read)] * len(e.outvars)
            if p.name in _CALLS or p.name == "linear_solve":
                called = e.params["solve" if p.name == "linear_solve" else "call_jaxpr"]
                outs = self._products_out(called, read, level + 1) if level < _FEW else None
            elif p.family in _LIBRARIES:
                outs = [False] * len(e.outvars)
            elif not self._is_steady(e, any(read)):
                return None
            if outs is None:
                return None
            products.update(v for v, product in zip(e.outvars, outs) if product)
        return [type(v) is not Literal and v in products for v in closed.jaxpr.outvars]

    def _is_steady(self, e: Eqn, reads_product: bool) -> bool:
        name, family = e.primitive.name, e.primitive.family
        around = [v.aval for v in (*e.invars, *e.outvars)]
        if max((a.size for a in around), default=0) > _SMALL:
            self.large += 1
            if self.large > _FEW or family not in _PLAIN or _has_short_rows(e):
                return False
        if _is_small_product(e):
            self.loose = True
            return True
        if family not in _STEADY or (name.startswith("scatter") and e.invars[-1].aval.size > _UPDATES):
            return False
        floats = {a.dtype for a in around if dtypes.is_inexact(a.dtype)}
        self.draws = self.draws or family == "random_bits"
        if not floats or family == "shape" or name in _EXACT:
            return True
        if name not in _ROUNDS or reads_product and name in ("add", "sub"):
            self.loose = True
        return floats <= _WIDE and name not in _EXTREMES and family in ("elementwise", "reductions")
