"""Let loops read and write slices along any axis in place, without transposing or slicing whole arrays around the loop.

A scan reads and stacks slices along axis 0. If the loop is over another axis, the program transposes an array before
the scan, or the stack after it: each time a copy of the whole array. On CPUs, the slice may consist of long enough
contiguous pieces. Then the loop reads it from the original array, and writes it to its final position:

    v = transpose(u); y = scan(v)         in iteration i:  v_i = transpose(u[:, i])
    w = transpose(y)                                       w[:, i] = transpose(y_i)

The same applies to nested loops: the inner loop reads `u[i, j]` and writes `w[i, j]`, and no slice of the outer loop is
copied.

    y = scan(u) of y_i = scan(u_i)        in iteration i of the outer loop, j of the inner one:  w[i, j] = f(u[i, j])
"""
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from lamina_ir import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, ShapedArray, Source, Var, prims, shaped

from .row_slices import I32

__all__ = ["MIN_PIECE_BYTES", "REWRITTEN_PRIMITIVES", "slice_in_place"]

_T = TypeVar("_T")

# Minimum bytes of a contiguous piece. Reading shorter ones touches much memory around them in each iteration.
MIN_PIECE_BYTES = 256

# Primitives that this pass emits or removes. If a rule of one of these is overridden, the pass is skipped, so that
# the rule sees the program as it was written.
REWRITTEN_PRIMITIVES = frozenset((prims.broadcast_in_dim_p, prims.dynamic_slice_p, prims.dynamic_update_slice_p, prims.iota_p,
                    prims.reshape_p, prims.scan_p, prims.transpose_p))
_VIEWS = (prims.transpose_p, prims.reshape_p, prims.dynamic_slice_p)
_ZERO = Literal(np.int32(0), I32)


class _View(NamedTuple):
    """How a value is part of an array: `array` at the indices `at` (dimension -> index), with the array's other
    dimensions in `order`."""

    array: Any
    at: dict[int, Atom]
    order: tuple[int, ...]

    @property
    def is_contiguous(self) -> bool:
        """Whether slices along the value's first axis consist of long enough contiguous pieces."""
        aval = self.array.aval
        # In iteration i the axis order[0] has index i, and the axes in `at` have theirs. All dimensions after the
        # last of these are contiguous in row-major order.
        last = max([self.order[0], *self.at])
        return math.prod(aval.shape[last + 1:]) * aval.dtype.itemsize >= MIN_PIECE_BYTES

    @property
    def is_whole(self) -> bool:
        return not self.at and self.order == tuple(range(len(self.order)))


class _Write(NamedTuple):
    """Where a loop writes a stack.

    Attributes:
      view: the position of the stack in its target array.
      into: the array that is updated; None if a new array is created.
      end: the variable of the result.
      replaced: the equations that the loop replaces.
    """

    view: _View
    into: Atom | None
    end: Any
    replaced: list[Eqn]


def slice_in_place(eqns: list[Eqn], outvars: Sequence[Atom], fill: Callable[[ShapedArray], int]) -> list[Eqn]:
    """Return the same program with loops that read and write slices in place.

    Args:
      eqns: the equations, among them scans.
      outvars: the results.
      fill: returns the initial value of an array that a loop writes, for its type.
    Returns:
      The equations; the same list if nothing changes.
    """
    flow = _Flow(eqns, outvars)
    made: list[Eqn] = []
    gone: set[int] = set()  # ids of equations that loops have replaced
    changed = False
    for k, e in enumerate(eqns):
        if id(e) in gone:
            continue
        if e.primitive is prims.scan_p:
            reads, writes = _find_reads(e, flow), _find_writes(e, k, flow)
            if reads or writes:
                made += _rewrite_scan(e, reads, writes, fill)
                gone.update([id(g) for w in writes.values() for g in w.replaced])
                changed = True
                continue
        made.append(e)
    return _drop_unread_views(made, outvars) if changed else eqns


class _Flow:
    """The equations that compute and read each value of a program."""

    def __init__(self, eqns: Sequence[Eqn], outvars: Sequence[Atom]) -> None:
        self.made: dict[Atom, Eqn] = {}
        self.made_at: dict[Atom, int] = {}
        self.reader: dict[Atom, Eqn] = {}
        self.uses: Counter[Atom] = Counter([a for a in outvars if a.__class__ is not Literal])
        for k, e in enumerate(eqns):
            self.made.update(dict.fromkeys(e.outvars, e))
            self.made_at.update(dict.fromkeys(e.outvars, k))
            own = [a for a in e.invars if a.__class__ is not Literal]
            self.uses.update(own)
            self.reader.update(dict.fromkeys(own, e))

    def view_of(self, v: Atom) -> _View:
        """Return the array of which a value is a part, looking through transposes and indexing."""
        e = self.made.get(v)
        if e is not None and e.primitive is prims.transpose_p and e.invars[0].__class__ is not Literal:
            found = self.view_of(e.invars[0])
            return found._replace(order=tuple([found.order[a] for a in e.params["permutation"]]))
        if e is not None and e.primitive is prims.reshape_p and e.params["dimensions"] is None:
            piece = self.made.get(e.invars[0])
            if piece is not None and piece.primitive is prims.dynamic_slice_p:
                array, *starts = piece.invars
                at = _find_indices(array, piece.params["slice_sizes"], starts, v.aval.shape)
                if at is not None:
                    return _View(array, at, _complement(array, at))
        return _View(v, {}, tuple(range(v.aval.ndim)))

    def find_target(self, y: Atom, before: int) -> _Write:
        """Return where the stack `y` is written, looking through transposes and updates. Equation number `before`
        computes it."""
        z, order, gone = y, tuple(range(y.aval.ndim)), []  # dimension k of z is dimension order[k] of y
        # Another reader would need the stack itself, so the chain must be the only use.
        while self.uses[z] == 1 and z in self.reader:
            e = self.reader[z]
            if e.primitive is prims.transpose_p:
                order = tuple([order[a] for a in e.params["permutation"]])
                gone.append(e)
                z = e.outvars[0]
                continue
            end = self.reader.get(e.outvars[0]) if e.primitive is prims.reshape_p and e.params["dimensions"] is None else None
            if end is None or end.primitive is not prims.dynamic_update_slice_p or self.uses[e.outvars[0]] != 1:
                break
            # The loop takes the place of the update. So the updated array and the indices must exist before the loop,
            # and nothing else may read the array: it is updated in place.
            whole, piece, *starts = end.invars
            if piece is not e.outvars[0] or whole is piece or self.uses[whole] != 1 or any(
                    self.made_at.get(a, -1) >= before for a in (whole, *starts) if a.__class__ is not Literal):
                break
            at = _find_indices(whole, piece.aval.shape, starts, z.aval.shape)
            if at is None:
                break
            free = _complement(whole, at)
            return _Write(_View(whole, at, tuple([free[order.index(a)] for a in range(len(order))])), whole, end.outvars[0],
                          [*gone, e, end])
        # `order` maps dimensions of z to those of y; a view needs the inverse.
        return _Write(_View(z, {}, tuple([order.index(a) for a in range(len(order))])), None, z, gone)

    def mark_replaced(self, write: _Write, k: int) -> None:
        """Record that the loop, equation number k, performs the write itself."""
        for e in write.replaced:
            self.made.pop(e.outvars[0])
        self.made_at[write.end] = k


def _find_indices(array: Atom, sizes: Sequence[int], starts: Sequence[Atom],
                  left: Sequence[int]) -> dict[int, Atom] | None:
    """Return the dimensions of which a slice of these sizes has a single index, with the index.

    None if another dimension is not complete, or if the remaining shape is not `left`.
    """
    if array.__class__ is Literal or any(a.aval.dtype != I32.dtype for a in starts):
        return None
    shape = array.aval.shape
    # A dimension of length 1 is complete either way and counts as such.
    at = {d: a for d, (a, n, m) in enumerate(zip(starts, sizes, shape)) if n == 1 < m}
    whole = all(n == m for d, (n, m) in enumerate(zip(sizes, shape)) if d not in at)
    return at if whole and tuple([n for d, n in enumerate(sizes) if d not in at]) == tuple(left) else None


def _complement(array: Atom, at: Iterable[int]) -> tuple[int, ...]:
    return tuple([d for d in range(array.aval.ndim) if d not in at])


def _find_reads(e: Eqn, flow: _Flow) -> dict[int, _View]:
    """Return the inputs that a loop can read in place: position among the scanned inputs -> view of its array."""
    n, body = e.params["num_consts"] + e.params["num_carry"], e.params["jaxpr"].jaxpr
    inside = _nested_loops(e)
    found = {i: flow.view_of(v) for i, v in enumerate(_scanned_operands(e)) if v.__class__ is not Literal}
    # A whole array along axis 0 is what `scan` reads anyway. It is still read in place if a loop inside scans its
    # slices: then that loop reads the array itself.
    return {i: place for i, place in found.items()
            if place.is_contiguous and (not place.is_whole or body.invars[n + i] in inside[0])}


def _find_writes(e: Eqn, k: int, flow: _Flow) -> dict[int, _Write]:
    """Return the outputs that a loop can write in place: position among the stacked outputs -> target."""
    carry, body = e.params["num_carry"], e.params["jaxpr"].jaxpr
    inside = _nested_loops(e)
    found = {}
    for j, y in enumerate(e.outvars[carry:]):
        v = body.outvars[carry + j]
        if v.__class__ is not Literal and flow.uses[y]:
            write = flow.find_target(y, k)
            if write.view.is_contiguous and (write.into is not None or not write.view.is_whole or v in inside[1]):
                found[j] = write
    for write in found.values():
        flow.mark_replaced(write, k)
    return found


def _scanned_operands(e: Eqn) -> Sequence[Atom]:
    return e.invars[e.params["num_consts"] + e.params["num_carry"]:]


def _nested_loops(e: Eqn) -> tuple[set[Atom], set[Atom]]:
    """Return the body's values that nested loops scan (also transposed), and the stacks that they compute."""
    closed = e.params["jaxpr"]
    return closed.memo("lowering: loops inside", lambda: _find_nested_loops(closed.jaxpr))


def _find_nested_loops(jaxpr: Jaxpr) -> tuple[set[Atom], set[Atom]]:
    loops = [e for e in jaxpr.eqns if e.primitive is prims.scan_p]
    if not loops:
        return set(), set()
    flow, inputs = _Flow(jaxpr.eqns, jaxpr.outvars), {*jaxpr.invars}
    read, stacked = set(), set()
    for e in loops:
        places = [flow.view_of(v) for v in _scanned_operands(e) if v.__class__ is not Literal]
        read.update([p.array for p in places if p.array in inputs and p.is_contiguous])
        targets = [flow.find_target(y, -1) for y in e.outvars[e.params["num_carry"]:]]
        stacked.update([w.end for w in targets if w.into is None and w.view.is_contiguous and flow.uses[w.end] == 1])
    return read, stacked


def _rewrite_scan(e: Eqn, reads: Mapping[int, _View], writes: Mapping[int, _Write],
                  fill: Callable[[ShapedArray], int]) -> list[Eqn]:
    """Return the scan that reads its inputs from the arrays in `reads`, and writes its outputs into the targets in
    `writes`."""
    p, body, source = e.params, e.params["jaxpr"], e.source
    jaxpr: Jaxpr = body.jaxpr
    held, carry = p["num_consts"], p["num_carry"]
    n = held + carry
    iteration, indices = Var(I32), Var(shaped((p["length"],), I32.dtype))
    before = [Eqn(prims.iota_p, [], [indices], {"dtype": I32.dtype, "shape": (p["length"],), "dimension": 0}, source)]
    places = [*reads.values(), *[w.view for w in writes.values()]]
    # Arrays and indices that the body reads now become constants of the loop; written arrays become carries.
    outer = dict.fromkeys([r.array for r in reads.values()])
    outer.update(dict.fromkeys([a for place in places for a in place.at.values() if a.__class__ is not Literal]))
    own: dict[Atom, Any] = {v: Var(v.aval) for v in outer}  # inside

    def at(place: _View) -> dict[int, Atom]:
        """Return the indices of an iteration's slice."""
        return {place.order[0]: iteration, **{d: a if a.__class__ is Literal else own[a] for d, a in place.at.items()}}

    eqns: list[Eqn] = []
    for i, place in reads.items():
        eqns += _read_slice(own[place.array], at(place), place.order[1:], jaxpr.invars[n + i], source)
    eqns += jaxpr.eqns
    starts, buffers, ends = [], [], []
    for j, write in writes.items():
        aval = write.end.aval
        start, buffer, end = write.into, Var(aval), Var(aval)
        if start is None:
            # A new array is filled with a number before the loop. All its elements are overwritten.
            start, number = Var(aval), Literal(np.asarray(fill(aval), aval.dtype)[()], shaped((), aval.dtype))
            before.append(Eqn(prims.broadcast_in_dim_p, [number], [start], {"shape": aval.shape, "broadcast_dimensions": ()},
                              source))
        eqns += _write_slice(jaxpr.outvars[carry + j], write.view.order[1:], buffer, at(write.view), end, source)
        starts.append(start)
        buffers.append(buffer)
        ends.append(end)

    def others(values: Sequence[_T], taken: Mapping[int, object]) -> list[_T]:
        return [v for i, v in enumerate(values) if i not in taken]

    new = Jaxpr(jaxpr.constvars, [*jaxpr.invars[:held], *own.values(), *jaxpr.invars[held:n], *buffers,
                                  *others(jaxpr.invars[n:], reads), iteration], eqns,
                [*jaxpr.outvars[:carry], *ends, *others(jaxpr.outvars[carry:], writes)])
    params = {**p, "jaxpr": ClosedJaxpr(new, body.consts), "num_consts": held + len(own), "num_carry": carry + len(buffers)}
    ins = [*e.invars[:held], *own, *e.invars[held:n], *starts, *others(e.invars[n:], reads), indices]
    outs = [*e.outvars[:carry], *[w.end for w in writes.values()], *others(e.outvars[carry:], writes)]
    return [*before, e.replace(invars=ins, outvars=outs, params=params)]


def _read_slice(array: Atom, at: Mapping[int, Atom], order: Sequence[int], to: Var, source: Source | None) -> list[Eqn]:
    """Return equations that assign to `to` the array at these indices, with its other dimensions in this order."""
    rest, shape = _complement(array, at), array.aval.shape
    thin = Var(shaped(tuple([1 if d in at else m for d, m in enumerate(shape)]), to.aval.dtype))
    turned = tuple(order) != rest
    row = Var(shaped(tuple([shape[d] for d in rest]), to.aval.dtype)) if turned else to
    eqns = [Eqn(prims.dynamic_slice_p, [array, *[at.get(d, _ZERO) for d in range(len(shape))]], [thin],
                {"slice_sizes": thin.aval.shape}, source),
            Eqn(prims.reshape_p, [thin], [row], {"new_sizes": row.aval.shape, "dimensions": None}, source)]
    if turned:
        eqns.append(Eqn(prims.transpose_p, [row], [to], {"permutation": tuple([rest.index(d) for d in order])}, source))
    return eqns


def _write_slice(y: Atom, order: Sequence[int], array: Atom, at: Mapping[int, Atom], end: Var,
                 source: Source | None) -> list[Eqn]:
    """Return equations that write `y` into an array at these indices; its dimensions are the array's in this order."""
    rest, shape = _complement(array, at), array.aval.shape
    eqns = []
    if tuple(order) != rest:
        row = Var(shaped(tuple([shape[d] for d in rest]), array.aval.dtype))
        eqns.append(Eqn(prims.transpose_p, [y], [row], {"permutation": tuple([order.index(d) for d in rest])}, source))
        y = row
    thin = Var(shaped(tuple([1 if d in at else m for d, m in enumerate(shape)]), array.aval.dtype))
    return [*eqns, Eqn(prims.reshape_p, [y], [thin], {"new_sizes": thin.aval.shape, "dimensions": None}, source),
            Eqn(prims.dynamic_update_slice_p, [array, thin, *[at.get(d, _ZERO) for d in range(len(shape))]], [end], {}, source)]


def _drop_unread_views(eqns: list[Eqn], outvars: Sequence[Atom]) -> list[Eqn]:
    """Drop transposes and slices that nothing reads any more."""
    read: set[Atom] = {a for a in outvars if a.__class__ is not Literal}
    kept = []
    # Backwards, so that a chain of views without a reader is dropped as a whole.
    for e in reversed(eqns):
        if e.primitive in _VIEWS and e.outvars[0] not in read:
            continue
        kept.append(e)
        read.update([a for a in e.invars if a.__class__ is not Literal])
    return kept[::-1]
