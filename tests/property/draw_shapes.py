"""Random samples of primitives that move elements, and of dot_general."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from drawing import Draw, kind_of, redtype
from hypothesis import strategies as st
from lamina_ir import Primitive, prims
from lamina_ir.testing.samples import Sample, samples_of

__all__ = ["FAMILY"]


def broadcast_in_dim(d: Draw) -> tuple[Any, ...]:
    shape = d.shape(0, 4)
    at = tuple(sorted(d.axes(len(shape))))
    return (tuple(shape[a] if d.int(0, 3) else 1 for a in at),), {"shape": shape, "broadcast_dimensions": at}


def reshape(d: Draw) -> tuple[Any, ...]:
    shape = d.shape(0, 4)
    new = list(d.draw(st.permutations(shape)))
    if len(new) > 1 and d.flag():
        new[:2] = [new[0] * new[1]]
    new.insert(d.int(0, len(new)), 1)
    return (shape,), {"new_sizes": tuple(new), "dimensions": d.axes(len(shape), len(shape)) if d.flag() else None}


def transpose(d: Draw) -> tuple[Any, ...]:
    shape = d.shape(0, 4)
    return (shape,), {"permutation": d.axes(len(shape), len(shape))}


def squeeze(d: Draw) -> tuple[Any, ...]:
    shape = list(d.shape(0, 4))
    axes = d.axes(len(shape))
    for a in axes:
        shape[a] = 1
    return (tuple(shape),), {"dimensions": axes}


def expand_dims(d: Draw) -> tuple[Any, ...]:
    shape, more = d.shape(0, 3), d.int(0, 2)
    return (shape,), {"dimensions": d.axes(len(shape) + more, len(shape) + more)[:more]}


def concatenate(d: Draw) -> tuple[Any, ...]:
    shape = d.shape(1, 3)
    axis = d.int(0, len(shape) - 1)
    parts = [d.int(0, 3) for _ in range(d.int(1, 4))]
    return tuple((*shape[:axis], n, *shape[axis + 1:]) for n in parts), {"dimension": axis}


def pad(d: Draw) -> tuple[Any, ...]:
    shape = d.shape(0, 3)
    config = []
    for n in shape:
        inner = d.int(0, 2)
        length = n + inner * max(n - 1, 0)
        low = d.int(-length - 1, 3)
        config.append((low, d.int(-(length + low) if length + low < 3 else -2, 2), inner))
    return (shape, ()), {"padding_config": tuple(config)}


def slice_(d: Draw) -> tuple[Any, ...]:
    shape = d.shape(0, 3)
    start = tuple(d.int(0, n) for n in shape)
    limit = tuple(d.int(s, n) for s, n in zip(start, shape))
    strides = tuple(d.int(1, 3) for _ in shape) if d.flag() else None
    return (shape,), {"start_indices": start, "limit_indices": limit, "strides": strides}


def rev(d: Draw) -> tuple[Any, ...]:
    shape = d.shape(0, 4)
    return (shape,), {"dimensions": d.axes(len(shape))}


MOVES = {"broadcast_in_dim": broadcast_in_dim, "reshape": reshape, "transpose": transpose, "squeeze": squeeze,
         "expand_dims": expand_dims, "concatenate": concatenate, "pad": pad, "slice": slice_, "rev": rev}


def shape_family(d: Draw, prim: Primitive) -> Sample:
    if prim is prims.iota_p:
        shape = d.shape(1, 3)
        return Sample(prim, (), {"shape": shape, "dimension": d.int(0, len(shape) - 1), "dtype": d.dtype("fiuc")})
    if prim.name not in MOVES:
        return redtype(d, d.pick(samples_of(prim)))
    shapes, params = MOVES[prim.name](d)
    dtype = d.dtype("fciub")
    return Sample(prim, tuple(d.array(s, dtype) for s in shapes), params)


def linalg(d: Draw, prim: Primitive) -> Sample:
    if prim is not prims.dot_general_p:
        return redtype(d, d.pick(samples_of(prim)))
    batch, contract = d.shape(0, 2), d.shape(0, 2)
    free = d.shape(0, 2), d.shape(0, 2)
    shapes, numbers = [], []
    for own in free:
        lengths = [*batch, *contract, *own]
        order = d.draw(st.permutations(range(len(lengths))))  # order[i]: the index of the length at axis i
        at = {k: i for i, k in enumerate(order)}
        shapes.append(tuple(lengths[k] for k in order))
        numbers.append((tuple(at[k] for k in range(len(batch), len(batch) + len(contract))),
                        tuple(at[k] for k in range(len(batch)))))
    (lc, lb), (rc, rb) = numbers
    dtype = d.dtype("fciu")
    wider = np.dtype("float32") if dtype.itemsize == 2 and kind_of(dtype) == "f" and d.flag() else None
    return Sample(prim, tuple(d.array(s, dtype) for s in shapes),
                  {"dimension_numbers": ((lc, rc), (lb, rb)), "precision": None, "preferred_element_type": wider})


FAMILY: dict[str, Callable[[Draw, Primitive], Sample]] = {"shape": shape_family, "linalg": linalg}
