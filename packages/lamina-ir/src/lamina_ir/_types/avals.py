"""Abstract values, known while a program is traced: shape, dtype, weak type and varying axes."""
from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest
from operator import index
from typing import Any

import numpy as np
from typing_extensions import override

from .. import config
from . import dtypes
from .._util.short_repr import short_repr
from ..errors import DTypeError, ShapeError, UnboundAxisError
from .param_values import format_param
from ..typing import AxisName, Sharding, Value
from .._typing import DTypeSpec, ShapeSpec
from .._util.former_names import former_attributes

__all__ = ["ShapeDtypeStruct", "ShapedArray", "aval_of", "register_aval", "set_axis_size_reader", "shaped"]

Axes = frozenset[Any]


@former_attributes(differing="with_varying_axes", long="str_long", over="varying_axes", short="str_short",
                   strong="strip_weak_type")
class ShapedArray:
    """Shape, dtype, weak type and varying axes of an array. Immutable; compared by value.

    Args:
      shape: tuple of ints.
      dtype: a `numpy.dtype` in canonical form.
      weak_type: whether the dtype comes from a Python scalar; promotion then prefers the dtypes of other operands.

    Attributes:
      varying_axes: names of the mapped axes over which the value may differ between members; usually empty.
        `with_varying_axes` makes other types; see docs/design/collectives.md.
      sharding: None, or the sharding of an array whose mesh has `Explicit` axes. Only `typeof` returns such types; the
        types in programs contain no shardings.
    """

    __slots__ = ("shape", "dtype", "weak_type", "_hash")
    varying_axes: Axes = frozenset()  # a class attribute: nearly all types have no varying axes and need no memory for them
    sharding: Sharding = None
    is_reference = False  # True in the type of a mutable reference, which defines `new_argument(trace, var)`

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, weak_type: bool = False) -> None:
        self.shape = shape
        self.dtype = dtype
        self.weak_type = weak_type
        self._hash: int | None = None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def named_shape(self) -> dict[AxisName, int]:
        """The sizes of the varying axes, outermost first: `{name: size}`.

        Types store only names, so this raises UnboundAxisError if an axis is not in scope.
        """
        return {}

    @override
    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (type(other) is ShapedArray and self.shape == other.shape and self.dtype == other.dtype
                and self.weak_type == other.weak_type)

    @override
    def __hash__(self) -> int:
        h = self._hash
        if h is None:
            h = self._hash = hash((self.shape, self.dtype, self.weak_type))
        return h

    def with_varying_axes(self, over: Axes) -> ShapedArray:
        """Return the same type with exactly these varying axes.

        >>> shaped((3,), "float32").with_varying_axes(frozenset(["i"]))
        ShapedArray(float32[3]{i})
        """
        return _differing(self, over) if over else self

    def with_sharding(self, sharding: Sharding) -> ShapedArray:
        """Return the same type with a sharding, as `typeof` returns for arrays on a mesh with `Explicit` axes.

        Args:
          sharding: a sharding; its `explicit_entries` are the axes of each dimension. None: no sharding.
        """
        if sharding is None:
            return self
        return _ShardedArray(self.shape, self.dtype, self.weak_type, sharding, self.varying_axes)

    def without_sharding(self) -> ShapedArray:
        """Return the same type without a sharding."""
        return self

    def same_type(self, other: ShapedArray) -> bool:
        """Whether shapes and dtypes are equal; weak types and varying axes are ignored."""
        return self is other or (self.shape == other.shape and self.dtype == other.dtype)

    def strip_weak_type(self) -> ShapedArray:
        """Return the same type without weak type."""
        return shaped(self.shape, self.dtype) if self.weak_type else self

    def update(self, **changes: Any) -> ShapedArray:
        """Return a copy with another `shape`, `dtype` or `weak_type`. Other keywords, such as `sharding`, have no effect.

        >>> shaped((3,), "float32").update(shape=(2, 3))
        ShapedArray(float32[2,3])
        """
        made = shaped(tuple(changes.get("shape", self.shape)), changes.get("dtype", self.dtype),
                      bool(changes.get("weak_type", self.weak_type)))
        return made.with_varying_axes(self.varying_axes)

    def to_tangent_aval(self) -> ShapedArray:
        """Return the type of tangents: this type without weak type; dtype float0 unless this dtype is inexact.

        >>> shaped((3,), "int32").to_tangent_aval()
        ShapedArray(float0[3])
        """
        return self.strip_weak_type() if dtypes.is_inexact(self.dtype) else self.update(dtype=dtypes.float0, weak_type=False)

    at_least_vspace = to_tangent_aval

    def str_short(self, short_dtypes: bool = True) -> str:
        """Return the type as printed in programs: `f32[8,3]`, or `f32[8,3]{i}` if it varies over the axis `i`.

        Args:
          short_dtypes: accepted without effect: dtypes are always short.
        """
        return f"{dtypes.short_name(self.dtype)}[{','.join(map(str, self.shape))}]"

    def str_long(self) -> str:
        """Return the type as printed in errors: `float32[8,3]`."""
        return f"{dtypes.long_name(self.dtype)}[{','.join(map(str, self.shape))}]"

    @override
    def __repr__(self) -> str:
        return f"ShapedArray({self.str_long()}{', weak_type=True' if self.weak_type else ''})"

    __str__ = str_long

    @override
    def __reduce__(self) -> tuple[Callable[..., ShapedArray], tuple[object, ...]]:
        return ShapedArray, (self.shape, self.dtype, self.weak_type)


class _VaryingArray(ShapedArray):
    """A type with varying axes."""

    __slots__ = ("varying_axes",)

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, weak_type: bool, over: Axes) -> None:
        super().__init__(shape, dtype, weak_type)
        self.varying_axes = over

    @override
    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is _VaryingArray and self.varying_axes == other.varying_axes
                                 and self.shape == other.shape
                                 and self.dtype == other.dtype and self.weak_type == other.weak_type)

    @override
    def __hash__(self) -> int:
        h = self._hash
        if h is None:
            h = self._hash = hash((self.shape, self.dtype, self.weak_type, self.varying_axes))
        return h

    @override
    def with_varying_axes(self, over: Axes) -> ShapedArray:
        return self if over == self.varying_axes else shaped(self.shape, self.dtype, self.weak_type).with_varying_axes(over)

    @override
    def strip_weak_type(self) -> ShapedArray:
        return super().strip_weak_type().with_varying_axes(self.varying_axes) if self.weak_type else self

    @property
    @override
    def named_shape(self) -> dict[AxisName, int]:
        found = {name: size for name, size in _axis_sizes() if name in self.varying_axes}
        if len(found) < len(self.varying_axes):
            missing = sorted(map(repr, self.varying_axes.difference(found)))
            raise UnboundAxisError(f"named_shape of {self.str_short()}: the axis {' and '.join(missing)} is not bound "
                                   "here, so its "
                                   "size is unknown. Read it inside the mapped function, or use the param axis_sizes "
                                   "of the map's equation or a ShapeDtypeStruct from eval_shape")
        return found

    @override
    def str_short(self, short_dtypes: bool = True) -> str:
        return f"{super().str_short()}{_braces(self.varying_axes)}"

    @override
    def __repr__(self) -> str:
        return f"ShapedArray({self.str_long()}{_braces(self.varying_axes, True)}{', weak_type=True' if self.weak_type else ''})"

    @override
    def __reduce__(self) -> tuple[Callable[..., ShapedArray], tuple[object, ...]]:
        return _differing, (shaped(self.shape, self.dtype, self.weak_type), self.varying_axes)


class _ShardedArray(ShapedArray):
    """A type with a sharding over `Explicit` axes."""

    __slots__ = ("sharding", "varying_axes")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, weak_type: bool, sharding: Sharding,
                 over: Axes = frozenset()) -> None:
        super().__init__(shape, dtype, weak_type)
        self.sharding, self.varying_axes = sharding, over

    @override
    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is _ShardedArray and self.sharding == other.sharding
                                 and self.shape == other.shape and self.dtype == other.dtype
                                 and self.weak_type == other.weak_type and self.varying_axes == other.varying_axes)

    @override
    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.weak_type))

    @override
    def strip_weak_type(self) -> ShapedArray:
        return self._replace_type(shaped(self.shape, self.dtype)) if self.weak_type else self

    @override
    def with_varying_axes(self, over: Axes) -> ShapedArray:
        return self.without_sharding().with_varying_axes(over).with_sharding(self.sharding)

    @override
    def without_sharding(self) -> ShapedArray:
        return shaped(self.shape, self.dtype, self.weak_type).with_varying_axes(self.varying_axes)

    def _replace_type(self, plain: ShapedArray) -> ShapedArray:
        return plain.with_varying_axes(self.varying_axes).with_sharding(self.sharding)

    def _sizes(self) -> str:
        return _format_sizes(self.shape, self.sharding.explicit_entries)

    @override
    def str_short(self, short_dtypes: bool = True) -> str:
        return f"{dtypes.short_name(self.dtype)}[{self._sizes()}]"

    @override
    def str_long(self) -> str:
        return f"{dtypes.long_name(self.dtype)}[{self._sizes()}]"

    __str__ = str_long

    @override
    def __reduce__(self) -> tuple[Callable[..., ShapedArray], tuple[object, ...]]:
        return _ShardedArray, (self.shape, self.dtype, self.weak_type, self.sharding, self.varying_axes)


def _format_sizes(shape: Sequence[int], entries: Sequence[tuple[AxisName, ...]]) -> str:
    """Return a shape with the mesh axes of each dimension: `8@x,4,2@(y,z)`."""
    return ",".join([f"{n}@{_format_names(names)}" if names else str(n)
                     for n, names in zip_longest(shape, entries, fillvalue=())])


def _format_names(names: tuple[AxisName, ...]) -> str:
    return str(names[0]) if len(names) == 1 else f"({','.join(map(str, names))})"


def _no_axes() -> Iterable[tuple[AxisName, int]]:
    return ()


_axis_sizes: Callable[[], Iterable[tuple[AxisName, int]]] = _no_axes


def set_axis_size_reader(reader: Callable[[], Iterable[tuple[AxisName, int]]]) -> None:
    """Set the function that finds the axis sizes for `ShapedArray.named_shape`.

    Args:
      reader: returns (name, size) of each axis in scope, outermost first.

    >>> import lamina_ir._types.avals
    >>> before = lamina_ir._types.avals._axis_sizes
    >>> set_axis_size_reader(lambda: [("i", 4)])
    >>> shaped((3,), "float32").with_varying_axes(frozenset("i")).named_shape
    {'i': 4}
    >>> set_axis_size_reader(before)
    """
    global _axis_sizes
    _axis_sizes = reader


def _braces(over: Axes, sized: bool = False) -> str:
    """Return the names in braces; if `sized`, with the sizes of axes in scope: `{batch:8}`."""
    sizes = dict(_axis_sizes()) if sized else {}
    return f"{{{','.join(sorted([format_param(name) + (f':{sizes[name]}' if name in sizes else '') for name in over]))}}}"


@lru_cache(maxsize=2048)
def _differing(aval: ShapedArray, over: Axes) -> ShapedArray:
    return _VaryingArray(aval.shape, aval.dtype, aval.weak_type, frozenset(over))


# Interning: equal types are mostly one object, so comparisons mostly test identity. The cache is bounded to limit
# memory.
@lru_cache(maxsize=8192)
def shaped(shape: tuple[int, ...], dtype: DTypeSpec, weak_type: bool = False) -> ShapedArray:
    """Return the type with this shape, a tuple of ints, and dtype.

    >>> shaped((8, 3), "float32")
    ShapedArray(float32[8,3])
    """
    if not isinstance(dtype, np.dtype):
        if dtype is None:  # np.dtype(None) is float64
            raise DTypeError("shaped: expected a dtype; got None")
        dtype = dtypes.as_dtype(dtype)
    shape = tuple([n if type(n) is int else index(n) for n in shape])
    if shape and min(shape) < 0:
        raise ShapeError(f"shaped: sizes of a shape must be at least 0; got {shape}")
    return ShapedArray(shape, dtype, weak_type)


class ShapeDtypeStruct:
    """Shape and dtype of an array without its data, as `eval_shape` returns.

    Args:
      shape: tuple of ints.
      dtype: anything `numpy.dtype` accepts, small floats included.
      named_shape: varying axis -> its size, as inside an `xmap`.
      sharding: the sharding of the array, or the requested one.
      weak_type: whether the dtype is weak. `==` ignores it, and the sharding.

    >>> ShapeDtypeStruct((2, 3), "float32")
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    >>> ShapeDtypeStruct((3,), "float32", named_shape={"batch": 8})
    ShapeDtypeStruct(shape=(3,), dtype=float32, named_shape={'batch': 8})
    """

    __slots__ = ("shape", "dtype", "weak_type", "sharding", "named_shape")

    def __init__(self, shape: ShapeSpec, dtype: DTypeSpec, named_shape: Mapping[AxisName, int] | None = None,
                 sharding: Sharding = None, *, weak_type: bool = False) -> None:
        try:
            self.shape = tuple(shape)
            self.named_shape = dict({} if named_shape is None else named_shape)
        except (TypeError, ValueError):
            raise ShapeError("ShapeDtypeStruct: expected a shape, a tuple of ints, and None or a dict of axis names; got "
                             f"{short_repr(shape)} and {short_repr(named_shape)}") from None
        self.dtype = dtypes.as_dtype(dtype)
        self.weak_type = weak_type
        self.sharding = sharding

    ndim = property(lambda self: len(self.shape))
    layout = None  # the compiler chooses the memory layout

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @override
    def __repr__(self) -> str:
        named = f", named_shape={self.named_shape}" if self.named_shape else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={dtypes.long_name(self.dtype)}{named})"

    @override
    def __eq__(self, other: object) -> bool:
        return (isinstance(other, ShapeDtypeStruct) and self.shape == other.shape and self.dtype == other.dtype
                and self.named_shape == other.named_shape)

    @override
    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))


_aval_makers: dict[type, Callable[[Value], ShapedArray]] = {}


def register_aval(kind: type, maker: Callable[[Value], ShapedArray]) -> Callable[[Value], ShapedArray] | None:
    """Register the function that returns the aval of values of exactly this type; return the previous function."""
    if not isinstance(kind, type) or not callable(maker):
        raise TypeError(f"register_aval: expected a class and a function; got {short_repr(kind)} and {short_repr(maker)}")
    before = _aval_makers.get(kind)
    _aval_makers[kind] = maker
    return before


def aval_of(x: Value) -> ShapedArray:
    """Return the aval of a concrete value: array, NumPy scalar or Python number. TypeError for other values.

    >>> aval_of(2.0)
    ShapedArray(float32[], weak_type=True)
    """
    maker = _aval_makers.get(type(x))
    if maker is not None:
        return maker(x)
    masked = sys.modules.get("numpy.ma")  # not imported here: that costs a tenth of importing lamina
    if masked is not None and isinstance(x, masked.MaskedArray):
        raise ValueError("masked arrays are not supported, because their masks would be lost; use x.filled(...)")
    for kind in type(x).__mro__[1:]:
        maker = _aval_makers.get(kind)
        if maker is not None:
            return maker(x)
    raise TypeError(f"expected an array or a number; got {type(x).__name__}: {_clip(x)}{_register_hint(x)}")


def _register_hint(x: object) -> str:
    """Return how to make the class of `x` a tree of arrays if it is a dataclass, as the end of a message; else ""."""
    if not hasattr(type(x), "__dataclass_fields__"):
        return ""
    name = type(x).__name__
    return f". Decorate the dataclass {name} with tree_util.register_dataclass to pass its fields as a tree"


def _clip(x: object) -> str:
    text = repr(x)
    return text if len(text) <= 60 else text[:57] + "..."


def _of_ndarray(x: np.ndarray | np.generic) -> ShapedArray:
    dtype = dtypes.canonicalize(x.dtype)
    return shaped(x.shape, dtype, bool(getattr(x, "weak_type", False)))


for _kind in (np.ndarray, np.generic):
    _aval_makers[_kind] = _of_ndarray
_FLOAT32, _FLOAT64 = shaped((), "float32", True), shaped((), "float64", True)
_aval_makers[bool] = lambda x: shaped((), dtypes.BOOL)
_aval_makers[int] = lambda x: shaped((), dtypes.dtype_of_int(x), True)
_x64 = config.enable_x64
_aval_makers[float] = lambda x: _FLOAT64 if _x64.enabled_in_all_threads or _x64.ever_enabled and _x64.value else _FLOAT32
_aval_makers[complex] = lambda x: shaped((), dtypes.canonical_complex(), True)
