"""Pytrees: flatten and unflatten nested tuples, lists, dicts, None and registered classes.

A backend does the work: pure Python by default, jaxlib's C++ registry after a higher package calls `set_backend`. The
public functions are the same objects before and after. `None` is a node without leaves; dicts are ordered by key.

A backend has: `flatten(tree, is_leaf) -> (leaves, treedef)`, `flatten_one_level(tree) -> (children, data) | None`,
`register_node(cls, flatten, unflatten)`, `treedef_tuple(treedefs)`, `all_leaves(values)` and
`make_treedef(node_data, children)`, and optionally `register_dataclass_node(cls, data_fields, meta_fields)`. Its
treedefs have `num_leaves`, `num_nodes`, `unflatten`, `flatten_up_to`, `children`, `node_data`, `compose`, `==`, `hash`.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from ._python_backend import PythonBackend, PyTreeDef, python_backend
from ._registry import (Partial, register_dataclass, register_pytree_node, register_pytree_node_class,
                        register_pytree_with_keys, register_pytree_with_keys_class, register_static, static)
from ._registry import add_backend as _connect
from ._keys import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey, keystr
from ..errors import ShapeError
from ._paths import explain_mismatch, get_child_keys, get_leaf_paths, unsorted_keys_error
from ..typing import Function, Leaf, Tree
from .._typing import KeyEntry, KeyPath, NodeData, TreeBackend

__all__ = ["DictKey", "FlattenedIndexKey", "GetAttrKey", "KeyEntry", "KeyPath", "Partial", "PyTreeDef", "PythonBackend",
           "SequenceKey", "all_leaves", "backend", "broadcast_prefix", "build_tree", "default_registry", "flatten_one_level",
           "flatten_one_level_with_keys", "is_tree_node", "keystr", "make_treedef", "prefix_errors", "register_dataclass",
           "register_pytree_node", "register_pytree_node_class", "register_pytree_with_keys",
           "register_pytree_with_keys_class", "register_static", "set_backend", "static", "tree_all",
           "tree_broadcast", "tree_flatten", "tree_flatten_with_path", "tree_leaves", "tree_leaves_with_path", "tree_map",
           "tree_map_with_path", "tree_reduce", "tree_reduce_associative", "tree_structure", "tree_transpose", "tree_unflatten",
           "treedef_children", "treedef_is_leaf", "treedef_tuple", "unsorted_keys_error"]

_backend: TreeBackend = python_backend
_flatten = python_backend.flatten


def set_backend(new: TreeBackend) -> None:
    """Use another backend; it also gets all earlier and later registrations.

    Call it before treedefs are stored anywhere: treedefs of different backends are never equal.

    Args:
      new: an object with the methods of the current backend, `backend()`.

    >>> set_backend(backend())
    """
    global _backend, _flatten
    _connect(new)
    kind = getattr(new, "treedef_type", PyTreeDef)
    if kind is not PyTreeDef:
        type(PyTreeDef).others = (kind,)
    _backend, _flatten = new, new.flatten


def backend() -> TreeBackend:
    """Return the current backend."""
    return _backend


class _Registry:
    """A registry object, for programs that use one. It always delegates to the current backend."""

    def flatten(self, tree: Tree, is_leaf: Callable[[Tree], bool] | None = None) -> tuple[list[Leaf], PyTreeDef]:
        return tree_flatten(tree, is_leaf)

    def flatten_one_level(self, tree: Tree) -> tuple[Iterable[Tree], NodeData] | None:
        return flatten_one_level(tree)

    def __getattr__(self, name: str) -> Any:
        return getattr(_backend, name)


default_registry = _Registry()


def build_tree(treedef: PyTreeDef, xs: Tree) -> Tree:
    """Build the tree of a structure from nested iterables of any kind that have the leaves at the same positions.

    Args:
      treedef: the structure.
      xs: nested iterables.

    >>> build_tree(tree_structure((0, [0, 0])), [1, (2, 3)])
    (1, [2, 3])
    """
    return treedef.from_iterable_tree(xs)


def tree_flatten(tree: Tree, is_leaf: Callable[[Tree], bool] | None = None) -> tuple[list[Leaf], PyTreeDef]:
    """Return the leaves of `tree` in order, and its structure. Nodes for which `is_leaf` is true count as leaves.

    >>> tree_flatten({"b": 1, "a": (2, None)})
    ([2, 1], PyTreeDef({'a': (*, None), 'b': *}))
    """
    try:
        return _flatten(tree, is_leaf)
    except (TypeError, ValueError) as e:
        raise unsorted_keys_error(tree, is_leaf) or e from None


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Leaf]) -> Tree:
    """Return the tree with this structure and these leaves.

    >>> tree_unflatten(tree_structure((0, [0])), "ab")
    ('a', ['b'])
    """
    return treedef.unflatten(leaves)


def tree_leaves(tree: Tree, is_leaf: Callable[[Tree], bool] | None = None) -> list[Leaf]:
    """Return the leaves of `tree` in order.

    >>> tree_leaves([1, {"x": 2}])
    [1, 2]
    """
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Tree, is_leaf: Callable[[Tree], bool] | None = None) -> PyTreeDef:
    """Return the structure of `tree`.

    >>> tree_structure([1, None])
    PyTreeDef([*, None])
    """
    return tree_flatten(tree, is_leaf)[1]


def tree_map(f: Function, tree: Tree, *rest: Tree, is_leaf: Callable[[Tree], bool] | None = None) -> Tree:
    """Apply `f` to each leaf of `tree`, with the subtrees of `rest` at the same positions as further arguments.

    `None` in `tree` has no leaves: subtrees of `rest` at its position are ignored.

    Raises:
      ValueError: a tree of `rest` does not have the structure of `tree`; the message gives the path.

    >>> tree_map(lambda x, y: x + y, {"a": 1}, {"a": 2})
    {'a': 3}
    """
    if not callable(f):
        raise TypeError(f"tree_map: expected a function; got {type(f).__name__}: {f!r:.60}")
    try:
        leaves, treedef = _flatten(tree, is_leaf)
    except (TypeError, ValueError) as e:
        raise unsorted_keys_error(tree, is_leaf) or e from None
    if not rest:
        return treedef.unflatten(map(f, leaves))
    try:
        columns = [treedef.flatten_up_to(r) for r in rest]
    except (ValueError, TypeError) as e:
        unsorted = next((found for found in map(unsorted_keys_error, rest) if found is not None), None)
        if unsorted is not None:
            raise unsorted from None
        found = _flatten_ignoring_none(tree, rest, is_leaf)
        if found is None:
            raise _mismatch("tree_map", treedef, rest, e) from None
        columns = found
    return treedef.unflatten(map(f, leaves, *columns))


def _flatten_ignoring_none(tree: Tree, rest: tuple[Tree, ...],
                           is_leaf: Callable[[Tree], bool] | None) -> list[list[Tree]] | None:
    """Return the subtrees of each tree of `rest` at the leaves of `tree`, ignoring those at its `None`s.

    Return None if structures do not match.
    """
    leaves, treedef = _flatten(tree, lambda x: x is None or (is_leaf is not None and is_leaf(x)))
    try:
        columns = [treedef.flatten_up_to(r) for r in rest]
    except (ValueError, TypeError):
        return None
    is_real_leaf = [x is not None or (is_leaf is not None and is_leaf(x)) for x in leaves]
    return [[x for x, keep in zip(column, is_real_leaf, strict=True) if keep] for column in columns]


def _mismatch(name: str, treedef: PyTreeDef, rest: tuple[Tree, ...], cause: Exception) -> Exception:
    for i, r in enumerate(rest):
        text = explain_mismatch(treedef, r)
        if text is not None:
            return ValueError(f"{name}: trees must have the structure of the first one; tree {i + 2} {text}")
    return cause


def tree_all(tree: Tree, *, is_leaf: Callable[[Tree], bool] | None = None) -> bool:
    """Whether every leaf is true.

    >>> tree_all([True, {"x": 0}])
    False
    """
    return all(tree_flatten(tree, is_leaf)[0])


_MISSING = object()


def tree_reduce(function: Callable[[Any, Any], Any], tree: Tree, initializer: object = _MISSING,
                is_leaf: Callable[[Tree], bool] | None = None) -> Any:
    """Apply `functools.reduce` to the leaves.

    >>> tree_reduce(lambda a, b: a + b, [1, (2, 3)])
    6
    """
    if not callable(function):
        raise TypeError(f"tree_reduce: expected a function; got {type(function).__name__}: {function!r:.60}")
    leaves = tree_flatten(tree, is_leaf)[0]
    if initializer is _MISSING:
        return functools.reduce(function, leaves)
    return functools.reduce(function, leaves, initializer)


def tree_reduce_associative(operation: Callable[[Any, Any], Any], tree: Tree, *, identity: object = _MISSING,
                            is_leaf: Callable[[Tree], bool] | None = None) -> Any:
    """Reduce the leaves by an associative operation in a balanced binary tree, so that dependency chains are short.

    Args:
      operation: function of two leaves or intermediate results.
      tree: a tree.
      identity: the result for a tree without leaves.
      is_leaf: as in `tree_flatten`.
    Raises:
      TypeError: there are no leaves, and no `identity`.

    >>> tree_reduce_associative(lambda a, b: f"({a}{b})", ["a", ("b", "c"), "d"])
    '((ab)(cd))'
    """
    leaves = tree_flatten(tree, is_leaf)[0]
    if not leaves:
        if identity is _MISSING:
            raise TypeError("tree_reduce_associative: the tree has no leaves; pass identity, the result for this case")
        return identity

    def halves(low: int, high: int) -> Any:
        middle = (low + high) // 2
        return leaves[low] if high - low == 1 else operation(halves(low, middle), halves(middle, high))

    return halves(0, len(leaves))


def tree_transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Tree) -> Tree:
    """Transpose a tree of trees. If `inner_treedef` is None, the structure of the first inner tree is used.

    >>> tree_transpose(tree_structure([0, 0]), tree_structure({"a": 0, "b": 0}),
    ...                [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    {'a': [1, 3], 'b': [2, 4]}
    """
    subtrees = outer_treedef.flatten_up_to(pytree_to_transpose)
    if inner_treedef is None:
        if not subtrees:
            raise ValueError("tree_transpose: an outer structure without leaves needs an explicit inner_treedef")
        inner_treedef = _flatten(subtrees[0], None)[1]
    inner_leaves = []
    for sub in subtrees:
        leaves, found = _flatten(sub, None)
        if found != inner_treedef:
            raise ShapeError(f"tree_transpose: inner trees must have structure {inner_treedef}; got {found}")
        inner_leaves.append(leaves)
    return inner_treedef.unflatten([outer_treedef.unflatten(list(column)) for column in zip(*inner_leaves)]
                                   if inner_leaves else [outer_treedef.unflatten([])] * inner_treedef.num_leaves)


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether the structure is a single node without children: a leaf, `None`, or an empty container."""
    return bool(treedef.num_nodes == 1)


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """Return the structures of the root's children."""
    return treedef.children()


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """Return the structure of a tuple of trees with these structures."""
    return _backend.treedef_tuple(list(treedefs))


def make_treedef(node_data: tuple[type, NodeData] | None, children: Iterable[PyTreeDef]) -> PyTreeDef:
    """Return the structure with this `node_data()` and these `children()`."""
    return _backend.make_treedef(node_data, list(children))


def all_leaves(iterable: Iterable[Leaf], is_leaf: Callable[[Tree], bool] | None = None) -> bool:
    """Whether every value is a leaf.

    >>> all_leaves([1, "x"]), all_leaves([(1,)])
    (True, False)
    """
    if is_leaf is None:
        return _backend.all_leaves(iterable)
    values = list(iterable)
    leaves = _flatten(values, lambda x: x is not values and is_leaf(x))[0]
    return len(leaves) == len(values) and all(a is b for a, b in zip(leaves, values))


def flatten_one_level(tree: Tree) -> tuple[Iterable[Tree], NodeData] | None:
    """Return `(children, data)` of the root; None for a leaf."""
    try:
        return _backend.flatten_one_level(tree)
    except (TypeError, ValueError) as e:
        raise unsorted_keys_error(tree) or e from None


def flatten_one_level_with_keys(tree: Tree) -> tuple[list[tuple[KeyEntry, Tree]], NodeData]:
    """Return `([(key, child), ...], data)` of the root of a tree.

    Args:
      tree: a node.
    Raises:
      ValueError: it is a leaf.

    >>> flatten_one_level_with_keys({"b": [1], "a": 2})[0]
    [(DictKey(key='a'), 2), (DictKey(key='b'), [1])]
    """
    level = flatten_one_level(tree)
    if level is None:
        raise ValueError(f"flatten_one_level_with_keys: tree must be a node; got a leaf of type {type(tree).__name__}")
    children = list(level[0])
    return list(zip(get_child_keys(tree, len(children)), children, strict=True)), level[1]


def is_tree_node(typ: type) -> bool:
    """Whether values of a class are nodes: it is registered, a built-in container, a namedtuple or that of `None`.

    Args:
      typ: the class.
    Raises:
      TypeError: it is not a class.

    >>> is_tree_node(dict), is_tree_node(int)
    (True, False)
    """
    if not isinstance(typ, type):
        raise TypeError(f"is_tree_node: typ must be a class; got {type(typ).__name__}: {typ!r:.60}")
    # This backend gets all registrations, also if another one flattens.
    return (typ in (tuple, list, dict, type(None)) or typ in python_backend.nodes
            or issubclass(typ, tuple) and hasattr(typ, "_fields"))


def broadcast_prefix(prefix_tree: Tree, full_tree: Tree, is_leaf: Callable[[Tree], bool] | None = None) -> list[Leaf]:
    """Return the leaves of `prefix_tree`, each repeated for every leaf of `full_tree` below its position.

    >>> broadcast_prefix((0, 1), ([5, 6], 7))
    [0, 0, 1]
    """
    leaves, treedef = tree_flatten(prefix_tree, is_leaf)
    try:
        subtrees = treedef.flatten_up_to(full_tree)
    except (ValueError, TypeError) as e:
        text = explain_mismatch(treedef, full_tree)
        raise ValueError(f"the prefix does not match the tree, which {text}" if text else str(e)) from None
    out: list[Leaf] = []
    for leaf, sub in zip(leaves, subtrees):
        out.extend([leaf] * len(tree_flatten(sub)[0]))
    return out


def tree_broadcast(prefix_tree: Tree, full_tree: Tree, is_leaf: Callable[[Tree], bool] | None = None) -> Tree:
    """Return `broadcast_prefix` in the structure of `full_tree`.

    >>> tree_broadcast(1, {"a": 5, "b": 6})
    {'a': 1, 'b': 1}
    """
    return tree_flatten(full_tree)[1].unflatten(broadcast_prefix(prefix_tree, full_tree, is_leaf))


def _with_paths(tree: Tree, is_leaf: Callable[..., bool] | None,
                is_leaf_takes_path: bool) -> tuple[list[KeyPath], list[Leaf], PyTreeDef]:
    """Return (paths, leaves, structure)."""
    if is_leaf is None or not is_leaf_takes_path:
        return get_leaf_paths(tree, is_leaf), *tree_flatten(tree, is_leaf)
    predicate, results = is_leaf, []

    def record(path: KeyPath, node: Tree) -> bool:
        results.append(bool(predicate(path, node)))
        return results[-1]

    paths = get_leaf_paths(tree, record, True)
    replay = iter(results)  # backends test the same nodes in the same order
    return paths, *tree_flatten(tree, lambda _: next(replay))


def tree_flatten_with_path(tree: Tree, is_leaf: Callable[..., bool] | None = None,
                           is_leaf_takes_path: bool = False) -> tuple[list[tuple[KeyPath, Leaf]], PyTreeDef]:
    """Return `[(path, leaf), ...]` and the structure; a path is a tuple of keys that `keystr` prints.

    Args:
      tree: a tree.
      is_leaf: predicate: whether a node counts as a leaf.
      is_leaf_takes_path: whether to call `is_leaf(path, node)` instead of `is_leaf(node)`.

    >>> tree_flatten_with_path({"a": [7]})[0]
    [((DictKey(key='a'), SequenceKey(idx=0)), 7)]
    """
    paths, leaves, treedef = _with_paths(tree, is_leaf, is_leaf_takes_path)
    return list(zip(paths, leaves)), treedef


def tree_leaves_with_path(tree: Tree, is_leaf: Callable[..., bool] | None = None,
                          is_leaf_takes_path: bool = False) -> list[tuple[KeyPath, Leaf]]:
    """Return `[(path, leaf), ...]`; the parameters are those of `tree_flatten_with_path`."""
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def tree_map_with_path(f: Function, tree: Tree, *rest: Tree, is_leaf: Callable[..., bool] | None = None,
                       is_leaf_takes_path: bool = False) -> Tree:
    """As `tree_map`, with the path as first argument; `is_leaf` as in `tree_flatten_with_path`.

    >>> tree_map_with_path(lambda path, x: keystr(path) + f"={x}", {"a": [7]})
    {'a': ["['a'][0]=7"]}
    """
    paths, leaves, treedef = _with_paths(tree, is_leaf, is_leaf_takes_path)
    try:
        columns = [treedef.flatten_up_to(r) for r in rest]
    except (ValueError, TypeError) as e:
        raise _mismatch("tree_map_with_path", treedef, rest, e) from None
    return treedef.unflatten(map(f, paths, leaves, *columns))


def prefix_errors(prefix_tree: Tree, full_tree: Tree,
                  is_leaf: Callable[[Tree], bool] | None = None) -> list[Callable[[str], ValueError]]:
    """Explain why `prefix_tree` is not a prefix of `full_tree`: functions from the argument's name to an error.

    The list is empty if it is a prefix.

    >>> print(prefix_errors((0, 0), (1, 2, 3))[0]("in_axes"))
    in_axes does not match the corresponding tree, which has a tuple of 3 children; expected 2
    """
    text = explain_mismatch(tree_structure(prefix_tree, is_leaf), full_tree)
    if text is None:
        return []
    return [lambda name: ValueError(f"{name} does not match the corresponding tree, which {text}")]
