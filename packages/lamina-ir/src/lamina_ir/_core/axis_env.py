"""`AxisEnv`: the mapped axes around a program, and the groups of participants in which a collective communicates.

Participants (replicas, partitions, examples) are numbered in row-major order over the axes, outermost axis first, then
over the copies. This module also has the only checks of axis names, groups and permutations, for arguments of users,
rules and programs alike.
"""
from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from operator import index
from typing import Any

import numpy as np
from typing_extensions import override

from .._util.short_repr import short_repr
from ..errors import ShapeError, UnboundAxisError
from .._types.param_values import UnnamedAxis
from .loop_context import AxisPosition, axis_positions
from ..typing import AxisName, CacheKey
from .._typing import AxisNames, IndexGroups
from .._util.former_names import former_attributes

__all__ = ["AxisEnv", "PROCESSES", "as_axis_name", "check_axis_name", "check_axis_names", "check_groups",
           "check_member_index", "check_permutation", "split_axis_names", "unbound_axis_error"]

Groups = tuple[tuple[int, ...], ...]


class _Processes:
    """The name of the axis over processes. No program contains it; programs see processes only as sizes of their
    maps."""

    @override
    def __repr__(self) -> str:
        return "processes"


PROCESSES = _Processes()


@former_attributes(places="axis_positions", spare="idle_participants")
class AxisEnv:
    """Names and sizes of the mapped axes around a program, outermost first. An inner name hides an equal outer one.

    Args:
      axes: (name, size) pairs.
      participants: their number, a multiple of the product of the sizes. A multiple greater than 1 means copies, which
        are innermost in the numbering. None: as many participants as the axes need.
    Attributes:
      names, sizes: of the axes.
      size: the product of the sizes.
      participants: `size * copies`.
      copies: the number of participants at each position on all axes.

    >>> env = AxisEnv([("i", 2), ("j", 3)])
    >>> env.size, env.groups("j"), env.groups(("j", "i"))
    (6, [[0, 1, 2], [3, 4, 5]], [[0, 3, 1, 4, 2, 5]])
    >>> AxisEnv([("i", 2)], 4).groups("i")
    [[0, 2], [1, 3]]
    """

    __slots__ = ("names", "sizes", "size", "participants", "copies", "_given", "_groups")
    idle_participants: Sequence[int] = ()  # participants without a position on the axes, in a mesh that is larger than needed

    def __init__(self, axes: Iterable[tuple[AxisName, int]] = (), participants: int | None = None) -> None:
        try:
            axes = tuple(axes)
            self.names: tuple[AxisName, ...]
            self.names, sizes = zip(*axes) if axes else ((), ())
            self.sizes = tuple(map(index, sizes))
            hash(self.names)
            count = None if participants is None else index(participants)
        except (TypeError, ValueError):
            raise TypeError("AxisEnv: expected (name, size) pairs, and None or a number of participants; got "
                            f"{short_repr(axes)} and {short_repr(participants)}") from None
        self.size = math.prod(self.sizes)
        self.participants = self.size if count is None else count
        if self.size == 0 or self.participants < 1 or self.participants % self.size:
            raise ShapeError(f"AxisEnv: participants must be a multiple of {self.size}, the size of the axes "
                             f"{dict(zip(self.names, self.sizes))}; got {self.participants}")
        self.copies = self.participants // self.size
        # Kept for `extend`, where a given number of participants stays and leaves fewer copies.
        self._given = count
        self._groups: dict[CacheKey, list[list[int]]] = {}

    def key(self) -> tuple[CacheKey, ...]:
        """Return a hashable key; equal for equivalent environments."""
        return self.names, self.sizes, self.participants

    def extend(self, name: Hashable, size: int) -> AxisEnv:
        """Return the environment with one more, innermost axis. If the number of participants was given, it divides the
        copies."""
        return AxisEnv([*zip(self.names, self.sizes), (name, size)], self._given)

    def position(self, name: Hashable) -> int:
        """Return the position of the axis `name`; UnboundAxisError if it is not bound."""
        # From the innermost axis, which hides outer ones of the same name.
        for i in range(len(self.names) - 1, -1, -1):
            if self.names[i] is name or self.names[i] == name:
                return i
        raise unbound_axis_error(name, self.names)

    def axis_size(self, names: AxisNames) -> int:
        """Return the product of the sizes of a name or a tuple of names."""
        return math.prod(self.sizes[self.position(n)] for n in _tuple(names))

    def stride(self, name: Hashable) -> int:
        """Return the difference of the numbers of two adjacent participants on the axis."""
        return self.copies * math.prod(self.sizes[self.position(name) + 1:])

    def groups(self, names: AxisNames, index_groups: Sequence[Sequence[int]] | None = None) -> list[list[int]]:
        """Return the groups of participants that differ only along the named axes, each ordered by index along them.

        Args:
          names: a name or a tuple of names; the first varies slowest in the order.
          index_groups: groups of indices along the named axes, of any sizes; default: one group with all.
        Returns:
          A list of lists.
        Raises:
          UnboundAxisError, ShapeError: a name is not bound or occurs twice; `index_groups` is not a partition of the
            indices.
        """
        key = (_tuple(names), None if index_groups is None else tuple(map(tuple, index_groups)))
        found = self._groups.get(key)
        if found is None:
            found = self._groups[key] = self._make_groups(*key)
        return found

    def _make_groups(self, names: tuple[AxisName, ...], index_groups: IndexGroups) -> list[list[int]]:
        named = [self.position(n) for n in check_axis_names("a collective", names)]
        sizes = (*self.sizes, self.copies)
        other = [i for i in range(len(sizes)) if i not in named]
        width = math.prod(sizes[i] for i in named)
        # Number the participants, move the named axes to the end, and read off one group per row.
        groups = np.arange(self.participants).reshape(sizes).transpose(other + named).reshape(-1, width).tolist()
        index_groups = check_groups("a collective", width, index_groups, names)
        return groups if index_groups is None else [[group[i] for i in g] for group in groups for g in index_groups]

    def axis_positions(self, participant: int) -> tuple[AxisPosition, ...]:
        """Return the position of a participant on each axis; () if it is idle."""
        return axis_positions(zip(self.names, self.sizes), participant // self.copies)

    def indices(self, names: AxisNames) -> list[int]:
        """Return the index of each participant along the named axes."""
        out, groups = np.empty(self.participants, np.int64), np.array(AxisEnv.groups(self, names))
        # The columns of the groups are the indices along the axes.
        out[groups] = np.arange(groups.shape[1])
        return out.tolist()


def _tuple(names: AxisNames) -> tuple[AxisName, ...]:
    return names if type(names) is tuple else (names,)


# --- names --------------------------------------------------------------------------------------------------------
# Any hashable value can name a mapped axis, except integers and booleans: in the axes of a reduction an integer is an
# axis of the operand, and Python treats a boolean as 0 or 1.
_INTEGERS = (int, np.integer)
_BOOLEANS = (bool, np.bool_)


def check_axis_name(call: str, name: Hashable) -> Hashable:
    """Check that a value can be the name of a mapped axis, and return it.

    Args:
      call: the mapping function, for the message.
      name: the name.
    Returns:
      `name`.
    Raises:
      TypeError: it is an integer, a boolean, or not hashable.

    >>> check_axis_name("vmap", ("a", 3))
    ('a', 3)
    """
    if isinstance(name, _INTEGERS + _BOOLEANS):
        raise TypeError(f"{call}: axis_name: {name!r} cannot name a mapped axis: in collectives, an integer means an "
                        "axis of the array. Use a string")
    try:
        hash(name)
    except TypeError:
        raise TypeError(f"{call}: axis_name: {name!r} cannot name a mapped axis: names are hashable. Use a string") from None
    return name


def split_axis_names(call: str, axes: AxisNames) -> tuple[tuple[AxisName, ...], tuple[int, ...]]:
    """Split the axes of a reduction into names of mapped axes and axes of the operand.

    Args:
      call: the calling function, for the message.
      axes: a name or integer, or a tuple or list of them.
    Returns:
      The names of mapped axes, and the integers (axes of the operand).
    Raises:
      TypeError: an entry is a boolean or not hashable.
      ShapeError: a name occurs twice.

    >>> split_axis_names("psum", ("i", 0))
    (('i',), (0,))
    """
    given = axes if type(axes) is tuple else tuple(axes) if isinstance(axes, list) else (axes,)
    if len(given) == 1 and type(given[0]) is str:  # fast path: most axes are given so
        return given, ()
    names = tuple([a for a in given if not isinstance(a, _INTEGERS)])
    for a in given:
        if isinstance(a, _BOOLEANS):
            raise TypeError(f"{call}: expected names of mapped axes, or integers for axes of the operand; got {a!r} in "
                            f"{axes!r}")
    try:
        # Names must be hashable to be compared; anything else is reported here.
        twice = len(set(names)) < len(names)
    except TypeError:
        raise TypeError(f"{call}: names of mapped axes are hashable; got {axes!r}") from None
    if twice:
        raise ShapeError(f"{call}: a mapped axis may be named once; got {axes!r}")
    return names, tuple([int(a) for a in given if isinstance(a, _INTEGERS)])


def check_axis_names(call: str, names: AxisNames) -> tuple[AxisName, ...]:
    """Return one or several axis names as a tuple.

    Args:
      call: the calling function, for the message.
      names: a name, or a tuple or list of names.
    Returns:
      A tuple of names.
    Raises:
      TypeError: an entry is not a name.
      ShapeError: a name occurs twice.

    >>> check_axis_names("all_gather", "i"), check_axis_names("all_gather", ["i", "j"])
    (('i',), ('i', 'j'))
    """
    found, positions = split_axis_names(call, names)
    if positions:
        raise TypeError(f"{call}: expected names of mapped axes; got the integer {positions[0]} in {names!r}")
    return found


def as_axis_name(names: tuple[AxisName, ...]) -> AxisNames:
    """Return names as the param `axis_name` of a primitive: a single name is unwrapped, unless it is itself a tuple.

    Args:
      names: a tuple of names, as `check_axis_names` returns.
    Returns:
      A value for which `check_axis_names` returns `names`.
    Raises:
      TypeError: `names` is not a tuple.

    >>> as_axis_name(("i",)), as_axis_name(("i", "j")), as_axis_name((("a", 1),))
    ('i', ('i', 'j'), (('a', 1),))
    """
    try:
        return names[0] if len(names) == 1 and not isinstance(names[0], tuple) else names
    except (TypeError, LookupError):
        raise TypeError(f"as_axis_name: names must be a tuple; got {short_repr(names)}") from None


def unbound_axis_error(name: Hashable, bound: Iterable[Hashable], call: str = "") -> UnboundAxisError:
    """Make the error for an axis name that is not bound.

    Args:
      name: the name.
      bound: the names that are bound.
      call: the function called with the name, if known.
    Returns:
      An exception to raise.
    Raises:
      TypeError: `bound` is not iterable.

    >>> print(unbound_axis_error("j", ["i"]))  # doctest: +ELLIPSIS
    axis name 'j' is not bound; bound here: 'i'. Give it to vmap or pmap as axis_name, to xmap in in_axes or axis_sizes...
    """
    if not isinstance(bound, Iterable):
        raise TypeError(f"unbound_axis_error: bound must be an iterable of names; got {short_repr(bound)}")
    texts = ["an axis without a name" if isinstance(n, UnnamedAxis) else repr(n) for n in bound]
    lead = f"{call}: " if call else ""
    return UnboundAxisError(f"{lead}axis name {name!r} is not bound; bound here: {', '.join(texts) or 'none'}. Give it "
                            "to vmap or pmap as axis_name, to xmap in in_axes or axis_sizes, or to make_jaxpr in "
                            "axis_env")


# --- groups and permutations --------------------------------------------------------------------------------------
def _indices(size: int | None, axis: AxisNames) -> str:
    """Describe the indices of an axis, for messages."""
    names = _tuple(axis)
    which = f"axis {names[0]!r}" if len(names) == 1 else f"axes {names}"
    return f"indices of the {which}" if size is None else f"indices 0..{size - 1} of the {which}, of size {size}"


def _integers(call: str, what: str, lists: IndexGroups, size: int | None, axis: AxisNames) -> Groups:
    """Check nested integers, given as lists, tuples or an array, and return them as tuples."""
    if size is not None and (not isinstance(size, int) or size < 0):
        raise TypeError(f"{call}: the size of an axis must be an int of at least 0; got {short_repr(size)}")
    try:
        # `__index__`, not int(): it accepts NumPy integers, and rejects floats.
        found = tuple([tuple([i.__index__() for i in members]) for members in lists])
        if not any(isinstance(i, _BOOLEANS) for members in lists for i in members):
            return found
    except (AttributeError, TypeError):
        pass
    raise TypeError(f"{call}: {what}: expected nested lists of {_indices(size, axis)}; got {lists!r}")


def check_groups(call: str, size: int | None, groups: IndexGroups, axis: AxisNames, equal: bool = False,
                 arg_name: str = "axis_index_groups") -> Groups | None:
    """Check that `axis_index_groups` are a partition of the indices of an axis, and return them as tuples.

    Args:
      call: the calling function, for the message.
      size: the number of indices; None if unknown: then the groups determine it.
      groups: lists, tuples or arrays of indices; None: no groups.
      axis: the name, or the tuple of names, of the axis.
      equal: whether all groups must have the same size.
      arg_name: the name of the argument.
    Returns:
      A tuple of tuples of integers, or None.
    Raises:
      TypeError: they are not nested integers.
      ShapeError: they do not contain each index exactly once, or have different sizes although `equal`.

    >>> check_groups("psum", 4, [[0, 2], [1, 3]], "i")
    ((0, 2), (1, 3))
    """
    if groups is None:
        return None
    found = _integers(call, arg_name, groups, size, axis)
    given = sorted([i for g in found for i in g])
    # Sorted, the members of a partition are 0, 1, ..., n - 1. An empty group is rejected separately.
    if not all(found) or given != list(range(len(given) if size is None else size)):
        raise ShapeError(f"{call}: {arg_name} must hold all {_indices(size, axis)}, exactly once; got "
                         f"{list(map(list, found))}")
    if equal and len({len(g) for g in found}) > 1:
        raise ShapeError(f"{call}: {arg_name} must split the {_indices(size, axis)}, into groups of one size; got "
                         f"{list(map(list, found))}. psum, pmean, pmax and pmin take groups of different sizes")
    return found


def check_permutation(call: str, size: int | None, perm: IndexGroups, axis: AxisNames) -> Groups:
    """Check that (source, destination) pairs are valid for `ppermute`, and return them as tuples.

    Args:
      call: the calling function, for the message.
      size: the number of members of the axis; None if unknown.
      perm: pairs of indices: lists, tuples or an array.
      axis: the name, or the tuple of names, of the axis.
    Returns:
      A tuple of pairs of integers.
    Raises:
      TypeError: they are not nested integers.
      ShapeError: an index is out of range, or occurs twice as source or as destination.
    Source:
      StableHLO `collective_permute`, constraints C2 and C3.

    >>> check_permutation("ppermute", 3, [(0, 1), (1, 2)], "i")
    ((0, 1), (1, 2))
    """
    found = _integers(call, "perm", perm, size, axis)
    if any(len(pair) != 2 for pair in found):
        raise ShapeError(f"{call}: perm must hold (source, destination) pairs of {_indices(size, axis)}; got {perm!r}")
    for word, ends in zip(("source", "destination"), zip(*found)):
        if len(set(ends)) < len(ends) or not all(0 <= i and (size is None or i < size) for i in ends):
            raise ShapeError(f"{call}: each {word} in perm must be another of the {_indices(size, axis)}; got perm "
                             f"{list(found)}")
    return found


def check_member_index(call: str, size: int, index: Any, axis: AxisNames, arg_name: str = "index") -> int:
    """Check the index of a member of an axis, and return it as an int.

    Args:
      call: the calling function, for the message.
      size: the number of members.
      index: an integer.
      axis: the name, or the tuple of names, of the axis.
      arg_name: the name of the argument.
    Returns:
      An integer.
    Raises:
      TypeError: it is not an integer.
      ShapeError: it is out of range.

    >>> check_member_index("pbroadcast", 3, 2, "i", "source")
    2
    """
    if size is None:
        raise TypeError(f"{call}: the size of an axis must be an int of at least 0; got None")
    (found,), = _integers(call, arg_name, [[index]], size, axis)
    if not 0 <= found < size:
        raise ShapeError(f"{call}: {arg_name} must be one of the {_indices(size, axis)}; got {index!r}")
    return found
