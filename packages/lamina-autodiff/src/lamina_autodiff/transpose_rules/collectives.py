"""Transpose rules of collectives: transposes of the linear map from the operands of all members to all results.

So `psum` transposes to `psum`, and `all_gather` to `psum_scatter`. Over axes where a replicated value counts once
(`is_counted_once`), the result of `psum` or `all_gather` is one value with one cotangent. Then the transpose passes this
cotangent, or the member's part of it, to each member without a sum.
"""
from __future__ import annotations

import numpy as np
from lamina_ir import prims
from lamina_ir.extend import split_axis_names
from lamina_tracing import lax
from lamina_tracing.extend import bind, is_counted_once

from .._engine.linearize import is_linear
from .._engine.rule_tables import transpose_rules

__all__: list[str] = []


def psum_transpose(cts, *args, axes, axis_index_groups):
    names, positions = split_axis_names("psum", axes)
    active = [ct is not None and is_linear(x) for ct, x in zip(cts, args, strict=True)]
    sums = [ct for ct, on in zip(cts, active, strict=True) if on]
    if axis_index_groups is None:
        names = tuple([name for name in names if not is_counted_once(name)])
    if names and sums:
        sums = bind(prims.psum_p, *sums, axes=names, axis_index_groups=axis_index_groups)

    def broadcast(ct, x):  # along the operand's positional axes, over which psum summed too
        shape = x.aval.shape
        return lax.broadcast_in_dim(ct, shape, tuple([a for a in range(len(shape)) if a not in positions])) if positions else ct

    found = iter(sums)
    back = [broadcast(next(found), x) if on else None for x, on in zip(args, active, strict=True)]
    return back[0] if len(args) == 1 else back


def all_gather_transpose(ct, x, *, all_gather_dimension, **params):
    names = params["axis_name"]
    names = names if type(names) is tuple else (names,)
    if params["axis_index_groups"] is None and any(map(is_counted_once, names)):
        summed = tuple([name for name in names if not is_counted_once(name)])
        if summed:
            ct, = bind(prims.psum_p, ct, axes=summed, axis_index_groups=None)
        index = lax.axis_index(params["axis_name"])
        if not params["tiled"]:
            return lax.dynamic_index_in_dim(ct, index, all_gather_dimension, keepdims=False)
        size = x.aval.shape[all_gather_dimension]
        return lax.dynamic_slice_in_dim(ct, lax.mul(index, np.int32(size)), size, all_gather_dimension)
    return bind(prims.psum_scatter_p, ct, scatter_dimension=all_gather_dimension, **params)


def psum_scatter_transpose(ct, x, *, scatter_dimension, **params):
    return bind(prims.all_gather_p, ct, all_gather_dimension=scatter_dimension, **params)


def all_to_all_transpose(ct, x, *, concat_axis, split_axis, **params):
    return bind(prims.all_to_all_p, ct, concat_axis=split_axis, split_axis=concat_axis, **params)


def ppermute_transpose(ct, x, *, axis_name, perm):
    return bind(prims.ppermute_p, ct, axis_name=axis_name, perm=tuple([(b, a) for a, b in perm]))


transpose_rules.define(prims.psum_p, psum_transpose)
transpose_rules.define(prims.all_gather_p, all_gather_transpose)
transpose_rules.define(prims.psum_scatter_p, psum_scatter_transpose)
transpose_rules.define(prims.all_to_all_p, all_to_all_transpose)
transpose_rules.define(prims.ppermute_p, ppermute_transpose)
transpose_rules.declare_missing(prims.pmax_p, "it is not linear")
transpose_rules.declare_missing(prims.pmin_p, "it is not linear")
transpose_rules.declare_missing(prims.axis_index_p, "it has no operand")
transpose_rules.declare_missing(prims.xla_pmap_p, "its rule is defined by lamina_parallel; import that too")
