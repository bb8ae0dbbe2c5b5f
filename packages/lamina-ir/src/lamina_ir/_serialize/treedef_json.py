"""Tree structures in JSON, as used in files, and the registry of node classes for them.

A leaf is `0`, None is `null`, and every other node is `[kind, data, children]`: the kinds `list` and `tuple` with data
`null`, `dict` and `OrderedDict` with their keys, and `node NAME` with its auxiliary data as bytes in hexadecimal.
"""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeAlias

from .._core.arg_checks import ArgType, check_args
from .. import trees
from ..typing import Tree
from .._typing import Json, NodeData
from ..trees import PyTreeDef

__all__ = ["register_node_serialization", "treedef_from_json", "treedef_to_json"]

_MakeNode: TypeAlias = Callable[[NodeData, tuple[Tree, ...]], Tree]
# name -> (class, auxiliary data to bytes, bytes to auxiliary data, (auxiliary data, children) to node)
_nodes: dict[str, tuple[type, Callable[[NodeData], bytes], Callable[[bytes], NodeData], _MakeNode | None]] = {}
_names: dict[type, str] = {}


def register_node_serialization(kind: type, name: str, to_bytes: Callable[[NodeData], bytes],
                                from_bytes: Callable[[bytes], NodeData],
                                make: _MakeNode | None) -> None:
    """Register a node class for tree structures in files.

    Args:
      kind: a class registered as a pytree node.
      name: its name in files.
      to_bytes, from_bytes: convert the auxiliary data that `flatten` returns to bytes, and back.
      make: `make(data, children)` creates a node.
    Raises:
      ValueError: the class or the name is registered already.

    >>> from typing import NamedTuple
    >>> class Twin(NamedTuple):
    ...     left: float
    ...     right: float
    >>> register_node_serialization(Twin, "docs.Twin", lambda data: b"", lambda data: None,
    ...                             lambda data, children: Twin(*children))
    >>> treedef_to_json(trees.tree_structure(Twin(1, [2])))
    ['node docs.Twin', '', [0, ['list', None, [0]]]]
    """
    if kind in _names or name in _nodes:
        taken = f"{kind.__qualname__} as {_names[kind]!r}" if kind in _names else f"{_nodes[name][0].__qualname__} as {name!r}"
        raise ValueError(f"registering {kind.__qualname__} for files as {name!r}: {taken} is registered already")
    _nodes[name], _names[kind] = (kind, to_bytes, from_bytes, make), name


@check_args(tree=ArgType("a structure, as tree_structure gives it", lambda v: hasattr(v, "node_data")))
def treedef_to_json(tree: PyTreeDef) -> Json:
    """Convert a tree structure to JSON.

    Args:
      tree: the structure.
    Returns:
      Numbers, strings, lists and None.
    Raises:
      ValueError: it has a dict with keys that are not strings or ints, or a node class that is not registered for
        files.

    >>> from lamina_ir import trees
    >>> treedef_to_json(trees.tree_structure({"a": (1, None)}))
    ['dict', ['a'], [['tuple', None, [0, None]]]]
    """
    data = tree.node_data()
    if data is None:
        return 0 if tree.num_leaves == 1 else None
    kind, aux = data
    if kind is type(None):
        return None
    children = [treedef_to_json(c) for c in tree.children()]
    if kind in (list, tuple):
        return [kind.__name__, None, children]
    if kind in (dict, OrderedDict):
        keys = [*aux]
        if all(type(k) in (str, int) for k in keys):
            return [kind.__name__, keys, children]
        raise ValueError(f"the keys of a {kind.__name__} must be strings or ints; got {keys}")
    name = _names.get(kind)
    if name is None:
        raise ValueError(f"the node class {kind.__qualname__} is not registered for files")
    return [f"node {name}", _nodes[name][1](aux).hex(), children]


def treedef_from_json(data: Json) -> PyTreeDef:
    """Convert the JSON form of a tree structure back.

    Args:
      data: the result of `treedef_to_json`.
    Returns:
      A structure, as returned by `trees.tree_structure`.
    Raises:
      ValueError: a node class is not registered here.
      TypeError, KeyError, IndexError: it is not a result of `treedef_to_json`.

    >>> treedef_from_json(["dict", ["a"], [["tuple", None, [0, None]]]])
    PyTreeDef({'a': (*, None)})
    """
    return trees.tree_structure(_tree_of_zeros(data))


def _tree_of_zeros(node: Json) -> Tree:
    """Build a tree of this structure with leaves 0."""
    if node is None or node == 0:
        return node
    kind, data, children = node
    made = [_tree_of_zeros(c) for c in children]
    if kind in ("list", "tuple"):
        return made if kind == "list" else tuple(made)
    if kind in ("dict", "OrderedDict"):
        if len(data) != len(made):
            raise ValueError(f"a {kind} has {len(data)} keys and {len(made)} children")
        return {"dict": dict, "OrderedDict": OrderedDict}[kind](zip(data, made))
    name = kind.removeprefix("node ")
    if name not in _nodes:
        raise ValueError(f"no node class is registered as {name!r} here")
    _, _, from_bytes, make = _nodes[name]
    assert make is not None
    return make(from_bytes(bytes.fromhex(data)), tuple(made))
