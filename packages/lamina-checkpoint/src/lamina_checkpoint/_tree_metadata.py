"""Encode the structure and the leaves of a tree as JSON for checkpoints, match it with another tree, and rebuild it.

A leaf is encoded as its number, None as null, a node as `[tag, names, children]`. Lists, tuples, dicts and OrderedDicts
can be rebuilt from that. For other nodes (named tuples, registered classes, a defaultdict with its function), only the
class name and the names of the children are stored. Code is never looked up by a name in a file, so rebuilding these
needs a tree with the same structure (`like`).
"""
from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from lamina_ir import DTypeError, ShapedArray, dtypes, shaped, trees
from lamina_ir.trees import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey, keystr
from lamina_tracing.extend import Tracer
from lamina_ir.typing import Tree, Value
from lamina_runtime.extend import KeyArray, is_array

__all__ = ["EncodedKey", "EncodedTree", "Leaf", "describe_leaf", "encode_tree", "find_unrebuildable", "format_path",
           "get_children", "match_structure", "nest_children", "rebuild"]

_REBUILDABLE = ("list", "tuple", "dict", "OrderedDict")
Path = tuple[Any, ...]
_MAX_DIFFERENCES = 10  # in one message
EncodedTree: TypeAlias = Any  # of lists, strings, numbers and None, as JSON has them
EncodedKey: TypeAlias = Any


def format_path(path: Path) -> str:
    """Format a key path for messages."""
    return f"tree{keystr(path)}"


# --- structure ----------------------------------------------------------------------------------------------------
def encode_tree(tree: Tree) -> tuple[EncodedTree, list[Value], list[str]]:
    """Return (encoded structure, leaves, names of the leaves in messages) of a tree."""
    flat, _ = trees.tree_flatten_with_path(tree)
    return _encode(tree, count()), [x for _, x in flat], [format_path(path) for path, _ in flat]


def _encode(node: Tree, numbers: Iterator[int]) -> EncodedTree:
    head = _node_header(node)
    if head is None:
        return None if node is None else next(numbers)
    tag, names, children = head
    return [tag, names, [_encode(child, numbers) for child in children]]


def _node_header(node: Tree) -> tuple[str, EncodedKey, Sequence[Tree]] | None:
    """Return (tag, names, children) of a node; None for a leaf or None."""
    level = None if node is None else trees.flatten_one_level(node)
    if level is None:
        return None
    children, kind = tuple(level[0]), type(node)
    if kind is list or kind is tuple:
        return kind.__name__, None, children
    if kind is dict or kind is defaultdict:
        return kind.__name__, [_encode_key(k) for k in sorted(node)], children
    if kind is OrderedDict:
        return "OrderedDict", [_encode_key(k) for k in node], children
    fields = getattr(kind, "_fields", None)
    if isinstance(node, tuple) and fields is not None:
        return "named tuple", [kind.__qualname__, *fields], children
    # Identify the children by their keys. If the class defines no keys, use its auxiliary data, if that can be encoded.
    found, _ = trees.tree_flatten_with_path(node, is_leaf=lambda x: x is not node)
    if any(isinstance(key, FlattenedIndexKey) for (key,), _ in found):
        data = _encode_key(level[1])
        return "node", [kind.__qualname__, None, data if _is_decodable(data) else None], children
    return "node", [kind.__qualname__, [str(key) for (key,), _ in found], None], children


_KEY_CODECS: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    int: (hex, lambda t: int(t, 16)), bool: (bool, bool), float: (float.hex, float.fromhex),
    type(None): (lambda k: 0, lambda t: None), bytes: (bytes.hex, bytes.fromhex),
    tuple: (lambda k: [_encode_key(x) for x in k], lambda t: tuple([_decode_key(x) for x in t]))}
_TYPES_BY_NAME = {kind.__name__: kind for kind in _KEY_CODECS}


def _encode_key(key: object) -> EncodedKey:
    """Encode a key of a dict.

    Strings are unchanged. Other known types become [type, value]; unknown types become ["other", repr].
    """
    if type(key) is str:
        return key
    codec = _KEY_CODECS.get(type(key))
    return ["other", repr(key)] if codec is None else [type(key).__name__, codec[0](key)]


def _decode_key(encoded: EncodedKey) -> Hashable:
    return encoded if isinstance(encoded, str) else _KEY_CODECS[_TYPES_BY_NAME[encoded[0]]][1](encoded[1])


def _is_decodable(key: EncodedKey) -> bool:
    return isinstance(key, str) or (key[0] != "other" and (key[0] != "tuple" or all(map(_is_decodable, key[1]))))


def get_children(structure: EncodedTree, path: Path) -> list[tuple[EncodedTree, Path]]:
    """Return (child, its key path) of each child of an encoded node; [] for leaves and None."""
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
        keys = [DictKey(_decode_key(n) if _is_decodable(n) else n[1]) for n in names]
    return [(child, (*path, key)) for child, key in zip(children, keys)]


def find_unrebuildable(structure: EncodedTree, path: Path = ()) -> str | None:
    """Describe the first node that cannot be rebuilt from the encoding; None if there is none."""
    if isinstance(structure, list):
        tag, names, _ = structure
        if tag not in _REBUILDABLE:
            return f"a {tag} {names[0] if tag != 'defaultdict' else ''}".rstrip() + f" at {format_path(path)}"
        if names is not None and not all(map(_is_decodable, names)):
            return f"a dict at {format_path(path)} with keys that are not text or numbers"
    found = (find_unrebuildable(child, place) for child, place in get_children(structure, path))
    return next((text for text in found if text is not None), None)


def rebuild(structure: EncodedTree, leaves: dict[int, Value]) -> Tree:
    """Rebuild a tree from its encoded structure and its leaves by number."""
    if not isinstance(structure, list):
        return None if structure is None else leaves[structure]
    tag, names, encoded_children = structure
    children = [rebuild(child, leaves) for child in encoded_children]
    if tag == "list":
        return children
    if tag == "tuple":
        return tuple(children)
    items = zip([_decode_key(n) for n in names], children)
    return OrderedDict(items) if tag == "OrderedDict" else dict(items)


def nest_children(structure: EncodedTree) -> Tree:
    """Return a tree of leaf numbers, in which nodes that cannot be rebuilt become tuples of their children."""
    if not isinstance(structure, list):
        return structure
    tag, names, encoded_children = structure
    children = [nest_children(child) for child in encoded_children]
    if tag == "list":
        return children
    if tag in ("dict", "OrderedDict") and all(map(_is_decodable, names)):
        return dict(zip([_decode_key(n) for n in names], children))
    return tuple(children)


def match_structure(structure: EncodedTree, like: Tree, is_subtree_leaf: Callable[[Tree], bool],
                    path: Path = ()) -> list[tuple[EncodedTree, Tree, Path]]:
    """Match an encoded structure with the tree `like`.

    Args:
      structure: the encoded structure.
      like: the tree.
      is_subtree_leaf: whether a leaf of `like` may match a whole subtree of the structure.
      path: key path of the structure.
    Returns:
      (part of the structure, leaf, key path) for each leaf of `like`, in order.
    Raises:
      ValueError: the two differ; the message has the key paths.
    """
    differences: list[str] = []
    matches = list(_match(structure, like, is_subtree_leaf, path, differences))
    if differences:
        rest = [f"and {len(differences) - _MAX_DIFFERENCES} more differences"] if len(differences) > _MAX_DIFFERENCES else []
        raise ValueError("; ".join([*differences[:_MAX_DIFFERENCES], *rest]))
    return matches


def _match(structure: EncodedTree, like: Tree, is_subtree_leaf: Callable[[Tree], bool], path: Path,
           differences: list[str]) -> Iterator[tuple[EncodedTree, Tree, Path]]:
    header = None if is_subtree_leaf(like) else _node_header(like)
    if header is None:
        if like is None:
            if structure is not None:
                differences.append(f"{format_path(path)} holds {_describe_node(structure)}; `like` has None there")
        elif not isinstance(structure, int) and not is_subtree_leaf(like):
            differences.append(f"{format_path(path)} holds {_describe_node(structure)}; `like` has a "
                               f"{type(like).__name__} there, a leaf")
        else:
            yield structure, like, path
        return
    difference = _compare_nodes(structure, header, path)
    if difference is not None:
        differences.append(difference)
        if not isinstance(structure, list) or structure[0] != header[0] or header[0] not in ("dict", "OrderedDict"):
            return
    children = get_children(structure, path)
    if difference is None:
        pairs = [(child, child_path, other) for (child, child_path), other in zip(children, header[2])]
    else:  # the children that both have are compared too, so that one message names all differences
        known = dict(zip(map(repr, header[1]), header[2]))
        pairs = [(child, child_path, known[repr(name)]) for name, (child, child_path) in zip(structure[1], children)
                 if repr(name) in known]
    for child, child_path, other in pairs:
        yield from _match(child, other, is_subtree_leaf, child_path, differences)


def _compare_nodes(structure: EncodedTree, header: tuple[str, EncodedKey, Sequence[Tree]], path: Path) -> str | None:
    """Describe how an encoded node and a node of `like` differ; None if they are equal, except for their children."""
    tag, names, children = header
    like_header = [tag, names, children]
    differ = f"{format_path(path)} holds {_describe_node(structure)}; `like` has {_describe_node(like_header)} there"
    if not isinstance(structure, list) or structure[0] != tag or tag == "named tuple" and structure[1] != names:
        return differ
    if tag == "node" and structure[1] != names:
        return (f"{format_path(path)} holds {_describe_node(structure)}{_describe_names(structure)}; `like` has "
                f"{_describe_node(like_header)}{_describe_names(like_header)} there")
    if structure[1] != names:
        parts = [f"{text} {[_decode_key(n) if _is_decodable(n) else n[1] for n in a if n not in b]}"
                 for text, a, b in (("lacks the keys", names, structure[1]),
                                    ("has the extra keys", structure[1], names))
                 if any(n not in b for n in a)]
        return (f"{format_path(path)}: compared with `like`, the checkpoint "
                f"{' and '.join(parts) or 'has the keys in another order'}")
    return differ if len(structure[2]) != len(children) else None


def _describe_node(structure: EncodedTree) -> str:
    if not isinstance(structure, list):
        return "None" if structure is None else "a leaf"
    tag, names, children = structure
    name = f" {names[0]}" if tag in ("named tuple", "node") else ""
    return f"a {tag}{name} of {len(children)} children"


def _describe_names(structure: EncodedTree) -> str:
    """Return a text that distinguishes nodes of the same class: names of the children, or auxiliary data."""
    _, children, data = structure[1]
    if children:
        return f", {', '.join(children)}"
    return "" if data is None else f" with data {_decode_key(data)!r:.200}"


# --- leaves -------------------------------------------------------------------------------------------------------
class Leaf(NamedTuple):
    """Description of a leaf, without its data.

    Attributes:
      kind: `array` (a lamina array), the type of PRNG keys as `key<fry>`, `numpy` (a NumPy array), `scalar` (a NumPy
        scalar), or the type of a Python number.
      dtype, shape, weak: dtype, shape and weak type of an array, or of the uint32 data of keys.
      value: an encoded Python number; None for arrays.
    """

    kind: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    weak: bool = False
    value: EncodedKey = None

    @property
    def is_array(self) -> bool:
        return self.value is None

    @property
    def is_keys(self) -> bool:
        return self.kind.startswith("key<")

    def aval(self) -> ShapedArray:
        return shaped(self.shape, dtypes.as_dtype(self.dtype), self.weak)

    def number(self) -> bool | int | float | complex | str:
        """Return the Python number, or the string of a checkpoint of orbax."""
        if self.kind == "str":
            return str(self.value)
        if self.kind == "complex":
            return complex(*map(float.fromhex, self.value))
        return _KEY_CODECS[_TYPES_BY_NAME[self.kind]][1](self.value)

    def str_long(self) -> str:
        """Return a description for messages."""
        return (f"a Python {self.kind}" if self.value is not None else
                f"a {self.kind} array of shape {tuple(self.shape[:-1])}" if self.is_keys else
                f"a {self.dtype} array of shape {tuple(self.shape)}")


def describe_leaf(x: Value, place: str) -> Leaf:
    """Return the description of a leaf.

    Raises:
      TypeError: it is not an array or a number.
      DTypeError: its dtype is not supported.
    """
    kind = type(x)
    if is_array(x):
        return Leaf("array", _dtype_name(x.aval.dtype, place), x.aval.shape, bool(x.aval.weak_type))
    if kind is KeyArray:
        return Leaf(dtypes.short_name(x.dtype), "uint32", x.key_data.shape)
    if kind in (np.ndarray, np.memmap):
        return Leaf("numpy", _dtype_name(x.dtype, place), x.shape)
    if isinstance(x, np.generic):
        return Leaf("scalar", _dtype_name(x.dtype, place))
    if kind is complex:
        return Leaf("complex", value=[x.real.hex(), x.imag.hex()])
    if kind in (bool, int, float):
        return Leaf(kind.__name__, value=_KEY_CODECS[kind][0](x))
    if isinstance(x, Tracer):
        raise TypeError(f"{place} is a traced value; save checkpoints outside of jit, grad and other transformations")
    raise TypeError(f"{place} must be an array or a number; got {kind.__name__}: {x!r:.60}")


def _dtype_name(dtype: np.dtype, place: str) -> str:
    try:
        found = dtypes.as_dtype(dtype)
    except DTypeError:
        found = None
    if found is None or found == dtypes.float0:
        raise DTypeError(f"{place} has dtype {dtype}, which is not supported")
    return found.name
