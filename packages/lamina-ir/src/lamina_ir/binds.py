"""What a map binds: which axes its program sees, and how operands and results lie along them. A fact of its flow.

Everything generic about maps (types, derivatives, residuals, batches, effects) asks here, so a map of one axis whose operands
have an axis number and one of several axes whose operands have an entry per dimension are treated by the same lines.
"""
from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from .avals import Axes, ShapedArray, shaped
from .params import UnnamedAxis, register_param_type

__all__ = ["AxesOf", "Axis", "Binds", "Entry", "Indexed", "Split"]


@register_param_type
@dataclasses.dataclass(frozen=True, slots=True)
class Indexed:
    """Of a dimension: inside of the map it is gone, since each member of these axes has its own index.

    Attributes:
      names: of the axes; the first is the slowest.

    >>> Indexed(("i", "j"))
    Indexed(names=('i', 'j'))
    """

    names: tuple[Hashable, ...]


@register_param_type
@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """Of a dimension: inside of the map it is there, divided: each member of these axes has its block.

    Attributes:
      names: of the axes; the first is the slowest.

    >>> Split(("x",)) == Indexed(("x",))
    False
    """

    names: tuple[Hashable, ...]


Entry = tuple[Indexed | Split | None, ...]  # per dimension of the whole array; None: it is inside as it is


class Binds:
    """How a map binds axes. A flow has one of the two kinds below.

    Attributes:
      params: the params that say which axes these are.
      ins, outs: the params with one entry per operand, and per result.
    """

    def __init__(self, *params: str, ins: str, outs: str) -> None:
        self.params, self.ins, self.outs = params, ins, outs

    def axes(self, params: Mapping[str, Any]) -> tuple[tuple[Hashable, int], ...]:
        """(name, size) of each axis that the program sees, outermost first."""
        raise NotImplementedError

    def here(self, params: Mapping[str, Any]) -> tuple[tuple[Hashable, int], ...]:
        """Likewise, with how many members of each have their parts of operands and results here, where others have theirs
        in other processes."""
        raise NotImplementedError

    def turns(self, params: Mapping[str, Any]) -> Axes:
        """The names of those axes whose members come one after the other, so that what is kept of all is what takes memory."""
        return frozenset()

    def names(self, params: Mapping[str, Any]) -> Axes:
        """The names of these axes."""
        return frozenset([name for name, _ in self.axes(params)])

    def along(self, params: Mapping[str, Any], entry: Any) -> Axes:
        """The axes along which an operand or result with this entry lies: each of their members has its own part."""
        raise NotImplementedError

    def own(self, params: Mapping[str, Any], aval: ShapedArray) -> tuple[Any, ShapedArray]:
        """The entry, and the type outside, of a new operand or result of which each member has its own, of this type."""
        raise NotImplementedError

    def shared(self, aval: ShapedArray) -> Any:
        """The entry of a new operand, of this type, which all members have whole."""
        raise NotImplementedError

    def behind_batch(self, entry: Any) -> Any:
        """The entry of an operand or result with the dimension of a batch in front, outside and inside."""
        raise NotImplementedError


class Axis(Binds):
    """One axis, and for each operand and result the number of the dimension that lies along it, or None.

    Args:
      name: the param with its name.
      here: the param with how many of its members have operands and results here.
      everywhere: the param with how many there are, where others have theirs elsewhere, or None.
      ins, outs: the params with the numbers.
    """

    def __init__(self, name: str, here: str, everywhere: str, *, ins: str = "in_axes", outs: str = "out_axes") -> None:
        super().__init__(name, here, everywhere, ins=ins, outs=outs)

    def axes(self, params: Mapping[str, Any]) -> tuple[tuple[Hashable, int], ...]:
        name, here, everywhere = [params[p] for p in self.params]
        return ((name, everywhere or here),)

    def here(self, params: Mapping[str, Any]) -> tuple[tuple[Hashable, int], ...]:
        return ((params[self.params[0]], params[self.params[1]]),)

    def along(self, params: Mapping[str, Any], entry: Any) -> Axes:
        return frozenset() if entry is None else frozenset([params[self.params[0]]])

    def own(self, params: Mapping[str, Any], aval: ShapedArray) -> tuple[Any, ShapedArray]:
        name, size = params[self.params[0]], params[self.params[1]]
        if type(name) is not UnnamedAxis and name not in aval.over:  # as its type says, all members have the same
            return None, aval
        return 0, shaped((size, *aval.shape), aval.dtype, aval.weak_type)

    def shared(self, aval: ShapedArray) -> Any:
        return None

    def behind_batch(self, entry: Any) -> Any:
        return None if entry is None else entry + 1


class AxesOf(Binds):
    """Several axes, and for each operand and result a tuple with one of None, Indexed and Split per dimension.

    Args:
      find: params -> (name, size) of each axis.
      here: params -> (name, how many of its members have their parts here) of each.
      *params: the params they read.
      ins, outs: the params with the tuples.
      loops: the param with (name, number) of those that run in turns, if there is one.
    """

    def __init__(self, find: Callable[[Mapping[str, Any]], tuple[tuple[Hashable, int], ...]],
                 here: Callable[[Mapping[str, Any]], tuple[tuple[Hashable, int], ...]], *params: str, ins: str,
                 outs: str, loops: str = "") -> None:
        super().__init__(*params, ins=ins, outs=outs)
        self.axes, self.here = find, here  # type: ignore[method-assign, assignment]
        self.loops = loops

    def turns(self, params: Mapping[str, Any]) -> Axes:
        return frozenset([name for name, _ in params[self.loops]]) if self.loops else frozenset()

    def along(self, params: Mapping[str, Any], entry: Entry) -> Axes:
        return frozenset([name for kind in entry if kind is not None for name in kind.names])

    def own(self, params: Mapping[str, Any], aval: ShapedArray) -> tuple[Entry, ShapedArray]:
        # A value that is the same along an axis stands once for all its members: a weight is not copied n times.
        mine = [(name, size) for name, size in self.here(params) if name in aval.over]
        whole = shaped((*[size for _, size in mine], *aval.shape), aval.dtype, aval.weak_type)
        return (*[Indexed((name,)) for name, _ in mine], *[None] * aval.ndim), whole.differing(
            aval.over - self.names(params))

    def shared(self, aval: ShapedArray) -> Entry:
        return (None,) * aval.ndim

    def behind_batch(self, entry: Entry) -> Entry:
        return (None, *entry)


# --- what params hold ---------------------------------------------------------------------------------------------
def is_entry(v: Any) -> bool:
    """Whether it is None, or an Indexed or Split of names."""
    return v is None or (type(v) in (Indexed, Split) and isinstance(v.names, tuple) and _hashable(v.names))


def are_sizes(v: Any) -> bool:
    """Whether these are pairs of a name and a size."""
    return isinstance(v, tuple) and all(isinstance(p, tuple) and len(p) == 2 and type(p[1]) is int for p in v) and _hashable(v)


def is_mesh(v: Any) -> bool:
    """Whether it is (names, sizes, devices), with as many names as sizes and a device for each place."""
    return (isinstance(v, tuple) and len(v) == 3 and all(isinstance(part, tuple) for part in v) and len(v[0]) == len(v[1])
            and _hashable(v) and all(type(n) is int for n in v[1]) and len(v[2]) == math.prod(v[1]))


def _hashable(v: Any) -> bool:
    try:
        hash(v)
    except TypeError:
        return False
    return True


# --- entries of several axes --------------------------------------------------------------------------------------
def inside(entry: Entry, shape: Sequence[int], sizes: Mapping[Hashable, int]) -> tuple[int, ...] | None:
    """The shape that a member has of an array of this one; None where the entry does not fit it."""
    found = []
    if len(entry) != len(shape):
        return None
    for kind, length in zip(entry, shape):
        n = 1 if kind is None else math.prod([sizes[name] for name in kind.names])
        if length % n if type(kind) is Split else type(kind) is Indexed and length != n:
            return None
        if type(kind) is not Indexed:
            found.append(length // n)
    return tuple(found)


def outside(entry: Entry, shape: Sequence[int], sizes: Mapping[Hashable, int]) -> tuple[int, ...] | None:
    """The shape of the whole array of which a member has this one; None where the entry does not fit it."""
    lengths, found = list(reversed(shape)), []
    if len([kind for kind in entry if type(kind) is not Indexed]) != len(lengths):
        return None
    for kind in entry:
        n = 1 if kind is None else math.prod([sizes[name] for name in kind.names])
        found.append(n if type(kind) is Indexed else n * lengths.pop())
    return tuple(found)


def part(entry: Entry, shape: Sequence[int], axes: Sequence[tuple[Hashable, int]], place: Sequence[int]) -> tuple[Any, ...]:
    """The index, into a whole array of this shape, of what the member at this place on the axes has of it."""
    sizes, at = dict(axes), {name: k for (name, _), k in zip(axes, place)}
    index: list[Any] = []
    for kind, length in zip(entry, shape):
        if kind is None:
            index.append(slice(None))
            continue
        k, n = 0, math.prod([sizes[name] for name in kind.names])
        for name in kind.names:
            k = k * sizes[name] + at[name]
        index.append(k if type(kind) is Indexed else slice(k * (length // n), (k + 1) * (length // n)))
    return tuple(index)
