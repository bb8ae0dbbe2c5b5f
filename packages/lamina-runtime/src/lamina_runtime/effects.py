"""Programs that call Python on the host: what they hand on to keep their order, and how they are waited for.

Ordered effects pass a number from call to call (`lamina_ir.thread_order`). Between programs the runtime passes it on:
the last ordered program's number is an argument of the next, so that they queue like any other work, without waiting.
"""
from __future__ import annotations

import atexit
import sys
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import Primitive, aval_of, shaped

from . import _jaxlib, arrays, backends, host_errors, owner
from ._jaxlib import ArrayImpl

__all__ = ["Order", "at_exit", "effects_barrier", "launched", "order_of", "run_callback"]

_MOST_PENDING = 32
_TOKEN = shaped((), np.dtype("int32"))


# --- order --------------------------------------------------------------------------------------------------------
class Order:
    """One device's thread of ordered effects."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.lock = threading.RLock()
        self._last: Any = None

    def token(self) -> Any:
        """What the next ordered program is given. After a failure the thread starts anew."""
        last = self._last
        if last is not None and not last.is_deleted():
            if not last.is_ready():
                return last
            try:
                _jaxlib.wait_for(last)
                return last
            except _jaxlib.LAUNCH_ERRORS:
                pass
        self._last = arrays.put(np.int32(0), self.device, False, _TOKEN)
        return self._last

    def passed(self, token: Any) -> None:
        self._last = token

    def failed(self) -> None:
        self._last = None

    def wait(self) -> None:
        """Until all ordered effects launched so far have happened."""
        last, self._last = self._last, None
        if last is not None and not last.is_deleted():
            _jaxlib.wait_for(last)




def order_of(device: Any) -> Order:
    """The thread of ordered effects of a device."""
    known = owner.current.orders
    found = known.get(device)
    if found is None:
        found = known.setdefault(device, Order(device))
    return found


# --- waiting ------------------------------------------------------------------------------------------------------
_missed: list[Exception] = []


def launched(receipt: Any) -> None:
    """A program with effects was launched; `receipt` can be waited for."""
    pending = owner.current.pending
    pending.append(receipt)
    while len(pending) > _MOST_PENDING:
        _settle(pending)


def _settle(pending: deque[Any]) -> None:
    try:
        pending.popleft().block_until_ready()
    except IndexError:
        pass
    except _jaxlib.LAUNCH_ERRORS as e:
        if len(_missed) < _MOST_PENDING:
            _missed.append(e)


def effects_barrier() -> None:
    """Wait until the effects of all programs launched so far (prints, callbacks) have happened.

    Raises:
      CallbackError: a callback of such a program raised.

    >>> effects_barrier()
    """
    _wait_for_all(owner.current)
    if _missed:
        error = host_errors.translated("effects_barrier", _missed[0])
        _missed.clear()
        raise error


@owner.when_closed
def _wait_for_all(whose: owner.Owner) -> None:
    """What fails is told by the next barrier."""
    for order in list(whose.orders.values()):
        try:
            order.wait()
        except _jaxlib.LAUNCH_ERRORS as e:
            _missed.append(e)
    while whose.pending:
        _settle(whose.pending)


def at_exit() -> None:
    """Wait for effects; what failed is said, as nobody is left to raise it to."""
    if not backends.in_use():
        return
    try:
        effects_barrier()
    except Exception as e:
        print(f"lamina: at exit: {e}", file=sys.stderr)


atexit.register(at_exit)


# --- without a program --------------------------------------------------------------------------------------------
def run_callback(prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> tuple[Any, ...]:
    """A callback on concrete values: Python calls Python."""
    avals = [aval_of(a) for a in args]
    out_avals = prim.infer(*avals, **params)
    device = next((a._sharding._internal_device_list[0] for a in args if type(a) is ArrayImpl and a._committed), None)
    values = []
    for x, aval in zip(args, avals):
        value = np.array(arrays.host_value(x) if type(x) is ArrayImpl else x, aval.dtype)
        value.flags.writeable = False
        values.append(value)
    if params.get("ordered"):
        for order in list(owner.current.orders.values()):
            order.wait()
    if params["callback"].placed:
        params = {**params, "callback": params["callback"].at(device or backends.default_device())}
    outs = prim.numpy(*values, **params)
    committed = device is not None
    if device is None and outs:
        device = backends.default_device()
    return tuple([arrays.put(o, device, committed, a) for o, a in zip(outs, out_avals)])
