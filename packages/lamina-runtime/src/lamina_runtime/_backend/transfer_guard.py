"""Guard transfers: log or refuse implicit transfers between host and devices.

Levels: "allow"; "log" and "disallow" act on implicit transfers; "log_explicit" and "disallow_explicit" also act on
explicit ones (`device_put`, `device_get`). On CPU devices, reading an array is not a transfer. Scalar arguments of
library functions and operators are not guarded, e.g. in `x + 1` and `x[0]`.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, ParamSpec, TypeVar

import numpy as np

from lamina_ir import ExecutionError, config
from lamina_ir.typing import Value

from .. import _jaxlib
from .._typing import SettingValue

__all__ = ["DIRECTION_OPTIONS", "allowing_scalars", "explicit_transfers", "is_set", "marking_explicit",
           "raise_if_refused", "transfer_guard", "transfer_guard_device_to_device", "transfer_guard_device_to_host",
           "transfer_guard_host_to_device"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
LEVELS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")
any_guard_set = False  # whether a guard was ever set; until then, transfers need not be marked as explicit


def _guard(direction: str) -> config.Option:
    option = config.Option(f"transfer_guard_{direction}", "allow", choices=LEVELS, means={None: "allow"},
                           help=f"how to handle {direction.replace('_', '-')} transfers: {', '.join(LEVELS)}")

    # The host-to-device level becomes part of jaxlib's cache keys when a guard is set for the first time.
    watchers: list[Any] = []

    def on_change(value: SettingValue, is_local: bool) -> None:
        global any_guard_set
        any_guard_set = any_guard_set or (value is not config.UNSET and value != "allow")
        if any_guard_set and not watchers and direction == "host_to_device":
            watchers.append(_jaxlib.state_watcher(_jaxlib.new_state(f"transfer_guard_{direction}", "allow")))
        for watcher in watchers:
            watcher(value, is_local)
        _jaxlib.set_transfer_guard(direction, None if value is config.UNSET else value, is_local)

    option.watch(on_change)
    return option


transfer_guard_host_to_device = _guard("host_to_device")
transfer_guard_device_to_device = _guard("device_to_device")
transfer_guard_device_to_host = _guard("device_to_host")
DIRECTION_OPTIONS = (transfer_guard_host_to_device, transfer_guard_device_to_device, transfer_guard_device_to_host)


def _set_all(value: SettingValue, is_local: bool) -> None:
    if not is_local and (value != "allow" or any_guard_set):
        for option in DIRECTION_OPTIONS:
            option.set(value)


_all_directions = config.Option("transfer_guard", "allow", choices=LEVELS, means={None: "allow"},
                                help="sets the guards of all three directions")
_all_directions.watch(_set_all)


@contextmanager
def transfer_guard(new_val: str) -> Iterator[None]:
    """Context with the guards of all three directions set.

    Args:
      new_val: "allow", "log", "disallow", "log_explicit" or "disallow_explicit".

    >>> with transfer_guard("disallow"):
    ...     pass
    """
    with ExitStack() as stack:
        for option in (*DIRECTION_OPTIONS, _all_directions):  # the last one so that config.transfer_guard shows `new_val`
            stack.enter_context(option(new_val))
        yield


def is_set() -> bool:
    """Return whether host-to-device transfers are guarded in this thread."""
    return any_guard_set and transfer_guard_host_to_device.value != "allow"


def allowing_scalars(args: Iterable[Value]) -> AbstractContextManager[None]:
    """Context in which a library function or a primitive runs on `args`.

    If all host arguments are scalars, e.g. indices or bounds, their transfers are explicit: the guard ignores them.
    """
    if is_set() and all(type(x) is _jaxlib.ArrayImpl or not np.ndim(x) for x in args):
        return _jaxlib.explicit_transfer("put")
    return nullcontext()


def raise_if_refused(call: str, error: Exception) -> None:
    """Raise ExecutionError if an error of jaxlib reports that a guard disallows a transfer."""
    if "Disallowed" in str(error):
        raise ExecutionError(f"{call}: the transfer guard refuses to move an array: {error}. Use device_put or "
                             "device_get, or allow it with lamina.transfer_guard('allow')") from error


@contextmanager
def marking_explicit(kind: str, call: str) -> Iterator[None]:
    """Context of `call` in which transfers are explicit; `kind` is 'put' or 'get'."""
    try:
        with _jaxlib.explicit_transfer(kind):
            yield
    except _jaxlib.JaxRuntimeError as e:
        raise_if_refused(call, e)
        raise


def explicit_transfers(kind: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Mark the transfers of a function as explicit (decorator); `kind` is 'put' or 'get'."""
    def decorate(fun: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(fun)
        def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            if not any_guard_set:
                return fun(*args, **kwargs)
            with marking_explicit(kind, fun.__name__):
                return fun(*args, **kwargs)
        return wrapper
    return decorate
