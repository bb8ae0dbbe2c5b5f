"""Programs that compute less, for who runs them as they stand, equation by equation; XLA finds such things out by itself.

What no result needs goes, and of values that are repeated along axes one is computed: a product with rows that are all the same
is a product with one row, a product with ones is a sum. Derivatives are full of these, since what a sum hands back to its
operand is a number, repeated. Elements are made of the same products as before: NaN and infinities stay where they were.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from . import dtypes, prims
from .arguments import CLOSED, takes
from .primitive import Primitive
from .prims.products import product_dtype
from .program import ClosedJaxpr, Eqn, Literal, Var
from .rewrite import dce, rewrite

__all__ = ["lean"]

_MOVES = frozenset([prims.broadcast_in_dim_p, prims.expand_dims_p, prims.reshape_p, prims.rev_p, prims.slice_p,
                    prims.squeeze_p, prims.transpose_p])
Replacement = tuple[list[Eqn], list[Any]]


@takes(closed=CLOSED)
def lean(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program that computes the same with less, and takes the same arguments.

    Args:
      closed: a program. Those nested in it are left as they are.
    Returns:
      A program, remembered with `closed`; itself where there is nothing to do.

    >>> from lamina_ir import parse
    >>> text = '''{ lambda ; a:f32[2,3]. let
    ...     b:f32[3,4] = broadcast_in_dim[broadcast_dimensions=() shape=(3, 4)] 1.0:f32[]
    ...     c:f32[2,4] = dot_general[dimension_numbers=(((1,), (0,)), ((), ())) precision=None
    ...       preferred_element_type=None] a b
    ...   in (c,) }'''
    >>> lean(parse(text))
    { lambda ; a:f32[2,3]. let
        b:f32[2] = reduce_sum[axes=(1,)] a
        c:f32[2,1] = reshape[dimensions=None new_sizes=(2, 1)] b
        d:f32[2,4] = broadcast_in_dim[broadcast_dimensions=(0, 1) shape=(2, 4)] c
      in (d,) }
    """
    made: ClosedJaxpr | None = closed.memo("lean", lambda: _made(closed))
    return closed if made is None else made


def _made(closed: ClosedJaxpr) -> ClosedJaxpr | None:
    made = dce(closed, instantiate=True)[0]
    if any(e.primitive is prims.broadcast_in_dim_p for e in made.eqns):
        thin = rewrite(made, _Repeats(), nested=False)
        made = made if thin is made else dce(thin, instantiate=True)[0]
    return None if made is closed else made  # a program that held itself would wait for the collector


class _Repeats:
    """Replaces equations, for `rewrite`, one after the other; remembers which values are others, repeated."""

    def __init__(self) -> None:
        self.made_by: dict[Any, Eqn] = {}  # repeated value -> its broadcast_in_dim

    def __call__(self, e: Eqn) -> Replacement | None:
        p = e.primitive
        repeated = [a for a in e.invars if type(a) is not Literal and a in self.made_by]
        new = None
        if not repeated or p.multiple or e.outvars[0].aval.over:
            pass
        elif p is prims.dot_general_p:
            new = self.product(e)
        elif p in _MOVES:
            new = self.moved(e)
        elif p is prims.mul_p and (x := self.times_one(e)) is not None:
            return [], [x]
        elif p.elementwise and p.family == "elementwise":  # ours, which all take numbers
            new = self.elementwise(e)
        for made in [e] if new is None else new[0]:
            if made.primitive is prims.broadcast_in_dim_p:
                self.made_by[made.outvars[0]] = made
        return new

    def source(self, a: Any) -> Any:
        """The number that is repeated, or None; a number is itself."""
        if not a.aval.shape:
            return a
        made_by = None if type(a) is Literal else self.made_by.get(a)
        return None if made_by is None or made_by.invars[0].aval.shape else made_by.invars[0]

    def is_one(self, a: Any) -> bool:
        """Whether all elements are 1: not of complex numbers, where 1 times infinity is not a number."""
        a = self.source(a)
        return type(a) is Literal and not dtypes.is_complex(a.aval.dtype) and not dtypes.is_key(a.aval.dtype) and a.val == 1

    def times_one(self, e: Eqn) -> Any:
        for one, x in (e.invars, e.invars[::-1]):
            if self.is_one(one) and x.aval.shape == e.outvars[0].aval.shape:
                return x
        return None

    def moved(self, e: Eqn) -> Replacement | None:
        number, new, shape = self.source(e.invars[0]), _New(e), e.outvars[0].aval.shape
        if number is not None:
            return new.end(new.repeat(number, (), shape))
        if e.primitive is not prims.transpose_p:
            return None
        thin = new.op(e.primitive, self.thin(new, e.invars[0], ()), **e.params)
        return new.end(new.repeat(thin, tuple(range(len(shape))), shape))

    def elementwise(self, e: Eqn) -> Replacement | None:
        """Of numbers that are repeated, the number is computed, and of one array with numbers beside it, that."""
        numbers = [self.source(a) for a in e.invars]
        arrays = [a for a, n in zip(e.invars, numbers) if n is None]
        shape, new = e.outvars[0].aval.shape, _New(e)
        if not arrays:
            return new.end(new.repeat(new.op(e.primitive, *numbers, **e.params), (), shape))
        if any(a is not arrays[0] or a not in self.made_by or a.aval.shape != shape for a in arrays):
            return None
        by = self.made_by[arrays[0]]
        made = new.op(e.primitive, *[by.invars[0] if n is None else n for n in numbers], **e.params)
        return new.end(new.repeat(made, by.params["broadcast_dimensions"], shape))

    def product(self, e: Eqn) -> Replacement | None:
        x, y = e.invars
        (lc, rc), (lb, rb) = e.params["dimension_numbers"]
        new = _New(e)
        dtype, shape = e.outvars[0].aval.dtype, e.outvars[0].aval.shape
        if all(dtypes.is_number(d) and not dtypes.is_complex(d) for d in (x.aval.dtype, y.aval.dtype, dtype)):
            for one, array, axes, batch, at in ((x, y, rc, rb, 1), (y, x, lc, lb, 0)):
                if self.is_one(one):
                    array = self.thin(new, array, (*axes, *batch))
                    total = new.sum(array, axes, batch, product_dtype(x.aval.dtype, y.aval.dtype, dtype), dtype)
                    free = total.aval.shape[len(batch):]
                    others = (1,) * (len(shape) - len(batch) - len(free))
                    thin = total.aval.shape[:len(batch)] + (free + others if at == 0 else others + free)
                    return new.end(new.repeat(new.reshape(total, thin), tuple(range(len(shape))), shape))
        left, right = self.thin(new, x, (*lc, *lb)), self.thin(new, y, (*rc, *rb))
        if left is x and right is y:
            return None
        return new.end(new.repeat(new.op(e.primitive, left, right, **e.params), tuple(range(len(shape))), shape))

    def thin(self, new: _New, a: Any, kept: tuple[int, ...]) -> Any:
        """The value with length 1 along axes along which it is repeated, those `kept` apart."""
        by = None if type(a) is Literal else self.made_by.get(a)
        if by is None:
            return a
        x, dims, shape = by.invars[0], by.params["broadcast_dimensions"], a.aval.shape
        lengths = dict(zip(dims, x.aval.shape))
        thin = tuple([n if k in kept else lengths.get(k, 1) for k, n in enumerate(shape)])
        if thin == shape:
            return a
        spread = tuple([lengths.get(k, 1) for k in range(len(shape))])
        return new.reshape(x, thin) if thin == spread else new.repeat(x, dims, thin)


class _New:
    """Equations in the place of one."""

    def __init__(self, e: Eqn) -> None:
        self.instead_of, self.eqns = e, list[Eqn]()

    def op(self, prim: Primitive, *operands: Any, **params: Any) -> Var:
        out = Var(prim.infer(*[a.aval for a in operands], **params))
        self.eqns.append(Eqn(prim, operands, (out,), params, self.instead_of.source))
        return out

    def end(self, value: Any) -> Replacement:
        return self.eqns, [value]

    def reshape(self, x: Any, shape: tuple[int, ...]) -> Any:
        return x if x.aval.shape == shape else self.op(prims.reshape_p, x, dimensions=None, new_sizes=shape)

    def repeat(self, x: Any, dims: tuple[int, ...], shape: tuple[int, ...]) -> Any:
        if x.aval.shape == shape:
            return x
        return self.op(prims.broadcast_in_dim_p, x, broadcast_dimensions=dims, shape=shape)

    def convert(self, x: Any, dtype: np.dtype) -> Any:
        if x.aval.dtype == dtype:
            return x
        return self.op(prims.convert_element_type_p, x, new_dtype=dtype, weak_type=False)

    def sum(self, x: Any, axes: tuple[int, ...], batch: tuple[int, ...], wide: np.dtype, dtype: np.dtype) -> Any:
        """The sum over axes in a dtype, rounded to another; batch axes come first."""
        free = [k for k in range(len(x.aval.shape)) if k not in axes]
        order = [*batch, *[k for k in free if k not in batch]]
        total = self.convert(self.op(prims.reduce_sum_p, self.convert(x, wide), axes=axes), dtype)
        if order == free:
            return total
        return self.op(prims.transpose_p, total, permutation=tuple([free.index(k) for k in order]))
