"""Pure-Python pytree backend: flattening and `PyTreeDef`.

It has the same methods as jaxlib's C++ registry, so `trees` can use either (see `trees.set_backend`). A `PyTreeDef` is
immutable, hashable, and compared by structure.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from . import _proto
from ..errors import LaminaError
from ..typing import Function, Leaf, Tree
from .._typing import NodeData, TreeBackend

__all__ = ["MixedKeysError", "PyTreeDef", "PythonBackend", "mixed_keys_error", "python_backend"]

_NONE = type(None)


def _is_namedtuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


class _TreeDefMeta(type):
    """Metaclass: structures of another backend count as instances."""

    others: tuple[type, ...] = ()

    @override
    def __instancecheck__(cls, x: object) -> bool:
        return type.__instancecheck__(cls, x) or isinstance(x, cls.others)


class PyTreeDef(metaclass=_TreeDefMeta):
    """The structure of a pytree.

    Args:
      kind: the type of the node, or None for a leaf.
      data: the data of the node besides children: sorted keys of a dict, else the data from its flatten function.
      nodes: the structures of the children.
      build: function that makes a node from `(data, children)`.
      split: the flatten function of a registered class, else None.
    """

    __slots__ = ("kind", "data", "nodes", "build", "split", "num_leaves", "num_nodes", "_hash")

    def __init__(self, kind: type | None, data: NodeData, nodes: tuple[PyTreeDef, ...], build: Function | None,
                 split: Function | None = None) -> None:
        self.kind = kind
        self.data = data
        self.nodes = nodes
        self.build = build
        self.split = split
        leaves, count = 0, 1
        for n in nodes:
            leaves += n.num_leaves
            count += n.num_nodes
        self.num_leaves: int = leaves if kind is not None else 1
        self.num_nodes: int = count
        self._hash: int | None = None

    def unflatten(self, leaves: Iterable[Leaf]) -> Tree:
        """Return the tree with this structure and these leaves; ValueError if there are too few or too many."""
        leaves = leaves if type(leaves) is list else list(leaves)
        if len(leaves) != self.num_leaves:
            few = "few" if len(leaves) < self.num_leaves else "many"
            raise ValueError(f"Too {few} leaves for PyTreeDef; expected {self.num_leaves}, got {len(leaves)}: {self}")
        return _unflatten(self, iter(leaves).__next__)

    def flatten_up_to(self, tree: Tree) -> list[Tree]:
        """Return the subtrees of `tree` at the leaves of this structure; ValueError if structures do not match."""
        out: list[Tree] = []
        _flatten_up_to(self, tree, out)
        return out

    def children(self) -> list[PyTreeDef]:
        return list(self.nodes)

    def node_data(self) -> tuple[type, NodeData] | None:
        """Return `(type, data)` of the root; None for a leaf."""
        if self.kind is None:
            return None
        return self.kind, (list(self.data) if self.kind is dict else self.data)

    def from_iterable_tree(self, xs: Tree) -> Tree:
        """Build the tree from nested iterables of any kind that have the leaves at the same positions."""
        if self.kind is None:
            return xs
        children = list(xs) if self.nodes else []
        if len(children) != len(self.nodes):
            raise ValueError(f"expected {len(self.nodes)} children for {self}; got {len(children)}")
        built = [d.from_iterable_tree(x) for d, x in zip(self.nodes, children)]
        return self.build(self.data, built)  # type: ignore[misc]

    def walk(self, f_node: Function, f_leaf: Function | None, leaves: Iterable[Leaf]) -> Any:
        """Fold the structure: `f_node(results of the children, data)` at nodes, `f_leaf(leaf)`, if given, at leaves."""
        return _walk(self, f_node, f_leaf, iter(leaves))

    @staticmethod
    def make_from_node_data_and_children(registry: TreeBackend, node_data: tuple[type, NodeData] | None,
                                         children: Iterable[PyTreeDef]) -> PyTreeDef:
        """Return the structure of a node with this type and data, and these structures as children."""
        return registry.make_treedef(node_data, children)

    def serialize_using_proto(self) -> bytes:
        """Return the structure as a protocol buffer, readable by `deserialize_using_proto`, also that of jaxlib.

        ValueError for nodes other than lists, tuples, None and dicts with string keys.
        """
        return _proto.write_message(self)

    @staticmethod
    def deserialize_using_proto(registry: TreeBackend, data: bytes) -> PyTreeDef:
        """Return the structure in such a protocol buffer; ValueError for other bytes. `registry` is
        `default_registry`."""
        return registry.flatten(_proto.read_message(data))[1]

    def compose(self, inner: PyTreeDef) -> PyTreeDef:
        """Return this structure with each leaf replaced by `inner`."""
        if self.kind is None:
            return inner
        return PyTreeDef(self.kind, self.data, tuple(n.compose(inner) for n in self.nodes), self.build, self.split)

    @override
    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not PyTreeDef:
            return NotImplemented
        return (self.kind is other.kind and self.num_nodes == other.num_nodes and self.num_leaves == other.num_leaves
                and self.data == other.data and self.nodes == other.nodes)

    @override
    def __hash__(self) -> int:
        h = self._hash
        if h is None:
            h = self._hash = hash((self.kind, self.data, self.nodes))
        return h

    @override
    def __reduce__(self) -> tuple[Function, tuple[type | None, NodeData, tuple[PyTreeDef, ...]]]:
        return _rebuild, (self.kind, self.data, self.nodes)

    @override
    def __repr__(self) -> str:
        return f"PyTreeDef({_text(self)})"


def _walk(d: PyTreeDef, f_node: Function, f_leaf: Function | None, leaves: Iterator[Leaf]) -> Any:
    if d.kind is None:
        return next(leaves) if f_leaf is None else f_leaf(next(leaves))
    return f_node(tuple([_walk(n, f_node, f_leaf, leaves) for n in d.nodes]), None if d.data is None else d.data)


LEAF = PyTreeDef(None, None, (), None)


def _text(d: PyTreeDef) -> str:
    inner = [_text(n) for n in d.nodes]
    if d.kind is None:
        return "*"
    if d.kind is _NONE:
        return "None"
    if d.kind is tuple:
        return f"({inner[0]},)" if len(inner) == 1 else f"({', '.join(inner)})"
    if d.kind is list:
        return f"[{', '.join(inner)}]"
    if d.kind is dict:
        return "{" + ", ".join(f"{k!r}: {t}" for k, t in zip(d.data, inner)) + "}"
    head = (f"namedtuple[{d.kind.__name__}]" if d.build is _build_namedtuple else f"{d.kind.__name__}[{d.data!r}]")
    return f"CustomNode({head}, [{', '.join(inner)}])"


def _unflatten(d: PyTreeDef, take: Callable[[], Leaf]) -> Tree:
    if d.kind is None:
        return take()
    children = [take() if n.kind is None else _unflatten(n, take) for n in d.nodes]
    return d.build(d.data, children)  # type: ignore[misc]


def _flatten_up_to(d: PyTreeDef, tree: Tree, out: list[Tree]) -> None:
    kind: Any = d.kind
    if kind is None:
        out.append(tree)
        return
    found: Any = type(tree)
    if found is not kind:
        raise ValueError(f"Expected {kind.__name__}, got {found.__name__}: {tree!r}")
    if kind is _NONE:
        return
    if kind is dict:
        try:
            # Look up the keys of the structure: those of the tree may not be sortable. After that, only a different
            # number of keys is possible.
            children: Sequence[Tree] = [tree[k] for k in d.data]
        except KeyError:
            children = ()
        if len(tree) != len(children):
            raise ValueError(f"Dict key mismatch; expected keys: {list(d.data)}; present keys: {list(tree)}")
    # Tuples, lists and named tuples are sequences of their children.
    elif d.split is None:
        children = tree
    else:
        children, data = d.split(tree)
        children = tuple(children)
        if data != d.data:
            raise ValueError(f"Mismatch of {kind.__name__} metadata; expected {d.data!r}, got {data!r}")
    if len(children) != len(d.nodes):
        raise ValueError(f"{kind.__name__} arity mismatch: expected {len(d.nodes)}, got {len(children)}: {tree!r}")
    for n, child in zip(d.nodes, children):
        if n.kind is None:
            out.append(child)
        else:
            _flatten_up_to(n, child, out)


def _build_tuple(_: NodeData, children: list[Tree]) -> tuple[Tree, ...]:
    return tuple(children)


def _build_list(_: NodeData, children: list[Tree]) -> list[Tree]:
    return children


def _build_dict(keys: Iterable[Hashable], children: list[Tree]) -> dict[Hashable, Tree]:
    return dict(zip(keys, children))


def _build_none(_: NodeData, children: list[Tree]) -> None:
    return None


def _build_namedtuple(kind: type, children: list[Tree]) -> Tree:
    return kind(*children)


class MixedKeysError(LaminaError, TypeError, ValueError):
    """A dict in a tree has keys that cannot be sorted.

    Fix: use keys of one type, such as strings only.
    """

    code: ClassVar[str] = "LAM1104"


def mixed_keys_error(tree: dict[Any, Any], place: str = "", lead: str = "") -> MixedKeysError:
    """Return the error about a dict at a place in a tree. `lead` is the name of the called function."""
    kinds = " and ".join(sorted({type(k).__name__ for k in tree}))
    keys = ", ".join([f"{k!r:.40}" for k in list(tree)[:8]]) + (", ..." if len(tree) > 8 else "")
    return MixedKeysError(f"{lead and lead + ': '}a dict in a tree is ordered by its keys, so they must sort against each "
                          f"other; the dict{place and ' at ' + place} has the keys {keys}, of types {kinds}. Use keys of "
                          "one type")


def _sorted_keys(tree: dict[Any, Any]) -> list[Any]:
    try:
        return sorted(tree)
    except TypeError as e:
        raise mixed_keys_error(tree) from e


_NONE_DEF = PyTreeDef(_NONE, None, (), _build_none)


class PythonBackend:
    """The pure-Python backend. jaxlib's `PyTreeRegistry` has the same methods except the `treedef` helpers."""

    def __init__(self) -> None:
        self.nodes: dict[type, tuple[Function, Function]] = {}
        self.leaf_kinds: set[type] = set()  # types known to be leaves, for the fast path in `_flatten`

    def flatten(self, tree: Tree, leaf_predicate: Callable[[Tree], bool] | None = None) -> tuple[list[Leaf], PyTreeDef]:
        """Return the leaves in order, and the structure."""
        leaves: list[Leaf] = []
        return leaves, self._flatten(tree, leaves, leaf_predicate)

    def _flatten(self, tree: Tree, leaves: list[Leaf], stop: Callable[[Tree], bool] | None) -> PyTreeDef:
        if stop is not None and stop(tree):
            leaves.append(tree)
            return LEAF
        kind = type(tree)
        build: Function
        split = None
        data: NodeData = None
        if kind is tuple or kind is list:
            children, build = tree, _build_tuple if kind is tuple else _build_list
        elif kind is dict:
            data = tuple(_sorted_keys(tree))
            children, build = [tree[k] for k in data], _build_dict
        elif tree is None:
            return _NONE_DEF
        else:
            functions = self.nodes.get(kind)
            if functions is not None:
                split, build = functions
                children, data = split(tree)
            elif isinstance(tree, tuple) and _is_namedtuple(kind):
                children, data, build = tree, kind, _build_namedtuple
            else:
                leaves.append(tree)
                if len(self.leaf_kinds) < 4096:
                    self.leaf_kinds.add(kind)
                return LEAF
        # Fast path: no call for a child of a known leaf type, unless there is a predicate, which must see each node.
        flatten, known = self._flatten, self.leaf_kinds if stop is None else ()
        nodes = []
        for c in children:
            if type(c) in known:
                leaves.append(c)
                nodes.append(LEAF)
            else:
                nodes.append(flatten(c, leaves, stop))
        return PyTreeDef(kind, data, tuple(nodes), build, split)

    def flatten_one_level(self, tree: Tree) -> tuple[Iterable[Tree], NodeData] | None:
        """Return `(children, data)` of the root; None for a leaf."""
        kind = type(tree)
        if kind is tuple or kind is list:
            return tree, None
        if tree is None:
            return (), None
        if kind is dict:
            keys = _sorted_keys(tree)
            return [tree[k] for k in keys], tuple(keys)
        functions = self.nodes.get(kind)
        if functions is not None:
            return functions[0](tree)
        return (tree, kind) if _is_namedtuple(kind) else None

    def register_node(self, kind: type, to_iterable: Function, from_iterable: Function,
                      to_iterable_with_keys: Function | None = None) -> None:
        """Register a class as a node; ValueError if it is registered already."""
        if kind in self.nodes or kind in (tuple, list, dict, _NONE):
            raise ValueError(f"Duplicate custom PyTreeDef type registration for {kind!r}.")
        self.nodes[kind] = to_iterable, from_iterable
        self.leaf_kinds.discard(kind)

    def treedef_tuple(self, treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
        return PyTreeDef(tuple, None, tuple(treedefs), _build_tuple)

    def all_leaves(self, values: Iterable[Tree]) -> bool:
        one = self.flatten_one_level
        return all(one(v) is None for v in values)

    def make_treedef(self, node_data: tuple[type, NodeData] | None, children: Iterable[PyTreeDef]) -> PyTreeDef:
        """Return the structure with this `node_data()` and these `children()`."""
        if node_data is None:
            return LEAF
        kind, data = node_data
        if kind is dict:
            data = tuple(data)
        builders = {tuple: _build_tuple, list: _build_list, dict: _build_dict, _NONE: _build_none}
        functions = self.nodes.get(kind)
        split, build = functions if functions is not None else (None, builders.get(kind, _build_namedtuple))
        return PyTreeDef(kind, data, tuple(children), build, split)


python_backend = PythonBackend()


def _rebuild(kind: type | None, data: NodeData, nodes: tuple[PyTreeDef, ...]) -> PyTreeDef:
    return python_backend.make_treedef(None if kind is None else (kind, data), nodes)
