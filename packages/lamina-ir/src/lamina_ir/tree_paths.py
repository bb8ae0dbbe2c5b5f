"""Where a leaf sits in a tree, and messages that name the place where two trees differ."""
from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from types import FrameType
from typing import Any

from ._excerpt import excerpt
from ._pytrees_py import MixedKeys, python_backend
from ._tree_keys import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey, keystr
from ._tree_registry import keys_of

__all__ = ["DictKey", "FlattenedIndexKey", "GetAttrKey", "SequenceKey", "child_keys", "explain_mismatch", "keystr",
           "leaf_paths", "unsorted_keys"]


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


def unsorted_keys(tree: Any, is_leaf: Callable[[Any], bool] | None = None,
                  place: Callable[[tuple[Any, ...]], str] = keystr, lead: str = "") -> TypeError | None:
    """An error about the first dict in a tree whose keys cannot be sorted.

    Args:
      tree: a tree that could not be flattened.
      is_leaf: as of `tree_flatten`.
      place: writes the path to the dict.
      lead: what the message begins with, as the call that the tree was given to; "": it is looked up.
    Returns:
      The error; None if there is no such dict.

    >>> print(unsorted_keys([0, {1: 2, "a": 3}], lead="jit of `f`"))  # doctest: +ELLIPSIS
    jit of `f`: a dict in a tree is ordered by its keys, ...; the dict at [1] has the keys 1, 'a', of types int and str. ...
    """
    def walk(node: Any, path: tuple[Any, ...]) -> TypeError | None:
        if is_leaf is not None and is_leaf(node):
            return None
        try:
            level = python_backend.flatten_one_level(node)
            children = () if level is None else tuple(level[0])
        except MixedKeys:
            return MixedKeys(node, place(path), lead)
        except TypeError:
            keys = list(node) if isinstance(node, dict) else []
            return MixedKeys(node, place(path), lead) if len(set(map(type, keys))) > 1 else None
        found = (walk(child, (*path, key)) for key, child in zip(child_keys(node, len(children)), children))
        return next((error for error in found if error is not None), None)

    lead = lead or _called()
    return walk(tree, ())


def _called() -> str:
    """The outermost of our functions that are running, one inside of the other: what a user called."""
    frame: FrameType | None = sys._getframe(2)
    name = ""
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0].startswith("lamina"):
        code = frame.f_code
        *owner, own = code.co_qualname.partition(".<locals>")[0].split(".")
        if own.startswith("__") and owner:
            own = owner[-1]
        if own[0] not in "_<" and own not in ("boundary", "in_name", "asked_for"):  # what is around functions
            name = "vmap" if own == "run_batched" else own.removesuffix("_by")
        frame = frame.f_back
    return name


def leaf_paths(tree: Any, is_leaf: Callable[..., bool] | None = None,
               is_leaf_takes_path: bool = False) -> list[tuple[Any, ...]]:
    """Paths of the leaves, in order; `is_leaf` is asked once about each node, those above before those below."""
    out: list[tuple[Any, ...]] = []
    _walk(tree, (), is_leaf if is_leaf is None or is_leaf_takes_path else lambda path, node: is_leaf(node), out)
    return out


def _walk(node: Any, path: tuple[Any, ...], is_leaf: Callable[..., bool] | None, out: list[tuple[Any, ...]]) -> None:
    try:
        level = None if is_leaf is not None and is_leaf(path, node) else python_backend.flatten_one_level(node)
    except MixedKeys:
        raise MixedKeys(node, keystr(path), _called()) from None
    if level is None:
        out.append(path)
        return
    children = tuple(level[0])
    for key, child in zip(child_keys(node, len(children)), children):
        _walk(child, (*path, key), is_leaf, out)


def _clip(x: Any) -> str:
    text = repr(x)
    return text if len(text) <= 60 else text[:57] + "..."


def explain_mismatch(treedef: Any, tree: Any, path: tuple[Any, ...] = ()) -> str | None:
    """What keeps `tree` from having `treedef` as its upper part, with the path to the place.

    Args:
      treedef: the structure that is expected.
      tree: what came.
      path: keys that lead to both, for the message.
    Returns:
      The words that follow "it": "has at ...", "lacks ..."; None when it fits.
    Raises:
      TypeError: `treedef` is no structure, or `path` no tuple.

    >>> from lamina_ir.trees import tree_structure
    >>> explain_mismatch(tree_structure({"a": (0, 0)}), {"a": (1, 2, 3)})
    "has at ['a'] a tuple of 3 children; expected 2"
    """
    try:
        data = treedef.node_data()
    except AttributeError:
        raise TypeError(f"explain_mismatch: treedef must be a structure, as tree_structure gives it; got {excerpt(treedef)}") \
            from None
    if not isinstance(path, tuple):
        raise TypeError(f"explain_mismatch: path must be a tuple of keys; got {excerpt(path)}")
    at = f"at {keystr(path)} " if path else ""
    if data is None:
        return None
    kind, children = data[0], treedef.children()
    if type(tree) is not kind:
        if kind is type(None):
            return f"has {at}{_clip(tree)}; expected None, which is a node without leaves"
        return f"has {at}a {type(tree).__name__} ({_clip(tree)}); expected a {kind.__name__}"
    # One level of both at a time: the first difference from the left and from above is told.
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
