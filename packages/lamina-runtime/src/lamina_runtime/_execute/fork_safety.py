"""Make forked children safe: after `os.fork()` the child computes with NumPy.

`fork` copies only the calling thread. XLA's threads do not exist in the child, and locks that they held stay locked. A
child that compiles, even with a new client, hangs or is aborted by XLA. One that runs a program larger than a few
kilobytes waits forever for threads that do not exist.

Therefore a child of a process that has used a device works without XLA, and warns once. Arrays of the parent can be
read if they are computed already. Calls run with the NumPy evaluator. Compiling, running compiled programs and using
several devices raise an error: the entry points to XLA read `fork_state.is_disabled`. A child of a process that has
only imported the package needs no such treatment.
"""
from __future__ import annotations

import os
import warnings
from collections.abc import Sequence

from lamina_tracing import hooks
from lamina_ir.typing import Outputs, Params, Value
from lamina_ir import ClosedJaxpr, Primitive
from typing_extensions import override

from .. import _jaxlib
from .._backend import backends, client_state, fork_state, transfer_counters, waiting
from .._typing import Array

__all__ = ["install"]


def _check_ready(x: Array) -> Array:
    """Raise an error if an array is not computed yet: waiting for it would hang. The wait hook of a child."""
    if isinstance(x, _jaxlib.ArrayImpl) and not x.is_deleted() and not x.is_ready():
        raise RuntimeError(f"an array was not computed before the fork and cannot be computed here: {fork_state.REASON}. "
                           f"{fork_state.FIX}")
    return x


class _WarningNumPyEvaluator(hooks.NumPyEvaluator):
    """The NumPy evaluator, which warns on first use that XLA is not available."""

    _has_warned = False

    def _warn_once(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(f"{fork_state.REASON}: from now on it computes with NumPy, which is slow. {fork_state.FIX}",
                          RuntimeWarning, stacklevel=4)

    @override
    def primitive(self, prim: Primitive, args: Sequence[Value], params: Params) -> Outputs:
        self._warn_once()
        return super().primitive(prim, args, params)

    @override
    def program(self, closed: ClosedJaxpr, args: Sequence[Value]) -> list[Value]:
        self._warn_once()
        return super().program(closed, args)


def _in_child() -> None:
    for client in (*client_state.current.clients.values(), *client_state.closed_clients()):
        _jaxlib.immortalize(client)
    if not backends.has_clients():
        return
    fork_state.disable()
    waiting.set_wait(_check_ready)
    transfer_counters.replace_lock()
    client_state.current.effect_order.clear()
    client_state.current.pending_effects.clear()
    hooks.use_numpy(_WarningNumPyEvaluator())
    _jaxlib.PjitFunctionCache.clear_all()  # so that calls on the C++ fast path reach the NumPy evaluator


def install() -> None:
    """Register the after-fork handler."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_in_child)
