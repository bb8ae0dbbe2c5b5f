"""Transpose rules of indexing primitives: a read transposes to an addition, a write to a read and a clearing."""
from __future__ import annotations

import numpy as np
from lamina_ir import MissingRuleError, prims, ShapedArray
from lamina_ir.prims import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from lamina_ir.typing import ParamValue, Value
from lamina_tracing import lax
from lamina_tracing.extend import bind

from ..extend import is_linear
from .._engine.rule_tables import transpose_rules
from .._typing import Cotangents

__all__: list[str] = []


def _zeros(aval: ShapedArray) -> Value:
    zero = np.zeros((), aval.dtype)[()]
    return lax.broadcast_in_dim(zero, aval.shape, ()) if aval.shape else zero


def dynamic_slice_transpose(ct: Value, x: Value, *starts: Value, slice_sizes: tuple[int, ...]) -> Cotangents:
    # y = P x selects the window. x* = P^T y*: the window written into zeros.
    out = bind(prims.dynamic_update_slice_p, _zeros(x.aval), ct, *starts)
    return (out, *(None for _ in starts)) if starts else out


def dynamic_update_slice_transpose(ct: Value, x: Value, update: Value, *starts: Value) -> Cotangents:
    # y is u inside the window and x outside: x* is y* with zeros in the window, u* is y* inside the window.
    shape, dtype = update.shape, ct.dtype
    ct_x = ct_update = None
    if is_linear(x):
        zero = np.zeros((), dtype)[()]
        cleared = lax.broadcast_in_dim(zero, shape, ()) if shape else zero
        ct_x = bind(prims.dynamic_update_slice_p, ct, cleared, *starts)
    if is_linear(update):
        ct_update = bind(prims.dynamic_slice_p, ct, *starts, slice_sizes=tuple(shape))
    return ct_x, ct_update, *(None for _ in starts)


def gather_transpose(ct: Value, x: Value, indices: Value, *, dimension_numbers: ParamValue, fill_value: ParamValue,
                     indices_are_sorted: bool, mode: ParamValue, slice_sizes: tuple[int, ...],
                     unique_indices: bool) -> Cotangents:
    # An element that is read several times gets the sum of the cotangents.
    out = bind(prims.scatter_add_p, _zeros(x.aval), indices, ct, mode=mode, unique_indices=unique_indices,
               indices_are_sorted=indices_are_sorted, dimension_numbers=ScatterDimensionNumbers(*dimension_numbers))
    return out, None


def _read(ct: Value, indices: Value, updates: Value, *, dimension_numbers: ParamValue, indices_are_sorted: bool,
          mode: ParamValue, unique_indices: bool) -> Value:
    """Gather the cotangents at the positions of the updates; zero for updates that are out of bounds."""
    if 0 in ct.shape:
        return _zeros(updates.aval)
    window, inserted, index_map, x_batch, i_batch = dimension_numbers
    lengths = iter([updates.shape[a] for a in window])
    sizes = tuple(1 if a in inserted + x_batch else next(lengths) for a in range(len(ct.shape)))
    return bind(prims.gather_p, ct, indices, slice_sizes=sizes, mode=mode, unique_indices=unique_indices,
                fill_value=0 if mode is GatherScatterMode.FILL_OR_DROP else None,
                indices_are_sorted=indices_are_sorted,
                dimension_numbers=GatherDimensionNumbers(window, inserted, index_map, x_batch, i_batch))


def scatter_add_transpose(ct: Value, x: Value, indices: Value, updates: Value, **p: ParamValue) -> Cotangents:
    return ct if is_linear(x) else None, None, _read(ct, indices, updates, **p) if is_linear(updates) else None


def scatter_transpose(ct: Value, x: Value, indices: Value, updates: Value, **p: ParamValue) -> Cotangents:
    # Overwritten elements of x do not occur in the result: x* is zero there.
    ct_x = ct_updates = None
    if is_linear(x):
        zero = np.zeros((), ct.dtype)[()]
        cleared = lax.broadcast_in_dim(zero, updates.shape, ()) if updates.shape else zero
        ct_x = bind(prims.scatter_p, ct, indices, cleared, **p)
    if is_linear(updates):
        if not p["unique_indices"]:
            raise MissingRuleError("transpose of `scatter`: the updates' cotangent is known only if no two windows "
                                   "overlap; pass unique_indices=True, or differentiate instead (jvp determines which "
                                   "update was written)")
        ct_updates = _read(ct, indices, updates, **p)
    return ct_x, None, ct_updates


def scatter_mul_transpose(ct: Value, x: Value, indices: Value, updates: Value, **p: ParamValue) -> Cotangents:
    if is_linear(x):
        return bind(prims.scatter_mul_p, ct, indices, updates, **p), None, None
    if not p["unique_indices"]:
        raise MissingRuleError("transpose of `scatter_mul`: linear in its updates only when no two windows overlap; "
                               "pass unique_indices=True")
    # y = x u in the windows, so u* = x y* there.
    return None, None, _read(lax.mul(ct, x), indices, updates, **p)


transpose_rules.define(prims.dynamic_slice_p, dynamic_slice_transpose)
transpose_rules.define(prims.dynamic_update_slice_p, dynamic_update_slice_transpose)
transpose_rules.define(prims.gather_p, gather_transpose)
transpose_rules.define(prims.scatter_p, scatter_transpose)
transpose_rules.define(prims.scatter_add_p, scatter_add_transpose)
transpose_rules.define(prims.scatter_mul_p, scatter_mul_transpose)
transpose_rules.declare_missing(prims.scatter_min_p, "not linear; its derivative is built from scatter_add")
transpose_rules.declare_missing(prims.scatter_max_p, "not linear; its derivative is built from scatter_add")
