"""Global view of arrays that span the devices of several processes.

A program of such arrays operates on the global arrays, although each process holds only a part of them. An `xmap` call
detects global arrays among its arguments. While a function of them is traced, its arguments are tracers, which do not
carry that information. The setting `global_view` carries it instead, to nested `xmap` calls and to rules that are
traced later."""
from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

from lamina_ir import config
from lamina_tracing.extend import get_underlying_value
from lamina_ir.typing import Sharding, Value

__all__ = ["global_view", "in_global_view", "is_global_array"]

_global_view = config.Option("global_view", False, choices=(False, True), keyed=True, aliases=("wholes",),
                             help="set while a function of arrays over the devices of several processes is staged")


def is_global_array(x: Value) -> bool:
    """Return whether an array spans devices of several processes, each of which holds a part of it.

    Replicated arrays are not included. The argument may also be a type with a `sharding`.

    Args:
      x: an array, a value that is differentiated or mapped, or anything with a `sharding`.
    Returns:
      True or False; False if the sharding is unknown.

    >>> is_global_array(2.0)
    False
    """
    x = get_underlying_value(x)
    sharding: Sharding = x if hasattr(x, "is_fully_addressable") else getattr(x, "sharding", None)
    return not getattr(sharding, "is_fully_addressable", True) and not sharding.is_fully_replicated


def global_view(flat: Iterable[Value]) -> AbstractContextManager[object]:
    """Return the context in which a function of these arrays is traced.

    It sets `global_view` if any of the arrays is global.

    Args:
      flat: the flat arguments.
    Returns:
      A context manager.

    >>> with global_view([2.0]):
    ...     in_global_view()
    False
    """
    return _global_view(True) if any(map(is_global_array, flat)) else nullcontext()


def in_global_view() -> bool:
    """Return whether the function being traced operates on global arrays.

    Returns:
      True or False.

    >>> in_global_view()
    False
    """
    return _global_view.value
