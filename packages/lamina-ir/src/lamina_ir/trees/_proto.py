"""Treedefs as protocol buffers, in the format of jaxlib's `PyTreeDef.serialize_using_proto`.

A message contains nodes, children before their parent, and strings that dict keys refer to by number:

    message Tree { repeated Node nodes = 1; repeated string texts = 2; }
    message Node { int32 arity = 1; Kind kind = 2; Keys keys = 3; }      // Kind: 1 leaf, 2 list, 3 None, 4 tuple, 5 dict
    message Keys { repeated int32 text = 1 [packed = true]; }
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..typing import Tree

__all__ = ["read_message", "write_message"]

_LEAF, _LIST, _NONE, _TUPLE, _DICT = 1, 2, 3, 4, 5
_KINDS: dict[type | None, int] = {None: _LEAF, list: _LIST, type(None): _NONE, tuple: _TUPLE, dict: _DICT}


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7f:
        out.append(n & 0x7f | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _block(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _number(field: int, n: int) -> bytes:
    return _varint(field << 3) + _varint(n) if n else b""


def write_message(d: Any) -> bytes:
    """Encode a structure of lists, tuples, None and dicts with string keys.

    Raises:
      ValueError: it has other nodes or keys.
    """
    texts: dict[str, int] = {}
    nodes: list[bytes] = []

    def add(d: Any) -> None:
        for child in d.children():
            add(child)
        kind: Any
        data: Any
        kind, data = d.node_data() or (None, None)
        number = _KINDS.get(kind)
        if number is None:
            raise ValueError("serialize_using_proto: nodes must be lists, tuples, dicts or None; got "
                             f"{kind.__qualname__}")
        body = _number(1, len(d.children())) + _number(2, number)
        if number == _DICT:
            if not all(type(k) is str for k in data):
                raise ValueError(f"serialize_using_proto: keys of dicts must be strings; got keys {list(data)}")
            numbers = b"".join([_varint(texts.setdefault(k, len(texts))) for k in data])
            body += _block(3, _block(1, numbers)) if data else b""
        nodes.append(_block(1, body))

    add(d)
    return b"".join([*nodes, *[_block(2, text.encode()) for text in texts]])


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Iterate over (number, value) of the fields; a value is an int or bytes."""
    at = 0

    def varint() -> int:
        nonlocal at
        n = shift = 0
        while True:
            byte = data[at]
            at += 1
            n |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return n
            if shift > 63:
                raise IndexError("a number is too long")

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        elif tag & 7 == 2:
            size = varint()
            if at + size > len(data):
                raise IndexError("a field is truncated")
            yield tag >> 3, data[at:at + size]
            at += size
        else:
            raise IndexError(f"wire type {tag & 7}")


def read_message(data: bytes) -> Tree:
    """Decode a message to a tree with leaves 0.

    Raises:
      ValueError: it is not such a message.
    """
    try:
        found = [*_fields(bytes(data))]
        texts = [text.decode() for field, text in found if field == 2]
        stack: list[Tree] = []
        for field, body in found:
            if field != 1:
                continue
            node = {1: 0, 2: 0, 3: b"", **dict(_fields(body))}
            arity, kind = node[1], node[2]
            if arity > len(stack):
                raise IndexError("children do not precede their node")
            children = [stack.pop() for _ in range(arity)][::-1]
            if kind == _DICT:
                keys = [texts[n] for n in _numbers(dict(_fields(node[3])).get(1, b""))]
                if len(keys) != arity or len({*keys}) != arity:
                    raise IndexError("numbers of keys and children differ")
                stack.append(dict(zip(keys, children)))
            elif kind in (_LIST, _TUPLE):
                stack.append(children if kind == _LIST else tuple(children))
            elif kind in (_LEAF, _NONE) and not arity:
                stack.append(0 if kind == _LEAF else None)
            else:
                raise IndexError(f"kind {kind}")
        (tree,) = stack
        return tree
    except (IndexError, KeyError, TypeError, AttributeError, ValueError) as e:
        raise ValueError(f"deserialize_using_proto: data is not an encoded tree structure ({e})") from e


def _numbers(packed: int | bytes) -> list[int]:
    if isinstance(packed, int):  # a single number may be unpacked
        return [packed]
    found, n, shift = [], 0, 0
    for byte in packed:
        n |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            found.append(n)
            n = shift = 0
    return found
