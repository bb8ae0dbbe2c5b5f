"""Trees and their leaves in words that JSON can hold, for `checkpointing`: written, compared with another tree, made again.

A leaf is its number; None is null; a node is `[tag, names, children]`. Lists, tuples, dicts and OrderedDicts can be made again
from that alone. Of other nodes (named tuples, registered classes, a defaultdict with its function) only the name is written and
how their children are called: code is never looked up by a name in a file, so these need a tree of their structure.
"""
from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import DTypeError, ShapedArray, dtypes, shaped, trees
from lamina_ir.trees import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey, keystr
from lamina_tracing.extend import Tracer

from ._jaxlib import ArrayImpl
from .key_arrays import KeyArray

__all__ = ["Leaf", "children_of", "label", "leaf_of", "matched", "missing", "nested", "rebuilt", "written"]

_ALONE = ("list", "tuple", "dict", "OrderedDict")
Path = tuple[Any, ...]


def label(path: Path) -> str:
    """How messages name a place."""
    return f"tree{keystr(path)}"


# --- structure ----------------------------------------------------------------------------------------------------
def written(tree: Any) -> tuple[Any, list[Any], list[str]]:
    """The structure of a tree, its leaves, and their places."""
    flat, _ = trees.tree_flatten_with_path(tree)
    return _written(tree, count()), [x for _, x in flat], [label(path) for path, _ in flat]


def _written(node: Any, numbers: Iterator[int]) -> Any:
    head = _head(node)
    if head is None:
        return None if node is None else next(numbers)
    tag, names, children = head
    return [tag, names, [_written(child, numbers) for child in children]]


def _head(node: Any) -> tuple[str, Any, Sequence[Any]] | None:
    """What is written of a node, and its children; None for leaves and None."""
    level = None if node is None else trees.flatten_one_level(node)
    if level is None:
        return None
    children, kind = tuple(level[0]), type(node)
    if kind is list or kind is tuple:
        return kind.__name__, None, children
    if kind is dict or kind is defaultdict:
        return kind.__name__, [_key(k) for k in sorted(node)], children
    if kind is OrderedDict:
        return "OrderedDict", [_key(k) for k in node], children
    fields = getattr(kind, "_fields", None)
    if isinstance(node, tuple) and fields is not None:
        return "named tuple", [kind.__qualname__, *fields], children
    # Which child is which: by their keys; where the class gives none, by its data, as far as that can be compared.
    found, _ = trees.tree_flatten_with_path(node, is_leaf=lambda x: x is not node)
    if any(isinstance(key, FlattenedIndexKey) for (key,), _ in found):
        data = _key(level[1])
        return "node", [kind.__qualname__, None, data if _plain(data) else None], children
    return "node", [kind.__qualname__, [str(key) for (key,), _ in found], None], children


_KEYS: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    int: (hex, lambda t: int(t, 16)), bool: (bool, bool), float: (float.hex, float.fromhex),
    type(None): (lambda k: 0, lambda t: None), bytes: (bytes.hex, bytes.fromhex),
    tuple: (lambda k: [_key(x) for x in k], lambda t: tuple([_unkey(x) for x in t]))}
_BY_NAME = {kind.__name__: kind for kind in _KEYS}


def _key(key: Any) -> Any:
    """A key of a dict: text as it is, else its type and value; of strange ones what `repr` says."""
    if type(key) is str:
        return key
    how = _KEYS.get(type(key))
    return ["other", repr(key)] if how is None else [type(key).__name__, how[0](key)]


def _unkey(written: Any) -> Any:
    return written if isinstance(written, str) else _KEYS[_BY_NAME[written[0]]][1](written[1])


def _plain(key: Any) -> bool:
    return isinstance(key, str) or (key[0] != "other" and (key[0] != "tuple" or all(map(_plain, key[1]))))


def children_of(structure: Any, path: Path) -> list[tuple[Any, Path]]:
    """The children of a node, and their places; [] of leaves and None."""
    if not isinstance(structure, list):
        return []
    tag, names, children = structure
    if tag in ("list", "tuple"):
        keys: list[Any] = [SequenceKey(i) for i in range(len(children))]
    elif tag == "named tuple":
        keys = [GetAttrKey(n) for n in names[1:]]
    elif tag == "node":
        keys = names[1] or [FlattenedIndexKey(i) for i in range(len(children))]
    else:
        keys = [DictKey(_unkey(n) if _plain(n) else n[1]) for n in names]
    return [(child, (*path, key)) for child, key in zip(children, keys)]


def missing(structure: Any, path: Path = ()) -> str | None:
    """The first node that cannot be made again from words alone, and where it is; None when there is none."""
    if isinstance(structure, list):
        tag, names, _ = structure
        if tag not in _ALONE:
            return f"a {tag} {names[0] if tag != 'defaultdict' else ''}".rstrip() + f" at {label(path)}"
        if names is not None and not all(map(_plain, names)):
            return f"a dict at {label(path)} with keys that are no text or numbers"
    found = (missing(child, place) for child, place in children_of(structure, path))
    return next((text for text in found if text is not None), None)


def rebuilt(structure: Any, leaves: dict[int, Any]) -> Any:
    """The tree of this structure with these leaves, by number."""
    if not isinstance(structure, list):
        return None if structure is None else leaves[structure]
    tag, names, below = structure
    children = [rebuilt(child, leaves) for child in below]
    if tag == "list":
        return children
    if tag == "tuple":
        return tuple(children)
    made = zip([_unkey(n) for n in names], children)
    return OrderedDict(made) if tag == "OrderedDict" else dict(made)


def nested(structure: Any) -> Any:
    """A tree with the places of a structure, in which nodes that only `like` can make again are tuples of their children."""
    if not isinstance(structure, list):
        return structure
    tag, names, below = structure
    children = [nested(child) for child in below]
    if tag == "list":
        return children
    if tag in ("dict", "OrderedDict") and all(map(_plain, names)):
        return dict(zip([_unkey(n) for n in names], children))
    return tuple(children)


def matched(structure: Any, like: Any, stands_for_many: Callable[[Any], bool], path: Path = ()) -> list[tuple[Any, Any, Path]]:
    """For each leaf of `like`, in order: what is there in the structure, the leaf, the place. What `stands_for_many` may stand
    for a whole subtree.

    Raises:
      ValueError: the two differ; says where.
    """
    head = None if stands_for_many(like) else _head(like)
    if head is None:
        if like is None:
            if structure is not None:
                raise ValueError(f"{label(path)} holds {_words(structure)}; `like` has None there")
            return []
        if not isinstance(structure, int) and not stands_for_many(like):
            raise ValueError(f"{label(path)} holds {_words(structure)}; `like` has a {type(like).__name__} there, a leaf")
        return [(structure, like, path)]
    tag, names, children = head
    theirs = [tag, names, children]
    if not isinstance(structure, list) or structure[0] != tag or tag == "named tuple" and structure[1] != names:
        raise ValueError(f"{label(path)} holds {_words(structure)}; `like` has {_words(theirs)} there")
    if tag == "node" and structure[1] != names:
        raise ValueError(f"{label(path)} holds {_words(structure)}{_more(structure)}; `like` has {_words(theirs)}"
                         f"{_more(theirs)} there")
    if structure[1] != names:
        parts = [f"{word} {[_unkey(n) if _plain(n) else n[1] for n in a if n not in b]}"
                 for word, a, b in (("lacks the keys", names, structure[1]), ("has the extra keys", structure[1], names))
                 if any(n not in b for n in a)]
        raise ValueError(f"{label(path)}: against `like` the state {' and '.join(parts) or 'has the keys in another order'}")
    if len(structure[2]) != len(children):
        raise ValueError(f"{label(path)} holds {_words(structure)}; `like` has {_words(theirs)} there")
    return [row for (child, place), other in zip(children_of(structure, path), children)
            for row in matched(child, other, stands_for_many, place)]


def _words(structure: Any) -> str:
    if not isinstance(structure, list):
        return "None" if structure is None else "a leaf"
    tag, names, children = structure
    name = f" {names[0]}" if tag in ("named tuple", "node") else ""
    return f"a {tag}{name} of {len(children)} children"


def _more(structure: Any) -> str:
    """What tells nodes of one class apart."""
    _, children, data = structure[1]
    return f", {', '.join(children)}" if children else f" with data {_unkey(data)!r:.200}" if data is not None else ""


# --- leaves -------------------------------------------------------------------------------------------------------
class Leaf(NamedTuple):
    """What is known of a leaf but for its numbers.

    Attributes:
      kind: `array` (of lamina's), the type of keys as `key<fry>`, `numpy`, `scalar` (of NumPy's), or the type of a Python
        number.
      dtype, shape, weak: of arrays; of the words of keys.
      value: a Python number, in words.
    """

    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    weak: bool = False
    value: Any = None

    @property
    def is_array(self) -> bool:
        return self.value is None

    @property
    def is_keys(self) -> bool:
        return self.kind.startswith("key<")

    def aval(self) -> ShapedArray:
        return shaped(self.shape, dtypes.as_dtype(self.dtype), self.weak)

    def number(self) -> Any:
        """The Python number."""
        if self.kind == "complex":
            return complex(*map(float.fromhex, self.value))
        return _KEYS[_BY_NAME[self.kind]][1](self.value)

    def long(self) -> str:
        return (f"a Python {self.kind}" if self.value is not None else
                f"a {self.kind} array of shape {tuple(self.shape[:-1])}" if self.is_keys else
                f"a {self.dtype} array of shape {tuple(self.shape)}")


def leaf_of(x: Any, place: str) -> Leaf:
    """What a leaf is.

    Raises:
      TypeError: it is no array and no number.
      DTypeError: it holds no numbers that lamina computes with.
    """
    kind = type(x)
    if kind is ArrayImpl:
        return Leaf("array", _dtype(x.aval.dtype, place), x.aval.shape, bool(x.aval.weak_type))
    if kind is KeyArray:
        return Leaf(dtypes.short_name(x.dtype), "uint32", x.words.shape)
    if kind in (np.ndarray, np.memmap):
        return Leaf("numpy", _dtype(x.dtype, place), x.shape)
    if isinstance(x, np.generic):
        return Leaf("scalar", _dtype(x.dtype, place))
    if kind is complex:
        return Leaf("complex", value=[x.real.hex(), x.imag.hex()])
    if kind in (bool, int, float):
        return Leaf(kind.__name__, value=_KEYS[kind][0](x))
    if isinstance(x, Tracer):
        raise TypeError(f"{place} is a traced value; keep states outside of jit, grad and other transformations")
    raise TypeError(f"{place} must be an array or a number; got {kind.__name__}: {x!r:.60}")


def _dtype(dtype: np.dtype, place: str) -> str:
    try:
        found = dtypes.as_dtype(dtype)
    except DTypeError:
        found = None
    if found is None or found == dtypes.float0:
        raise DTypeError(f"{place} has dtype {dtype}, which is none that lamina computes with")
    return found.name
