"""Keys of paths through pytrees, one per step from a node to a child, and `keystr`, which formats a path."""
from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

__all__ = ["DictKey", "FlattenedIndexKey", "GetAttrKey", "SequenceKey", "keystr"]


class _Key:
    """A step from a node to a child. Keys of the same class with equal values are equal."""

    __slots__ = ("_value",)
    __match_args__: tuple[str, ...] = ("key",)
    _field = "key"
    _form = "[<flat index {}>]"

    def __init__(self, key: object) -> None:
        self._value = key

    @override
    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._value == other._value

    @override
    def __hash__(self) -> int:
        return hash((type(self).__name__, self._value))

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._field}={self._value!r})"

    @override
    def __str__(self) -> str:
        return self._form.format(self._value)


class SequenceKey(_Key):
    """An index into a tuple or list: `[0]`."""

    __slots__ = ()
    __match_args__ = ("idx",)
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
    __match_args__ = ("name",)
    _field, _form = "name", ".{}"

    def __init__(self, name: str) -> None:
        self._value = name

    name = property(lambda self: self._value)


class FlattenedIndexKey(_Key):
    """The position of a child of a class without registered keys: `[<flat index 0>]`."""

    __slots__ = ()
    key = property(lambda self: self._value)


def keystr(keys: Sequence[object], *, simple: bool = False, separator: str = "") -> str:
    """Format a path as Python code.

    Args:
      keys: the path: a sequence of keys.
      simple: format only the value of each key.
      separator: inserted between keys.

    >>> keystr((DictKey("w"), SequenceKey(0)))
    "['w'][0]"
    >>> keystr((DictKey("w"), SequenceKey(0)), simple=True, separator="/")
    'w/0'
    """
    if not simple:
        return separator.join(map(str, keys))
    names = ("idx", "key", "name")
    return separator.join(str(next((getattr(k, n) for n in names if hasattr(k, n)), k)) for k in keys)
