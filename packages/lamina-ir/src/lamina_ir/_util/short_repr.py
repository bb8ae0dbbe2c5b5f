"""Truncated repr of a value, for error messages."""
from __future__ import annotations


__all__ = ["short_repr"]


def short_repr(x: object) -> str:
    """Return the type and the beginning of the repr of a value: `int: 3`."""
    try:
        text = repr(x).split("\n")[0]
    except Exception:  # the error message must not fail because the repr does
        return type(x).__name__
    return f"{type(x).__name__}: {text if len(text) <= 60 else text[:57] + '...'}"
