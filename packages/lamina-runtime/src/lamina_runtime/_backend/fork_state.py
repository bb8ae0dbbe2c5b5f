"""The state `is_disabled`: whether this process is a forked child, in which XLA must not be used.

`_execute.fork_safety` sets it. Every entry point to XLA reads it: transfers, moves, launches and the compiler.
"""
from __future__ import annotations

from typing import NoReturn

__all__ = ["FIX", "REASON", "disable", "is_disabled", "refuse"]

REASON = "this process was forked from one that had used a device, and XLA's threads do not survive a fork"
FIX = "Start workers with multiprocessing.get_context('spawn') (or 'forkserver'), or fork before the first array"

is_disabled = False


def disable() -> None:
    """Disable XLA in this process, for good."""
    global is_disabled
    is_disabled = True


def refuse() -> NoReturn:
    """Raise the error of an operation that needs XLA."""
    raise RuntimeError(f"{REASON}: it can compute with NumPy, but not place, compile or run anything on a device. {FIX}")
