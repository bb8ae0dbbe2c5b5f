"""What a forked child does: it computes with NumPy.

XLA's threads stay behind in the parent, and the locks they held stay locked: a child that compiles, on a new client too, waits
for ever or is ended by XLA itself, and one that runs a program larger than a few kilobytes waits for threads that are not
there. So a child of a process that has used a device says once that it goes on without XLA, and does: the parent's
arrays can be read, whatever is called is evaluated by the NumPy meanings of its ops, and what asks for several devices or for a
compiled program is refused. Functions take the place of the real ones for that: where nothing forks nothing is asked. A
child of a process that has only imported us is like any other.
"""
from __future__ import annotations

import os
import threading
import warnings
from typing import Any, NoReturn

import numpy as np
from lamina_tracing import slots
from lamina_tracing.extend import HostArray

from . import _jaxlib, array_methods, arrays, backends, compiling, on_device, owner, safe_launch, transfer_counts

__all__ = ["install"]

_WHY = "this process was forked from one that had used a device, and XLA's threads do not come along"
_INSTEAD = "Start workers with multiprocessing.get_context('spawn') (or 'forkserver'), or fork before the first array"


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError(f"{_WHY}: it can compute with NumPy, but not place, compile or run anything on a device. {_INSTEAD}")


def _ready(x: Any) -> Any:
    """In place of waiting: a child would wait for ever."""
    if isinstance(x, _jaxlib.ArrayImpl) and not x.is_deleted() and not x.is_ready():
        raise RuntimeError(f"an array is not computed yet, and never will be here: {_WHY}. {_INSTEAD}")
    return x


def _on_host(aval: Any, sharding: Any, pieces: Any, *more: Any) -> Any:
    """In place of a transfer to one device."""
    return HostArray.of(np.array(pieces[0], aval.dtype), aval) if len(pieces) == 1 else _refuse()


class _Told(slots.NumPyEvaluator):
    """The NumPy evaluator, which says that it is none of XLA when it is first used."""

    told = False

    def _tell(self) -> None:
        if not self.told:
            self.told = True
            warnings.warn(f"{_WHY}: from here on it computes with NumPy, which is slow. {_INSTEAD}", RuntimeWarning,
                          stacklevel=4)

    def primitive(self, prim: Any, args: Any, params: Any) -> Any:
        self._tell()
        return super().primitive(prim, args, params)

    def program(self, closed: Any, args: Any) -> Any:
        self._tell()
        return super().program(closed, args)


def _in_child() -> None:
    for client in (*owner.current.clients.values(), *owner.closed_clients()):
        _jaxlib.keep_for_ever(client)
    if not backends.in_use():
        return
    read = arrays._read
    arrays._read = lambda x, *more: read(_ready(x), *more)
    arrays._wait_for = _jaxlib.wait_for = _ready
    # Every launch asks first whether its arguments are usable.
    compiling.compile = safe_launch.check_usable = _refuse
    arrays._device_put = _on_host
    array_methods.row_of = lambda x, index: None
    on_device.moved = lambda x, sharding: None
    transfer_counts._lock = threading.Lock()  # another thread may have held it
    owner.current.orders.clear()
    owner.current.pending.clear()
    slots.use_numpy(_Told())
    _jaxlib.PjitFunctionCache.clear_all()  # what jaxlib would run by itself comes to Python, and goes to NumPy


def install() -> None:
    """Have forked children told."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_in_child)
