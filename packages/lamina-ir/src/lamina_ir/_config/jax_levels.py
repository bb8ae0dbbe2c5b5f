"""Defaults of settings that differ between releases of JAX."""
from __future__ import annotations

import re

from .option import options
from .._typing import OptionValue

__all__ = ["as_jax"]

OLDEST, NEWEST = (0, 4, 30), (0, 12)
# (setting, the first release with the newer default, the default before it, the newer default)
_CHANGED_DEFAULTS: tuple[tuple[str, tuple[int, ...], OptionValue, OptionValue], ...] = (
    ("threefry_partitionable", (0, 5), False, True),
)


def as_jax(level: str) -> None:
    """Set the defaults of settings to those of a release of JAX, for all threads.

    `threefry_partitionable` is on from 0.5 on: a seed then gives the numbers of the partitionable stream. Without a
    call the defaults are those of 0.4.30. Blocks and later `config.update` calls take precedence. No other difference
    between the releases is affected.

    Args:
      level: a version of JAX from "0.4.30" to "0.12", such as "0.10" or "0.10.2".
    Raises:
      TypeError: `level` is not a string.
      ValueError: `level` is not such a version.

    Source: the change log of JAX.

    >>> from lamina_ir import config
    >>> as_jax("0.10")
    >>> config.read("threefry_partitionable")
    True
    >>> as_jax("0.4.30")
    >>> config.read("threefry_partitionable")
    False
    """
    if not isinstance(level, str):
        raise TypeError(f'as_jax: level must be a string such as "0.10"; got {level!r}')
    matched = re.fullmatch(r"\d+(\.\d+)+", level)
    numbers = tuple(map(int, level.split("."))) if matched else ()
    if not matched or numbers < OLDEST or numbers[:2] > NEWEST:
        raise ValueError(f'as_jax: level must be a version of JAX from "0.4.30" to "0.12"; got {level!r}')
    for name, since, before, newer in _CHANGED_DEFAULTS:
        options[name].set(newer if numbers >= since else before)
