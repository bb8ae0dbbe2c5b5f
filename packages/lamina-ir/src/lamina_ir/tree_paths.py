"""Where a leaf sits in a tree: key classes, `keystr`, and messages that name the place where two trees differ."""
from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

from ._tree_registry import keys_of, python_backend

__all__ = ["DictKey", "FlattenedIndexKey", "GetAttrKey", "SequenceKey", "child_keys", "explain_mismatch", "keystr",
           "leaf_paths", "prefix_errors"]


class _Key:
    """A step from a node to a child. Equal when of one class and with one value."""

    __slots__ = ("_value",)
    _field = "key"
    _form = "[<flat index {}>]"

    def __init__(self, key: Any) -> None:
        self._value = key

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._value == other._value  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._value))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._field}={self._value!r})"

    def __str__(self) -> str:
        return self._form.format(self._value)


class SequenceKey(_Key):
    """An index into a tuple or list: `[0]`."""

    __slots__ = ()
    _field, _form = "idx", "[{!r}]"

    def __init__(self, idx: int) -> None:
        self._value = idx

    idx = property(lambda self: self._value)


class DictKey(_Key):
    """A key of a mapping: `['w']`."""

    __slots__ = ()
    _form = "[{!r}]"
    key = property(lambda self: self._value)


class GetAttrKey(_Key):
    """An attribute: `.w`."""

    __slots__ = ()
    _field, _form = "name", ".{}"

    def __init__(self, name: str) -> None:
        self._value = name

    name = property(lambda self: self._value)


class FlattenedIndexKey(_Key):
    """The position of a child of a class that gives no keys: `[<flat index 0>]`."""

    __slots__ = ()
    key = property(lambda self: self._value)


def keystr(keys: Any, *, simple: bool = False, separator: str = "") -> str:
    """A path as Python would write it.

    Args:
      keys: path: a sequence of keys.
      simple: write only each key's value.
      separator: put between keys.

    >>> keystr((DictKey("w"), SequenceKey(0)))
    "['w'][0]"
    >>> keystr((DictKey("w"), SequenceKey(0)), simple=True, separator="/")
    'w/0'
    """
    if not simple:
        return separator.join(map(str, keys))
    names = ("idx", "key", "name")
    return separator.join(str(next((getattr(k, n) for n in names if hasattr(k, n)), k)) for k in keys)


def child_keys(node: Any, count: int) -> list[Any]:
    """Keys of a node's children, in order."""
    kind = type(node)
    given = keys_of.get(kind)
    if given is not None:
        return list(given(node))
    if kind in (dict, defaultdict):
        return [DictKey(k) for k in sorted(node)]
    if kind is OrderedDict:
        return [DictKey(k) for k in node]
    if kind in (tuple, list):
        return [SequenceKey(i) for i in range(count)]
    if isinstance(node, tuple) and hasattr(kind, "_fields"):
        return [GetAttrKey(n) for n in kind._fields]
    return [FlattenedIndexKey(i) for i in range(count)]


def leaf_paths(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[tuple[Any, ...]]:
    """Paths of the leaves, in order."""
    out: list[tuple[Any, ...]] = []

    def walk(node: Any, path: tuple[Any, ...]) -> None:
        level = None if is_leaf is not None and is_leaf(node) else python_backend.flatten_one_level(node)
        if level is None:
            out.append(path)
            return
        children = tuple(level[0])
        for key, child in zip(child_keys(node, len(children)), children):
            walk(child, (*path, key))

    walk(tree, ())
    return out


def _clip(x: Any) -> str:
    text = repr(x)
    return text if len(text) <= 60 else text[:57] + "..."


def explain_mismatch(treedef: Any, tree: Any, path: tuple[Any, ...] = ()) -> str | None:
    """What keeps `tree` from having `treedef` as its upper part, with the path to the place; None when it fits.

    >>> from lamina_ir.trees import tree_structure
    >>> explain_mismatch(tree_structure({"a": (0, 0)}), {"a": (1, 2, 3)})
    "has at ['a'] a tuple of 3 children; expected 2"
    """
    at = f"at {keystr(path)} " if path else ""
    data = treedef.node_data()
    if data is None:
        return None
    kind, children = data[0], treedef.children()
    if type(tree) is not kind:
        if kind is type(None):
            return f"has {at}{_clip(tree)}; expected None, which is a node without leaves"
        return f"has {at}a {type(tree).__name__} ({_clip(tree)}); expected a {kind.__name__}"
    level = python_backend.flatten_one_level(tree)
    found = tuple(level[0]) if level is not None else ()
    if kind is dict and sorted(tree) != sorted(data[1]):
        wanted, present = set(data[1]), set(tree)
        parts = [f"lacks the keys {sorted(wanted - present)}"] if wanted - present else []
        parts += [f"has the extra keys {sorted(present - wanted)}"] if present - wanted else []
        return (f"has {at}a dict which " if at else "") + " and ".join(parts)
    if len(found) != len(children):
        return f"has {at}a {kind.__name__} of {len(found)} children; expected {len(children)}"
    if level is not None and kind not in (tuple, list, dict, type(None)) and kind in python_backend.nodes \
            and level[1] != data[1]:
        return f"has {at}a {kind.__name__} with data {_clip(level[1])}; expected {_clip(data[1])}"
    for key, sub, child in zip(child_keys(tree, len(found)), children, found):
        text = explain_mismatch(sub, child, (*path, key))
        if text is not None:
            return text
    return None


def prefix_errors(prefix_tree: Any, full_tree: Any,
                  is_leaf: Callable[[Any], bool] | None = None) -> list[Callable[[str], ValueError]]:
    """Why `prefix_tree` is not a prefix of `full_tree`: functions from the argument's name to an error; empty if it is.

    >>> print(prefix_errors((0, 0), (1, 2, 3))[0]("in_axes"))
    in_axes does not fit the tree it goes with, which has a tuple of 3 children; expected 2
    """
    from .trees import tree_structure
    text = explain_mismatch(tree_structure(prefix_tree, is_leaf), full_tree)
    if text is None:
        return []
    return [lambda name: ValueError(f"{name} does not fit the tree it goes with, which {text}")]
