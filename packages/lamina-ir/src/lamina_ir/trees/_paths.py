"""Paths of leaves, and error messages with the path at which two trees differ."""
from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from types import FrameType
from typing import Any

from .._util.short_repr import short_repr
from ._python_backend import MixedKeysError, PyTreeDef, mixed_keys_error, python_backend
from ._keys import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey, keystr
from ._registry import child_key_functions
from ..typing import Tree
from .._typing import KeyPath

__all__ = ["DictKey", "FlattenedIndexKey", "GetAttrKey", "SequenceKey", "explain_mismatch", "get_child_keys",
           "get_leaf_paths", "keystr", "unsorted_keys_error"]


def get_child_keys(node: Tree, count: int) -> list[Any]:
    """Return the keys of a node's children, in order."""
    kind = type(node)
    get_keys = child_key_functions.get(kind)
    if get_keys is not None:
        return list(get_keys(node))
    if kind in (dict, defaultdict):
        return [DictKey(k) for k in sorted(node)]
    if kind is OrderedDict:
        return [DictKey(k) for k in node]
    if kind in (tuple, list):
        return [SequenceKey(i) for i in range(count)]
    if isinstance(node, tuple) and hasattr(kind, "_fields"):
        return [GetAttrKey(n) for n in kind._fields]
    return [FlattenedIndexKey(i) for i in range(count)]


def unsorted_keys_error(tree: Tree, is_leaf: Callable[[Tree], bool] | None = None,
                        path_text: Callable[[KeyPath], str] = keystr, lead: str = "") -> TypeError | None:
    """Find the first dict in a tree whose keys cannot be sorted, and return an error about it.

    Args:
      tree: a tree that could not be flattened.
      is_leaf: as in `tree_flatten`.
      path_text: formats the path to the dict.
      lead: the beginning of the message, such as the function called with the tree; "": found from the call stack.
    Returns:
      The error; None if there is no such dict.

    >>> print(unsorted_keys_error([0, {1: 2, "a": 3}], lead="jit of `f`"))  # doctest: +ELLIPSIS
    jit of `f`: a dict in a tree is ordered by its keys, ...; the dict at [1] has the keys 1, 'a', of types int and str. ...
    """
    def walk(node: Tree, path: KeyPath) -> TypeError | None:
        if is_leaf is not None and is_leaf(node):
            return None
        try:
            level = python_backend.flatten_one_level(node)
            children = () if level is None else tuple(level[0])
        except MixedKeysError:
            return mixed_keys_error(node, path_text(path), lead)
        except TypeError:
            keys = list(node) if isinstance(node, dict) else []
            return mixed_keys_error(node, path_text(path), lead) if len(set(map(type, keys))) > 1 else None
        found = (walk(child, (*path, key)) for key, child in zip(get_child_keys(node, len(children)), children))
        return next((error for error in found if error is not None), None)

    lead = lead or _called_function()
    return walk(tree, ())


# Functions that wrap public ones, and so do not name what the user called.
_WRAPPERS = frozenset(("api_boundary", "rename_errors", "explicit_transfers"))
# Functions that implement public ones -> their names.
_IMPLEMENTATIONS = {"run_batched": "vmap", "make_vmap": "vmap"}


def _called_function() -> str:
    """Return the name of the outermost library function on the call stack: the one that the user called."""
    frame: FrameType | None = sys._getframe(2)
    name = ""
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0].startswith("lamina"):
        code = frame.f_code
        *owner, own = code.co_qualname.partition(".<locals>")[0].split(".")
        if own.startswith("__") and owner:
            own = owner[-1]
        if own[0] not in "_<" and own not in _WRAPPERS:
            name = _IMPLEMENTATIONS.get(own) or own.removesuffix("_impl")
        frame = frame.f_back
    return name


def get_leaf_paths(tree: Tree, is_leaf: Callable[..., bool] | None = None,
                   is_leaf_takes_path: bool = False) -> list[KeyPath]:
    """Return the paths of the leaves, in order; `is_leaf` is called once per node, parents before children."""
    out: list[KeyPath] = []
    _walk(tree, (), is_leaf if is_leaf is None or is_leaf_takes_path else lambda path, node: is_leaf(node), out)
    return out


def _walk(node: Tree, path: KeyPath, is_leaf: Callable[..., bool] | None, out: list[KeyPath]) -> None:
    try:
        level = None if is_leaf is not None and is_leaf(path, node) else python_backend.flatten_one_level(node)
    except MixedKeysError:
        raise mixed_keys_error(node, keystr(path), _called_function()) from None
    if level is None:
        out.append(path)
        return
    children = tuple(level[0])
    for key, child in zip(get_child_keys(node, len(children)), children):
        _walk(child, (*path, key), is_leaf, out)


def _clip(x: object) -> str:
    text = repr(x)
    return text if len(text) <= 60 else text[:57] + "..."


def explain_mismatch(treedef: PyTreeDef, tree: Tree, path: KeyPath = ()) -> str | None:
    """Explain why `treedef` is not a prefix of the structure of `tree`, with the path of the first difference.

    Args:
      treedef: the expected structure.
      tree: the tree.
      path: keys of the path to both, for the message.
    Returns:
      Text to follow "it": "has at ...", "lacks ..."; None if it is a prefix.
    Raises:
      TypeError: `treedef` is not a structure, or `path` not a tuple.

    >>> from lamina_ir.trees import tree_structure
    >>> explain_mismatch(tree_structure({"a": (0, 0)}), {"a": (1, 2, 3)})
    "has at ['a'] a tuple of 3 children; expected 2"
    """
    try:
        data: Any = treedef.node_data()
    except AttributeError:
        raise TypeError("explain_mismatch: treedef must be a structure, as returned by tree_structure; got "
                        f"{short_repr(treedef)}") from None
    if not isinstance(path, tuple):
        raise TypeError(f"explain_mismatch: path must be a tuple of keys; got {short_repr(path)}")
    at = f"at {keystr(path)} " if path else ""
    if data is None:
        return None
    kind, children = data[0], treedef.children()
    if type(tree) is not kind:
        if kind is type(None):
            return f"has {at}{_clip(tree)}; expected None, which is a node without leaves"
        return f"has {at}a {type(tree).__name__} ({_clip(tree)}); expected a {kind.__name__}"
    # One level of both at a time: report the first difference from the left and from the root.
    level = python_backend.flatten_one_level(tree)
    found = tuple(level[0]) if level is not None else ()
    if kind is dict and sorted(tree) != sorted(data[1]):
        expected, present = set(data[1]), set(tree)
        parts = [f"lacks the keys {sorted(expected - present)}"] if expected - present else []
        parts += [f"has the extra keys {sorted(present - expected)}"] if present - expected else []
        return (f"has {at}a dict which " if at else "") + " and ".join(parts)
    if len(found) != len(children):
        return f"has {at}a {kind.__name__} of {len(found)} children; expected {len(children)}"
    if level is not None and kind not in (tuple, list, dict, type(None)) and kind in python_backend.nodes \
            and level[1] != data[1]:
        return f"has {at}a {kind.__name__} with data {_clip(level[1])}; expected {_clip(data[1])}"
    for key, sub, child in zip(get_child_keys(tree, len(found)), children, found):
        text = explain_mismatch(sub, child, (*path, key))
        if text is not None:
            return text
    return None
