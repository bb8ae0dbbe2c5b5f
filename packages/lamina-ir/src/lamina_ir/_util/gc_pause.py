"""Pause the cyclic garbage collector during calls that create many long-lived objects.

Each pass of the collector visits all objects created so far, so its cost would grow with the program.
"""
from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any, TypeVar

from ..typing import Tree

__all__ = ["pause_gc"]

F = TypeVar("F", bound=Callable[..., Any])


def pause_gc(fn: F) -> F:
    """Decorator: run `fn` with automatic collection disabled, and restore it afterwards.

    Args:
      fn: a function that creates many objects that stay alive.
    Returns:
      A function with the same parameters and result.

    >>> pause_gc(gc.isenabled)()
    False
    """
    @functools.wraps(fn)
    def paused(*args: Tree, **kwargs: Tree) -> Any:
        if not gc.isenabled():
            return fn(*args, **kwargs)
        gc.disable()
        try:
            return fn(*args, **kwargs)
        finally:
            gc.enable()
    return paused  # type: ignore[return-value]
