"""Order the effects of programs (prints, callbacks), and wait for them.

Within a program, ordered effects are sequenced by a token that passes from call to call
(`lamina_ir.thread_effect_token`). Between programs the token result of one ordered program is an argument of the next.
So the programs queue on the device like any others, and the host does not wait.
"""
from __future__ import annotations

import atexit
import sys
import threading
from collections import deque
from collections.abc import Sequence

import numpy as np
from lamina_ir import Primitive, aval_of, shaped
from lamina_ir.typing import Device, Params, Value

from .. import _jaxlib
from .._array import arrays
from .._backend import backends, client_state, deletion, error_translation, waiting
from .._jaxlib import ArrayImpl
from .._typing import Array, LaunchReceipt

__all__ = ["EffectOrder", "effects_barrier", "get_effect_order", "note_launch", "run_callback", "wait_at_exit"]

_MAX_PENDING = 32  # launches with effects in flight, and stored failures
_TOKEN = shaped((), np.dtype("int32"))


# --- order --------------------------------------------------------------------------------------------------------
class EffectOrder:
    """The sequence of ordered effects on one device.

    `lock` is held while an ordered program is launched, so that two threads cannot launch with the same token.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.lock = threading.RLock()
        self._last: Array | None = None

    def token(self) -> Array:
        """Return the token for the next ordered program; a new one at the start, and after a failed program."""
        last = self._last
        if last is not None and not last.is_deleted():
            # Not waited for: the next program queues behind it on the device.
            if not deletion.is_ready(last):
                return last
            try:
                # A ready token may be an error. It would poison every later program, so a new one is made.
                waiting.wait_for(last)
                return last
            except _jaxlib.LAUNCH_ERRORS:
                pass
        self._last = arrays.put(np.int32(0), self.device, False, _TOKEN)
        return self._last

    def set_token(self, token: Array) -> None:
        """Store the token result of a launched program."""
        self._last = token

    def reset(self) -> None:
        """Start with a new token, after a failed launch."""
        self._last = None

    def wait(self) -> None:
        """Wait until all ordered effects launched so far have happened."""
        last, self._last = self._last, None
        if last is not None and not last.is_deleted():
            waiting.wait_for(last)


def get_effect_order(device: Device) -> EffectOrder:
    """Return the sequence of ordered effects of a device."""
    effect_orders = client_state.current.effect_order
    found = effect_orders.get(device)
    if found is None:
        # `setdefault` is atomic, so that all threads use one lock.
        found = effect_orders.setdefault(device, EffectOrder(device))
    return found


# --- waiting ------------------------------------------------------------------------------------------------------
_failures: list[Exception] = []


def note_launch(receipt: LaunchReceipt) -> None:
    """Register a launched program with effects; `receipt` completes when its effects have happened."""
    pending = client_state.current.pending_effects
    pending.append(receipt)
    while len(pending) > _MAX_PENDING:
        _wait_for_oldest(pending)


def _wait_for_oldest(pending: deque[LaunchReceipt]) -> None:
    try:
        pending.popleft().block_until_ready()
    # Another thread has taken it.
    except IndexError:
        pass
    except _jaxlib.LAUNCH_ERRORS as e:
        if len(_failures) < _MAX_PENDING:
            _failures.append(e)


def effects_barrier() -> None:
    """Wait until the effects of all programs launched so far (prints, callbacks) have happened.

    Raises:
      CallbackError: a callback of such a program raised.

    >>> effects_barrier()
    """
    _wait_for_all(client_state.current)
    if _failures:
        error = error_translation.translate_error("effects_barrier", _failures[0])
        _failures.clear()
        raise error


@client_state.on_close
def _wait_for_all(state: client_state.ClientState) -> None:
    """Wait for the effects of one set of clients. Failures are raised by the next barrier."""
    for order in list(state.effect_order.values()):
        try:
            order.wait()
        except _jaxlib.LAUNCH_ERRORS as e:
            _failures.append(e)
    while state.pending_effects:
        _wait_for_oldest(state.pending_effects)


def wait_at_exit() -> None:
    """Wait for effects at exit. Failures are printed, because no caller is left to catch them."""
    if not backends.has_clients():
        return
    try:
        effects_barrier()
    except Exception as e:
        print(f"lamina: at exit: {e}", file=sys.stderr)


atexit.register(wait_at_exit)


# --- eager callbacks ----------------------------------------------------------------------------------------------
def run_callback(prim: Primitive, args: Sequence[Value], params: Params) -> tuple[Array, ...]:
    """Call a callback on concrete values, without a compiled program.

    Args:
      prim, params: the callback primitive and its parameters.
      args: arrays, or values that NumPy converts.
    Returns:
      The results on the device of the first committed argument, else on the default device.
    """
    avals = [aval_of(a) for a in args]
    out_avals = prim.infer(*avals, **params)
    device = next((a._sharding._internal_device_list[0] for a in args if type(a) is ArrayImpl and a._committed), None)
    values = []
    for x, aval in zip(args, avals):
        value = np.array(arrays.host_value(x) if type(x) is ArrayImpl else x, aval.dtype)
        value.flags.writeable = False
        values.append(value)
    if params.get("ordered"):
        # This callback runs now, on the host, so the ordered effects of earlier programs must have happened.
        for order in list(client_state.current.effect_order.values()):
            order.wait()
    if params["callback"].placed:
        params = {**params, "callback": params["callback"].at(device or backends.default_device())}
    outs = prim.numpy(*values, **params)
    committed = device is not None
    if device is None and outs:
        device = backends.default_device()
    return tuple([arrays.put(o, device, committed, a) for o, a in zip(outs, out_avals)])
