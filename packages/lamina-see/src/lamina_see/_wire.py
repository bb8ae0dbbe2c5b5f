"""Read messages in the wire format of protocol buffers, without their definitions: fields by number."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["read_fields", "read_numbers"]


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return (value, position behind it)."""
    value = data[at]
    at += 1
    if value < 128:
        return value, at
    value, shift = value & 127, 7
    while True:
        part = data[at]
        at += 1
        value |= (part & 127) << shift
        if part < 128:
            return value, at
        shift += 7


def read_fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield (number, value) of each field: an int, or bytes for texts, messages, packed numbers and floats.

    Raises:
      ValueError: the bytes are not a message.

    >>> list(read_fields(bytes([8, 150, 1, 18, 2, 104, 105])))
    [(1, 150), (2, b'hi')]
    """
    at, end = 0, len(data)
    try:
        while at < end:
            key, at = _read_varint(data, at)
            kind = key & 7
            if kind == 0:
                value: int | bytes
                value, at = _read_varint(data, at)
            elif kind == 2:
                size, at = _read_varint(data, at)
                value, at = data[at:at + size], at + size
            elif kind in (1, 5):
                size = 8 if kind == 1 else 4
                value, at = data[at:at + size], at + size
            else:
                raise ValueError(f"read_fields: field {key >> 3} has the unknown wire type {kind}")
            yield key >> 3, value
    except IndexError:
        raise ValueError("read_fields: the message is cut off") from None


def read_numbers(value: int | bytes) -> list[int]:
    """Return the numbers of one occurrence of a repeated field: packed, or a single one.

    >>> read_numbers(bytes([3, 150, 1])), read_numbers(7)
    ([3, 150], [7])
    """
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = _read_varint(value, at)
        found.append(number)
    return found
