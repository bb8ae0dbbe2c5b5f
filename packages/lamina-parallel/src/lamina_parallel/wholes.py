"""Arrays over the devices of several processes, of which each has a part: programs of these see them whole.

A call of an `xmap` looks at its arguments. While a function of such arrays is staged, they are traced values that say nothing
of it; then a setting does, for all that stands in the function, and for rules that are asked later.
"""
from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from lamina_ir import config
from lamina_tracing.extend import value_behind

__all__ = ["in_parts", "seen_whole", "wholes"]

_wholes = config.Option("wholes", False, choices=(False, True), keyed=True,
                        help="set while a function of arrays over the devices of several processes is staged")


def in_parts(x: Any) -> bool:
    """Whether an array, or the type of one that is to be, lies on devices of several processes, each with a part of it.

    Args:
      x: an array, a value that is differentiated or mapped, or anything with a `sharding`.
    Returns:
      A truth value; False where that is not known.

    >>> in_parts(2.0)
    False
    """
    x = value_behind(x)
    where: Any = x if hasattr(x, "is_fully_addressable") else getattr(x, "sharding", None)
    return not getattr(where, "is_fully_addressable", True) and not where.is_fully_replicated


def seen_whole(flat: Iterable[Any]) -> AbstractContextManager[object]:
    """A block in which a function of these arrays is staged.

    Args:
      flat: its arguments.
    Returns:
      A context manager.

    >>> with seen_whole([2.0]):
    ...     wholes()
    False
    """
    return _wholes(True) if any(map(in_parts, flat)) else nullcontext()


def wholes() -> bool:
    """Whether what is staged now is a part of a function of such arrays.

    Returns:
      A truth value.

    >>> wholes()
    False
    """
    return _wholes.value
