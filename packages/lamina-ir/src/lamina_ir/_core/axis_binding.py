"""Axis binding of map primitives: the axes that a map binds for its region, and how operands and results are mapped.

It is part of the region signature. All generic code for maps (types, derivatives, residuals, batching, effects) uses
it, so that maps over one axis (an axis number per operand) and maps over several axes (an entry per dimension) share
that code.
"""
from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from .._types.avals import Axes, ShapedArray, shaped
from .._types.param_values import UnnamedAxis, register_param_type
from ..typing import MapEntry, ParamValue

__all__ = ["AxisBinding", "Entry", "Indexed", "MultiAxisBinding", "SingleAxisBinding", "Split"]


@register_param_type
@dataclasses.dataclass(frozen=True, slots=True)
class Indexed:
    """Marks a dimension that the map removes: each member of these axes gets the slice at its index.

    Attributes:
      names: of the axes; the first varies slowest.

    >>> Indexed(("i", "j"))
    Indexed(names=('i', 'j'))
    """

    names: tuple[Hashable, ...]


@register_param_type
@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """Marks a dimension that the map divides: each member of these axes gets a block of it.

    Attributes:
      names: of the axes; the first varies slowest.

    >>> Split(("x",)) == Indexed(("x",))
    False
    """

    names: tuple[Hashable, ...]


Entry = tuple[Indexed | Split | None, ...]  # per dimension of the global array; None: not mapped


class AxisBinding:
    """How a map binds axes: the interface of the two classes below.

    Attributes:
      params: the params that specify the axes.
      ins, outs: the param with one entry per operand, and the one with one entry per result.
    """

    def __init__(self, *params: str, ins: str, outs: str) -> None:
        self.params, self.ins, self.outs = params, ins, outs

    def axes(self, params: Mapping[str, ParamValue]) -> tuple[tuple[Hashable, int], ...]:
        """Return (name, size) of each bound axis, outermost first."""
        raise NotImplementedError

    def local_axes(self, params: Mapping[str, ParamValue]) -> tuple[tuple[Hashable, int], ...]:
        """Return (name, number of members in this process) of each bound axis, outermost first."""
        raise NotImplementedError

    def serial_axes(self, params: Mapping[str, ParamValue]) -> Axes:
        """Return the axes whose members run one after the other, so that only values stored for all of them cost
        memory."""
        return frozenset()

    def names(self, params: Mapping[str, ParamValue]) -> Axes:
        """Return the names of the bound axes."""
        return frozenset([name for name, _ in self.axes(params)])

    def mapped_axes(self, params: Mapping[str, ParamValue], entry: MapEntry) -> Axes:
        """Return the axes over which an operand or result with this entry is mapped: each member has its own part."""
        raise NotImplementedError

    def mapped_entry(self, params: Mapping[str, ParamValue], aval: ShapedArray) -> tuple[MapEntry, ShapedArray]:
        """Return the entry, and the type outside the map, of a new operand or result whose type for each member is
        `aval`."""
        raise NotImplementedError

    def shared(self, aval: ShapedArray) -> MapEntry:
        """Return the entry of a new operand of this type that is the same for all members."""
        raise NotImplementedError

    def add_batch_dim(self, entry: MapEntry) -> MapEntry:
        """Return the entry after a batch dimension is added in front, outside and inside the map."""
        raise NotImplementedError


class SingleAxisBinding(AxisBinding):
    """Binding of one axis; the entry of an operand or result is the number of its mapped dimension, or None.

    Args:
      name: the param with the axis name.
      local_size: the param with the number of members in this process.
      global_size: the param with the number of members in all processes, or None if it is the same.
      ins, outs: the params with the dimension numbers.
    """

    def __init__(self, name: str, local_size: str, global_size: str, *, ins: str = "in_axes",
                 outs: str = "out_axes") -> None:
        super().__init__(name, local_size, global_size, ins=ins, outs=outs)

    @override
    def axes(self, params: Mapping[str, ParamValue]) -> tuple[tuple[Hashable, int], ...]:
        # Collectives inside see the members of all processes, so the global size counts.
        name, here, everywhere = [params[p] for p in self.params]
        return ((name, everywhere or here),)

    @override
    def local_axes(self, params: Mapping[str, ParamValue]) -> tuple[tuple[Hashable, int], ...]:
        return ((params[self.params[0]], params[self.params[1]]),)

    @override
    def mapped_axes(self, params: Mapping[str, ParamValue], entry: MapEntry) -> Axes:
        return frozenset() if entry is None else frozenset([params[self.params[0]]])

    @override
    def mapped_entry(self, params: Mapping[str, ParamValue], aval: ShapedArray) -> tuple[MapEntry, ShapedArray]:
        name, size = params[self.params[0]], params[self.params[1]]
        # Types do not record unnamed axes, so a value may vary over one without a mark in its type.
        if type(name) is not UnnamedAxis and name not in aval.varying_axes:  # not varying: the same for all members
            return None, aval
        return 0, shaped((size, *aval.shape), aval.dtype, aval.weak_type)

    @override
    def shared(self, aval: ShapedArray) -> MapEntry:
        return None

    @override
    def add_batch_dim(self, entry: MapEntry) -> MapEntry:
        return None if entry is None else entry + 1


class MultiAxisBinding(AxisBinding):
    """Binding of several axes; an entry is a tuple with None, Indexed or Split per dimension.

    Args:
      find: params -> (name, size) of each axis.
      local_axes: params -> (name, number of members in this process) of each axis.
      *params: the params that these functions read.
      ins, outs: the params with the entries.
      loops: the param with (name, number) of the axes that run serially, if there is one.
    """

    def __init__(self, find: Callable[[Mapping[str, ParamValue]], tuple[tuple[Hashable, int], ...]],
                 local_axes: Callable[[Mapping[str, ParamValue]], tuple[tuple[Hashable, int], ...]], *params: str,
                 ins: str, outs: str, loops: str = "") -> None:
        super().__init__(*params, ins=ins, outs=outs)
        self.axes, self.local_axes = find, local_axes  # type: ignore[method-assign, assignment]
        self.loops = loops

    @override
    def serial_axes(self, params: Mapping[str, ParamValue]) -> Axes:
        return frozenset([name for name, _ in params[self.loops]]) if self.loops else frozenset()

    @override
    def mapped_axes(self, params: Mapping[str, ParamValue], entry: Entry) -> Axes:
        return frozenset([name for kind in entry if kind is not None for name in kind.names])

    @override
    def mapped_entry(self, params: Mapping[str, ParamValue], aval: ShapedArray) -> tuple[Entry, ShapedArray]:
        # A value that does not vary over an axis is stored once for all members: a weight is not copied n times.
        mine = [(name, size) for name, size in self.local_axes(params) if name in aval.varying_axes]
        whole = shaped((*[size for _, size in mine], *aval.shape), aval.dtype, aval.weak_type)
        return (*[Indexed((name,)) for name, _ in mine], *[None] * aval.ndim), whole.with_varying_axes(
            aval.varying_axes - self.names(params))

    @override
    def shared(self, aval: ShapedArray) -> Entry:
        return (None,) * aval.ndim

    @override
    def add_batch_dim(self, entry: Entry) -> Entry:
        return (None, *entry)


# --- tests of param values ----------------------------------------------------------------------------------------
def is_entry(v: Any) -> bool:
    """Whether a value is None, or an Indexed or Split with a tuple of names."""
    return v is None or (type(v) in (Indexed, Split) and isinstance(v.names, tuple) and _hashable(v.names))


def are_sizes(v: Any) -> bool:
    """Whether a value is a tuple of (name, size) pairs."""
    return (isinstance(v, tuple) and all(isinstance(p, tuple) and len(p) == 2 and type(p[1]) is int for p in v)
            and _hashable(v))


def are_names(v: Any) -> bool:
    """Whether a value is a tuple of names."""
    return isinstance(v, tuple) and _hashable(v)


def are_resources(v: Any) -> bool:
    """Whether a value is a tuple of pairs (name, tuple of names)."""
    return (isinstance(v, tuple) and all(isinstance(p, tuple) and len(p) == 2 and isinstance(p[1], tuple) for p in v)
            and _hashable(v))


def is_mesh(v: Any) -> bool:
    """Whether a value is (names, sizes, devices), with as many names as sizes and one device per position."""
    if not (isinstance(v, tuple) and len(v) == 3):
        return False
    names, sizes, devices = v
    return (isinstance(names, tuple) and isinstance(sizes, tuple) and isinstance(devices, tuple) and len(names) == len(sizes)
            and _hashable(v) and {int}.issuperset(map(type, sizes)) and len(devices) == math.prod(sizes))


def _hashable(v: object) -> bool:
    try:
        hash(v)
    except TypeError:
        return False
    return True


# --- entries of several axes --------------------------------------------------------------------------------------
def member_shape(entry: Entry, shape: Sequence[int], sizes: Mapping[Hashable, int]) -> tuple[int, ...] | None:
    """Return the shape of a member's part of an array of this shape; None if the entry does not match the shape."""
    found = []
    if len(entry) != len(shape):
        return None
    for kind, length in zip(entry, shape):
        n = 1 if kind is None else math.prod([sizes[name] for name in kind.names])
        # A Split dimension must divide evenly; an Indexed one has exactly one position per member.
        if length % n if type(kind) is Split else type(kind) is Indexed and length != n:
            return None
        if type(kind) is not Indexed:
            found.append(length // n)
    return tuple(found)


def global_shape(entry: Entry, shape: Sequence[int], sizes: Mapping[Hashable, int]) -> tuple[int, ...] | None:
    """Return the shape of the global array if a member's part has this shape; None if the entry does not match it."""
    # Indexed dimensions take no length of the member's shape; the others take them in order.
    lengths, found = list(reversed(shape)), []
    if len([kind for kind in entry if type(kind) is not Indexed]) != len(lengths):
        return None
    for kind in entry:
        n = 1 if kind is None else math.prod([sizes[name] for name in kind.names])
        found.append(n if type(kind) is Indexed else n * lengths.pop())
    return tuple(found)


def member_index(entry: Entry, shape: Sequence[int], axes: Sequence[tuple[Hashable, int]],
                 place: Sequence[int]) -> tuple[int | slice, ...]:
    """Return the index, into a global array of this shape, of the part of the member at this position on the axes."""
    sizes, at = dict(axes), {name: k for (name, _), k in zip(axes, place)}
    index: list[int | slice] = []
    for kind, length in zip(entry, shape):
        if kind is None:
            index.append(slice(None))
            continue
        k, n = 0, math.prod([sizes[name] for name in kind.names])
        for name in kind.names:
            # Row-major number of the member over the axes of this dimension.
            k = k * sizes[name] + at[name]
        index.append(k if type(kind) is Indexed else slice(k * (length // n), (k + 1) * (length // n)))
    return tuple(index)
