"""The concrete array of this floor: `HostArray`, a NumPy array that carries a weak-type mark and our operators.

Nothing changes one: its memory is read-only, what NumPy's arrays do in place is refused or gives a new array, and functions of
NumPy's are handed a plain read-only view and give plain arrays, as for any device's array.
"""
from __future__ import annotations

import operator
import sys
from collections.abc import Iterator
from opcode import opmap
from typing import Any

import numpy as np
from lamina_ir import ShapedArray, config, dtypes, register_aval, shaped
from lamina_ir.extend import words_array

from .tracer import Tracer

__all__ = ["HostArray", "know", "taken", "typed", "written_as_operator"]

_IN_PLACE = ("fill", "itemset", "put", "resize", "setfield", "setflags", "__setstate__")  # what NumPy's have and ours must not
_FACTS = frozenset(("_known", "aval", "base", "data", "dtype", "flat", "imag", "real", "shape", "strides", "weak_type"))


def _number(self: HostArray, use: str) -> Any:
    if self.size != 1:
        raise TypeError(f"{use}: expected an array with one element; got {self.aval.long()}")
    return np.asarray(self).reshape(())[()]


class HostArray(np.ndarray):
    """A NumPy array with our operators, made by the NumPy evaluator. Its memory is read-only: arrays are immutable.

    `HostArray.of(x, aval)` makes one, in the memory of `x`, to which nobody may write any more. The class itself is not
    meant to be called.

    Args:
      shape, dtype, buffer, offset, strides, order: as of `numpy.ndarray`.

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

    __slots__ = ("_known", "__dict__")
    _known: tuple[ShapedArray, np.ndarray]  # its type and the plain array it is a view of, which ops ask for; views have none
    weak_type = False
    base = None  # whose memory it is would be one way to write into it
    _trace = None
    __array_priority__ = 900

    @staticmethod
    def of(x: Any, aval: ShapedArray) -> HostArray:
        """`x` with the dtype and weakness of `aval`. It takes the memory of `x`: nobody may write to that any more."""
        array = np.asarray(x, aval.dtype)
        if array.shape != aval.shape:  # only its dtype and weakness are said
            aval = shaped(array.shape, aval.dtype, aval.weak_type)
        return taken(array, aval)

    @property
    def aval(self) -> ShapedArray:
        try:
            return self._known[0]
        except AttributeError:
            return ShapedArray(self.shape, self.dtype, self.weak_type)

    named_shape = property(lambda self: {})

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """What NumPy's elementwise functions give: plain arrays, unless something traced is among the operands."""
        if any(isinstance(x, Tracer) for x in inputs):
            return NotImplemented
        if len(inputs) == 2 and isinstance(inputs[0], np.generic) and method == "__call__" and not kwargs:
            reflected = _REFLECTED.get(ufunc.__name__)  # `np.float32(2) * x`, which Python asks NumPy's scalar first
            if reflected is not None and written_as_operator(sys._getframe(1)):
                return getattr(self, reflected)(inputs[0])
        if method == "at" and isinstance(inputs[0], HostArray):  # which NumPy 2 lets write into what is read-only
            raise TypeError(f"arrays are immutable: numpy.{ufunc.__name__}.at would change one in place; give it a copy, "
                            "np.array(x), or use x.at[i].add(v) and its siblings")
        if any(isinstance(x, HostArray) for x in kwargs.get("out", ())):
            raise TypeError(f"arrays are immutable: numpy.{ufunc.__name__} cannot write into one (out=); use what it returns")
        return getattr(ufunc, method)(*map(_plain, inputs), **{name: _plain(x) for name, x in kwargs.items()})

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """What NumPy's other functions give: plain arrays, unless something traced is among the arguments."""
        if any(issubclass(kind, Tracer) for kind in types):
            return NotImplemented
        return func(*map(_plain, args), **{name: _plain(x) for name, x in kwargs.items()})

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        out = np.asarray(array)
        return out[()] if return_scalar else out

    def block_until_ready(self) -> HostArray:
        return self

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError(f"iteration over a rank-0 array {self.aval.long()}")
        return iter([self[i] for i in range(self.shape[0])])

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"len() of a rank-0 array {self.aval.long()}")
        return self.shape[0]

    def __contains__(self, value: Any) -> bool:
        return value in np.asarray(self)

    def __bool__(self) -> bool:
        if self.size != 1:
            which = "an empty array" if self.size == 0 else "an array with several elements"
            raise ValueError(f"the truth value of {which} is ambiguous; got {self.aval.long()}. Use .any() or .all()")
        return bool(_number(self, "bool()"))

    def __int__(self) -> int:
        return int(_number(self, "int()"))

    def __float__(self) -> float:
        return float(_number(self, "float()"))

    def __complex__(self) -> complex:
        return complex(_number(self, "complex()"))

    def __index__(self) -> int:
        if self.shape or self.dtype.kind not in "iu":
            raise TypeError(f"only rank-0 integer arrays can be an index; got {self.aval.long()}")
        return operator.index(np.asarray(self)[()])

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FACTS:
            raise TypeError(f"arrays are immutable: `x.{name} = v` would change one for all who hold it")
        super().__setattr__(name, value)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError("arrays are immutable: instead of `x[i] = v` write `x = x.at[i].set(v)`")

    def __delitem__(self, index: Any) -> None:
        raise TypeError("arrays are immutable, and no elements of one can be deleted; numpy.delete gives a new one")

    def __copy__(self) -> HostArray:
        return HostArray.of(np.array(self), self.aval)

    def __deepcopy__(self, memo: Any) -> HostArray:
        return self.__copy__()

    def __repr__(self) -> str:
        value = np.asarray(self)
        tail = f"dtype={dtypes.long_name(self.dtype)}{', weak_type=True' if self.weak_type else ''})"
        if not self.size:
            return f"Array([], {'' if self.shape == (0,) else f'shape={self.shape}, '}{tail}"
        shown = words_array(value) if dtypes.is_key(self.dtype) else value
        text = np.array2string(shown, separator=", ", prefix="Array(", suffix=")")
        last = len(text) - text.rfind("\n") + (6 if "\n" not in text else 0)
        gap = ", " if last + len(tail) + 1 < np.get_printoptions()["linewidth"] else ",\n      "
        return f"Array({text}{gap}{tail}"

    def __str__(self) -> str:
        return str(np.asarray(self))

    def __format__(self, spec: str) -> str:
        return format(np.asarray(self)[()], spec)

    def __hash__(self) -> int:  # type: ignore[override]  # NumPy's arrays have None, and an error that helps nobody
        raise TypeError("arrays are not hashable; use their shape and dtype, or x.tobytes(), as a key")

    def __reduce__(self) -> Any:
        return _rebuild, (np.asarray(self), self.weak_type)


_x64 = config.enable_x64  # without it wide arrays count as narrow ones
know = HostArray._known.__set__  # type: ignore[attr-defined]  # past `__setattr__`, which refuses


def taken(array: np.ndarray, aval: ShapedArray) -> HostArray:
    """`HostArray.of` for a plain array of exactly this type."""
    array.setflags(False)  # type: ignore[call-arg]  # by position, which takes half the time
    ours = array.view(HostArray)
    if aval.weak_type:
        ours.__dict__["weak_type"] = True
    if type(aval) is ShapedArray:  # one that differs over no mapped axis
        know(ours, (aval, array))
    return ours


def typed(x: HostArray) -> tuple[ShapedArray, np.ndarray]:
    """The type of an array of ours and a plain one in its memory; both of the canonical dtype, in which ops compute."""
    try:
        known = x._known
        if _x64.everywhere or known[0].dtype.itemsize < 8 or _x64.value:
            return known
    except AttributeError:
        pass
    aval = shaped(x.shape, dtypes.canonical(x.dtype), x.weak_type)
    return aval, np.asarray(x, aval.dtype)


def _type_of(x: HostArray) -> ShapedArray:
    try:
        aval = x._known[0]
        if _x64.everywhere or aval.dtype.itemsize < 8 or _x64.value:
            return aval
    except AttributeError:
        pass
    return typed(x)[0]


register_aval(HostArray, _type_of)


def _plain(x: Any) -> Any:
    """An argument of a function of NumPy's, with plain views in the place of our arrays."""
    if isinstance(x, HostArray):
        return np.asarray(x)
    if type(x) in (list, tuple):
        return type(x)(map(_plain, x))
    return x


_REFLECTED = {"add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "divide": "__rtruediv__", "power": "__rpow__",
              "floor_divide": "__rfloordiv__", "remainder": "__rmod__", "bitwise_and": "__rand__", "bitwise_or": "__ror__",
              "bitwise_xor": "__rxor__", "left_shift": "__rlshift__", "right_shift": "__rrshift__", "equal": "__eq__",
              "not_equal": "__ne__", "less": "__gt__", "less_equal": "__ge__", "greater": "__lt__", "greater_equal": "__le__"}
_OPERATORS = frozenset((opmap["BINARY_OP"], opmap["COMPARE_OP"]))


def written_as_operator(caller: Any) -> bool:
    """Whether a frame is at an operator, `x + y`, and not at a call: NumPy asks operands in the same way for both."""
    return caller.f_code.co_code[caller.f_lasti] in _OPERATORS


def _refusing(name: str) -> Any:
    def refuse(self: HostArray, *args: Any, **kwargs: Any) -> None:
        raise TypeError(f"arrays are immutable: `x.{name}` would change one in place; use a function that returns a new array, "
                        "or x.at[i].set(v)")

    return refuse


def _rebinding(op: Any) -> Any:
    return lambda x, y: op(x, y)  # a builtin would not become a method


for _name in _IN_PLACE:
    setattr(HostArray, _name, _refusing(_name))
for _op in (operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
            operator.matmul, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift):
    # NumPy's own would write in place: `x += y` is `x = x + y`, a new array under the old name.
    setattr(HostArray, f"__i{_op.__name__.strip('_')}__", _rebinding(_op))
HostArray.__name__ = "Array"


def _rebuild(x: np.ndarray, weak: bool) -> HostArray:
    return HostArray.of(x, ShapedArray(x.shape, x.dtype, weak))
