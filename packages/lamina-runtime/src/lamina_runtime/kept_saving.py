"""What this process writes of a tree, for `checkpointing`: which parts it holds, who writes them, what all must have alike."""
from __future__ import annotations

import math
import os
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import ShapeError, dtypes, trees

from . import _jaxlib, arrays, kept_files, meetings, shardings, transfer_guards
from ._jaxlib import ArrayImpl
from .kept_files import Tile
from .kept_trees import Leaf

__all__ = ["about", "check_alike", "rows_of", "written_pieces"]


class _Block(NamedTuple):
    """A part of a leaf that this process holds.

    Attributes:
      start: where it begins; shape: how much it is.
      at: which of the array's own parts it is; None: the value itself.
      owner: the process that writes it; None: all have the same, and share the writing.
    """

    start: tuple[int, ...]
    shape: tuple[int, ...]
    at: int | None
    owner: int | None


def written_pieces(call: str, where: str, meeting: meetings.Meeting, flat: list[Any], leaves: list[Leaf], places: list[str],
           counts: dict[int, list[int]]) -> list[Any]:
    """Write this process's pieces and wait for all of them: what their lists are."""
    if not os.path.isdir(where):
        raise FileNotFoundError(f"{call}: this process does not see {where}, which process 0 has made: path must be a folder "
                                "that all processes share")
    writer = kept_files.Writer(where, str(meeting.rank))
    try:
        tiles, same = _pieces(writer, meeting, flat, leaves, places, counts)
        part = writer.finish(tiles)
    finally:
        writer.close()
    every = meeting.gather(part=part, same=_digest_of(list(same.values())))
    if len({w["same"] for w in every}) > 1:
        place, who = _differing(meeting, {places[i]: digest for i, digest in same.items()})
        raise ValueError(f"{place} differs between processes: {who}. What each process has for itself cannot be kept as one: "
                         "pass rows=True for rows of a pmap, make one array of the parts "
                         "(lamina.make_array_from_process_local_data), or keep what is the same in all")
    return [w["part"] for w in every]


def rows_of(call: str, rows: Any, tree: Any, leaves: list[Leaf], places: list[str]) -> list[int]:
    """The numbers of the leaves that are rows of this process."""
    try:
        wanted = [rows] * len(leaves) if isinstance(rows, bool) else trees.broadcast_prefix(rows, tree)
    except ValueError as e:
        raise ValueError(f"{call}: rows: {e}") from None
    found = []
    for i, (leaf, yes) in enumerate(zip(leaves, wanted)):
        if not isinstance(yes, bool):
            raise TypeError(f"{call}: rows must be True, False or a tree of these; got {type(yes).__name__}: {yes!r:.60}")
        if yes and leaf.is_array:
            if leaf.shape:
                found.append(i)
            elif not isinstance(rows, bool):
                raise ShapeError(f"{places[i]} is {leaf.long()}, which has no rows")
    return found


def about(structure: Any, leaves: list[Leaf], apart: list[int]) -> str:
    """A digest of what must be the same in all processes."""
    rows = [leaf._replace(shape=leaf.shape[1:]) if i in apart else leaf for i, leaf in enumerate(leaves)]
    return _digest_of([structure, rows, apart])


def _digest_of(words: Any) -> str:
    return sha256(repr(words).encode()).hexdigest()[:32]


def check_alike(call: str, meeting: meetings.Meeting, every: list[dict[str, Any]], structure: Any, leaves: list[Leaf],
                 apart: list[int], places: list[str]) -> None:
    numbers = [w["step"] for w in every]
    if len({*numbers}) > 1:
        raise ValueError(f"{call}: the processes must keep the same step; they have {numbers}")
    if len({w["about"] for w in every}) > 1:
        told = {f"{call}: the structure of the tree": repr(structure)}
        told |= {place: f"{leaf} {i in apart}" for i, (place, leaf) in enumerate(zip(places, leaves))}
        place, who = _differing(meeting, {k: _digest_of(v) for k, v in told.items()})
        mine = told.get(place, "it not")
        raise ValueError(f"{place} differs between processes: {who}; this one has {mine:.300}")


def _differing(meeting: meetings.Meeting, digests: dict[str, str]) -> tuple[str, str]:
    """The first place where processes have something else than process 0, and which they are."""
    every = meeting.gather(each=[(place, digest[:12]) for place, digest in digests.items()])
    rows = [[tuple(pair) for pair in w["each"]] for w in every]
    at = next(i for i in range(max(map(len, rows))) if len({tuple(row[i:i + 1]) for row in rows}) > 1)
    odd = [r for r, row in enumerate(rows) if row[at:at + 1] != rows[0][at:at + 1]]
    place = next(row[at][0] for row in rows if len(row) > at)
    return place, f"{'process' if len(odd) == 1 else 'processes'} {str(odd)[1:-1]} against process 0"


def _blocks(x: Any, leaf: Leaf, number: int, place: str, start: int | None, meeting: meetings.Meeting) -> Iterator[_Block]:
    """The parts of a leaf that this process has to look at. `start`: of rows, where this process's begin."""
    zeros = (0,) * len(leaf.shape)
    first = zeros if start is None else (start, *zeros[1:])
    owner = None if start is None else meeting.rank
    if type(x) is not ArrayImpl:
        yield _Block(first, leaf.shape, None, owner)
        return
    sharding = x._sharding
    here = sharding.is_fully_addressable
    if not here and start is not None:
        raise ValueError(f"{place} is {x.aval.long()} over several processes, so its rows are no process's own; leave it out "
                         "of rows")
    devices, index = shardings.sharding_devices(sharding), shardings.index_map(sharding, leaf.shape)
    own = {d: i for i, d in enumerate(sharding._internal_device_list.addressable_device_list)}
    held: dict[Any, tuple[list[int], int | None]] = {}
    for d, part in zip(devices, index):
        block = tuple([s.indices(n)[:2] for s, n in zip(part, leaf.shape)])
        holders, at = held.get(block, ([], None))
        if d.process_index not in holders:
            holders.append(d.process_index)
        held[block] = holders, own.get(d) if at is None else at
    for i, (block, (holders, at)) in enumerate(held.items()):
        writer = owner if here else holders[(number + i) % len(holders)]
        if at is not None and writer in (None, meeting.rank):
            begin = tuple([a + f for (a, _), f in zip(block, first)])
            yield _Block(begin, tuple([b - a for a, b in block]), at, writer)


def _on_host(x: Any, at: int | None, place: str) -> np.ndarray:
    if at is None:
        return np.asarray(x)
    arrays.check_alive(x)
    try:
        if transfer_guards.used:
            with transfer_guards.marked("get", "save"):
                return x._arrays[at]._single_device_array_to_np_array_did_copy()[0]
        return x._arrays[at]._single_device_array_to_np_array_did_copy()[0]
    except _jaxlib.LAUNCH_ERRORS as e:
        raise arrays._read_failure(place, x, e)


def _pieces(writer: kept_files.Writer, meeting: meetings.Meeting, flat: list[Any], leaves: list[Leaf], places: list[str],
            counts: dict[int, list[int]]) -> tuple[list[Tile], dict[int, str]]:
    """Write what this process has to: the tiles, and digests of the leaves that must be the same in all."""
    def rows() -> Iterator[tuple[Any, ...]]:
        for number, (x, leaf) in enumerate(zip(flat, leaves)):
            if not leaf.is_array:
                continue
            dtype = dtypes.as_dtype(leaf.dtype)
            start = sum(counts[number][:meeting.rank]) if number in counts else None
            for block in _blocks(x, leaf, number, places[number], start, meeting):
                host = _on_host(x, block.at, places[number])
                for i, (begin, shape) in enumerate(kept_files.tiles_of(block.shape, dtype.itemsize)):
                    where = tuple([a + b for a, b in zip(block.start, begin)])
                    header = writer.header(dtype, shape)
                    length = len(header) + math.prod(shape) * dtype.itemsize
                    mine = block.owner == meeting.rank or (number + i) % meeting.count == meeting.rank
                    at = writer.place(length) if mine else -1
                    piece = host[tuple([slice(a, a + n) for a, n in zip(begin, shape)])]
                    yield Tile(number, where, shape, at, length, ""), header, piece, dtype, block.owner is None

    def act(tile: Tile, header: bytes, piece: np.ndarray, dtype: np.dtype, shared: bool) -> tuple[Tile, bool]:
        digest, raw = writer.digest(header, piece.astype(dtype, copy=False))
        if tile.at >= 0:
            writer.write(header, raw, tile.at)
        return tile._replace(digest=digest), shared

    tiles: list[Tile] = []
    same: dict[int, Any] = {}
    with kept_files.threads() as pool:
        for tile, shared in kept_files.in_turn(pool, act, rows()):
            if shared and meeting.count > 1:
                same.setdefault(tile.leaf, sha256()).update(tile.digest.encode())
            if tile.at >= 0:
                tiles.append(tile)
    return tiles, {leaf: digest.hexdigest() for leaf, digest in same.items()}
