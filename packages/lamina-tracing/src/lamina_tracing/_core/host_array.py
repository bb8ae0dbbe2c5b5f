"""`HostArray`: the concrete array of this package, a NumPy array with a weak-type flag and lamina's operators.

Arrays are immutable. The memory is read-only, and in-place operations raise or return a new array. NumPy functions
receive a plain read-only view and return plain NumPy arrays, as they do for device arrays.
"""
from __future__ import annotations

import operator
import sys
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from typing_extensions import override
from lamina_ir import ShapedArray, config, dtypes, register_aval, shaped
from lamina_ir.extend import get_key_data
from lamina_ir.typing import Function, Tree, Value

from .operator_expressions import is_operator_expression
from .tracer import Tracer

__all__ = ["HostArray", "get_aval_and_ndarray", "set_known", "wrap_ndarray"]

_IN_PLACE_METHODS = ("fill", "itemset", "put", "resize", "setfield", "setflags", "__setstate__")
_READ_ONLY_ATTRIBUTES = frozenset(("_aval_and_ndarray", "aval", "base", "data", "dtype", "flat", "imag", "real",
                                   "shape", "strides", "weak_type"))


def _scalar_value(self: HostArray, use: str) -> Value:
    if self.size != 1:
        raise TypeError(f"{use}: expected an array with one element; got {self.aval.str_long()}")
    return np.asarray(self).reshape(())[()]


class HostArray(np.ndarray):
    """NumPy array with lamina's operators, made by the NumPy evaluator. Its memory is read-only: arrays are immutable.

    `HostArray.of(x, aval)` creates one that takes over the memory of `x`; the caller must not write to `x` afterwards.
    Do not call the class itself.

    Args:
      shape, dtype, buffer, offset, strides, order: as for `numpy.ndarray`.

    >>> from lamina_ir import shaped
    >>> x = HostArray.of([1, 2], shaped((2,), "float32"))
    >>> x, x.weak_type
    (Array([1., 2.], dtype=float32), False)
    >>> x[0] = 5
    Traceback (most recent call last):
    TypeError: arrays are immutable: instead of `x[i] = v` write `x = x.at[i].set(v)`
    >>> np.sqrt(x).__class__
    <class 'numpy.ndarray'>
    """

    __slots__ = ("_aval_and_ndarray", "__dict__")
    # The type and the plain array that this is a view of. Primitives read both. Unset for views that NumPy creates.
    _aval_and_ndarray: tuple[ShapedArray, np.ndarray]
    weak_type = False
    base = None  # hidden: the base array would give write access to the memory
    _trace = None
    __array_priority__ = 900

    @staticmethod
    def of(x: Value, aval: ShapedArray) -> HostArray:
        """Return `x` with the dtype and weak type of `aval`. It takes over the memory of `x`; do not write to it."""
        array = np.asarray(x, aval.dtype)
        if array.shape != aval.shape:  # `aval` only specifies dtype and weak type
            aval = shaped(array.shape, aval.dtype, aval.weak_type)
        return wrap_ndarray(array, aval)

    @property
    def aval(self) -> ShapedArray:
        try:
            return self._aval_and_ndarray[0]
        except AttributeError:
            return ShapedArray(self.shape, self.dtype, self.weak_type)

    named_shape = property(lambda self: {})

    @override
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Value, **kwargs: Tree) -> Value:
        """Apply a NumPy ufunc: return plain arrays, or defer to tracers among the operands."""
        if any(isinstance(x, Tracer) for x in inputs):
            return NotImplemented
        if len(inputs) == 2 and isinstance(inputs[0], np.generic) and method == "__call__" and not kwargs:
            # `np.float32(2) * x`: Python calls the NumPy scalar's method first, and that calls this function.
            reflected = _REFLECTED.get(ufunc.__name__)
            if reflected is not None and is_operator_expression(sys._getframe(1)):
                return getattr(self, reflected)(inputs[0])
        if method == "at" and isinstance(inputs[0], HostArray):  # NumPy 2 lets `ufunc.at` write to read-only arrays
            raise TypeError(f"arrays are immutable: numpy.{ufunc.__name__}.at would change one in place; give it a copy, "
                            "np.array(x), or use x.at[i].add(v) and its siblings")
        if any(isinstance(x, HostArray) for x in kwargs.get("out", ())):
            raise TypeError(f"arrays are immutable: numpy.{ufunc.__name__} cannot write into one (out=); use what it returns")
        return getattr(ufunc, method)(*map(_to_plain, inputs), **{name: _to_plain(x) for name, x in kwargs.items()})

    @override
    def __array_function__(self, func: Function, types: Iterable[type], args: Iterable[Tree],
                           kwargs: Mapping[str, Tree]) -> Tree:
        """Apply any other NumPy function: return plain arrays, or defer to tracers among the arguments."""
        if any(issubclass(kind, Tracer) for kind in types):
            return NotImplemented
        # Plain arrays, not `super()`: NumPy's own results then have no lamina methods, as those of device arrays.
        return func(*map(_to_plain, args), **{name: _to_plain(x) for name, x in kwargs.items()})

    @override
    def __array_wrap__(self, array: Value, context: object = None, return_scalar: bool = False) -> Value:
        out = np.asarray(array)
        return out[()] if return_scalar else out

    def block_until_ready(self) -> HostArray:
        return self

    @override
    def __iter__(self) -> Iterator[Value]:
        if not self.shape:
            raise TypeError(f"iteration over a rank-0 array {self.aval.str_long()}")
        return iter([self[i] for i in range(self.shape[0])])

    @override
    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"len() of a rank-0 array {self.aval.str_long()}")
        return self.shape[0]

    @override
    def __contains__(self, value: object) -> bool:
        return value in np.asarray(self)

    @override
    def __bool__(self) -> bool:
        if self.size != 1:
            which = "an empty array" if self.size == 0 else "an array with several elements"
            raise ValueError(f"the truth value of {which} is ambiguous; got {self.aval.str_long()}. Use .any() or .all()")
        return bool(_scalar_value(self, "bool()"))

    @override
    def __int__(self) -> int:
        return int(_scalar_value(self, "int()"))

    @override
    def __float__(self) -> float:
        return float(_scalar_value(self, "float()"))

    @override
    def __complex__(self) -> complex:
        return complex(_scalar_value(self, "complex()"))

    @override
    def __index__(self) -> int:
        if self.shape or self.dtype.kind not in "iu":
            raise TypeError(f"only rank-0 integer arrays can be an index; got {self.aval.str_long()}")
        return operator.index(np.asarray(self)[()])

    @override
    def __setattr__(self, name: str, value: object) -> None:
        if name in _READ_ONLY_ATTRIBUTES:
            raise TypeError(f"arrays are immutable: `x.{name} = v` would change the array for every reference to it")
        super().__setattr__(name, value)

    @override
    def __setitem__(self, index: object, value: object) -> None:
        raise TypeError("arrays are immutable: instead of `x[i] = v` write `x = x.at[i].set(v)`")

    def __delitem__(self, index: object) -> None:
        raise TypeError("arrays are immutable, and no elements of one can be deleted; numpy.delete gives a new one")

    @override
    def __copy__(self) -> HostArray:
        return HostArray.of(np.array(self), self.aval)

    @override
    def __deepcopy__(self, memo: object) -> HostArray:
        return self.__copy__()

    @override
    def __repr__(self) -> str:
        value = np.asarray(self)
        tail = f"dtype={dtypes.long_name(self.dtype)}{', weak_type=True' if self.weak_type else ''})"
        if not self.size:
            return f"Array([], {'' if self.shape == (0,) else f'shape={self.shape}, '}{tail}"
        shown = get_key_data(value) if dtypes.is_key(self.dtype) else value
        text = np.array2string(shown, separator=", ", prefix="Array(", suffix=")")
        last = len(text) - text.rfind("\n") + (6 if "\n" not in text else 0)
        gap = ", " if last + len(tail) + 1 < np.get_printoptions()["linewidth"] else ",\n      "
        return f"Array({text}{gap}{tail}"

    def _repr_html_(self) -> str:
        from lamina_ir.extend import html  # noqa: PLC0415 (on demand: only notebooks need it)
        title, facts = f"Array {self.aval.str_long()}", [("placement", "host memory")]
        if dtypes.is_key(self.dtype) or not self.size:
            return html.fact_box(title, facts)
        value = np.asarray(self)
        picture = html.heat_map(value[html.sample_slices(self.shape)], self.shape) if self.size > 1 else ""
        return html.fact_box(title, facts, picture, html.text_block(repr(self)) if self.size <= 64 else "")

    @override
    def __str__(self) -> str:
        return str(np.asarray(self))

    @override
    def __format__(self, spec: str) -> str:
        return format(np.asarray(self)[()], spec)

    @override
    def __hash__(self) -> int:  # type: ignore[override]  # NumPy sets it to None, whose error message gives no advice
        raise TypeError("arrays are not hashable; use their shape and dtype, or x.tobytes(), as a key")

    @override
    def __reduce__(self) -> tuple[Function, tuple[object, ...]]:
        return _rebuild, (np.asarray(self), self.weak_type)


_x64 = config.enable_x64  # if it is off, 64-bit arrays are treated as 32-bit ones
set_known = HostArray._aval_and_ndarray.__set__  # type: ignore[attr-defined]  # bypasses `__setattr__`, which raises


def wrap_ndarray(array: np.ndarray, aval: ShapedArray) -> HostArray:
    """Wrap a plain array whose shape and dtype are exactly those of `aval`; a faster `HostArray.of`."""
    array.setflags(False)  # type: ignore[call-arg]  # a positional argument takes half the time
    result = array.view(HostArray)
    if aval.weak_type:
        result.__dict__["weak_type"] = True
    if type(aval) is ShapedArray:  # not a subclass: the value varies over no mapped axis
        set_known(result, (aval, array))
    return result


def get_aval_and_ndarray(x: HostArray) -> tuple[ShapedArray, np.ndarray]:
    """Return the type of `x` and a plain array in its memory, both in the canonical dtype that primitives use."""
    try:
        cached = x._aval_and_ndarray
        if _x64.enabled_in_all_threads or cached[0].dtype.itemsize < 8 or _x64.value:
            return cached
    except AttributeError:
        pass
    # A view that NumPy made, or an array from a time when 64-bit types were enabled: compute the canonical type.
    aval = shaped(x.shape, dtypes.canonicalize(x.dtype), x.weak_type)
    return aval, np.asarray(x, aval.dtype)


def _type_of(x: HostArray) -> ShapedArray:
    try:
        aval = x._aval_and_ndarray[0]
        if _x64.enabled_in_all_threads or aval.dtype.itemsize < 8 or _x64.value:
            return aval
    except AttributeError:
        pass
    return get_aval_and_ndarray(x)[0]


register_aval(HostArray, _type_of)


def _to_plain(x: Tree) -> Tree:
    """Replace HostArrays in an argument of a NumPy function by plain views, also within lists and tuples."""
    if isinstance(x, HostArray):
        return np.asarray(x)
    # Exact types only: a subclass may have another constructor.
    if type(x) in (list, tuple):
        return type(x)(map(_to_plain, x))
    return x


_REFLECTED = {"add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "divide": "__rtruediv__", "power": "__rpow__",
              "floor_divide": "__rfloordiv__", "remainder": "__rmod__", "bitwise_and": "__rand__", "bitwise_or": "__ror__",
              "bitwise_xor": "__rxor__", "left_shift": "__rlshift__", "right_shift": "__rrshift__", "equal": "__eq__",
              "not_equal": "__ne__", "less": "__gt__", "less_equal": "__ge__", "greater": "__lt__", "greater_equal": "__le__"}


def _raise_immutable(name: str) -> Function:
    """Make a method that raises TypeError."""
    def method(self: HostArray, *args: Tree, **kwargs: Tree) -> None:
        raise TypeError(f"arrays are immutable: `x.{name}` would change one in place; use a function that returns a new array, "
                        "or x.at[i].set(v)")

    return method


def _as_method(op: Function) -> Function:
    return lambda x, y: op(x, y)  # a builtin function is not bound as a method


for _name in _IN_PLACE_METHODS:
    setattr(HostArray, _name, _raise_immutable(_name))
for _op in (operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
            operator.matmul, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift):
    # NumPy's own methods would write in place. Here `x += y` means `x = x + y`, which rebinds the name to a new array.
    setattr(HostArray, f"__i{_op.__name__.strip('_')}__", _as_method(_op))
HostArray.__name__ = "Array"


def _rebuild(x: np.ndarray, weak: bool) -> HostArray:
    return HostArray.of(x, ShapedArray(x.shape, x.dtype, weak))
