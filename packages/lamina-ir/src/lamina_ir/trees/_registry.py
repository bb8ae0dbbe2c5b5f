"""Registered pytree node classes. Registrations are stored, so that a backend added later gets all of them."""
from __future__ import annotations

import dataclasses
import functools
import operator
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from typing_extensions import override

from ._python_backend import python_backend
from ._keys import GetAttrKey
from ..typing import Function, Tree
from .._typing import NodeData, TreeBackend

__all__ = ["Partial", "add_backend", "child_key_functions", "register_dataclass", "register_pytree_node",
           "register_pytree_node_class", "register_pytree_with_keys", "register_pytree_with_keys_class",
           "register_static", "static"]

_T = TypeVar("_T")
_Flatten: TypeAlias = Callable[[Any], tuple[Iterable[Any], NodeData]]  # node -> (children, data)
_Unflatten: TypeAlias = Callable[[NodeData, Any], Any]  # (data, children) -> node
_C = TypeVar("_C", bound=Any)  # a class with the methods that the decorator names
_backends: list[TreeBackend] = [python_backend]
_registered: list[tuple[Callable[..., None], tuple[object, ...]]] = []
# class -> function: node -> keys of its children
child_key_functions: dict[type, Callable[[Tree], Sequence[object]]] = {}


def add_backend(backend: TreeBackend) -> None:
    """Add a backend: it gets all past and future registrations."""
    if backend not in _backends:
        for register, args in _registered:
            register(backend, *args)
        _backends.append(backend)


def _register(register: Callable[..., None], *args: Tree) -> None:
    for backend in _backends:
        register(backend, *args)
    _registered.append((register, args))


def _register_node(backend: TreeBackend, kind: type, flatten: Function, unflatten: Function) -> None:
    backend.register_node(kind, flatten, unflatten)


def _register_dataclass(backend: TreeBackend, kind: type, flatten: Function, unflatten: Function, data: list[str],
                        meta: list[str]) -> None:
    register_dataclass_node = getattr(backend, "register_dataclass_node", None)
    if register_dataclass_node is not None:
        register_dataclass_node(kind, data, meta)
    else:
        backend.register_node(kind, flatten, unflatten)


def register_pytree_node(nodetype: type, flatten_func: _Flatten,
                         unflatten_func: _Unflatten,
                         flatten_with_keys_func: _Flatten | None = None) -> None:
    """Register a class as a pytree node.

    Args:
      nodetype: the class; subclasses are not included.
      flatten_func: node -> `(children, data)`; `data` must be hashable and comparable.
      unflatten_func: `(data, children)` -> node.
      flatten_with_keys_func: node -> `([(key, child), ...], data)`, for paths.
    Raises:
      ValueError: the class is registered already.
    """
    _register(_register_node, nodetype, flatten_func, unflatten_func)
    if flatten_with_keys_func is not None:
        child_key_functions[nodetype] = lambda node: [key for key, _ in flatten_with_keys_func(node)[0]]


def register_pytree_node_class(cls: _C) -> _C:
    """Class decorator: register a class with `tree_flatten(self)` and class method `tree_unflatten(cls, data,
    children)`.

    >>> @register_pytree_node_class
    ... class Pair:
    ...     def __init__(self, x, y): self.x, self.y = x, y
    ...     def tree_flatten(self): return (self.x, self.y), None
    ...     @classmethod
    ...     def tree_unflatten(cls, data, children): return cls(*children)
    """
    register_pytree_node(cls, operator.methodcaller("tree_flatten"), cls.tree_unflatten)
    return cls


def register_pytree_with_keys(nodetype: type, flatten_with_keys: Callable[[Any], tuple[Any, Any]],
                              unflatten_func: _Unflatten,
                              flatten_func: _Flatten | None = None) -> None:
    """As `register_pytree_node`, with a function node -> `([(key, child), ...], data)`."""
    def strip(node: Tree) -> tuple[Iterable[Tree], NodeData]:
        pairs, data = flatten_with_keys(node)
        return [child for _, child in pairs], data

    register_pytree_node(nodetype, flatten_func or strip, unflatten_func, flatten_with_keys)


def register_pytree_with_keys_class(cls: _C) -> _C:
    """Class decorator: register a class with `tree_flatten_with_keys(self)` and `tree_unflatten(cls, data,
    children)`."""
    flatten = operator.methodcaller("tree_flatten") if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(cls, operator.methodcaller("tree_flatten_with_keys"), cls.tree_unflatten, flatten)
    return cls


def register_dataclass(nodetype: type[Any] | None = None, data_fields: Sequence[str] | None = None,
                       meta_fields: Sequence[str] | None = None, drop_fields: Sequence[str] = ()) -> Any:
    """Register a dataclass as a pytree node.

    Args:
      nodetype: the dataclass; if omitted, a decorator is returned.
      data_fields: fields that are children. Default: all fields not marked `field(metadata={"static": True})`.
      meta_fields: fields that are part of the structure; hashable and comparable.
      drop_fields: fields that are neither; `unflatten` sets them to their defaults.
    Raises:
      ValueError: the two lists do not name exactly the `init` fields of the class, or a field occurs twice.
      TypeError: fields are not given and the class is not a dataclass.
    """
    if nodetype is None:
        return functools.partial(register_dataclass, data_fields=data_fields, meta_fields=meta_fields,
                                 drop_fields=drop_fields)
    if data_fields is None or meta_fields is None:
        if (data_fields is None) != (meta_fields is None):
            raise TypeError("register_dataclass: pass both data_fields and meta_fields, or neither")
        if not dataclasses.is_dataclass(nodetype):
            raise TypeError(f"register_dataclass: nodetype must be a dataclass; got {nodetype!r}. Pass data_fields and "
                            "meta_fields for other classes")
        static = {f.name for f in dataclasses.fields(nodetype) if f.metadata.get("static", False)}
        names = [f.name for f in dataclasses.fields(nodetype) if f.init and f.name not in drop_fields]
        data_fields, meta_fields = [n for n in names if n not in static], [n for n in names if n in static]
    # `unflatten` would lose a field in neither list, and would fail for a field that is not an `init` parameter.
    data, meta = list(data_fields), list(meta_fields)
    if both := sorted({*data} & {*meta}):
        raise ValueError("register_dataclass: data_fields and meta_fields must be disjoint; both contain the fields "
                         f"{both} of {nodetype.__name__}")
    if dataclasses.is_dataclass(nodetype):
        expected = {f.name for f in dataclasses.fields(nodetype) if f.init} - set(drop_fields)
        if expected != {*data, *meta}:
            raise ValueError(f"register_dataclass: data_fields and meta_fields must name the init fields of "
                             f"{nodetype.__name__}: missing {sorted(expected - {*data, *meta})}, "
                             f"unexpected {sorted({*data, *meta} - expected)}")

    def flatten(node: Tree) -> tuple[Sequence[Tree], NodeData]:
        return tuple([getattr(node, n) for n in data]), tuple([getattr(node, n) for n in meta])

    def unflatten(values: Iterable[NodeData], children: Iterable[Tree]) -> Tree:
        return nodetype(**dict(zip(meta, values)), **dict(zip(data, children)))

    _register(_register_dataclass, nodetype, flatten, unflatten, data, meta)
    keys = [GetAttrKey(n) for n in data]
    child_key_functions[nodetype] = lambda node: keys
    return nodetype


def register_static(cls: type[_T]) -> type[_T]:
    """Class decorator: register a class whose values are part of the structure, without leaves; hashable,
    comparable."""
    register_pytree_node(cls, lambda node: ((), node), lambda data, children: data)
    return cls


def static(*, metadata: Mapping[Any, Any] | None = None, **options: Any) -> Any:
    """Declare a field of a dataclass that `register_dataclass` makes part of the structure: it is not a child.

    Args:
      metadata: further metadata of the field.
      options: `default`, `repr` and the other parameters of `dataclasses.field`.
    Returns:
      The field, with the metadata `{"static": True}`.

    >>> @register_dataclass
    ... @dataclasses.dataclass
    ... class Layer:
    ...     weights: float
    ...     name: str = static(default="dense")
    >>> python_backend.flatten(Layer(2.0))[0]
    [2.0]
    """
    return dataclasses.field(metadata={"static": True, **(metadata or {})}, **options)


class _OpaquePartial:
    """A `functools.partial` wrapped as one function: `functools.partial` would otherwise merge the two. Compared by
    value."""

    __slots__ = ("partial",)

    def __init__(self, partial: functools.partial[Any]) -> None:
        self.partial = partial

    def __call__(self, *args: Tree, **kwargs: Tree) -> Any:
        return self.partial(*args, **kwargs)

    func = property(lambda self: self.partial.func)
    args = property(lambda self: self.partial.args)
    keywords = property(lambda self: self.partial.keywords)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, _OpaquePartial) and self.partial == other.partial

    @override
    def __hash__(self) -> int:
        return hash(self.partial)

    @override
    def __repr__(self) -> str:
        return repr(self.partial)


class Partial(functools.partial):
    """`functools.partial` that is a pytree: the function is part of the structure, the arguments are children.

    If the function is itself a `functools.partial` (or a `Partial`), its arguments are part of the structure too.
    Arguments that are not arrays can be passed that way.

    >>> Partial(max, 3)(5)
    5
    """

    def __new__(cls, func: Function, /, *args: Tree, **keywords: Tree) -> Partial:
        if not callable(func):
            raise TypeError(f"Partial: expected a function; got {type(func).__name__}: {func!r:.60}")
        func = _OpaquePartial(func) if isinstance(func, functools.partial) else func
        return super().__new__(cls, func, *args, **keywords)


register_pytree_node(OrderedDict, lambda d: (tuple(d.values()), tuple(d)),
                     lambda keys, children: OrderedDict(zip(keys, children)))
register_pytree_node(defaultdict, lambda d: (tuple([d[k] for k in sorted(d)]), (d.default_factory, tuple(sorted(d)))),
                     lambda data, children: defaultdict(data[0], zip(data[1], children)))
register_pytree_node(Partial, lambda p: ((p.args, p.keywords), p.func),
                     lambda func, children: Partial(func, *children[0], **children[1]))
