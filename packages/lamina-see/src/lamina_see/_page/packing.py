"""Reports as compressed text that a page holds: tables by column, then deflate, then base64."""
from __future__ import annotations

import base64
import json
import math
import zlib
from typing import Any

__all__ = ["pack_report", "pack_tables", "unpack_tables"]


def pack_tables(value: Any) -> Any:
    """Replace each list of dicts with equal keys by its columns; replace NaN and infinity by None.

    Args:
      value: a tree of dicts, lists, texts, numbers, booleans and None.
    Returns:
      The tree. A table is `{"#": [key, ...], "c": [column, ...]}`.

    >>> pack_tables([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
    {'#': ['a', 'b'], 'c': [[1, 2], ['x', 'y']]}
    """
    if isinstance(value, dict):
        return {k: pack_tables(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        if len(value) > 1 and all(isinstance(row, dict) for row in value):
            keys = list(value[0])
            if keys and all(list(row) == keys for row in value):
                return {"#": keys, "c": [[pack_tables(row[k]) for row in value] for k in keys]}
        return [pack_tables(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def unpack_tables(value: Any) -> Any:
    """Return the tree from which `pack_tables` made `value`.

    >>> unpack_tables({"#": ["a"], "c": [[1, 2]]})
    [{'a': 1}, {'a': 2}]
    """
    if isinstance(value, dict):
        if value.keys() == {"#", "c"}:
            columns = [[unpack_tables(v) for v in column] for column in value["c"]]
            return [dict(zip(value["#"], row)) for row in zip(*columns)]
        return {k: unpack_tables(v) for k, v in value.items()}
    return [unpack_tables(v) for v in value] if isinstance(value, list) else value


def pack_report(facts: Any) -> str:
    """Return facts as text in the alphabet of base64, which needs no escapes in HTML.

    >>> set(pack_report({"name": "</script>"})) & set("<>&")
    set()
    """
    text = json.dumps(pack_tables(facts), separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode("ascii"), 6)).decode("ascii")
