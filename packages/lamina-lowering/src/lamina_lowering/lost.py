"""Extremes of floats whose NaNs nobody would miss.

On CPUs XLA leaves the library that it reduces with to lose NaNs where it sees a plain `maximum`, so rows spell that out in
another way, which the library does not know: then it does not take a softmax as one kernel, and copies lie in between. But
softmax and logsumexp sum `exp(x - max(x))`, and that is NaN wherever x holds a NaN, whatever became of the maximum.

A *row* is what one element of a reduction's result is made of; it is *hurt* where it holds a NaN, and only there may the
result be another. Followed from there, a value is one of these in hurt rows:

- `_ANY`: perhaps another value than it should be;
- `_HAS`: so, but NaN at least where the operand is;
- `_ALL`: all NaN. So it is the same as it should be.

The reduction may lose NaNs if everything that it reaches becomes `_ALL`, before it is a result or meets an op that is not
looked through.
"""
from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, NamedTuple

from lamina_ir import Eqn, Literal, dtypes, prims

__all__ = ["EXTREMES", "LOOKS_THROUGH", "may_lose_nans"]

_ANY, _HAS, _ALL = range(3)
_STEPS = 64  # equations looked at for one reduction
EXTREMES = frozenset((prims.reduce_max_p, prims.reduce_min_p))
_SAME = frozenset((prims.stop_gradient_p, prims.copy_p, prims.name_p))
# Of floats: NaN where one operand is.
_SPREADS = _SAME | {
    prims.add_p, prims.sub_p, prims.mul_p, prims.div_p, prims.neg_p, prims.abs_p, prims.square_p, prims.exp_p, prims.exp2_p,
    prims.expm1_p, prims.log_p, prims.log1p_p, prims.sqrt_p, prims.rsqrt_p}
_SUMS = (prims.reduce_sum_p, prims.reduce_prod_p)
LOOKS_THROUGH = _SPREADS | {*EXTREMES, *_SUMS, prims.convert_element_type_p, prims.select_p}


class _Known(NamedTuple):
    """What is known of a value: `kind` in hurt rows; `open` where that is another than it should be; `axes`: axis of the
    reduction's operand -> axis of the value. Those that a row lies along stand there for `_HAS` only. Axes of length 1 never
    do: they tell nothing."""

    kind: int
    open: bool
    axes: dict[int, int]


class _Lost(Exception):
    """Somebody might see it."""


def may_lose_nans(eqns: Sequence[Eqn], outvars: Sequence[Any]) -> set[int]:
    """The extremes that may lose NaNs: `id(eqn)` of each. Linear in the equations, a few of which are followed."""
    found: set[int] = set()
    wanted = [e for e in eqns if e.primitive in EXTREMES and dtypes.is_float(e.invars[0].aval.dtype)]
    if not wanted:
        return found
    readers: dict[Any, list[int]] = {}
    origin: dict[Any, Any] = {}
    for i, e in enumerate(eqns):
        for v in e.invars:
            if v.__class__ is not Literal:
                readers.setdefault(v, []).append(i)
        if e.primitive in _SAME:
            origin[e.outvars[0]] = origin.get(e.invars[0], e.invars[0]) if e.invars[0].__class__ is not Literal else None
    results = {v for v in outvars if v.__class__ is not Literal}
    for e in wanted:
        try:
            _Follow(eqns, readers, origin, results).all_from(e)
        except _Lost:
            continue
        found.add(id(e))
    return found


class _Follow:
    """One reduction, and what it reaches."""

    def __init__(self, eqns: Sequence[Eqn], readers: dict[Any, list[int]], origin: dict[Any, Any], results: set[Any]) -> None:
        self.eqns, self.readers, self.origin, self.results = eqns, readers, origin, results
        self.known: dict[Any, _Known] = {}
        self.rows: set[int] = set()  # axes of the operand that number the rows
        self.source: Any = None  # the operand, which itself and copies of it are the same and `whole`
        self.whole = _Known(_HAS, False, {})
        self.todo: list[int] = []
        self.pending = 0  # readers of open values that have not been looked at

    def all_from(self, eqn: Eqn) -> None:
        x, axes = eqn.invars[0], eqn.params["axes"]
        if x.__class__ is Literal:
            raise _Lost
        shape = x.aval.shape
        kept = [a for a in range(len(shape)) if a not in axes]
        self.rows = {a for a in kept if shape[a] > 1}
        self.source = self.origin.get(x, x)
        self.whole = _Known(_HAS, False, {a: a for a, n in enumerate(shape) if n > 1})
        self.learn(eqn.outvars[0], _Known(_ANY, True, {a: i for i, a in enumerate(kept) if a in self.rows}))
        last = -1
        for _ in range(_STEPS):
            if not self.pending:
                return
            at = heapq.heappop(self.todo)
            if at == last:  # an equation that reads two of them
                continue
            last, e = at, self.eqns[at]
            facts = [self.fact(v) for v in e.invars]
            self.pending -= len({v for v, f in zip(e.invars, facts) if f is not None and f.open})
            made = self.after(e, facts)
            if made is not None:
                self.learn(e.outvars[0], made)
            elif any(f is not None and f.open for f in facts):
                raise _Lost
        raise _Lost

    def fact(self, v: Any) -> _Known | None:
        if v.__class__ is Literal:
            return None
        return self.whole if self.origin.get(v, v) is self.source else self.known.get(v)

    def learn(self, v: Any, fact: _Known) -> None:
        if fact.open and v in self.results:
            raise _Lost
        self.known[v] = fact
        at = sorted({*self.readers.get(v, ())})
        for i in at:
            heapq.heappush(self.todo, i)
        self.pending += len(at) if fact.open else 0

    # --- one equation ---------------------------------------------------------------------------------------------
    def after(self, e: Eqn, facts: list[_Known | None]) -> _Known | None:
        """What is known of an equation's result; None for nothing."""
        p, first = e.primitive, facts[0] if facts else None
        if p.elementwise:
            return None if p.multiple else self.elementwise(e, facts)
        if len(e.outvars) != 1 or first is None:
            return None
        moved = _moved(e)
        if moved is not None:
            return first._replace(axes={a: moved[i] for a, i in first.axes.items()}) if moved.keys() >= {
                *first.axes.values()} else None
        return self.summed(first, e.params["axes"], e.invars[0].aval.ndim) if p in _SUMS else None

    def elementwise(self, e: Eqn, facts: list[_Known | None]) -> _Known | None:
        known = [f for f in facts if f is not None]
        if len({tuple(sorted((a, i) for a, i in f.axes.items() if a in self.rows)) for f in known}) != 1:
            return None  # rows meet others
        if len({tuple(sorted(f.axes.items())) for f in known if f.kind == _HAS}) > 1:
            return None
        kind, out = _ANY, e.outvars[0].aval.dtype
        if dtypes.is_float(out):
            if e.primitive in _SPREADS or e.primitive is prims.convert_element_type_p and out.itemsize > 1 and dtypes.is_float(
                    e.invars[0].aval.dtype):
                kind = max(f.kind for f in known)
            elif e.primitive is prims.select_p:
                kind = min(f.kind if f is not None else _ANY for f in facts[1:])
        is_open = kind != _ALL and any(f.open for f in known)
        axes = next(f.axes for f in known if kind != _HAS or f.kind == _HAS)
        return self.some(kind, is_open, axes)

    def summed(self, fact: _Known, axes: Sequence[int], ndim: int) -> _Known | None:
        if any(i in axes for a, i in fact.axes.items() if a in self.rows):
            return None  # over several rows
        whole = fact.kind == _ALL or fact.kind == _HAS and all(i in axes for a, i in fact.axes.items() if a not in self.rows)
        left = [i for i in range(ndim) if i not in axes]
        at = {a: left.index(i) for a, i in fact.axes.items() if a in self.rows}
        return self.some(_ALL if whole else _ANY, fact.open and not whole, at)

    def some(self, kind: int, is_open: bool, axes: dict[int, int]) -> _Known | None:
        if kind == _ANY and not is_open:
            return None
        return _Known(kind, is_open, axes if kind == _HAS else {a: i for a, i in axes.items() if a in self.rows})


def _moved(e: Eqn) -> dict[int, int] | None:
    """Axis of the operand -> axis of the result, for ops that only put axes elsewhere; None for others. Axes of length 1 are
    left out where they have no place."""
    p, shape, out = e.primitive, e.invars[0].aval.shape, e.outvars[0].aval.shape
    if p is prims.broadcast_in_dim_p:
        return dict(enumerate(e.params["broadcast_dimensions"]))
    if p is prims.transpose_p:
        return {a: i for i, a in enumerate(e.params["permutation"])}
    if p in (prims.expand_dims_p, prims.squeeze_p, prims.reshape_p):
        before, after = ([i for i, n in enumerate(s) if n != 1] for s in (shape, out))
        if [shape[i] for i in before] == [out[i] for i in after]:
            return dict(zip(before, after))
    return None
