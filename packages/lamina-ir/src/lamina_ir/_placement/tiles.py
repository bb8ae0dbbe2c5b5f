"""`Tiles`: the assignment of equal parts of one array to devices, which are numbered from 0."""
from __future__ import annotations

import math
import re
from collections.abc import Sequence
from operator import index
from typing import NamedTuple

import numpy as np

from .._util.short_repr import short_repr
from ..errors import ShapeError
from .._util.former_names import former_attributes

__all__ = ["Tiles", "make_tiles"]


@former_attributes(part="block_on", renumbered="renumber", spread="parts_on", whole="is_replicated")
class Tiles(NamedTuple):
    """The tile assignment of one array: the number of equal parts along each dimension, and the devices of each part.

    Attributes:
      counts: the number of parts along each dimension; () for a replicated array of any rank.
      copies: the number of devices that hold each part.
      order: for each part in row-major order, and for each of its copies, the device; (): 0, 1, 2, ...

    >>> Tiles((4, 1), copies=2).text()
    '{devices=[4,1,2]<=[8] last_tile_dim_replicate}'
    >>> Tiles.parse("{devices=[2,2]3,2,1,0}")
    Tiles(counts=(2, 2), copies=1, order=(3, 2, 1, 0))
    """

    counts: tuple[int, ...] = ()
    copies: int = 1
    order: tuple[int, ...] = ()

    @property
    def is_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return math.prod(self.counts) == 1

    @property
    def devices(self) -> int:
        return math.prod(self.counts) * self.copies

    def positions(self) -> np.ndarray:
        """Return the devices as an array of shape `[*counts, copies]`."""
        order = np.arange(self.devices) if not self.order else np.array(self.order)
        return order.reshape((*self.counts, self.copies))

    def renumber(self, numbers: Sequence[int]) -> Tiles:
        """Renumber the devices: `numbers[d]` is the new number of device `d`.

        Raises:
          ShapeError: there is not one number for each device.

        >>> Tiles((4,)).renumber([3, 2, 1, 0])
        Tiles(counts=(4,), copies=1, order=(3, 2, 1, 0))
        """
        if self.is_replicated:
            return self
        if self.devices != len(numbers):
            raise ShapeError(f"sharding_constraint: the sharding {self.text()} must be on the {len(numbers)} devices of the "
                             f"program; it is on {self.devices}")
        return make_tiles(self.counts, self.copies, [numbers[d] for d in self.positions().reshape(-1)])

    def block_on(self, devices: Sequence[int], gaps: bool = False) -> tuple[Tiles, tuple[tuple[int, ...], ...]]:
        """Return the block of the array that the given devices hold.

        Args:
          devices: some of the devices.
          gaps: whether the parts of the block need not be adjacent.
        Returns:
          (the tiles of the block on these devices, renumbered 0, 1, ... in this order; the parts along each dimension
          that the block consists of).
        Raises:
          ShapeError: their parts do not form a block, or they do not hold each part of it equally often.

        >>> Tiles((4, 2)).block_on([4, 5, 6, 7])
        (Tiles(counts=(2, 2), copies=1, order=()), ((2, 3), (0, 1)))
        """
        if self.is_replicated:
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
        return (make_tiles(block.shape[:-1], int(copies.flat[0]), block[block >= 0].tolist()),
                tuple([tuple(at.tolist()) for at in inside]))

    def parts_on(self, devices: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Return the parts along each dimension of which the given devices hold any.

        >>> Tiles((2, 2)).parts_on([0, 3]), Tiles((4,)).parts_on([0, 2])
        (((0, 1), (0, 1)), ((0, 2),))
        """
        held = np.isin(self.positions(), list(devices)).any(-1)
        return tuple([tuple(np.unique(at).tolist()) for at in np.nonzero(held)])

    def text(self) -> str:
        """Return XLA's text of the assignment: `{devices=[4,2]<=[8]}`, `{replicated}`."""
        if self.is_replicated:
            return "{replicated}"
        dims = [*self.counts, self.copies] if self.copies > 1 else self.counts
        order = ",".join(map(str, self.order)) if self.order else f"<=[{self.devices}]"
        last = " last_tile_dim_replicate" if self.copies > 1 else ""
        return f"{{devices=[{','.join(map(str, dims))}]{order}{last}}}"

    @staticmethod
    def parse(text: str) -> Tiles:
        """Parse XLA's text, or the param of a `sharding_constraint`. Raise ValueError unless it assigns equal parts."""
        text = text.partition(" on ")[0]
        found = re.fullmatch(_TILES, text)
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
        return make_tiles(counts, copies, order)


_TILES = (r"\{devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))"
          r"( last_tile_dim_replicate| last_tile_dims=\{replicated\})?\}")


def _ints(text: str) -> list[int]:
    return [int(n) for n in text.split(",")]


def make_tiles(counts: Sequence[int], copies: int = 1, order: Sequence[int] = ()) -> Tiles:
    """Make `Tiles` in canonical form: `order` is omitted if it is 0, 1, 2, ..., and `counts` if nothing is split.

    Args:
      counts: the number of parts along each dimension.
      copies: the number of devices that hold each part.
      order: for each part in row-major order, and for each of its copies, the device; (): 0, 1, 2, ...
    Returns:
      Tiles.
    Raises:
      TypeError: these are not ints.

    >>> make_tiles((1, 2), 2, (0, 1, 2, 3)), make_tiles((1, 1), 4)
    (Tiles(counts=(1, 2), copies=2, order=()), Tiles(counts=(), copies=1, order=()))
    """
    try:
        counts, order = tuple([index(n) for n in counts]), tuple([index(d) for d in order])
    except TypeError:
        raise TypeError(f"make_tiles: counts and order must be lists of ints; got {short_repr(counts)} and "
                        f"{short_repr(order)}") from None
    if math.prod(counts) == 1:
        return Tiles()
    usual = list(order) == list(range(len(order)))
    return Tiles(tuple(counts), copies, () if usual else tuple(int(d) for d in order))
