"""Stable cache keys of bound methods.

`model.step` is a new object on every access, and is freed after the call it is passed to. A cache keyed by the function
would lose its entry at once, and `jit(model.step)(x)` in a loop would trace at every call. So each method of a living
object has a `BoundMethodKey`, which lives as long as the object and references it weakly.

A program may depend on the values of the object's attributes at tracing time. So a key belongs to one state of the
object: the numbers, strings, arrays, functions and containers that it and the objects in it hold; arrays and functions
are compared by identity. When the state changes, the method gets a new key. Other contents (large NumPy arrays, files,
objects without `__dict__`) could change undetected, so methods of such objects have no key.
"""
from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from typing_extensions import override
from lamina_ir.typing import Function, Tree

from .array import Array
from .tracer import Tracer

__all__ = ["BoundMethodKey", "get_bound_method_key"]

_MAX_KEYS = 512  # the oldest key is dropped, and with it what is cached under it
_MAX_STATE_ITEMS = 512  # objects with a larger state have no key
_MAX_COMPARED_BYTES = 4096  # NumPy arrays up to this size are compared by value; larger ones rule out a key
_CONSTANT_TYPES = frozenset((bool, int, str, bytes, type(None)))
_IDENTITY_TYPES = (FunctionType, BuiltinFunctionType, ModuleType, type)
_lock = threading.Lock()
# (id of the object, function) -> its latest key
_latest: OrderedDict[tuple[int, Function], BoundMethodKey] = OrderedDict()


class BoundMethodKey:
    """Cache key of a bound method for one state of its object. It can be called like the method."""

    __slots__ = ("owner", "function", "state", "__weakref__")

    def __init__(self, owner: object, function: Function, state: list[object]) -> None:
        key = id(owner), function
        self.owner = weakref.ref(owner, lambda _: _remove(key))
        self.function = function
        self.state = state

    def __call__(self, *args: Tree, **kwargs: Tree) -> Tree:
        return self.function(self.owner(), *args, **kwargs)

    def evict_if_changed(self) -> None:
        """If the object's state has changed, remove this key, so that later calls do not find its cache entries."""
        owner = self.owner()
        if owner is None or _state(owner) != self.state:
            with _lock:
                key = (id(owner), self.function)
                if _latest.get(key) is self:
                    del _latest[key]


def get_bound_method_key(method: MethodType) -> BoundMethodKey | None:
    """Return the cache key of a bound method for its object's current state; None if the state is not comparable."""
    owner, function = method.__self__, method.__func__
    key = (id(owner), function)
    try:
        weakref.ref(owner)
        hash(function)
    except TypeError:
        return None
    state = _state(owner)
    if state is None:
        return None
    with _lock:
        found = _latest.get(key)
        # `owner() is not owner`: the id of a dead object was reused.
        if found is None or found.owner() is not owner or found.state != state:
            found = _latest[key] = BoundMethodKey(owner, function, state)
            while len(_latest) > _MAX_KEYS:
                _latest.popitem(last=False)
        _latest.move_to_end(key)
    return found


def _remove(key: tuple[int, Function]) -> None:
    # No lock: this is a weakref callback. The garbage collector may run it in a thread that holds the lock already.
    found = _latest.get(key)
    if found is not None and found.owner() is None:
        _latest.pop(key, None)


def _state(owner: object) -> list[object] | None:
    """Return a list that compares equal as long as nothing changes that a program could depend on; None if unknown."""
    if isinstance(owner, type):
        return None  # a class also has the attributes of its bases
    parts: list[object] = []
    seen = {id(owner)}
    todo: list[Any] = [_attributes(owner)]
    while todo:
        value = todo.pop()
        kind = type(value)
        if kind in _CONSTANT_TYPES:
            parts.append((kind, value))
        elif kind in (float, complex) or isinstance(value, np.generic):
            parts.append((kind, repr(value)))  # not by value: 0.0 == -0.0, but nan != nan
        elif kind is dict:
            parts.append((kind, len(value)))
            todo += value.keys()
            todo += value.values()
        elif kind in (tuple, list) or (isinstance(value, tuple) and hasattr(kind, "_fields")):
            parts.append((kind, len(value)))
            todo += value
        elif kind is np.ndarray and value.nbytes <= _MAX_COMPARED_BYTES and not value.dtype.hasobject:
            parts.append((value.dtype, value.shape, value.tobytes()))
        elif isinstance(value, Array) and not isinstance(value, Tracer):
            parts.append(_Same(value))
        elif isinstance(value, Tracer | np.ndarray):
            return None
        elif isinstance(value, np.dtype):
            parts.append(value)
        elif isinstance(value, _IDENTITY_TYPES) or (callable(value) and hasattr(value, "__wrapped__")):
            parts.append(_WeaklySame(value))
        # A cycle, or an object that was visited by another path: its state is in the list already.
        elif id(value) in seen:
            parts.append(kind)
        else:
            inside = _attributes(value)
            if inside is None:
                return None
            seen.add(id(value))
            parts.append(kind)
            todo.append(inside)
        if len(parts) + len(todo) > _MAX_STATE_ITEMS:
            return None
    return parts


def _attributes(value: object) -> dict[str, object] | None:
    """Return an object's attributes if they are its only state: it has no slots, and no base class written in C."""
    inside = getattr(value, "__dict__", None)
    return inside if type(inside) is dict and type(value).__basicsize__ <= _Plain.__basicsize__ else None


class _Plain:
    """Reference for `__basicsize__`: an instance has a `__dict__` and no other state."""


class _Same:
    """Compares a value by identity."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    @override
    def __eq__(self, other: object) -> bool:
        return type(other) is _Same and self.value is other.value

    __hash__ = None  # type: ignore[assignment]


class _WeaklySame:
    """Compares a value by identity through a weak reference.

    Needed for functions, which may close over the object itself: a strong reference would keep the object alive.
    """

    __slots__ = ("reference",)

    def __init__(self, value: object) -> None:
        try:
            self.reference: Callable[[], object] = weakref.ref(value)
        except TypeError:
            self.reference = lambda: value

    @override
    def __eq__(self, other: object) -> bool:
        found = self.reference()
        return type(other) is _WeaklySame and found is not None and found is other.reference()

    __hash__ = None  # type: ignore[assignment]
