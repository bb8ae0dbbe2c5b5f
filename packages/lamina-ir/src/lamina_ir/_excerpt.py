"""`excerpt`: what came, as errors show it."""
from __future__ import annotations

from typing import Any

__all__ = ["excerpt"]


def excerpt(x: Any) -> str:
    """`int: 3`: the type, and the beginning of what is printed of it."""
    try:
        text = repr(x).split("\n")[0]
    except Exception:  # a message about a broken value must not fail on it
        return type(x).__name__
    return f"{type(x).__name__}: {text if len(text) <= 60 else text[:57] + '...'}"
