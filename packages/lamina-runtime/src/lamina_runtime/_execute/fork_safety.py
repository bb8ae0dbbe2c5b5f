"""Make forked children safe: after `os.fork()` the child computes with NumPy.

`fork` copies only the calling thread. XLA's threads do not exist in the child, and locks that they held stay locked. A
child that compiles, even with a new client, hangs or is aborted by XLA. One that runs a program larger than a few
kilobytes waits forever for threads that do not exist.

Therefore a child of a process that has used a device works without XLA, and warns once. Arrays of the parent can be
read if they are computed already. Calls run with the NumPy evaluator. Compiling, running compiled programs and using
several devices raise an error. For this, the after-fork handler replaces functions of this package in the child, so
that processes that do not fork pay nothing. A child of a process that has only imported the package needs no such
treatment.
"""
from __future__ import annotations

import os
import threading
import warnings
from typing import Any, NoReturn

import numpy as np
from lamina_tracing import hooks
from lamina_tracing.extend import HostArray

from .. import _jaxlib
from .._array import arrays, methods, reshard
from .._backend import backends, client_state, launch_guards, transfer_counters
from .._compile import executable_cache

__all__ = ["install"]

_WHY = "this process was forked from one that had used a device, and XLA's threads do not survive a fork"
_FIX = "Start workers with multiprocessing.get_context('spawn') (or 'forkserver'), or fork before the first array"


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError(f"{_WHY}: it can compute with NumPy, but not place, compile or run anything on a device. {_FIX}")


def _check_ready(x: Any) -> Any:
    """Replacement for waiting for an array: raise an error if it is not computed yet; waiting would hang."""
    if isinstance(x, _jaxlib.ArrayImpl) and not x.is_deleted() and not x.is_ready():
        raise RuntimeError(f"an array was not computed before the fork and cannot be computed here: {_WHY}. {_FIX}")
    return x


def _put_on_host(aval: Any, sharding: Any, pieces: Any, *more: Any) -> Any:
    """Replacement for a transfer to one device: return a host array."""
    return HostArray.of(np.array(pieces[0], aval.dtype), aval) if len(pieces) == 1 else _refuse()


class _WarningNumPyEvaluator(hooks.NumPyEvaluator):
    """The NumPy evaluator, which warns on first use that XLA is not available."""

    _has_warned = False

    def _warn_once(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(f"{_WHY}: from now on it computes with NumPy, which is slow. {_FIX}", RuntimeWarning,
                          stacklevel=4)

    def primitive(self, prim: Any, args: Any, params: Any) -> Any:
        self._warn_once()
        return super().primitive(prim, args, params)

    def program(self, closed: Any, args: Any) -> Any:
        self._warn_once()
        return super().program(closed, args)


def _in_child() -> None:
    for client in (*client_state.current.clients.values(), *client_state.closed_clients()):
        _jaxlib.immortalize(client)
    if not backends.has_clients():
        return
    read_array = arrays._read_to_host
    arrays._read_to_host = lambda x, *more: read_array(_check_ready(x), *more)
    arrays._wait_for = _jaxlib.wait_for = _check_ready
    # Every launch checks its arguments first, so replacing the check blocks all launches.
    executable_cache.compile = launch_guards.check_usable = _refuse
    arrays._device_put = _put_on_host
    methods.get_member = lambda x, index: None
    reshard.reshard = lambda x, sharding: None
    transfer_counters._lock = threading.Lock()  # another thread of the parent may have held the old one
    client_state.current.effect_order.clear()
    client_state.current.pending_effects.clear()
    hooks.use_numpy(_WarningNumPyEvaluator())
    _jaxlib.PjitFunctionCache.clear_all()  # so that calls on the C++ fast path reach the NumPy evaluator


def install() -> None:
    """Register the after-fork handler."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_in_child)
