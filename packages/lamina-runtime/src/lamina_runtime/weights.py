"""Whether a program is compiled with the cheap settings: each kernel in some 3 ms instead of 8, by an emitter of single loops.

They serve programs of a few equations (`_few`), and longer ones of small arrays (`_steady`): what copies, compares, chooses and
counts, what the LAPACK and FFT libraries do, and what rounds floats. Whether a product and a sum are joined into one
instruction that rounds once is the emitter's choice: no better and no worse, of 150 drawn programs 33 differed in the last
digit. Programs that draw random numbers keep their digits, so nothing in them may be joined. Measured with jaxlib 0.10.2; later
versions have no such setting.
"""
from __future__ import annotations

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, Literal, dtypes

__all__ = ["is_cheap"]

_PLAIN = frozenset(("elementwise", "shape", "indexing", "calls"))
_CHEAP = _PLAIN | {"reductions", "sorting"}
_FEW, _SMALL, _UPDATES = 12, 1 << 14, 512
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
_EXTREMES = frozenset(("clamp", "cummax", "cummin", "max", "min", "reduce", "reduce_max", "reduce_min"))
_ROUNDS = frozenset(("add", "div", "mul", "sub"))  # each as it stands, whoever compiles it
_WIDE = frozenset((np.dtype(np.float32), np.dtype(np.float64)))  # others are computed in these, and rounded now or later


def is_cheap(closed: ClosedJaxpr) -> bool:
    """Whether the cheap compile settings serve a program as well.

    Measured on 1 to 8 equations, jaxlib 0.10.2: half the compile time; run times of elementwise, shape and indexing ops
    are equal or better at every size, of reductions equal for small arrays and up to 1.6 times longer for large ones; those of
    scatters, which become loops over single updates, equal up to some hundred of them and up to 4 times longer beyond.
    """
    return closed.memo("cheap", lambda: _weigh(closed, {}) <= _FEW or _Steady().takes(closed))


def _weigh(closed: ClosedJaxpr, known: dict[ClosedJaxpr, int], level: int = 0) -> int:
    """Equations, those of called programs among them, up to one more than a few; `known` has programs seen before. Calls many
    levels deep are no few."""
    if level > _FEW:
        return _FEW + 1
    count = 0
    for e in closed.jaxpr.eqns:
        family, is_call = e.primitive.family, e.primitive.name in _CALLS
        large = family not in _PLAIN and any(v.aval.size > _SMALL for v in e.invars)
        if not is_call and (family not in _CHEAP or large):
            return _FEW + 1
        if e.primitive.name.startswith("scatter") and e.invars[-1].aval.size > _UPDATES:
            return _FEW + 1
        if is_call:
            called = e.params["call_jaxpr"]
            if called not in known:
                known[called] = _weigh(called, known, level + 1)
            count += known[called]
        else:
            count += 1
        if count > _FEW or e.primitive.name in ("xla_pmap", "shard_map"):
            return _FEW + 1
    return count


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
            outs: list[bool] | None = [p.name == "mul" or any(read)] * len(e.outvars)
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
            if self.large > _FEW or family not in _PLAIN:
                return False
        if family not in _STEADY or (name.startswith("scatter") and e.invars[-1].aval.size > _UPDATES):
            return False
        floats = {a.dtype for a in around if dtypes.is_inexact(a.dtype)}
        self.draws = self.draws or family == "random_bits"
        if not floats or family == "shape" or name in _EXACT:
            return True
        if name not in _ROUNDS or reads_product and name in ("add", "sub"):
            self.loose = True
        return floats <= _WIDE and name not in _EXTREMES and family in ("elementwise", "reductions")
