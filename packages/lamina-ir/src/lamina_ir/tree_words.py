"""Structures of trees in JSON, as files hold them, and the classes of nodes that are registered for files.

A leaf is `0`, None is `null`, every other node `[kind, data, children]`: `list` and `tuple` with `null`, `dict` and
`OrderedDict` with their keys, `node NAME` with its data as bytes in hexadecimal.
"""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from .arguments import Kind, takes
from . import trees

__all__ = ["register_node_words", "tree_of_words", "tree_words"]

# name -> (class, its data as bytes, these as data, (data, children) as a node)
_nodes: dict[str, tuple[type, Callable[[Any], bytes], Callable[[bytes], Any], Callable[[Any, Any], Any] | None]] = {}
_names: dict[type, str] = {}


def register_node_words(kind: type, name: str, to_bytes: Callable[[Any], bytes], from_bytes: Callable[[bytes], Any],
                        make: Callable[[Any, Any], Any] | None) -> None:
    """Let nodes of a class stand in structures that are written to files.

    Args:
      kind: a class registered as a node of trees.
      name: its name in files.
      to_bytes, from_bytes: what `flatten` returns beside the children, as bytes, and these as that.
      make: `make(data, children)` makes a node.
    Raises:
      ValueError: the class or the name is registered already.

    >>> from typing import NamedTuple
    >>> class Twin(NamedTuple):
    ...     left: float
    ...     right: float
    >>> register_node_words(Twin, "docs.Twin", lambda data: b"", lambda data: None, lambda data, children: Twin(*children))
    >>> tree_words(trees.tree_structure(Twin(1, [2])))
    ['node docs.Twin', '', [0, ['list', None, [0]]]]
    """
    if kind in _names or name in _nodes:
        taken = f"{kind.__qualname__} as {_names[kind]!r}" if kind in _names else f"{_nodes[name][0].__qualname__} as {name!r}"
        raise ValueError(f"registering {kind.__qualname__} for files as {name!r}: {taken} is registered already")
    _nodes[name], _names[kind] = (kind, to_bytes, from_bytes, make), name


@takes(tree=Kind("a structure, as tree_structure gives it", lambda v: hasattr(v, "node_data")))
def tree_words(tree: Any) -> Any:
    """A structure in JSON.

    Args:
      tree: the structure.
    Returns:
      Numbers, texts, lists and None.
    Raises:
      ValueError: it has a dict with keys that are no texts or ints, or nodes of a class that is not registered for files.

    >>> tree_words(trees.tree_structure({"a": (1, None)}))
    ['dict', ['a'], [['tuple', None, [0, None]]]]
    """
    data = tree.node_data()
    if data is None:
        return 0 if tree.num_leaves == 1 else None
    kind, aux = data
    if kind is type(None):
        return None
    children = [tree_words(c) for c in tree.children()]
    if kind in (list, tuple):
        return [kind.__name__, None, children]
    if kind in (dict, OrderedDict):
        keys = [*aux]
        if all(type(k) in (str, int) for k in keys):
            return [kind.__name__, keys, children]
        raise ValueError(f"a {kind.__name__}: its keys {keys} are no texts or ints")
    name = _names.get(kind)
    if name is None:
        raise ValueError(f"{kind.__qualname__}: its nodes are not registered for files")
    return [f"node {name}", _nodes[name][1](aux).hex(), children]


def tree_of_words(words: Any) -> Any:
    """The structure that is written so.

    Args:
      words: what `tree_words` gives.
    Returns:
      A structure, as `trees.tree_structure` gives.
    Raises:
      ValueError: a class of nodes is not registered here.
      TypeError, KeyError, IndexError: it is nothing that `tree_words` gives.

    >>> tree_of_words(["dict", ["a"], [["tuple", None, [0, None]]]])
    PyTreeDef({'a': (*, None)})
    """
    return trees.tree_structure(_filled(words))


def _filled(words: Any) -> Any:
    """A tree of this structure, with leaves 0."""
    if words is None or words == 0:
        return words
    kind, data, children = words
    made = [_filled(c) for c in children]
    if kind in ("list", "tuple"):
        return made if kind == "list" else tuple(made)
    if kind in ("dict", "OrderedDict"):
        if len(data) != len(made):
            raise ValueError(f"a {kind} has {len(data)} keys and {len(made)} children")
        return {"dict": dict, "OrderedDict": OrderedDict}[kind](zip(data, made))
    name = kind.removeprefix("node ")
    if name not in _nodes:
        raise ValueError(f"no class of nodes is registered as {name!r} here")
    _, _, from_bytes, make = _nodes[name]
    assert make is not None
    return make(from_bytes(bytes.fromhex(data)), tuple(made))
