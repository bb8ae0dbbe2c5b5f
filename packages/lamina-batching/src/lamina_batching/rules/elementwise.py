"""Batching rules of elementwise primitives: align the batch axes of the operands and apply the primitive."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from lamina_ir import Primitive, prims
from lamina_ir.typing import Function, ParamValue, Value
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof

from ..extend import BatchAxis, move_axis
from ..tables import batching_rules

__all__: list[str] = []


def make_elementwise_rule(prim: Primitive) -> Function:
    """Return the batching rule of an elementwise primitive with one result, built-in or third-party."""
    def rule(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None], /,
             **params: ParamValue) -> tuple[Value, int | None]:
        if len(args) == 1:
            return bind(prim, args[0], **params), dims[0]
        if len(args) == 2:  # fast path for the two common cases
            (x, y), (dx, dy) = args, dims
            if dy is None:
                if not getattr(y, "shape", ()):
                    return bind(prim, x, y, **params), dx
            # Equal ranks: a rank-0 operand that is batched has the batch as only axis, and would not broadcast.
            elif dx == dy and len(x.shape) == len(y.shape):
                return bind(prim, x, y, **params), dx
        args, at = align_operands(axis, args, dims)
        return bind(prim, *args, **params), at
    return rule


def align_operands(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None]) -> tuple[list[Value], int]:
    """Align the operands: return operands of equal shape (or rank 0), and their batch axis."""
    shapes = [typeof(a).shape for a in args]
    rank = max(len(s) - (d is not None) for s, d in zip(shapes, dims))  # of the result, without the batch axis
    at = next((d for s, d in zip(shapes, dims) if d is not None and len(s) == rank + 1), 0)
    if all(not s if d is None else d == at and len(s) == rank + 1 for s, d in zip(shapes, dims)):
        return list(args), at
    inner = next(s if d is None else s[:d] + s[d + 1:] for s, d in zip(shapes, dims)
                 if len(s) - (d is not None) == rank)
    full = (*inner[:at], axis.size, *inner[at:])
    out = []
    for a, s, d in zip(args, shapes, dims):
        if d is not None and len(s) == rank + 1:
            a = a if d == at else move_axis(a, d, at)
        elif d is not None:  # rank 0 per example: [n] -> [n, ...]
            a = lax.broadcast_in_dim(a, full, (at,))
        elif s:
            a = lax.broadcast_in_dim(a, full, tuple(k for k in range(len(full)) if k != at))
        out.append(a)
    return out, at


def bitcast_convert_type_batching(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int], *,
                                  new_dtype: np.dtype) -> tuple[Value, int]:
    """Move the batch axis first: the conversion may add or remove the last axis."""
    return lax.bitcast_convert_type(move_axis(args[0], dims[0], 0), new_dtype), 0


for _prim in prims.ALL:
    if _prim.elementwise and _prim.family == "elementwise":
        batching_rules.define(_prim, make_elementwise_rule(_prim))

batching_rules.define(prims.bitcast_convert_type_p, bitcast_convert_type_batching)
