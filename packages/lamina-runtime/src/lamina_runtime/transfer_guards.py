"""Transfer guards: find out where arrays move between host and devices without being asked to.

Levels: "allow"; "log" and "disallow" act on implicit transfers, "log_explicit" and "disallow_explicit" also on those
asked for with `device_put` and `device_get`. On CPU devices reading an array is no transfer. Nor are the plain numbers that
functions of the house and operators are called with, as in `x + 1` and `x[0]`.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import numpy as np

from lamina_ir import ExecutionError, config

from . import _jaxlib

__all__ = ["DIRECTIONS", "asked_for", "for_numbers", "is_set", "marked", "tell_refused", "transfer_guard",
           "transfer_guard_device_to_device", "transfer_guard_device_to_host", "transfer_guard_host_to_device"]

LEVELS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")
used = False  # whether a guard was ever set: until then transfers need not say that they are asked for


def _guard(direction: str) -> config.Option:
    option = config.Option(f"transfer_guard_{direction}", "allow", choices=LEVELS, means={None: "allow"},
                           help=f"what to do about {direction.replace('_', '-')} transfers: {', '.join(LEVELS)}")

    heard: list[Any] = []  # jaxlib's copy of the level, made part of its signatures when there first is a guard

    def tell(value: Any, is_local: bool) -> None:
        global used
        used = used or (value is not config.UNSET and value != "allow")
        if used and not heard and direction == "host_to_device":
            heard.append(_jaxlib.watch_into(_jaxlib.new_state(f"transfer_guard_{direction}", "allow")))
        for hear in heard:
            hear(value, is_local)
        _jaxlib.set_transfer_guard(direction, None if value is config.UNSET else value, is_local)

    option.watch(tell)
    return option


transfer_guard_host_to_device = _guard("host_to_device")
transfer_guard_device_to_device = _guard("device_to_device")
transfer_guard_device_to_host = _guard("device_to_host")
DIRECTIONS = (transfer_guard_host_to_device, transfer_guard_device_to_device, transfer_guard_device_to_host)


def _set_all(value: Any, is_local: bool) -> None:
    if not is_local and (value != "allow" or used):
        for option in DIRECTIONS:
            option.set(value)


_every = config.Option("transfer_guard", "allow", choices=LEVELS, means={None: "allow"},
                       help="sets the guards of all three directions")
_every.watch(_set_all)


@contextmanager
def transfer_guard(new_val: str) -> Iterator[None]:
    """A block with the guards of all three directions set; "allow", "log", "disallow", "log_explicit" or
    "disallow_explicit".

    >>> with transfer_guard("disallow"):
    ...     pass
    """
    with ExitStack() as stack:
        for option in (*DIRECTIONS, _every):  # the last says in the block what it was given
            stack.enter_context(option(new_val))
        yield


def is_set() -> bool:
    """Whether moves from the host are looked at in this thread."""
    return used and transfer_guard_host_to_device.value != "allow"


def for_numbers(args: Iterable[Any]) -> AbstractContextManager[None]:
    """A block in which a function of the house, or an op, runs on `args`: plain numbers among them are part of the call, as
    indices and bounds are, and no transfer that anybody should hear of; arrays are."""
    if is_set() and all(type(x) is _jaxlib.ArrayImpl or not np.ndim(x) for x in args):
        return _jaxlib.explicit_transfer("put")
    return nullcontext()


def tell_refused(call: str, error: Exception) -> None:
    """ExecutionError, if jaxlib's `error` says that a guard refuses a transfer."""
    if "Disallowed" in str(error):
        raise ExecutionError(f"{call}: the transfer guard refuses to move an array: {error}. Ask for it with device_put or "
                             "device_get, or allow it with lamina.transfer_guard('allow')") from error


@contextmanager
def marked(kind: str, call: str) -> Iterator[None]:
    """A block of `call` whose transfers are explicit; `kind` is 'put' or 'get'."""
    try:
        with _jaxlib.explicit_transfer(kind):
            yield
    except _jaxlib.JaxRuntimeError as e:
        tell_refused(call, e)
        raise


def asked_for(kind: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator of a function whose transfers are explicit; `kind` is 'put' or 'get'."""
    def decorate(fun: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fun)
        def asked(*args: Any, **kwargs: Any) -> Any:
            if not used:
                return fun(*args, **kwargs)
            with marked(kind, fun.__name__):
                return fun(*args, **kwargs)
        return asked
    return decorate
