"""What `xmap` is told of axes: which dimensions of an array are named axes inside, in the two forms that users write.

    {0: "left", 2: "right"}        these dimensions, counted in the whole array
    ["left", "right", ...]         the leading ones; without the Ellipsis all of them
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from lamina_ir import prims, trees
from lamina_ir.extend import checked_axis_name, explain_mismatch
from lamina_tracing.extend import argument_name

from .serial import SerialLoop

__all__ = ["Mappings", "Named"]


def _is_mapping(x: Any) -> bool:
    """Whether it is one array's mapping, or what stands in the place of one. Dicts and lists that hold dicts and lists, which
    name no axis as they cannot be hashed, are trees."""
    if isinstance(x, dict):
        return all(isinstance(k, int) for k in x) and not any(isinstance(v, (dict, list)) for v in x.values())
    if isinstance(x, list):
        return not any(isinstance(v, (dict, list)) for v in x)
    return x is None or x is ...


class Named:
    """The mapping of one array.

    Args:
      lead: gives whose it is, in words.
      given: what the user wrote.
    Attributes:
      places: dimension -> name, in the user's order.
      whole: whether no other dimensions may be left.
      names: the names.
    Raises:
      TypeError: it is no mapping, or something in it no name. ValueError: an axis is named twice.

    >>> Named(lambda: "in_axes", ["left", ...]).places
    {0: 'left'}
    """

    __slots__ = ("given", "places", "whole", "names")

    def __init__(self, lead: Callable[[], str], given: Any) -> None:
        self.given, self.whole = given, False
        if isinstance(given, dict) and _is_mapping(given):
            self.places = dict(given)
            if any(isinstance(k, bool) for k in given):
                raise TypeError(f"{lead()}: the keys of a mapping are positions of dimensions, integers; got {given!r}")
        elif isinstance(given, list) and _is_mapping(given):
            if ... in given[:-1]:
                raise TypeError(f"{lead()}: the Ellipsis stands last, for the dimensions that follow; got {given!r}")
            self.whole = not given or given[-1] is not ...
            self.places = dict(enumerate([n for n in given if n is not ...]))
        else:
            hint = ". vmap's integers are written {0: 'name'}" if isinstance(given, int) else ""
            hint = ". For an array without named axes write {}" if given is None else hint
            hint = ". Write it in a list, [...]" if given is ... else hint
            hint = ". The keys of a dict from dimension to axis name are integers" if isinstance(given, str) else hint
            raise TypeError(f"{lead()} must be a dict from dimension to axis name, or a list of names that ends with ...; got "
                            f"{type(given).__name__}: {given!r:.80}{hint}")
        for name in self.places.values():
            if name is None:
                raise TypeError(f"{lead()}: None names no axis; leave out the dimensions that stay, as in {{1: 'name'}}; got "
                                f"{given!r}")
            if type(name) is not str:
                checked_axis_name(lead(), name)
        self.names: tuple[Hashable, ...] = tuple(self.places.values())
        if len(set(self.names)) < len(self.names):
            twice = next(n for n in self.names if self.names.count(n) > 1)
            raise ValueError(f"{lead()}: the axis {twice!r} is named twice for one array; got {given!r}")

    @property
    def key(self) -> Any:
        """Equal for mappings that mean the same."""
        return tuple(self.places.items()), self.whole

    def entry(self, ndim: int, tell: Callable[[], tuple[str, str]]) -> tuple[Any, ...]:
        """The entry of each dimension of a whole array with `ndim` of them; `tell` gives where the mapping stands, and what the
        array is, in words."""
        entry: list[Any] = [None] * ndim
        for at, name in self.places.items():
            if not -ndim <= at < ndim:
                (lead, words), what = tell(), f"{len(self.places)} axes" if isinstance(self.given, list) else f"dimension {at}"
                raise ValueError(f"{lead} names {what}, {self.given!r}, of {words}, which has {ndim} "
                                 f"dimension{'s' * (ndim != 1)}")
            if entry[at] is not None:
                lead, words = tell()
                raise ValueError(f"{lead}: two axes are named for dimension {at % ndim} of {words}: {self.given!r}")
            entry[at] = prims.Indexed((name,))
        if self.whole and ndim > len(self.places):
            lead, words = tell()
            raise ValueError(f"{lead}: {self.given!r} has no Ellipsis, so it must name all {ndim} dimensions of {words}. End "
                             "it with ... where others are left")
        return tuple(entry)


class Mappings:
    """A tree of mappings that is a prefix of the arguments, or of the result.

    Args:
      lead: the call, in words.
      what: `in_axes` or `out_axes`.
      given: what the user wrote.
      fun: the function.
    Attributes:
      leaves: each mapping, a `Named`.
      names: all axes that are named, in order.

    >>> Mappings("xmap of `f`", "in_axes", ({0: "a"}, ["b", ...]), None).names
    ('a', 'b')
    """

    def __init__(self, lead: str, what: str, given: Any, fun: Any) -> None:
        self.lead, self.what, self.fun, self.given = lead, what, fun, given
        arguments = what == "in_axes"
        if arguments and isinstance(given, list) and not _is_mapping(given):
            given = tuple(given)
        self.tree = given
        leaves, self.structure = trees.tree_flatten(given, _is_mapping)
        self.leaves = [Named(lambda i=i: self._said(i), x) for i, x in enumerate(leaves)]  # type: ignore[misc]
        self.names = tuple(dict.fromkeys(name for leaf in self.leaves for name in leaf.names))
        self.key = self.structure, tuple([leaf.key for leaf in self.leaves])

    def of(self, full: Any) -> list[Named]:
        """The mapping of each leaf of a tree; `full` has what errors show at its leaves. For arguments it is their tuple."""
        spec = self.tree
        if self.what == "in_axes" and isinstance(spec, tuple) and len(spec) != len(full):
            names = ", ".join([argument_name(self.fun, i) for i in range(len(full))])
            raise ValueError(f"{self.lead}: in_axes must have one entry per argument; got {len(spec)} entries for {len(full)} "
                             f"arguments ({names})")
        try:
            numbered = trees.tree_unflatten(self.structure, list(range(len(self.leaves))))
            return [self.leaves[i] for i in trees.broadcast_prefix(numbered, full)]
        except ValueError:
            text = explain_mismatch(self.structure, full) or "has another structure"
            whole = "the arguments" if self.what == "in_axes" else "the function's output"
            raise ValueError(f"{self.lead}: {self.what} must be a prefix of {whole}, which {text}; got {self.given!r:.200} for "
                             f"{full!r:.300}") from None

    def where(self, mapping: Named) -> str:
        """Where a mapping stands, in words: `out_axes['loss']`."""
        i = next(i for i, leaf in enumerate(self.leaves) if leaf is mapping)
        return f"{self.what}{trees.keystr(self._path(i))}"

    def _path(self, i: int) -> Any:
        return trees.tree_leaves_with_path(self.tree, is_leaf=_is_mapping)[i][0]

    def _said(self, i: int) -> str:
        """What a mapping is called while it is looked at."""
        path = self._path(i)
        mine = self.what == "in_axes" and isinstance(self.tree, tuple) and self.fun is not None
        return (f"{self.lead}: {self.what}{trees.keystr(path)}"
                + (f" (for argument `{argument_name(self.fun, path[0].idx)}`)" if mine else ""))


def sizes_of(lead: str, given: Any) -> dict[Hashable, int]:
    """`axis_sizes`, checked."""
    if given is None:
        return {}
    if not isinstance(given, dict) and not hasattr(given, "keys"):
        raise TypeError(f"{lead}: axis_sizes must be a dict from axis name to size; got {type(given).__name__}: {given!r:.80}")
    found = {}
    for name in given:
        size = given[name]
        if name is None:
            raise TypeError(f"{lead}: axis_sizes: None names no axis; got {given!r:.80}")
        checked_axis_name(f"{lead}: axis_sizes", name)
        if isinstance(size, bool) or not hasattr(size, "__index__"):
            raise TypeError(f"{lead}: axis_sizes[{name!r}] must be an integer; got {type(size).__name__}: {size!r:.80}")
        found[name] = size.__index__()
        if found[name] < 1:
            raise ValueError(f"{lead}: axis_sizes[{name!r}] must be at least 1; got {found[name]}")
    return found


def resources_of(lead: str, given: Any, known: Sequence[Hashable]) -> dict[Hashable, tuple[Any, ...]]:
    """`axis_resources`, checked: axis -> resources."""
    if given is None:
        return {}
    if not isinstance(given, dict) and not hasattr(given, "keys"):
        raise TypeError(f"{lead}: axis_resources must be a dict from axis name to resources; got {type(given).__name__}: "
                        f"{given!r:.80}")
    found = {}
    for name in given:
        if name not in known:
            raise ValueError(f"{lead}: axis_resources names the axis {name!r}, which is in neither in_axes nor axis_sizes; "
                             f"those are {', '.join(map(repr, known)) or 'none'}")
        mine = given[name]
        found[name] = tuple(mine) if isinstance(mine, (tuple, list)) else (mine,)
        try:
            twice = len(set(found[name])) < len(found[name])
        except TypeError:
            raise TypeError(f"{lead}: axis_resources[{name!r}] must be an axis of a mesh or a tuple of these; got "
                            f"{mine!r}") from None
        if twice:
            raise ValueError(f"{lead}: axis_resources[{name!r}] names a resource twice: {mine!r}")
        if SerialLoop in found[name]:
            raise TypeError(f"{lead}: axis_resources[{name!r}] is SerialLoop, which is a class; write SerialLoop(n), with "
                            "the number of turns")
    return {name: mine for name, mine in found.items() if mine}
