"""Collectives: transposes of the matrices that take all members' inputs to all members' outputs. So `psum` transposes to
`psum`, and `all_gather` to `psum_scatter`. Where values that are the same on all members of an axis count
once (`counts_once`), what these give is one value: its cotangent is that of each member's operand, or part."""
from __future__ import annotations

import numpy as np
from lamina_ir import prims
from lamina_ir.extend import split_axes
from lamina_tracing import lax
from lamina_tracing.extend import bind, counts_once

from ..linear import is_linear
from ..tables import transpose_rules

__all__: list[str] = []


def psum_transpose(cts, *args, axes, axis_index_groups):
    names, positions = split_axes("psum", axes)
    wanted = [ct is not None and is_linear(x) for ct, x in zip(cts, args, strict=True)]
    sums = [ct for ct, on in zip(cts, wanted, strict=True) if on]
    if axis_index_groups is None:
        names = tuple([name for name in names if not counts_once(name)])
    if names and sums:
        sums = bind(prims.psum_p, *sums, axes=names, axis_index_groups=axis_index_groups)

    def spread(ct, x):  # back along the operand's own axes
        shape = x.aval.shape
        return lax.broadcast_in_dim(ct, shape, tuple([a for a in range(len(shape)) if a not in positions])) if positions else ct

    found = iter(sums)
    back = [spread(next(found), x) if on else None for x, on in zip(args, wanted, strict=True)]
    return back[0] if len(args) == 1 else back


def all_gather_transpose(ct, x, *, all_gather_dimension, **params):
    names = params["axis_name"]
    names = names if type(names) is tuple else (names,)
    if params["axis_index_groups"] is None and any(map(counts_once, names)):
        each = tuple([name for name in names if not counts_once(name)])
        if each:
            ct, = bind(prims.psum_p, ct, axes=each, axis_index_groups=None)
        mine = lax.axis_index(params["axis_name"])
        if not params["tiled"]:
            return lax.dynamic_index_in_dim(ct, mine, all_gather_dimension, keepdims=False)
        size = x.aval.shape[all_gather_dimension]
        return lax.dynamic_slice_in_dim(ct, lax.mul(mine, np.int32(size)), size, all_gather_dimension)
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
transpose_rules.hole(prims.pmax_p, "it is not linear")
transpose_rules.hole(prims.pmin_p, "it is not linear")
transpose_rules.hole(prims.axis_index_p, "it has no operand")
transpose_rules.hole(prims.xla_pmap_p, "its row comes with lamina_parallel; import that too")
