"""Find max/min reductions whose result does not change if NaNs are dropped.

On CPUs XLA passes a reduction by plain `maximum` to a library that drops NaNs. So the lowering rules write the
reduction in another form, which that library does not match. But then the library does not match a softmax as one
kernel either, and copies are made in between. In softmax and logsumexp the NaNs may be dropped: they sum `exp(x -
max(x))`, which is NaN wherever x has a NaN, whatever the maximum is.

A *row* is the set of operand elements that one element of the reduction's result depends on. A row that contains a NaN
is *affected*: only its result may change. Derived from there, a value in affected rows has one of these states:

- `_ANY`: possibly another value than it should have;
- `_HAS`: the same, but NaN at least where the operand is NaN;
- `_ALL`: NaN everywhere, so it is correct.

The reduction may drop NaNs if every value that it reaches becomes `_ALL` early enough: before it is a result of the
program, or an operand of a primitive that is not tracked. This is a forward data-flow analysis, in program order.
"""
from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from lamina_ir import Atom, Eqn, Literal, dtypes, prims

__all__ = ["MAX_MIN_REDUCTIONS", "TRACKED_PRIMITIVES", "find_nan_insensitive_reductions"]

_ANY, _HAS, _ALL = range(3)
_STEPS = 64  # most equations that are followed for one reduction
MAX_MIN_REDUCTIONS = frozenset((prims.reduce_max_p, prims.reduce_min_p))
_IDENTITIES = frozenset((prims.stop_gradient_p, prims.copy_p, prims.name_p))
# Float primitives whose result is NaN where an operand is NaN.
_PROPAGATE_NAN = _IDENTITIES | {
    prims.add_p, prims.sub_p, prims.mul_p, prims.div_p, prims.neg_p, prims.abs_p, prims.square_p, prims.exp_p, prims.exp2_p,
    prims.expm1_p, prims.log_p, prims.log1p_p, prims.sqrt_p, prims.rsqrt_p}
_SUMS = (prims.reduce_sum_p, prims.reduce_prod_p)
TRACKED_PRIMITIVES = _PROPAGATE_NAN | {*MAX_MIN_REDUCTIONS, *_SUMS, prims.convert_element_type_p, prims.select_p}


class _State(NamedTuple):
    """The state of a value.

    Attributes:
      kind: the state in affected rows.
      open: whether the value may be wrong there.
      axes: axis of the reduction's operand -> axis of the value. Axes along which a row extends are only included for
        `_HAS`. Axes of length 1 are left out, as they distinguish no elements.
    """

    kind: int
    open: bool
    axes: dict[int, int]


class _DropsVisible(Exception):
    """Dropping NaNs might change a result of the program."""


def find_nan_insensitive_reductions(eqns: Sequence[Eqn], outvars: Sequence[Atom]) -> set[int]:
    """Return `id(eqn)` of each reduction that may drop NaNs, in time linear in the equations."""
    found: set[int] = set()
    reductions = [e for e in eqns if e.primitive in MAX_MIN_REDUCTIONS and dtypes.is_float(e.invars[0].aval.dtype)]
    if not reductions:
        return found
    readers: dict[Atom, list[int]] = {}
    origin: dict[Atom, Atom | None] = {}
    for i, e in enumerate(eqns):
        for v in e.invars:
            if v.__class__ is not Literal:
                readers.setdefault(v, []).append(i)
        if e.primitive in _IDENTITIES:
            origin[e.outvars[0]] = origin.get(e.invars[0], e.invars[0]) if e.invars[0].__class__ is not Literal else None
    results = {v for v in outvars if v.__class__ is not Literal}
    for e in reductions:
        try:
            _Analysis(eqns, readers, origin, results).check(e)
        except _DropsVisible:
            continue
        found.add(id(e))
    return found


class _Analysis:
    """The analysis of one reduction: the states of the values that it reaches."""

    def __init__(self, eqns: Sequence[Eqn], readers: dict[Atom, list[int]], origin: dict[Atom, Atom | None],
                 results: set[Atom]) -> None:
        self.eqns, self.readers, self.origin, self.results = eqns, readers, origin, results
        self.known: dict[Atom, _State] = {}
        self.rows: set[int] = set()  # axes of the operand that index the rows
        self.source: Atom | None = None  # the operand; it and its copies have the state `whole`
        self.whole = _State(_HAS, False, {})
        self.todo: list[int] = []
        self.pending = 0  # unprocessed readers of open values

    def check(self, eqn: Eqn) -> None:
        """Follow the result of a reduction; raise `_DropsVisible` unless all values become `_ALL`."""
        x, axes = eqn.invars[0], eqn.params["axes"]
        if x.__class__ is Literal:
            raise _DropsVisible
        shape = x.aval.shape
        kept = [a for a in range(len(shape)) if a not in axes]
        self.rows = {a for a in kept if shape[a] > 1}
        self.source = self.origin.get(x, x)
        self.whole = _State(_HAS, False, {a: a for a, n in enumerate(shape) if n > 1})
        # The result of an affected row may be any number now.
        self.set_state(eqn.outvars[0], _State(_ANY, True, {a: i for i, a in enumerate(kept) if a in self.rows}))
        last = -1
        for _ in range(_STEPS):
            if not self.pending:
                return
            # In program order, so that all operands of an equation have their final states when it is processed.
            at = heapq.heappop(self.todo)
            if at == last:  # already processed: it reads two known values
                continue
            last, e = at, self.eqns[at]
            states = [self.state_of(v) for v in e.invars]
            self.pending -= len({v for v, f in zip(e.invars, states) if f is not None and f.open})
            made = self.transfer(e, states)
            if made is not None:
                self.set_state(e.outvars[0], made)
            elif any(f is not None and f.open for f in states):
                raise _DropsVisible
        raise _DropsVisible

    def state_of(self, v: Atom) -> _State | None:
        if v.__class__ is Literal:
            return None
        return self.whole if self.origin.get(v, v) is self.source else self.known.get(v)

    def set_state(self, v: Atom, state: _State) -> None:
        if state.open and v in self.results:
            raise _DropsVisible
        self.known[v] = state
        at = sorted({*self.readers.get(v, ())})
        for i in at:
            heapq.heappush(self.todo, i)
        self.pending += len(at) if state.open else 0

    # --- one equation ---------------------------------------------------------------------------------------------
    def transfer(self, e: Eqn, states: list[_State | None]) -> _State | None:
        """Return the state of an equation's result; None if it is unknown."""
        p, first = e.primitive, states[0] if states else None
        if p.elementwise:
            return None if p.multiple else self.transfer_elementwise(e, states)
        if len(e.outvars) != 1 or first is None:
            return None
        moved = _map_axes(e)
        if moved is not None:
            return first._replace(axes={a: moved[i] for a, i in first.axes.items()}) if moved.keys() >= {
                *first.axes.values()} else None
        return self.transfer_sum(first, e.params["axes"], e.invars[0].aval.ndim) if p in _SUMS else None

    def transfer_elementwise(self, e: Eqn, states: list[_State | None]) -> _State | None:
        known = [f for f in states if f is not None]
        if len({tuple(sorted((a, i) for a, i in f.axes.items() if a in self.rows)) for f in known}) != 1:
            return None  # values of different rows are combined
        if len({tuple(sorted(f.axes.items())) for f in known if f.kind == _HAS}) > 1:
            return None
        kind, out = _ANY, e.outvars[0].aval.dtype
        if dtypes.is_float(out):
            if e.primitive in _PROPAGATE_NAN or e.primitive is prims.convert_element_type_p and out.itemsize > 1 \
                    and dtypes.is_float(e.invars[0].aval.dtype):
                # One operand that is NaN is enough.
                kind = max(f.kind for f in known)
            elif e.primitive is prims.select_p:
                # Either branch may be chosen, and an unknown one promises nothing.
                kind = min(f.kind if f is not None else _ANY for f in states[1:])
        is_open = kind != _ALL and any(f.open for f in known)
        axes = next(f.axes for f in known if kind != _HAS or f.kind == _HAS)
        return self.make_state(kind, is_open, axes)

    def transfer_sum(self, state: _State, axes: Sequence[int], ndim: int) -> _State | None:
        if any(i in axes for a, i in state.axes.items() if a in self.rows):
            return None  # the sum spans several rows
        # A sum over all of a row that has a NaN somewhere is NaN. Over a part of the row it need not be.
        whole = state.kind == _ALL or state.kind == _HAS and all(i in axes for a, i in state.axes.items() if a not in self.rows)
        left = [i for i in range(ndim) if i not in axes]
        at = {a: left.index(i) for a, i in state.axes.items() if a in self.rows}
        return self.make_state(_ALL if whole else _ANY, state.open and not whole, at)

    def make_state(self, kind: int, is_open: bool, axes: dict[int, int]) -> _State | None:
        if kind == _ANY and not is_open:
            return None
        return _State(kind, is_open, axes if kind == _HAS else {a: i for a, i in axes.items() if a in self.rows})


def _map_axes(e: Eqn) -> dict[int, int] | None:
    """Return axis of the operand -> axis of the result for primitives that only move axes; None for others.

    Axes of length 1 are left out if a reshape drops them.
    """
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
