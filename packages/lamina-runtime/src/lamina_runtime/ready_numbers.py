"""Plain numbers that lie ready on the default device, for operators of arrays: `x * 0.9` again and again.

jaxlib brings each Python number of a call to the device, which is a quarter of an eager operator on a CPU and a transfer on a
GPU. So a number that comes a second time is kept there as an array, weakly typed as the number is: programs, promotions and
results are the same. For arrays on that device alone that nobody placed, as others may lie elsewhere; and no longer once
numbers may mean another width or place in one block than in the next, or guards look at transfers.
"""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import aval_of, config
from lamina_tracing import slots
from lamina_tracing.extend import EVALUATION, now

from . import backends, owner, transfer_guards
from ._jaxlib import ArrayImpl, SingleDeviceSharding
from .arrays import put

__all__ = ["install"]

_MOST = 256  # of each type; then all go
_LARGEST_INT = (1 << 31) - 1
_NORMAL = 1e-37, 1e38  # floats of any width
_ZEROS = {"0.0": "zero", "-0.0": "negative zero"}  # floats that are equal, so they have other keys
_as_it_is = slots.operators.beside


def beside(x: Any, number: Any) -> Any:
    """What an operator of `x` takes for a float or an int."""
    if type(x) is not ArrayImpl or x._committed or now.trace is not EVALUATION:
        return number
    here, where = owner.current, x._sharding
    if type(where) is not SingleDeviceSharding or where._device is not here.default_device:  # as a row of a mapped array is
        return number
    table = here.numbers[type(number)]
    found = table.get(number)
    return _second_time(table, number) if found is None else found


def _second_time(table: dict[Any, Any], number: Any) -> Any:
    """The number, whose array lies ready from the next time on if it was seen before."""
    key: Any = number
    if not number and type(number) is float:
        key = _ZEROS[repr(number)]
        if table.get(key) is not None:
            return table[key]
    if key not in table:
        if len(table) >= _MOST:
            table.clear()
        table[key] = None
    elif abs(number) <= _LARGEST_INT if type(number) is int else key is not number or _NORMAL[0] < abs(number) < _NORMAL[1]:
        aval = aval_of(number)
        table[key] = put(np.asarray(number, aval.dtype), backends.default_device(), False, aval)
    return number


def _new_width(value: Any, is_local: bool) -> None:
    owner.current.numbers = {float: {}, int: {}}  # new ones: a thread may be about to fill the old
    if is_local:
        slots.operators.beside = _as_it_is


def _stop(value: Any, is_local: bool) -> None:
    if value not in (None, "allow", config.UNSET):
        slots.operators.beside = _as_it_is


def install() -> None:
    """Fill the slot."""
    slots.operators.beside = beside
    config.enable_x64.watch(_new_width)
    for option in (backends.default_device_option, *transfer_guards.DIRECTIONS):
        option.watch(_stop)
