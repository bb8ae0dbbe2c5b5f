"""`ufunc`: a function of elements, and what follows from one: folding an axis by it, all pairs, changes at positions.

The elementwise functions of this package are jitted functions that bear these methods too (`dress`), so calling them
costs nothing more. `frompyfunc` makes one of any function of scalars.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from typing_extensions import override
from lamina_tracing import Array, ArrayLike, AxisLike, DTypeLike, eval_shape, lax
from lamina_tracing.extend import Tracer, check_axis, typeof

from .._core.conversion import asarray
from .._core.promotion import cast, refuse_out, work_dtype
from .._indexing.selection import where as choose
from .._creation.creation import arange
from .._reductions import reductions, cumulative
from .._shape.layout import broadcast_to, moveaxis, reshape
from .apply import vectorize

__all__ = ["frompyfunc", "ufunc"]

# By name: what folds an axis, what gives the running fold, and the method of `x.at[i]`, for those that have one.
_SUMS: dict[str, Any] = {"add": reductions.sum, "multiply": reductions.prod, "maximum": reductions.max,
                         "minimum": reductions.min, "logical_and": reductions.all, "logical_or": reductions.any}
_RUNNING: dict[str, Any] = {"add": cumulative.cumsum, "multiply": cumulative.cumprod}
_AT = {"add": "add", "multiply": "multiply", "maximum": "max", "minimum": "min"}


class _Kind(type):
    """Public functions that were dressed count as instances."""

    @override
    def __instancecheck__(cls, x: Any) -> bool:
        late = getattr(x, "__dict__", {}).get("reduceat")
        return type.__instancecheck__(cls, x) or late is not None and getattr(late, "args", (late,))[-1] is x


class ufunc(metaclass=_Kind):
    """A function that works element by element on arrays that broadcast, with methods that follow from that.

    Args:
      func: takes `nin` scalar arrays and gives `nout` results, a tuple if more than one.
      nin, nout: numbers of arguments and results.
      name: what it is called; None for the name of `func`.
      identity: `x` with `func(x, y) == y`: the fold of no elements. None where there is none.

    Attributes:
      nargs: `nin + nout`.

    >>> import lamina_numpy as lnp
    >>> lnp.add.reduce(np.array([1, 2, 3])), lnp.multiply.outer(np.array([1, 2]), np.array([3, 4]))
    (Array(6, dtype=int32), Array([[3, 4],
           [6, 8]], dtype=int32))
    >>> isinstance(lnp.add, ufunc), lnp.maximum.nin, lnp.multiply.identity
    (True, 2, 1)
    """

    __slots__ = ("nin", "nout", "nargs", "identity", "__dict__", "__weakref__")  # the first four are seen on the class

    def __init__(self, func: Callable[..., Any], /, nin: int, nout: int, *, name: str | None = None,
                 identity: Any = None) -> None:
        if not callable(func):
            raise TypeError(f"ufunc: expected a function; got {type(func).__name__}")
        for what, number in (("nin", nin), ("nout", nout)):
            if type(number) is not int or number < 0:
                kind = "arguments" if what == "nin" else "results"
                raise ValueError(f"ufunc: {what} must be a number of {kind}; got {number!r}")
        self.nin, self.nout, self.identity = nin, nout, identity
        self.nargs = nin + nout
        self.__name__: str = name or str(getattr(func, "__name__", type(func).__name__))
        self._func = func
        self._whole: Callable[..., Any] = vectorize(func)
        self._known = ""  # the name under which the tables above know it

    @staticmethod
    def from_public(shown: Any) -> ufunc:
        """The methods of a public function: it takes whole arrays already."""
        made: Any = shown.__dict__.get("_ufunc")
        if made is None:
            made = ufunc(shown, shown.nin, shown.nout, identity=shown.identity)
            made._whole, made._known = shown, shown.__name__
            shown._ufunc = made
        return made

    @override
    def __hash__(self) -> int:
        return hash((self._func, self.nin, self.nout))

    @override
    def __repr__(self) -> str:
        return f"<ufunc {self.__name__!r}>"

    @override
    def __eq__(self, other: object) -> bool:
        if type(other) is not ufunc:
            return NotImplemented
        return (self._func is other._func and self.identity is other.identity
                and (self.nin, self.nout) == (other.nin, other.nout))

    def __call__(self, *args: ArrayLike, out: None = None, where: Any = None) -> Any:
        """The function of arrays that broadcast."""
        call = self.__name__
        refuse_out(call, out)
        if where is not None:
            raise NotImplementedError(f"{call}: where= leaves elements undefined, as there is no array to leave them in; "
                                      "use lamina.numpy.where on the result")
        if len(args) != self.nin:
            raise TypeError(f"{call}: takes {self.nin} arguments; got {len(args)}")
        result = self._whole(*args)
        count = len(result) if isinstance(result, tuple) else 1
        if count != self.nout and self._whole is not self._func:
            raise TypeError(f"{call}: must give {self.nout} results; it gave {count}")
        return result

    def _fold_only(self, method: str) -> str:
        call = f"{self.__name__}.{method}"
        if self.nin != 2 or self.nout != 1:
            raise ValueError(f"{call}: the function must take two arguments and have one result; it takes {self.nin} and has "
                             f"{self.nout}")
        return call

    def _fold(self, rows: Any, start: Any, keep: Any = None) -> tuple[Any, Any]:
        """`f(...f(f(start, rows[0]), rows[1])...)` and what it was after each. Rows for which `keep` is False are
        passed over."""
        dtype = eval_shape(self._whole, start, rows[0]).dtype

        def step(carry: Any, row: Any) -> Any:
            x, on = row
            new = lax.convert_element_type(self._whole(carry, x), dtype)
            new = new if on is None else choose(on, new, carry)
            return new, new
        return lax.scan(step, lax.convert_element_type(start, dtype), (rows, keep))

    def reduce(self, a: ArrayLike, axis: AxisLike = 0, dtype: DTypeLike | None = None, out: None = None, keepdims: bool = False,
               initial: ArrayLike | None = None, where: ArrayLike | None = None) -> Array:
        """The elements along axes folded by the function, from the first to the last.

        Args:
          a: number array.
          axis: an axis, several, or None for all.
          dtype: to convert `a` to before.
          out: not supported; None.
          keepdims: whether the folded axes stay, with length 1.
          initial: to begin with; None for the first element, or the identity where there is none.
          where: which elements take part, a boolean array that broadcasts to `a`; None for all.
        Returns:
          Array without these axes.
        Raises:
          ValueError: the function has not two arguments and one result, or there is nothing to begin with.
        """
        call = self._fold_only("reduce")
        refuse_out(call, out)
        if self._known in _SUMS:
            more: dict[str, Any] = {} if self._known.startswith("logical") else {"initial": initial}
            if more or initial is None:
                x = asarray(a) if dtype is None else asarray(a).astype(dtype)
                return _SUMS[self._known](x, axis, keepdims=keepdims, where=where, **more)
        x, axes = self._prepare_operand(call, a, axis, dtype)
        half = self._get_fold_dtype(x)
        if half:
            return self._narrow(self.reduce(cast(x, work_dtype(half)), axes, None, None, keepdims, initial, where),
                                half)
        shape = typeof(x).shape
        others = [n for i, n in enumerate(shape) if i not in axes]
        rows = reshape(moveaxis(x, axes, range(len(axes))), (math.prod([shape[i] for i in axes]), *others))
        keep = None
        if where is not None:
            keep = reshape(moveaxis(broadcast_to(asarray(where), shape), axes, range(len(axes))), typeof(rows).shape)
        if initial is None and (where is not None or not typeof(rows).shape[0]):
            initial = self.identity
            if initial is None:
                raise ValueError(f"{call}: `{self.__name__}` has no identity to begin with, "
                                 f"{'as where= may leave nothing' if where is not None else 'and there are no elements'}; "
                                 "give initial=")
        if initial is None:
            start, rows = rows[0], rows[1:]
        else:
            start = broadcast_to(asarray(initial, None if isinstance(initial, Tracer) else typeof(x).dtype), tuple(others))
        folded = self._fold(rows, start, keep)[0] if typeof(rows).shape[0] else \
            lax.convert_element_type(start, eval_shape(self._whole, start, start).dtype)
        return reshape(folded, tuple([1 if i in axes else n for i, n in enumerate(shape)])) if keepdims else folded

    def _get_fold_dtype(self, x: Any) -> Any:
        """Return the dtype for folds of half precision: float32, because long sums in half precision stop growing."""
        d = typeof(x).dtype
        return d if self._known and work_dtype(d) != d else None

    @staticmethod
    def _narrow(out: Any, half: np.dtype) -> Any:
        return cast(out, half) if typeof(out).dtype == work_dtype(half) else out

    def _prepare_operand(self, call: str, a: Any, axis: Any, dtype: Any) -> tuple[Any, tuple[int, ...]]:
        x = asarray(a) if dtype is None else asarray(a).astype(dtype)
        ndim = len(typeof(x).shape)
        given = range(ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
        axes = tuple([check_axis(call, i, ndim) for i in given])
        if len(set(axes)) != len(axes):
            raise ValueError(f"{call}: axis names one axis twice; got {axis}")
        return x, axes

    def accumulate(self, a: ArrayLike, axis: int | None = 0, dtype: DTypeLike | None = None, out: None = None) -> Array:
        """The folds of the first element, the first two, and so on, along one axis.

        Args:
          a: number array.
          axis: the axis; None for the one axis of all elements in a row.
          dtype: to convert `a` to before.
          out: not supported; None.
        Returns:
          Array of the shape of `a`.
        Raises:
          ValueError: the function has not two arguments and one result.
        """
        call = self._fold_only("accumulate")
        refuse_out(call, out)
        x = asarray(a) if dtype is None else asarray(a).astype(dtype)
        x, axis = (reshape(x, (-1,)), 0) if axis is None else (x, axis)
        x, (at,) = self._prepare_operand(call, x, axis, None)
        if self._known in _RUNNING:
            return _RUNNING[self._known](x, at)
        half = self._get_fold_dtype(x)
        if half:
            return self._narrow(self.accumulate(cast(x, work_dtype(half)), at), half)
        rows = moveaxis(x, at, 0)
        one = lax.full(typeof(rows).shape[1:], 0, typeof(rows).dtype)
        dtype = eval_shape(self._whole, one, one).dtype
        if not typeof(rows).shape[0]:
            return lax.convert_element_type(x, dtype)
        first = lax.convert_element_type(rows[:1], dtype)
        if typeof(rows).shape[0] > 1:
            first = lax.concatenate([first, self._fold(rows[1:], rows[0])[1]], 0)
        return moveaxis(first, 0, at)

    def reduceat(self, a: ArrayLike, indices: ArrayLike, axis: int = 0, dtype: DTypeLike | None = None,
                 out: None = None) -> Array:
        """The folds of pieces along one axis: from each index to the next, or the element alone where the next is not
        larger.

        Args:
          a: number array `[..., n, ...]`.
          indices: integers `[k]` in `[0, n)`.
          axis: the axis of length `n`.
          dtype: to convert `a` to before.
          out: not supported; None.
        Returns:
          Array `[..., k, ...]`.
        Raises:
          ValueError: the function has not two arguments and one result, or `indices` are not integers with one axis.
          IndexError: a known index is outside. Traced ones are moved to the nearest inside.
        """
        call = self._fold_only("reduceat")
        refuse_out(call, out)
        x, (at,) = self._prepare_operand(call, a, axis, dtype)
        half = self._get_fold_dtype(x)
        if half:
            return self._narrow(self.reduceat(cast(x, work_dtype(half)), indices, at), half)
        starts = asarray(indices)
        t = typeof(starts)
        if t.dtype.kind not in "iu" or len(t.shape) != 1:
            raise ValueError(f"{call}: indices must be integers with one axis; got {t.str_long()}")
        rows = moveaxis(x, at, 0)
        n = typeof(rows).shape[0]
        longest = n
        if not isinstance(starts, Tracer):
            known = np.asarray(starts)
            wrong = known[(known < 0) | (known >= n)]
            if wrong.size:
                raise IndexError(f"{call}: index {wrong[0]} is outside of an axis of length {n}")
            longest = int(np.max(np.append(known[1:], n) - known, initial=1))
        starts = lax.convert_element_type(lax.clamp(0, starts, max(n - 1, 0)), np.dtype("int32"))
        ends = lax.concatenate([starts[1:], lax.full((min(1, t.shape[0]),), n, "int32")], 0)
        first = rows[starts]
        if longest <= 1 or not t.shape[0]:
            return moveaxis(first, 0, at)
        dtype = eval_shape(self._whole, first, first).dtype

        def step(i: Any, folded: Any) -> Any:
            places = starts + i
            new = lax.convert_element_type(self._whole(folded, rows[lax.min(places, np.int32(n - 1))]), dtype)
            inside = lax.broadcast_in_dim(places < ends, typeof(new).shape, (0,))
            return lax.select(inside, new, folded)
        return moveaxis(lax.fori_loop(1, longest, step, lax.convert_element_type(first, dtype)), 0, at)

    def outer(self, A: ArrayLike, B: ArrayLike, /) -> Array:
        """The function of every element of `A` with every element of `B`.

        Args:
          A, B: number arrays.
        Returns:
          Array of the shape of `A` and then that of `B`.
        Raises:
          ValueError: the function has not two arguments.
        """
        if self.nin != 2:
            raise ValueError(f"{self.__name__}.outer: only functions of two arguments have it; this one takes {self.nin}")
        a, b = asarray(A), asarray(B)
        return self._whole(reshape(a, typeof(a).shape + (1,) * len(typeof(b).shape)), b)

    def at(self, a: ArrayLike, indices: Any, b: ArrayLike | None = None, /, *, inplace: bool = True) -> Array:
        """A copy of `a` in which the elements at `indices` went through the function, once for each time they are
        named.

        Args:
          a: number array.
          indices: as in `x.at[indices]`; what is outside is left out.
          b: second argument, an array that broadcasts to the shape of `a[indices]`; None for functions of one.
          inplace: arrays do not change, so this must be given as False.
        Returns:
          Array of the shape and dtype of `a`.
        Raises:
          NotImplementedError: `inplace` is True.
          TypeError: `b` is missing, or too much.
        """
        call = f"{self.__name__}.at"
        if inplace:
            raise NotImplementedError(f"{call}: arrays are immutable; take the changed copy that inplace=False returns")
        if self.nout != 1 or (b is None) != (self.nin == 1) or self.nin > 2:
            raise TypeError(f"{call}: `{self.__name__}` takes {self.nin} arguments and has {self.nout} results; got "
                            f"{'no second operand' if b is None else 'a second operand'}")
        x = asarray(a)
        if b is None:
            return x.at[indices].apply(lambda v: lax.convert_element_type(self._whole(v), typeof(x).dtype))
        if self._known in _AT:
            return getattr(x.at[indices], _AT[self._known])(b)
        aval = typeof(x)
        places = arange(aval.size, dtype="int32").reshape(aval.shape).at[indices].get(mode="fill", fill_value=-1)
        values = broadcast_to(asarray(b), typeof(places).shape).reshape(-1)
        places = places.reshape(-1)

        def step(flat: Any, one: Any) -> Any:
            place, value = one
            old = lax.dynamic_index_in_dim(flat, lax.max(place, np.int32(0)), keepdims=False)
            new = lax.convert_element_type(self._whole(old, value), aval.dtype)
            return lax.dynamic_update_index_in_dim(flat, lax.select(place >= 0, new, old), lax.max(place, np.int32(0)), 0), None
        return lax.scan(step, x.reshape(-1), (places, values))[0].reshape(aval.shape) if aval.size else x


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """A `ufunc` from a function of scalars, by `vectorize`.

    Args:
      func: takes `nin` scalar arrays and gives `nout` results, a tuple if more than one.
      nin: number of arguments.
      nout: number of results.
      identity: the fold of no elements, `x` with `func(x, y) == y`; None where there is none.
    Returns:
      A function of `nin` arrays of any shapes that broadcast; its results have their shape, in the dtypes that
      `func` gives. It has the methods of `ufunc`.
    Raises:
      TypeError: `func` is no function; or, called, the function made is given another number of arguments, what is
        neither an array nor a number, or gives another number of results.
      ValueError: `nin` or `nout` is no such number.

    Source: meaning of `numpy.frompyfunc`, whose results hold objects.

    >>> frompyfunc(lambda a, b: (a + b, a * b), 2, 2)(np.array([1, 2]), 3)
    (Array([4, 5], dtype=int32), Array([3, 6], dtype=int32))
    >>> frompyfunc(lambda a, b: 10 * a + b, 2, 1).reduce(np.array([1, 2, 3]))
    Array(123, dtype=int32)
    """
    return ufunc(func, nin, nout, identity=identity)


