"""`Tiles`: how one array lies on devices, counted from 0, in equal parts."""
from __future__ import annotations

import math
import re
from collections.abc import Sequence
from operator import index
from typing import NamedTuple

import numpy as np

from ._excerpt import excerpt
from .errors import ShapeError

__all__ = ["Tiles", "tiles_of"]


class Tiles(NamedTuple):
    """How one array lies on `n` devices: in how many equal parts each dimension is split, and who holds which.

    Attributes:
      counts: parts along each dimension; () for an array of any rank that every device holds whole.
      copies: how many devices hold each part.
      order: for each part, row by row, and for each of its copies, the device; (): in order.

    >>> Tiles((4, 1), copies=2).text()
    '{devices=[4,1,2]<=[8] last_tile_dim_replicate}'
    >>> Tiles.parse("{devices=[2,2]3,2,1,0}")
    Tiles(counts=(2, 2), copies=1, order=(3, 2, 1, 0))
    """

    counts: tuple[int, ...] = ()
    copies: int = 1
    order: tuple[int, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether every device holds all of the array."""
        return math.prod(self.counts) == 1

    @property
    def devices(self) -> int:
        return math.prod(self.counts) * self.copies

    def positions(self) -> np.ndarray:
        """The devices, `[*counts, copies]`."""
        order = np.arange(self.devices) if not self.order else np.array(self.order)
        return order.reshape((*self.counts, self.copies))

    def renumbered(self, numbers: Sequence[int]) -> Tiles:
        """The same parts on devices called by other numbers: `numbers[d]` is the new one of device `d`.

        Raises:
          ShapeError: these are not as many devices.

        >>> Tiles((4,)).renumbered([3, 2, 1, 0])
        Tiles(counts=(4,), copies=1, order=(3, 2, 1, 0))
        """
        if self.whole:
            return self
        if self.devices != len(numbers):
            raise ShapeError(f"sharding_constraint: the sharding {self.text()} is of {self.devices} devices; the program runs "
                             f"on {len(numbers)}. Name the devices of the program")
        return tiles_of(self.counts, self.copies, [numbers[d] for d in self.positions().reshape(-1)])

    def part(self, devices: Sequence[int], gaps: bool = False) -> tuple[Tiles, tuple[tuple[int, ...], ...]]:
        """The block of the array that some devices hold: how it lies on them, called 0, 1, ... in this order, and which parts
        along each dimension it is made of; with `gaps` these need not be neighbours.

        Raises:
          ShapeError: what they hold is no block, or they do not hold each part of it equally often.

        >>> Tiles((4, 2)).part([4, 5, 6, 7])
        (Tiles(counts=(2, 2), copies=1, order=()), ((2, 3), (0, 1)))
        """
        if self.whole:
            return self, ()
        places = self.positions()
        number = np.full(self.devices, -1)
        number[list(devices)] = np.arange(len(devices))
        held = number[places]
        inside = [np.unique(at) for at in np.nonzero((held >= 0).any(-1))]
        block = held[np.ix_(*inside, np.arange(self.copies))]
        copies = (block >= 0).sum(-1)
        if not gaps and any(at[-1] - at[0] >= len(at) for at in inside) or copies.min() != copies.max():
            raise ShapeError(f"{self.text()}: the devices {list(devices)} hold no block of it")
        return (tiles_of(block.shape[:-1], int(copies.flat[0]), block[block >= 0].tolist()),
                tuple([tuple(at.tolist()) for at in inside]))

    def spread(self, devices: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Which parts along each dimension some devices hold any of.

        >>> Tiles((2, 2)).spread([0, 3]), Tiles((4,)).spread([0, 2])
        (((0, 1), (0, 1)), ((0, 2),))
        """
        held = np.isin(self.positions(), list(devices)).any(-1)
        return tuple([tuple(np.unique(at).tolist()) for at in np.nonzero(held)])

    def text(self) -> str:
        """XLA's text: `{devices=[4,2]<=[8]}`, `{replicated}`."""
        if self.whole:
            return "{replicated}"
        dims = [*self.counts, self.copies] if self.copies > 1 else self.counts
        order = ",".join(map(str, self.order)) if self.order else f"<=[{self.devices}]"
        last = " last_tile_dim_replicate" if self.copies > 1 else ""
        return f"{{devices=[{','.join(map(str, dims))}]{order}{last}}}"

    @staticmethod
    def parse(text: str) -> Tiles:
        """Read XLA's text, or that of a `sharding_constraint`. ValueError for what is no assignment of equal parts."""
        text = text.partition(" on ")[0]
        found = _TILES.fullmatch(text)
        if found is None:
            if text == "{replicated}":
                return Tiles()
            raise ValueError(f"expected a tile assignment, as {{devices=[4,2]<=[8]}} or {{replicated}}; got {text!r}")
        counts = _ints(found[1])
        if found[4]:
            order = _ints(found[4])
        else:
            shape = _ints(found[2])
            iota = np.arange(math.prod(shape)).reshape(shape)
            order = (iota.transpose(_ints(found[3])) if found[3] else iota).reshape(-1).tolist()
        copies = counts.pop() if found[5] else 1
        return tiles_of(counts, copies, order)


_TILES = re.compile(r"\{devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))"
                    r"( last_tile_dim_replicate| last_tile_dims=\{replicated\})?\}")


def _ints(text: str) -> list[int]:
    return [int(n) for n in text.split(",")]


def tiles_of(counts: Sequence[int], copies: int = 1, order: Sequence[int] = ()) -> Tiles:
    """`Tiles` in their one form: no order where it is the usual one, no counts where nothing is split.

    Args:
      counts: parts along each dimension.
      copies: how many devices hold each part.
      order: for each part, row by row, and for each of its copies, the device; (): in order.
    Returns:
      Tiles.
    Raises:
      TypeError: these are no ints.

    >>> tiles_of((1, 2), 2, (0, 1, 2, 3)), tiles_of((1, 1), 4)
    (Tiles(counts=(1, 2), copies=2, order=()), Tiles(counts=(), copies=1, order=()))
    """
    try:
        counts, order = tuple([index(n) for n in counts]), tuple([index(d) for d in order])
    except TypeError:
        raise TypeError(f"tiles_of: counts and order must be lists of ints; got {excerpt(counts)} and "
                        f"{excerpt(order)}") from None
    if math.prod(counts) == 1:
        return Tiles()
    usual = list(order) == list(range(len(order)))
    return Tiles(tuple(counts), copies, () if usual else tuple(int(d) for d in order))
