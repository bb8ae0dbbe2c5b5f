"""Transpose rules of primitives that move elements: move cotangents back; sum those of repeated elements."""
from __future__ import annotations

from lamina_ir import prims
from lamina_tracing import lax
from lamina_tracing.extend import bind, scalar, typeof

from .._engine.linearize import is_linear
from .._engine.rule_tables import transpose_rules

__all__: list[str] = []


def _inverse(permutation):
    at = [0] * len(permutation)
    for i, a in enumerate(permutation):
        at[a] = i
    return tuple(at)


def broadcast_in_dim_transpose(ct, x, *, shape, broadcast_dimensions):
    """Sum over the axes along which x was repeated."""
    repeated = [a for a in range(len(shape)) if a not in broadcast_dimensions]
    repeated += [a for n, a in zip(x.aval.shape, broadcast_dimensions, strict=True) if n != shape[a]]
    if repeated:
        ct = bind(prims.reduce_sum_p, ct, axes=tuple(sorted(repeated)))
    return lax.reshape(ct, x.aval.shape)


def reshape_transpose(ct, x, *, new_sizes, dimensions):
    shape = x.aval.shape
    if dimensions is None:
        return lax.reshape(ct, shape)
    return lax.transpose(lax.reshape(ct, [shape[a] for a in dimensions]), _inverse(dimensions))


def concatenate_transpose(ct, *xs, dimension):
    """Slice the cotangent into the parts of the operands."""
    out, start = [], 0
    for x in xs:
        n = typeof(x).shape[dimension]
        out.append(lax.slice_in_dim(ct, start, start + n, axis=dimension) if is_linear(x) else None)
        start += n
    return tuple(out) if len(out) > 1 else out[0]


def pad_transpose(ct, x, value, *, padding_config):
    """Remove the padding, at the edges and between elements; the padding value gets the sum of the removed elements."""
    shape = typeof(x).shape
    back = ct
    if any(lo or hi for lo, hi, _ in padding_config):
        back = lax.pad(ct, scalar(0, typeof(ct).dtype), [(-lo, -hi, 0) for lo, hi, _ in padding_config])
    if any(inner for _, _, inner in padding_config):
        back = lax.slice(back, (0,) * len(shape), typeof(back).shape, [inner + 1 for _, _, inner in padding_config])
    every = range(len(shape))
    rest = lax.sub(lax.reduce_sum(ct, every), lax.reduce_sum(back, every)) if is_linear(value) else None
    return back if is_linear(x) else None, rest


def slice_transpose(ct, x, *, start_indices, limit_indices, strides):
    """Pad the cotangent with zeros at the elements that were not selected."""
    config = []
    for n, m, start, step in zip(x.aval.shape, typeof(ct).shape, start_indices, strides or (1,) * len(start_indices),
                                 strict=True):
        config.append((start, n - start - (m - 1) * step - 1, step - 1) if m else (n, 0, 0))
    return bind(prims.pad_p, ct, scalar(0, typeof(ct).dtype), padding_config=tuple(config))


transpose_rules.define(prims.broadcast_in_dim_p, broadcast_in_dim_transpose)
transpose_rules.define(prims.reshape_p, reshape_transpose)
transpose_rules.define(prims.transpose_p, lambda ct, x, *, permutation: lax.transpose(ct, _inverse(permutation)))
transpose_rules.define(prims.squeeze_p, lambda ct, x, *, dimensions: lax.reshape(ct, x.aval.shape))
transpose_rules.define(prims.expand_dims_p, lambda ct, x, *, dimensions: lax.squeeze(ct, dimensions))
transpose_rules.define(prims.rev_p, lambda ct, x, *, dimensions: bind(prims.rev_p, ct, dimensions=dimensions))
transpose_rules.define(prims.concatenate_p, concatenate_transpose)
transpose_rules.define(prims.pad_p, pad_transpose)
transpose_rules.define(prims.slice_p, slice_transpose)
