"""The garbage collector held back while one call makes many objects that all stay: its passes would grow with them."""
from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["uncollected"]

F = TypeVar("F", bound=Callable[..., Any])


def uncollected(fn: F) -> F:
    """Decorator: `fn` runs with automatic collection off, and leaves it as it was."""
    @functools.wraps(fn)
    def quiet(*args: Any, **kwargs: Any) -> Any:
        if not gc.isenabled():
            return fn(*args, **kwargs)
        gc.disable()
        try:
            return fn(*args, **kwargs)
        finally:
            gc.enable()
    return quiet  # type: ignore[return-value]
