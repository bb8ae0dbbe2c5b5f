"""Rows of arrays: values that are one index of an array along one axis, as `weights[3]`, and additions to such rows.

A rolled loop reads row k of an array in iteration k. So equations that only read rows are moved out of the repeated
code. An equation may add an array of zeros except for one row, as the backward half of `weights[3]` does. It is
rewritten to add to that row only.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lamina_ir import Atom, Eqn, Literal, Source, Var, prims, shaped

__all__ = ["I32", "RowRef", "VIEW_PRIMITIVES", "hoist_row_reads", "read_row", "reuse_stacked_arrays", "stack_values"]

I32 = shaped((), np.dtype("int32"))
# operations that extract rows, and embed them
VIEW_PRIMITIVES = (prims.slice_p, prims.pad_p, prims.squeeze_p, prims.expand_dims_p, prims.reshape_p)
_ZERO = Literal(0, I32)


class RowRef(NamedTuple):
    """A value that is index `at` of `array` along `axis`, without that axis."""

    array: Any
    axis: int
    at: int


def hoist_row_reads(eqns: Sequence[Eqn], outvars: Sequence[Atom]) -> tuple[list[Eqn], dict[Atom, RowRef]]:
    """Return the program with additions to rows rewritten and row reads moved directly after their array, and the row
    of each value.

    Takes linear time.
    """
    eqns = _rewrite_row_additions(eqns, outvars)
    made_at = {v: i for i, e in enumerate(eqns) for v in e.outvars}
    slices: dict[Atom, RowRef] = {}
    rows: dict[Atom, RowRef] = {}
    # index of the equation that computes an array -> the equations that read its rows
    reads_after: dict[int, list[Eqn]] = {}
    rest = []
    for i, e in enumerate(eqns):
        # A row read is two equations: a slice of length 1, and a squeeze of that axis. Only the squeezed value is a
        # row.
        row = _match_squeeze(e, slices)
        if row is not None:
            rows[e.outvars[0]] = row
        else:
            row = _match_slice(e)
            if row is not None:
                slices[e.outvars[0]] = row
        if row is None:
            rest.append(i)
        else:
            # Directly after its array the read is in no group of repeated calls, so it cannot interrupt their
            # pattern. -1: the array is an input.
            reads_after.setdefault(made_at.get(row.array, -1), []).append(e)
    if not reads_after:
        return list(eqns), rows
    out = reads_after.get(-1, [])
    for i in rest:
        out.append(eqns[i])
        out += reads_after.get(i, ())
    return out, rows


def _drop_axis(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1:])


def _match_slice(e: Eqn) -> RowRef | None:
    """Return the row that a slice reads, if its result has length 1 along one axis and is complete along the others."""
    if e.primitive is prims.slice_p:
        starts = e.params["start_indices"]
    elif e.primitive is prims.pad_p and all(
            low <= 0 and high <= 0 and not inner for low, high, inner in e.params["padding_config"]):
        starts = [-low for low, _, _ in e.params["padding_config"]]  # the transpose of an addition to a row
    else:
        return None
    whole, part = e.invars[0].aval.shape, e.outvars[0].aval.shape
    axes = [a for a, (n, m) in enumerate(zip(whole, part)) if n != m]
    return RowRef(e.invars[0], axes[0], starts[axes[0]]) if len(axes) == 1 and part[axes[0]] == 1 else None


def _match_squeeze(e: Eqn, slices: dict[Atom, RowRef]) -> RowRef | None:
    """Return the row whose axis of length 1 is dropped here."""
    if e.primitive is not prims.squeeze_p and (e.primitive is not prims.reshape_p or e.params["dimensions"] is not None):
        return None
    row = slices.get(e.invars[0])
    return row if row is not None and e.outvars[0].aval.shape == _drop_axis(row.array.aval.shape, row.axis) else None


def _rewrite_row_additions(eqns: Sequence[Eqn], outvars: Sequence[Atom]) -> Sequence[Eqn]:
    """Rewrite `add(whole, pad(row, 0))` as a read, an addition and a write of the row, if nothing else reads the padded
    row."""
    padded: dict[Atom, tuple[int, Eqn, int]] = {}
    for i, e in enumerate(eqns):
        axis = _find_row_axis(e) if e.primitive is prims.pad_p else None
        if axis is not None:
            padded[e.outvars[0]] = i, e, axis
    if not padded:
        return eqns
    # If something else reads the padded row, it must be computed in any case, and nothing is saved.
    reads: dict[Atom, int] = {}
    for v in [*[v for e in eqns for v in e.invars], *outvars]:
        if v in padded:
            reads[v] = reads.get(v, 0) + 1
    out: list[Eqn] = []
    replaced: set[Atom] = set()
    for e in eqns:
        found = [v for v in e.invars if reads.get(v) == 1] if e.primitive is prims.add_p else ()
        if not found or any(v.aval.shape != e.outvars[0].aval.shape for v in e.invars):
            out.append(e)
            continue
        one = max(found, key=lambda v: padded[v][0])  # of two padded rows the later one: the other is the sum so far
        _, pad, axis = padded[one]
        whole, row = e.invars[e.invars[0] is one], pad.invars[0]
        replaced.add(one)
        starts = [Literal(pad.params["padding_config"][a][0], I32) if a == axis else _ZERO for a in range(row.aval.ndim)]
        # whole + pad(row) touches all of `whole`: for n rows the gradient of a loop would take n * n row additions.
        # Only the row changes, so the work becomes linear.
        old, new = Var(row.aval), Var(row.aval)
        out += [Eqn(prims.dynamic_slice_p, [whole, *starts], [old], {"slice_sizes": row.aval.shape}, e.source),
                Eqn(prims.add_p, [old, row], [new], {}, e.source),
                Eqn(prims.dynamic_update_slice_p, [whole, new, *starts], e.outvars, {}, e.source)]
    return [e for e in out if not e.outvars or e.outvars[0] not in replaced]


def _find_row_axis(e: Eqn) -> int | None:
    """Return the axis along which a `pad` places one row among zeros."""
    value, shape = e.invars[1], e.invars[0].aval.shape
    if value.__class__ is not Literal or value.val != 0:
        return None
    config = e.params["padding_config"]
    if any(low < 0 or high < 0 or inner for low, high, inner in config):
        return None
    axes = [a for a, (low, high, _) in enumerate(config) if low or high]
    return axes[0] if len(axes) == 1 and shape[axes[0]] == 1 else None


def read_row(array: Atom, axis: int, index: Any, to: Var, source: Source | None) -> list[Eqn]:
    """Return equations that assign to `to` the row of `array` at `index`, an int or an int32 variable."""
    shape = array.aval.shape
    thin = Var(shaped((*shape[:axis], 1, *shape[axis + 1:]), to.aval.dtype))
    if index.__class__ is int:
        first = tuple([index if a == axis else 0 for a in range(len(shape))])
        piece = Eqn(prims.slice_p, [array], [thin], {
            "start_indices": first, "limit_indices": tuple([f + n for f, n in zip(first, thin.aval.shape)]), "strides": None},
            source)
    else:
        piece = Eqn(prims.dynamic_slice_p, [array, *[index if a == axis else _ZERO for a in range(len(shape))]], [thin],
                    {"slice_sizes": thin.aval.shape}, source)
    return [piece, Eqn(prims.reshape_p, [thin], [to], {"new_sizes": to.aval.shape, "dimensions": None}, source)]


def stack_values(values: Sequence[Atom], source: Source | None) -> tuple[list[Eqn], Var]:
    """Return equations that stack values of one type, and the stacked array."""
    aval = values[0].aval
    thin = [Var(shaped((1, *aval.shape), aval.dtype)) for _ in values]
    array = Var(shaped((len(values), *aval.shape), aval.dtype))
    one_each = [Eqn(prims.reshape_p, [v], [t], {"new_sizes": t.aval.shape, "dimensions": None}, source)
                for v, t in zip(values, thin)]
    return [*one_each, Eqn(prims.concatenate_p, thin, [array], {"dimension": 0}, source)], array


def reuse_stacked_arrays(eqns: Sequence[Eqn], rows: dict[Atom, RowRef], least: int) -> list[Eqn]:
    """Replace the concatenation of at least `least` consecutive rows of one array by a slice of that array."""
    joins = [e for e in eqns if e.primitive is prims.concatenate_p and len(e.invars) >= least]
    if not joins:
        return list(eqns)
    wanted = {v for e in joins for v in e.invars}
    unexpanded: dict[Atom, Atom] = {e.outvars[0]: e.invars[0] for e in eqns if e.outvars and e.outvars[0] in wanted and (
        e.primitive is prims.expand_dims_p or e.primitive is prims.reshape_p and e.params["dimensions"] is None)}
    out: list[Eqn] = []
    for e in eqns:
        if e.primitive is not prims.concatenate_p or len(e.invars) < least:
            out.append(e)
            continue
        d = e.params["dimension"]
        parts: list[tuple[RowRef | None, list[Atom]]] = []  # (first row of the part or None, operands)
        for v in e.invars:
            row = rows.get(v) or rows.get(unexpanded.get(v, v))
            shape = v.aval.shape
            # Consecutive rows along axis 0 are one slice. Each operand must be its row with an axis of length 1 at
            # `d`.
            if row is not None and (row.axis or shape[d] != 1 or row.array.aval.size // row.array.aval.shape[0] != v.aval.size
                                    or row.array.aval.shape[1:] not in (shape, _drop_axis(shape, d))):
                row = None
            first, found = parts[-1] if parts else (None, [])
            if row is not None and first is not None and row == first._replace(at=first.at + len(found)):
                found.append(v)
            else:
                parts.append((row, [v]))
        ins = []
        for row, found in parts:
            if row is None or len(found) < least:
                ins += found
                continue
            shape = _drop_axis(found[0].aval.shape, d)
            n, whole = len(found), row.array.aval.shape
            piece, flat = Var(shaped((n, *whole[1:]), row.array.aval.dtype)), Var(shaped((n, *shape), row.array.aval.dtype))
            part = Var(shaped((*shape[:d], n, *shape[d:]), row.array.aval.dtype))
            starts = (row.at, *[0] * (len(whole) - 1))
            order = (*range(1, d + 1), 0, *range(d + 1, flat.aval.ndim))
            out += [Eqn(prims.slice_p, [row.array], [piece], {
                        "start_indices": starts, "limit_indices": (row.at + n, *whole[1:]), "strides": None}, e.source),
                    Eqn(prims.reshape_p, [piece], [flat], {"new_sizes": flat.aval.shape, "dimensions": None}, e.source),
                    Eqn(prims.transpose_p, [flat], [part], {"permutation": order}, e.source)]
            ins.append(part)
        out.append(e.replace(invars=ins))
    return out
