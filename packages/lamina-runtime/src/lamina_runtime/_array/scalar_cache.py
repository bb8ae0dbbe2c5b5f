"""Cache Python scalars on the default device, for operators of arrays such as `x * 0.9`.

jaxlib copies each Python scalar of a call to the device: a large part of the time of an eager operator on a CPU,
a transfer on a GPU. So the second use of a scalar stores it on the device as a weakly typed array. Programs, promotion
and results stay the same.

The cache is used only with uncommitted arrays on the default device. It is switched off for good when a setting can
change the meaning of scalars per thread (`enable_x64`, `default_device`), or when transfers are guarded.
"""
from __future__ import annotations

from math import copysign

import numpy as np
from lamina_ir import aval_of, config
from lamina_tracing import hooks
from lamina_tracing.extend import EVALUATION, trace_state
from lamina_ir.typing import Value

from .._backend import backends, client_state, transfer_guard
from .._jaxlib import ArrayImpl, SingleDeviceSharding
from .arrays import put
from .._typing import Array, SettingValue

__all__ = ["install"]

_MAX_SCALARS = 256  # per type; a full table is cleared
_LARGEST_INT = (1 << 31) - 1
_NORMAL = 1e-37, 1e38  # magnitudes that are normal numbers in 32 and 64 bits
_NEGATIVE_ZERO = "negative zero"  # its key: as a float it equals zero
_uncached = hooks.operators.device_scalar_like


def device_scalar_like(x: Value, number: int | float) -> Array | int | float:
    """Return the cached array of a float or int operand next to `x`; the number itself if it is not cached."""
    if type(x) is not ArrayImpl or x._committed or trace_state.trace is not EVALUATION:
        return number
    state, sharding = client_state.current, x._sharding
    # An uncommitted array can be on another device, e.g. a member of a mapped array.
    if type(sharding) is not SingleDeviceSharding or sharding._device is not state.default_device:
        return number
    table = state.scalar_cache[type(number)]
    found = table.get(number)
    return _note_use(table, number) if found is None or not number and copysign(1.0, number) < 0 else found


def _note_use(table: dict[int | float | str, Array | None], number: int | float) -> Array | int | float:
    """Note a use of an uncached number; from its second use on, later calls find its array. Return the operand."""
    key: int | float | str = number
    if not number and copysign(1.0, number) < 0:
        key, found = _NEGATIVE_ZERO, table.get(_NEGATIVE_ZERO)
        if found is not None:
            return found
    if key not in table:
        if len(table) >= _MAX_SCALARS:
            table.clear()
        table[key] = None
        return number
    if abs(number) <= _LARGEST_INT if type(number) is int else not number or _NORMAL[0] < abs(number) < _NORMAL[1]:
        aval = aval_of(number)
        table[key] = put(np.asarray(number, aval.dtype), backends.default_device(), False, aval)
    return number


def _on_x64_change(value: SettingValue, is_local: bool) -> None:
    # Replace the tables instead of clearing them: another thread may be about to store an array of the old width.
    client_state.current.scalar_cache = {float: {}, int: {}}
    if is_local:
        hooks.operators.device_scalar_like = _uncached


def _switch_off(value: SettingValue, is_local: bool) -> None:
    if value not in (None, "allow", config.UNSET):
        hooks.operators.device_scalar_like = _uncached


def install() -> None:
    """Install `device_scalar_like` in the hook of the operators."""
    hooks.operators.device_scalar_like = device_scalar_like
    config.enable_x64.watch(_on_x64_change)
    for option in (backends.default_device_option, *transfer_guard.DIRECTION_OPTIONS):
        option.watch(_switch_off)
