"""Parse `in_axes` and `out_axes` of `xmap`: which dimensions of an array are named axes, in the two forms that users
write.

    {0: "left", 2: "right"}        these dimensions, counted in the unmapped array
    ["left", "right", ...]         the leading dimensions; without the Ellipsis all dimensions
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from lamina_ir import prims, trees
from lamina_ir.extend import check_axis_name, explain_mismatch
from lamina_tracing.extend import argument_name
from lamina_ir.typing import CacheKey, Tree
from lamina_ir.prims import Indexed, Split

from .serial_loop import SerialLoop
from .._typing import Entry

__all__ = ["AxisMapping", "AxisMappings"]


def _is_mapping(x: object) -> bool:
    """Return whether `x` is the mapping of one array, or a malformed one.

    Dicts and lists that contain dicts or lists are trees of mappings: such values are not hashable, so they cannot be
    axis names.
    """
    if isinstance(x, dict):
        return all(isinstance(k, int) for k in x) and not any(isinstance(v, (dict, list)) for v in x.values())
    if isinstance(x, list):
        return not any(isinstance(v, (dict, list)) for v in x)
    return x is None or x is ...


class AxisMapping:
    """The axis mapping of one array.

    Args:
      lead: returns the prefix of error messages, which names the mapping.
      given: the user's dict or list.
    Attributes:
      dim_names: dimension -> name, in the user's order.
      is_complete: whether the mapping must name all dimensions.
      names: the names.
    Raises:
      TypeError: `given` is not a mapping, or contains an invalid name.
      ValueError: an axis is named twice.

    >>> AxisMapping(lambda: "in_axes", ["left", ...]).dim_names
    {0: 'left'}
    """

    __slots__ = ("given", "dim_names", "is_complete", "names")

    def __init__(self, lead: Callable[[], str], given: Tree) -> None:
        self.given, self.is_complete = given, False
        if isinstance(given, dict) and _is_mapping(given):
            self.dim_names = dict(given)
            if any(isinstance(k, bool) for k in given):
                raise TypeError(f"{lead()}: the keys of a mapping are positions of dimensions, integers; got {given!r}")
        elif isinstance(given, list) and _is_mapping(given):
            if ... in given[:-1]:
                raise TypeError(f"{lead()}: the Ellipsis must be last, for the remaining dimensions; got {given!r}")
            self.is_complete = not given or given[-1] is not ...
            self.dim_names = dict(enumerate([n for n in given if n is not ...]))
        else:
            hint = ". vmap's integers are written {0: 'name'}" if isinstance(given, int) else ""
            hint = ". For an array without named axes write {}" if given is None else hint
            hint = ". Write it in a list, [...]" if given is ... else hint
            hint = ". The keys of a dict from dimension to axis name are integers" if isinstance(given, str) else hint
            raise TypeError(f"{lead()} must be a dict from dimension to axis name, or a list of names that ends with ...; got "
                            f"{type(given).__name__}: {given!r:.80}{hint}")
        for name in self.dim_names.values():
            if name is None:
                raise TypeError(f"{lead()}: an axis name must not be None; leave out unnamed dimensions, as in "
                                f"{{1: 'name'}}; got {given!r}")
            if type(name) is not str:
                check_axis_name(lead(), name)
        self.names: tuple[Hashable, ...] = tuple(self.dim_names.values())
        if len(set(self.names)) < len(self.names):
            twice = next(n for n in self.names if self.names.count(n) > 1)
            raise ValueError(f"{lead()}: the axis {twice!r} is named twice for one array; got {given!r}")

    @property
    def key(self) -> CacheKey:
        """A hashable key, equal for equivalent mappings."""
        return tuple(self.dim_names.items()), self.is_complete

    def entry(self, ndim: int, describe: Callable[[], tuple[str, str]]) -> Entry:
        """Return the entry of each dimension of an unmapped array with `ndim` dimensions.

        `describe` returns the name of the mapping and a description of the array for error messages.
        """
        entry: list[Indexed | Split | None] = [None] * ndim
        for at, name in self.dim_names.items():
            if not -ndim <= at < ndim:
                lead, array = describe()
                what = f"{len(self.dim_names)} axes" if isinstance(self.given, list) else f"dimension {at}"
                raise ValueError(f"{lead} names {what}, {self.given!r}, of {array}, which has {ndim} "
                                 f"dimension{'s' * (ndim != 1)}")
            if entry[at] is not None:
                lead, array = describe()
                raise ValueError(f"{lead}: two axes are named for dimension {at % ndim} of {array}: {self.given!r}")
            entry[at] = prims.Indexed((name,))
        if self.is_complete and ndim > len(self.dim_names):
            lead, array = describe()
            raise ValueError(f"{lead}: {self.given!r} has no Ellipsis, so it must name all {ndim} dimensions of {array}. "
                             "End it with ... if others remain")
        return tuple(entry)


class AxisMappings:
    """A tree of axis mappings that is a prefix of the arguments, or of the result.

    Args:
      lead: the prefix of error messages, as "xmap of `f`".
      what: `in_axes` or `out_axes`.
      given: the user's tree.
      fun: the function.
    Attributes:
      leaves: the mappings, each an `AxisMapping`.
      names: all named axes, in order.

    >>> AxisMappings("xmap of `f`", "in_axes", ({0: "a"}, ["b", ...]), None).names
    ('a', 'b')
    """

    def __init__(self, lead: str, what: str, given: Tree, fun: Any) -> None:
        self.error_prefix, self.what, self.fun, self.given = lead, what, fun, given
        arguments = what == "in_axes"
        if arguments and isinstance(given, list) and not _is_mapping(given):
            given = tuple(given)
        self.tree = given
        leaves, self.structure = trees.tree_flatten(given, _is_mapping)
        self.leaves = [AxisMapping(lambda i=i: self._describe(i), x) for i, x in enumerate(leaves)]  # type: ignore[misc]
        self.names = tuple(dict.fromkeys(name for leaf in self.leaves for name in leaf.names))
        self.key = self.structure, tuple([leaf.key for leaf in self.leaves])

    def broadcast_to(self, full: Tree) -> list[AxisMapping]:
        """Return the mapping of each leaf of the tree `full`, whose leaves are shown in errors. For arguments it is
        their tuple."""
        spec = self.tree
        if self.what == "in_axes" and isinstance(spec, tuple) and len(spec) != len(full):
            names = ", ".join([argument_name(self.fun, i) for i in range(len(full))])
            raise ValueError(f"{self.error_prefix}: in_axes must have one entry per argument; got {len(spec)} entries "
                             f"for {len(full)} arguments ({names})")
        try:
            numbered = trees.tree_unflatten(self.structure, list(range(len(self.leaves))))
            return [self.leaves[i] for i in trees.broadcast_prefix(numbered, full)]
        except ValueError:
            text = explain_mismatch(self.structure, full) or "has another structure"
            whole = "the arguments" if self.what == "in_axes" else "the function's output"
            raise ValueError(f"{self.error_prefix}: {self.what} must be a prefix of {whole}, which {text}; got "
                             f"{self.given!r:.200} for {full!r:.300}") from None

    def path_text(self, mapping: AxisMapping) -> str:
        """Return the path of a mapping as text: `out_axes['loss']`."""
        i = next(i for i, leaf in enumerate(self.leaves) if leaf is mapping)
        return f"{self.what}{trees.keystr(self._path(i))}"

    def _path(self, i: int) -> Sequence[Any]:
        return trees.tree_leaves_with_path(self.tree, is_leaf=_is_mapping)[i][0]

    def _describe(self, i: int) -> str:
        """Return the prefix of error messages about a mapping."""
        path = self._path(i)
        mine = self.what == "in_axes" and isinstance(self.tree, tuple) and self.fun is not None
        return (f"{self.error_prefix}: {self.what}{trees.keystr(path)}"
                + (f" (for argument `{argument_name(self.fun, path[0].idx)}`)" if mine else ""))


def check_axis_sizes(lead: str, given: Mapping[Hashable, int] | None) -> dict[Hashable, int]:
    """Check `axis_sizes` and return it as a dict from axis name to size."""
    if given is None:
        return {}
    if not isinstance(given, dict) and not hasattr(given, "keys"):
        raise TypeError(f"{lead}: axis_sizes must be a dict from axis name to size; got {type(given).__name__}: {given!r:.80}")
    found = {}
    for name in given:
        size = given[name]
        if name is None:
            raise TypeError(f"{lead}: axis_sizes: an axis name must not be None; got {given!r:.80}")
        check_axis_name(f"{lead}: axis_sizes", name)
        if isinstance(size, bool) or not hasattr(size, "__index__"):
            raise TypeError(f"{lead}: axis_sizes[{name!r}] must be an integer; got {type(size).__name__}: {size!r:.80}")
        found[name] = size.__index__()
        if found[name] < 1:
            raise ValueError(f"{lead}: axis_sizes[{name!r}] must be at least 1; got {found[name]}")
    return found


def check_axis_resources(lead: str, given: Mapping[Hashable, object] | None,
                         known: Sequence[Hashable]) -> dict[Hashable, tuple[Hashable, ...]]:
    """Check `axis_resources` and return it as a dict from axis name to a tuple of resources."""
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
                            "the number of iterations")
    return {name: mine for name, mine in found.items() if mine}
