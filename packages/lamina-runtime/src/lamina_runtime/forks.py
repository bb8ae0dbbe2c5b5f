"""What a forked child may do: read arrays, and no more.

XLA's threads stay behind in the parent, and the locks they held stay locked: a child that compiles waits for ever or is
ended by XLA itself, and one that runs a program larger than a few kilobytes waits for threads that are not there. So a
child of a process that has used a device is refused both, by functions that take the place of the real ones: where
nothing forks nothing is asked. A child of a process that has only imported us is like any other.
"""
from __future__ import annotations

import os
from typing import Any, NoReturn

from . import _jaxlib, arrays, backends, compiling, effects, safe_launch

__all__ = ["install"]

_WHY = ("this process was forked from one that had used a device, and XLA's threads do not come along: it can read arrays "
        "that were ready, but not place, compile or run anything. Start workers with multiprocessing.get_context('spawn') "
        "(or 'forkserver'), or fork before the first array")


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError(_WHY)


def _ready(x: Any) -> Any:
    """In place of waiting: a child would wait for ever."""
    if not x.is_deleted() and not x.is_ready():
        raise RuntimeError(f"an array is not computed yet, and never will be here: {_WHY}")
    return x


def _in_child() -> None:
    if not backends.in_use():
        return
    for client in {id(c): c for c in (*backends._clients.values(), backends._default) if c is not None}.values():
        _jaxlib.keep_for_ever(client)
    read = arrays._read
    arrays._read = lambda x, *more: read(_ready(x), *more)
    arrays._wait_for = _jaxlib.wait_for = _ready
    # Every launch asks first whether its arguments are usable.
    arrays._device_put = compiling.compile = safe_launch.check_usable = _refuse
    effects._orders.clear()
    effects._pending.clear()
    _jaxlib.PjitFunctionCache.clear_all()  # what jaxlib would run by itself comes to Python, and is refused


def install() -> None:
    """Have forked children told."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_in_child)
