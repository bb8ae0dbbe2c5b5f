"""Loops over slices along another axis than the first, without whole arrays turned around.

A scan reads and stacks slices along axis 0. Where another axis is the loop's, an array is transposed before it, and a stack
behind it: each a copy of the whole, beside the array. On CPUs the loop reads its slice from the array as it is, and writes it
into the result as that will be, where a slice lies in pieces that are long enough:

    v = transpose(u); y = scan(v)         in turn i:  v_i = transpose(u[:, i])
    w = transpose(y)                                  w[:, i] = transpose(y_i)
"""
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, prims, shaped

from .rows import I32, take_row

__all__ = ["LEAST", "WRITES", "slices_in_place"]

LEAST = 256  # bytes of a piece: those of shorter ones are read with much around them, in each turn

# Ops that loops are written with here, and one that goes: while a row of these is overridden, it is asked for what was written.
WRITES = frozenset((prims.broadcast_in_dim_p, prims.dynamic_slice_p, prims.dynamic_update_slice_p, prims.iota_p,
                    prims.reshape_p, prims.scan_p, prims.transpose_p))
_ZERO = Literal(np.int32(0), I32)


def slices_in_place(eqns: list[Eqn], outvars: Sequence[Any], fill: Callable[[Any], int]) -> list[Eqn]:
    """The same program, whose loops read and write along the axes as they are.

    Args:
      eqns: the equations, among them scans and transpositions.
      outvars: the results.
      fill: what an array of a type begins with that a loop writes.
    Returns:
      The equations; the same list where there is nothing to do.
    """
    turned = {e.outvars[0]: e for e in eqns if e.primitive is prims.transpose_p}
    uses = Counter([a for e in eqns for a in e.invars if a.__class__ is not Literal])
    uses.update([a for a in outvars if a.__class__ is not Literal])
    back = {e.invars[0]: e for e in turned.values() if uses[e.invars[0]] == 1}
    made: list[Eqn] = []
    gone: set[int] = set()  # transpositions that loops have taken over
    for e in eqns:
        if e.primitive is not prims.scan_p:
            made += [] if id(e) in gone else [e]
            continue
        n, carry = e.params["num_consts"] + e.params["num_carry"], e.params["num_carry"]
        reads = {i: turned[v] for i, v in enumerate(e.invars[n:])
                 if v.__class__ is not Literal and v in turned and id(turned[v]) not in gone
                 and _worth(turned[v].invars[0], turned[v].params["permutation"][0])}
        body = e.params["jaxpr"].jaxpr
        writes = {j: back[v] for j, v in enumerate(e.outvars[carry:])
                  if v in back and body.outvars[carry + j].__class__ is not Literal
                  and _worth(back[v].outvars[0], back[v].params["permutation"].index(0))}
        if not reads and not writes:
            made.append(e)
            continue
        made += _written(e, reads, writes, fill)
        gone |= set(map(id, writes.values()))
        uses.subtract([e.invars[n + i] for i in reads])
    if len(made) == len(eqns) and all(a is b for a, b in zip(made, eqns)):
        return eqns
    return [e for e in made if e.primitive is not prims.transpose_p or uses[e.outvars[0]] > 0]


def _worth(array: Any, axis: int) -> bool:
    """Whether slices along this axis are to be taken from, or put into, the array as it is."""
    aval = array.aval
    return array.__class__ is not Literal and math.prod(aval.shape[axis + 1:]) * aval.dtype.itemsize >= LEAST


def _written(e: Eqn, reads: dict[int, Eqn], writes: dict[int, Eqn], fill: Callable[[Any], int]) -> list[Eqn]:
    """The scan that takes slices of what these transpositions read, and makes what those give."""
    p, body, source = e.params, e.params["jaxpr"], e.source
    jaxpr: Jaxpr = body.jaxpr
    held, carry = p["num_consts"], p["num_carry"]
    n = held + carry
    turn, numbers = Var(I32), Var(shaped((p["length"],), I32.dtype))
    before = [Eqn(prims.iota_p, [], [numbers], {"dtype": I32.dtype, "shape": (p["length"],), "dimension": 0}, source)]
    arrays = {t.invars[0]: Var(t.invars[0].aval) for t in reads.values()}
    eqns: list[Eqn] = []
    for i, t in reads.items():
        array, (axis, *rest) = t.invars[0], t.params["permutation"]
        order = tuple([a - (a > axis) for a in rest])
        x = jaxpr.invars[n + i]
        row: Any = x
        if order != tuple(range(len(order))):
            row = Var(shaped(_without(array.aval.shape, axis), x.aval.dtype))
        eqns += take_row(arrays[array], axis, turn, row, source)
        if row is not x:
            eqns.append(Eqn(prims.transpose_p, [row], [x], {"permutation": order}, source))
    eqns += jaxpr.eqns
    starts, buffers, ends = [], [], []
    for j, t in writes.items():
        y, whole, order = jaxpr.outvars[carry + j], t.outvars[0], t.params["permutation"]
        axis = order.index(0)
        start, buffer, end = [Var(whole.aval) for _ in range(3)]
        number = Literal(np.asarray(fill(whole.aval), whole.aval.dtype)[()], shaped((), whole.aval.dtype))
        before.append(Eqn(prims.broadcast_in_dim_p, [number], [start], {"shape": whole.aval.shape, "broadcast_dimensions": ()},
                          source))
        shape = whole.aval.shape
        thin = Var(shaped((*shape[:axis], 1, *shape[axis + 1:]), whole.aval.dtype))
        order = tuple([a - 1 for a in order if a])
        if order != tuple(range(len(order))):
            row = Var(shaped(_without(shape, axis), whole.aval.dtype))
            eqns.append(Eqn(prims.transpose_p, [y], [row], {"permutation": order}, source))
            y = row
        eqns += [Eqn(prims.reshape_p, [y], [thin], {"new_sizes": thin.aval.shape, "dimensions": None}, source),
                 Eqn(prims.dynamic_update_slice_p, [buffer, thin, *[turn if a == axis else _ZERO for a in range(len(shape))]],
                     [end], {}, source)]
        starts.append(start)
        buffers.append(buffer)
        ends.append(end)

    def others(values: Sequence[Any], taken: dict[int, Eqn]) -> list[Any]:
        return [v for i, v in enumerate(values) if i not in taken]

    new = Jaxpr(jaxpr.constvars, [*jaxpr.invars[:held], *arrays.values(), *jaxpr.invars[held:n], *buffers,
                                  *others(jaxpr.invars[n:], reads), turn], eqns,
                [*jaxpr.outvars[:carry], *ends, *others(jaxpr.outvars[carry:], writes)])
    params = {**p, "jaxpr": ClosedJaxpr(new, body.consts), "num_consts": held + len(arrays), "num_carry": carry + len(buffers)}
    ins = [*e.invars[:held], *arrays, *e.invars[held:n], *starts, *others(e.invars[n:], reads), numbers]
    outs = [*e.outvars[:carry], *[t.outvars[0] for t in writes.values()], *others(e.outvars[carry:], writes)]
    return [*before, e.replace(invars=ins, outvars=outs, params=params)]


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1:])
