"""`jax.tree_util`: the registry of node classes, and further functions of trees."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from lamina_ir import trees
from lamina_ir.trees import (DictKey, FlattenedIndexKey, GetAttrKey, KeyEntry, KeyPath, SequenceKey, default_registry,
                             is_tree_node, make_treedef, tree_flatten_with_path, tree_structure)
from lamina_ir.typing import Function, Tree
from typing_extensions import override

__all__ = ["BuiltInKeyEntry", "KeyEntry", "KeyPath", "default_registry", "dispatch_registry", "equality_errors",
           "flatten_one_level", "generate_key_paths"]

BuiltInKeyEntry = SequenceKey | DictKey | GetAttrKey | FlattenedIndexKey
dispatch_registry = default_registry
_LEAF = object()


class _Entry(NamedTuple):
    """How to take a node apart and to make it: `to_iter(node) -> (children, data)`, `from_iter(data, children) -> node`."""

    to_iter: Function
    from_iter: Function


class _EntryWithKeys(NamedTuple):
    """As `_Entry`, with keys of the children: `flatten_with_keys(node) -> ([(key, child), ...], data)`."""

    flatten_with_keys: Function
    unflatten_func: Function


class _Classes(Mapping[type, Any]):
    """The classes of nodes, for programs that look one up; registrations go through `register_pytree_node`."""

    def make_entry(self, kind: type) -> Any:
        """Return the entry of a class."""
        return _Entry(flatten_one_level, _unflatten(kind))

    @override
    def __contains__(self, kind: object) -> bool:
        return isinstance(kind, type) and is_tree_node(kind)

    @override
    def __getitem__(self, kind: type) -> Any:
        if kind not in self:
            raise KeyError(kind)
        return self.make_entry(kind)

    def _refuse(self) -> NoReturn:
        raise TypeError("the registry of pytrees cannot list its classes; test one with `kind in _registry`")

    @override
    def __iter__(self) -> Iterator[type]:
        self._refuse()

    @override
    def __len__(self) -> int:
        self._refuse()

    def __setitem__(self, kind: type, entry: object) -> None:
        raise TypeError("the registry of pytrees cannot be changed by assignment; use jax.tree_util.register_pytree_node")


class _ClassesWithKeys(_Classes):
    @override
    def make_entry(self, kind: type) -> _EntryWithKeys:
        return _EntryWithKeys(trees.flatten_one_level_with_keys, _unflatten(kind))


_registry = _Classes()
_registry_with_keypaths = _ClassesWithKeys()


def _unflatten(kind: type) -> Function:
    def from_iter(data: Any, children: Iterable[Tree]) -> Tree:
        values = list(children)
        return make_treedef((kind, data), [tree_structure(_LEAF)] * len(values)).unflatten(values)
    return from_iter


def flatten_one_level(tree: Tree) -> tuple[Iterable[Tree], Any]:
    """Return `(children, data)` of the root of a tree; ValueError for a leaf.

    >>> flatten_one_level({"b": [1], "a": 2})
    ((2, [1]), ('a', 'b'))
    """
    level = trees.flatten_one_level(tree)
    if level is None:
        raise ValueError(f"flatten_one_level: tree must be a node; got a leaf of type {type(tree).__name__}")
    return tuple(level[0]), tuple(level[1]) if type(tree) is dict else level[1]


def generate_key_paths(tree: Tree) -> list[tuple[KeyPath, Tree]]:
    """Return the path of each leaf, and the leaf."""
    return tree_flatten_with_path(tree)[0]


def equality_errors(tree1: Tree, tree2: Tree, is_leaf: Function | None = None) -> Iterator[tuple[KeyPath, str, str, str]]:
    """Yield the differences between the structures of two trees: (path, first, second, why they differ).

    >>> list(equality_errors((1, 2), (1, [2])))
    [((SequenceKey(idx=1),), "<class 'int'>", "<class 'list'>", 'their Python types differ')]
    """
    yield from _differences((), tree1, tree2, is_leaf)


def _differences(path: KeyPath, one: Tree, two: Tree, is_leaf: Function | None) -> Iterator[tuple[KeyPath, str, str, str]]:
    levels = [None if is_leaf is not None and is_leaf(t) else trees.flatten_one_level(t) for t in (one, two)]
    if levels == [None, None]:
        return
    if type(one) is not type(two) or None in levels:
        yield path, str(type(one)), str(type(two)), "their Python types differ"
        return
    (keys1, data1), (keys2, data2) = map(trees.flatten_one_level_with_keys, (one, two))
    if len(keys1) != len(keys2):
        yield (path, f"{type(one).__name__} of length {len(keys1)}", f"{type(two).__name__} of length {len(keys2)}",
               "their lengths differ")
    elif data1 != data2:
        yield path, f"{type(one).__name__} with {data1!r}", f"{type(two).__name__} with {data2!r}", "their data differ"
    else:
        for (key, x), (_, y) in zip(keys1, keys2):
            yield from _differences((*path, key), x, y, is_leaf)
