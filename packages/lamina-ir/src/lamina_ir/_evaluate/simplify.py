"""Simplify a program before the NumPy evaluator runs it: dead code and broadcast values. XLA does this itself.

A value that is broadcast along an axis is computed once: a matrix product with identical rows becomes a product with
one row, and a product with ones becomes a sum. Derivatives contain many of these, because the transpose of a sum
broadcasts a number. Each result element is still computed from the same products, so NaNs and infinities stay where
they were.
"""
from __future__ import annotations


import numpy as np

from .._types import dtypes
from .. import prims
from .._core.arg_checks import CLOSED_JAXPR, check_args
from .._core.primitive import Primitive
from ..prims.products import product_dtype
from .._core.jaxpr import Atom, ClosedJaxpr, Eqn, Literal, Var
from .._core.rewrite import dce, rewrite
from ..typing import ParamValue

__all__ = ["simplify_for_numpy"]

_MOVES = frozenset([prims.broadcast_in_dim_p, prims.expand_dims_p, prims.reshape_p, prims.rev_p, prims.slice_p,
                    prims.squeeze_p, prims.transpose_p])
Replacement = tuple[list[Eqn], list[Atom]]


@check_args(closed=CLOSED_JAXPR)
def simplify_for_numpy(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return an equivalent program with the same arguments that computes less.

    Args:
      closed: a program. Programs nested in it are not changed.
    Returns:
      A program, memoized with `closed`; `closed` itself if nothing can be simplified.

    >>> from lamina_ir import parse
    >>> text = '''{ lambda ; a:f32[2,3]. let
    ...     b:f32[3,4] = broadcast_in_dim[broadcast_dimensions=() shape=(3, 4)] 1.0:f32[]
    ...     c:f32[2,4] = dot_general[dimension_numbers=(((1,), (0,)), ((), ())) precision=None
    ...       preferred_element_type=None] a b
    ...   in (c,) }'''
    >>> simplify_for_numpy(parse(text))
    { lambda ; a:f32[2,3]. let
        b:f32[2] = reduce_sum[axes=(1,)] a
        c:f32[2,1] = reshape[dimensions=None new_sizes=(2, 1)] b
        d:f32[2,4] = broadcast_in_dim[broadcast_dimensions=(0, 1) shape=(2, 4)] c
      in (d,) }
    """
    made: ClosedJaxpr | None = closed.memo("lean", lambda: _simplify(closed))
    return closed if made is None else made


def _simplify(closed: ClosedJaxpr) -> ClosedJaxpr | None:
    result = dce(closed, instantiate=True)[0]
    if any(e.primitive is prims.broadcast_in_dim_p for e in result.eqns):
        simplified = rewrite(result, _BroadcastSimplifier(), nested=False)
        result = result if simplified is result else dce(simplified, instantiate=True)[0]
    # A program memoized with itself would be a reference cycle, freed only by the garbage collector.
    return None if result is closed else result


class _BroadcastSimplifier:
    """Replaces equations in order, for `rewrite`; tracks which values are broadcasts of smaller ones."""

    def __init__(self) -> None:
        self.producers: dict[Atom, Eqn] = {}  # broadcast value -> its broadcast_in_dim

    def __call__(self, e: Eqn) -> Replacement | None:
        p = e.primitive
        broadcast = [a for a in e.invars if type(a) is not Literal and a in self.producers]
        new = None
        # Values that vary over a mapped axis are left alone: the new equations would need types with these axes.
        if not broadcast or p.multiple or e.outvars[0].aval.varying_axes:
            pass
        elif p is prims.dot_general_p:
            new = self.simplify_product(e)
        elif p in _MOVES:
            new = self.move_broadcast(e)
        elif p is prims.mul_p and (x := self.find_other_factor(e)) is not None:
            return [], [x]
        elif p.elementwise and p.family == "elementwise":  # built-in ones, which accept any shape, scalars included
            new = self.simplify_elementwise(e)
        for made in [e] if new is None else new[0]:
            if made.primitive is prims.broadcast_in_dim_p:
                self.producers[made.outvars[0]] = made
        return new

    def find_scalar_source(self, a: Atom) -> Atom | None:
        """Return the scalar of which `a` is a broadcast (a scalar itself included), or None."""
        if not a.aval.shape:
            return a
        made_by = None if type(a) is Literal else self.producers.get(a)
        return None if made_by is None or made_by.invars[0].aval.shape else made_by.invars[0]

    def is_one(self, a: Atom) -> bool:
        """Return whether all elements are 1. False for complex numbers, where 1 times infinity gives NaN parts."""
        x = self.find_scalar_source(a)
        return type(x) is Literal and not dtypes.is_complex(x.aval.dtype) and not dtypes.is_key(x.aval.dtype) and x.val == 1

    def find_other_factor(self, e: Eqn) -> Atom | None:
        """Return the other factor if one factor is all ones and the shape stays the same, else None."""
        for one, x in (e.invars, e.invars[::-1]):
            if self.is_one(one) and x.aval.shape == e.outvars[0].aval.shape:
                return x
        return None

    def move_broadcast(self, e: Eqn) -> Replacement | None:
        """Move the small operand of a broadcast, then broadcast."""
        number, new, shape = self.find_scalar_source(e.invars[0]), _EqnBuilder(e), e.outvars[0].aval.shape
        if number is not None:
            # A movement of equal elements gives equal elements, whatever the params.
            return new.make_replacement(new.repeat(number, (), shape))
        # Other movements change lengths or directions of axes, so their params would not fit the small operand.
        if e.primitive is not prims.transpose_p:
            return None
        small = new.emit(e.primitive, self.shrink(new, e.invars[0], ()), **e.params)
        return new.make_replacement(new.repeat(small, tuple(range(len(shape))), shape))

    def simplify_elementwise(self, e: Eqn) -> Replacement | None:
        """Compute on the small operands, then broadcast: if all operands are broadcast scalars, or if all others are
        one broadcast array."""
        numbers = [self.find_scalar_source(a) for a in e.invars]
        arrays = [a for a, n in zip(e.invars, numbers) if n is None]
        shape, new = e.outvars[0].aval.shape, _EqnBuilder(e)
        if not arrays:
            small = new.emit(e.primitive, *[n for n in numbers if n is not None], **e.params)
            return new.make_replacement(new.repeat(small, (), shape))
        # Two different arrays may be broadcast along different axes, so there is no common small shape.
        if any(a is not arrays[0] or a not in self.producers or a.aval.shape != shape for a in arrays):
            return None
        by = self.producers[arrays[0]]
        made = new.emit(e.primitive, *[by.invars[0] if n is None else n for n in numbers], **e.params)
        return new.make_replacement(new.repeat(made, by.params["broadcast_dimensions"], shape))

    def simplify_product(self, e: Eqn) -> Replacement | None:
        """Simplify a `dot_general` with a factor of ones, or with broadcast factors."""
        x, y = e.invars
        (lc, rc), (lb, rb) = e.params["dimension_numbers"]
        # dot_general(x, ones) sums x over the contracted axes; the free axes of `ones` become broadcast axes of the
        # result.
        new = _EqnBuilder(e)
        dtype, shape = e.outvars[0].aval.dtype, e.outvars[0].aval.shape
        if all(dtypes.is_number(d) and not dtypes.is_complex(d) for d in (x.aval.dtype, y.aval.dtype, dtype)):
            for one, array, axes, batch, at in ((x, y, rc, rb, 1), (y, x, lc, lb, 0)):
                if self.is_one(one):
                    array = self.shrink(new, array, (*axes, *batch))
                    total = new.sum(array, axes, batch, product_dtype(x.aval.dtype, y.aval.dtype, dtype), dtype)
                    free = total.aval.shape[len(batch):]
                    # Result axes are (batch, free of x, free of y). Those of the factor of ones get length 1, then are
                    # broadcast.
                    others = (1,) * (len(shape) - len(batch) - len(free))
                    small = total.aval.shape[:len(batch)] + (free + others if at == 0 else others + free)
                    return new.make_replacement(new.repeat(new.reshape(total, small), tuple(range(len(shape))), shape))
        # Contracted and batch axes keep their length, since both operands must agree on them.
        left, right = self.shrink(new, x, (*lc, *lb)), self.shrink(new, y, (*rc, *rb))
        if left is x and right is y:
            return None
        return new.make_replacement(new.repeat(new.emit(e.primitive, left, right, **e.params), tuple(range(len(shape))), shape))

    def shrink(self, new: _EqnBuilder, a: Atom, full_axes: tuple[int, ...]) -> Atom:
        """Return the value with length 1 along its broadcast axes, except along `full_axes`."""
        by = None if type(a) is Literal else self.producers.get(a)
        if by is None:
            return a
        x, dims, shape = by.invars[0], by.params["broadcast_dimensions"], a.aval.shape
        lengths = dict(zip(dims, x.aval.shape))
        small = tuple([n if k in full_axes else lengths.get(k, 1) for k, n in enumerate(shape)])
        if small == shape:
            return a
        smallest = tuple([lengths.get(k, 1) for k in range(len(shape))])
        # If no full axis is broadcast, only axes of length 1 are missing, and a reshape copies nothing.
        return new.reshape(x, small) if small == smallest else new.repeat(x, dims, small)


class _EqnBuilder:
    """Builds the equations that replace one equation."""

    def __init__(self, e: Eqn) -> None:
        self.replaced, self.eqns = e, list[Eqn]()

    def emit(self, prim: Primitive, *operands: Atom, **params: ParamValue) -> Var:
        out = Var(prim.infer(*[a.aval for a in operands], **params))
        self.eqns.append(Eqn(prim, operands, (out,), params, self.replaced.source))
        return out

    def make_replacement(self, value: Atom) -> Replacement:
        return self.eqns, [value]

    def reshape(self, x: Atom, shape: tuple[int, ...]) -> Atom:
        return x if x.aval.shape == shape else self.emit(prims.reshape_p, x, dimensions=None, new_sizes=shape)

    def repeat(self, x: Atom, dims: tuple[int, ...], shape: tuple[int, ...]) -> Atom:
        if x.aval.shape == shape:
            return x
        return self.emit(prims.broadcast_in_dim_p, x, broadcast_dimensions=dims, shape=shape)

    def convert(self, x: Atom, dtype: np.dtype) -> Atom:
        if x.aval.dtype == dtype:
            return x
        return self.emit(prims.convert_element_type_p, x, new_dtype=dtype, weak_type=False)

    def sum(self, x: Atom, axes: tuple[int, ...], batch: tuple[int, ...], wide: np.dtype, dtype: np.dtype) -> Atom:
        """Sum over `axes` in dtype `wide`, round to `dtype`, and move the batch axes to the front."""
        free = [k for k in range(len(x.aval.shape)) if k not in axes]
        order = [*batch, *[k for k in free if k not in batch]]
        total = self.convert(self.emit(prims.reduce_sum_p, self.convert(x, wide), axes=axes), dtype)
        if order == free:
            return total
        return self.emit(prims.transpose_p, total, permutation=tuple([free.index(k) for k in order]))
