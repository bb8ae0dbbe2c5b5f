"""Bound methods under which something is remembered.

`model.step` is another object each time it is asked for, gone after the call it is given to; so what is remembered of a
function would be gone too, and `jit(model.step)(x)` in a loop would stage at every call. Here each method of a living
object has a *stand-in* that lives as long as the object does, and holds it weakly.

A program may depend on the object's attributes as they were when it was staged. So a stand-in is of one state: of the
numbers, strings, arrays, functions and containers of these that the object and the objects in it hold, arrays and functions
by identity. When they have changed, the method gets another stand-in. An object with anything else in it (large NumPy
arrays, files, objects without `__dict__`) might change unseen: its methods have no stand-in.
"""
from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from .array import Array
from .tracer import Tracer

__all__ = ["StandIn", "stand_in"]

_MOST = 512  # stand-ins; what is remembered under older ones is dropped
_MOST_PARTS = 512  # of an object's state
_SMALL = 4096  # bytes of a NumPy array that is compared by value
_PLAIN = frozenset((bool, int, str, bytes, type(None)))
_BY_IDENTITY = (FunctionType, BuiltinFunctionType, ModuleType, type)
_lock = threading.Lock()
_known: OrderedDict[Any, StandIn] = OrderedDict()  # (id of the object, function) -> the latest one


class StandIn:
    """Calls a method of an object that is held by somebody else."""

    __slots__ = ("owner", "function", "state", "__weakref__")

    def __init__(self, owner: Any, function: Callable[..., Any], state: list[Any]) -> None:
        key = id(owner), function
        self.owner = weakref.ref(owner, lambda _: _forget(key))
        self.function = function
        self.state = state

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.owner(), *args, **kwargs)

    def retire_if_changed(self) -> None:
        """If the object has changed since, let nobody else find what is remembered under this one from now on."""
        owner = self.owner()
        if owner is None or _state(owner) != self.state:
            with _lock:
                key = (id(owner), self.function)
                if _known.get(key) is self:
                    del _known[key]


def stand_in(method: MethodType) -> StandIn | None:
    """What the method is remembered under while its object is as it is; None if that cannot be known."""
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
        found = _known.get(key)
        if found is None or found.owner() is not owner or found.state != state:
            found = _known[key] = StandIn(owner, function, state)
            while len(_known) > _MOST:
                _known.popitem(last=False)
        _known.move_to_end(key)
    return found


def _forget(key: Any) -> None:
    found = _known.get(key)  # no lock: the collector may run this within a block of ours
    if found is not None and found.owner() is None:
        _known.pop(key, None)


def _state(owner: Any) -> list[Any] | None:
    """A list that is equal to another one if nothing that a program could depend on has changed; None if unknown."""
    if isinstance(owner, type):
        return None  # a class's attributes are its bases' too
    parts: list[Any] = []
    seen = {id(owner)}
    todo: list[Any] = [_attributes(owner)]
    while todo:
        value = todo.pop()
        kind = type(value)
        if kind in _PLAIN:
            parts.append((kind, value))
        elif kind in (float, complex) or isinstance(value, np.generic):
            parts.append((kind, repr(value)))  # 0.0 and -0.0 are equal, nan is not
        elif kind is dict:
            parts.append((kind, len(value)))
            todo += value.keys()
            todo += value.values()
        elif kind in (tuple, list) or (isinstance(value, tuple) and hasattr(kind, "_fields")):
            parts.append((kind, len(value)))
            todo += value
        elif kind is np.ndarray and value.nbytes <= _SMALL and not value.dtype.hasobject:
            parts.append((value.dtype, value.shape, value.tobytes()))
        elif isinstance(value, Array) and not isinstance(value, Tracer):
            parts.append(_Same(value))
        elif isinstance(value, Tracer | np.ndarray):
            return None
        elif isinstance(value, np.dtype):
            parts.append(value)
        elif isinstance(value, _BY_IDENTITY) or (callable(value) and hasattr(value, "__wrapped__")):
            parts.append(_WeaklySame(value))
        elif id(value) in seen:
            parts.append(kind)
        else:
            inside = _attributes(value)
            if inside is None:
                return None
            seen.add(id(value))
            parts.append(kind)
            todo.append(inside)
        if len(parts) + len(todo) > _MOST_PARTS:
            return None
    return parts


def _attributes(value: Any) -> dict[str, Any] | None:
    """An object's attributes if it has no other state: no slots, and no class written in C that it derives from."""
    inside = getattr(value, "__dict__", None)
    return inside if type(inside) is dict and type(value).__basicsize__ <= _Plain.__basicsize__ else None


class _Plain:
    """As large as an object with attributes alone is."""


class _Same:
    """Equal to another one of the same object."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is _Same and self.value is other.value

    __hash__ = None  # type: ignore[assignment]


class _WeaklySame:
    """The same for what may reach the object whose state this is, as a function that closes over it."""

    __slots__ = ("reference",)

    def __init__(self, value: Any) -> None:
        try:
            self.reference: Callable[[], Any] = weakref.ref(value)
        except TypeError:
            self.reference = lambda: value

    def __eq__(self, other: object) -> bool:
        found = self.reference()
        return type(other) is _WeaklySame and found is not None and found is other.reference()

    __hash__ = None  # type: ignore[assignment]
