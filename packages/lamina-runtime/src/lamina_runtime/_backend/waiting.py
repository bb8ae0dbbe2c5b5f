"""Wait for arrays. All waits of this package go through the hook of this module.

The default hook is jaxlib's wait. Two cases need another one, set with `set_wait`: a session whose collectives cannot be
aborted (`lamina_distributed._group.interruptible_wait`), and a forked child, where a wait would hang (`_execute.fork_safety`).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from . import deletion
from .._jaxlib import ArrayImpl

__all__ = ["WaitForArray", "has_hook", "set_wait", "wait_for", "wait_for_all"]

WaitForArray = Callable[[ArrayImpl], ArrayImpl]  # waits until an array is computed, and returns it

wait_for: WaitForArray = deletion.wait_for
# Whether `wait_for` is not jaxlib's. If so, it is called before an array is read, because jaxlib's functions that read
# an array wait for it themselves.
has_hook = False


def set_wait(wait: WaitForArray | None) -> None:
    """Wait for all arrays with this function from now on, also before reading them. None: with jaxlib's again."""
    global wait_for, has_hook
    wait_for, has_hook = wait or deletion.wait_for, wait is not None


def wait_for_all(arrays: Sequence[ArrayImpl]) -> None:
    """Wait until several arrays are computed."""
    if has_hook:
        for x in arrays:
            wait_for(x)
    else:
        deletion.wait_for_all(arrays)
