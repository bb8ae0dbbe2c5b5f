"""Texts of tile assignments, `{devices=[4,2]<=[8]}`: which device holds which part of an array."""
from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from .errors import ShapeError

__all__ = ["renumbered"]

_TILES = re.compile(r"devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))")
_ONE = re.compile(r"maximal device=(\d+)")


def _ints(text: str) -> list[int]:
    return [int(n) for n in text.split(",")]


def renumbered(sharding: str, numbers: Sequence[int]) -> str:
    """A tile assignment whose devices are called by other numbers.

    Args:
      sharding: text in XLA's form.
      numbers: for each number that stands there now, the one that it becomes.
    Returns:
      The text.
    Raises:
      ShapeError: it is an assignment to another number of devices.

    >>> renumbered("{devices=[2,2]<=[4]}", [3, 2, 1, 0])
    '{devices=[2,2]3,2,1,0}'
    >>> renumbered("{devices=[4,1]3,2,1,0}", [3, 2, 1, 0]), renumbered("{replicated}", [1, 0])
    ('{devices=[4,1]<=[4]}', '{replicated}')
    """
    found = _TILES.search(sharding)
    if found is None:
        return _ONE.sub(lambda m: f"maximal device={numbers[int(m[1])]}", sharding)
    if found[4]:
        order = _ints(found[4])
    else:
        shape = _ints(found[2])
        iota = np.arange(np.prod(shape)).reshape(shape)
        order = (iota.transpose(_ints(found[3])) if found[3] else iota).reshape(-1).tolist()
    if len(order) != len(numbers):
        raise ShapeError(f"sharding_constraint: the sharding {sharding} is of {len(order)} devices; the program runs on "
                         f"{len(numbers)}. Name the devices of the program")
    if list(numbers) == list(range(len(numbers))):
        return sharding
    new = [numbers[i] for i in order]
    tiles = f"<=[{len(new)}]" if new == list(range(len(new))) else ",".join(map(str, new))
    return f"{sharding[:found.start()]}devices=[{found[1]}]{tiles}{sharding[found.end():]}"
