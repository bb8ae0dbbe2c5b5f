"""Save this process's part of a checkpoint: choose its blocks, write them, and check that all processes agree."""
from __future__ import annotations

import math
import os
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import ShapeError, dtypes, trees
from lamina_ir.typing import Tree, Value

from .. import _jaxlib
from .._array import arrays
from . import _storage
from .._distributed import host_gather
from .._sharding import shardings
from .._backend import deletion, transfer_guard
from .._jaxlib import ArrayImpl
from ._storage import Tile
from ._tree_metadata import Leaf
from .._typing import EncodedTree, Message

__all__ = ["check_processes_agree", "digest_metadata", "find_row_leaves", "write_pieces"]


class _Block(NamedTuple):
    """A block of a leaf in this process.

    Attributes:
      start, shape: the part of the leaf.
      shard: the index among the array's addressable shards; None: the value is not an array on devices.
      owner: the process that writes it; None: all processes have the same value, and share the writing.
    """

    start: tuple[int, ...]
    shape: tuple[int, ...]
    shard: int | None
    owner: int | None


def write_pieces(call: str, where: str, meeting: host_gather.HostGather, flat: list[Value], leaves: list[Leaf],
                   places: list[str], counts: dict[int, list[int]]) -> list[Message]:
    """Write the data of this process and wait for the other processes.

    Args:
      call: the call, for messages.
      where: the data folder of the checkpoint.
      meeting: the gather of all processes.
      flat, leaves, places: the leaves, their descriptions, and their names in messages.
      counts: number of a leaf saved as rows -> the number of rows of each process.
    Returns:
      The index entries of the files of all processes.
    """
    if not os.path.isdir(where):
        raise FileNotFoundError(f"{call}: this process cannot find {where}, which process 0 has created: path must be "
                                "a folder that all processes share")
    writer = _storage.Writer(where, str(meeting.rank))
    try:
        tiles, replicated_digests = _write_tiles(writer, meeting, flat, leaves, places, counts)
        part = writer.finish(tiles)
    finally:
        writer.close()
    gathered = meeting.gather(part=part, same=_digest_of(list(replicated_digests.values())))
    if len({w["same"] for w in gathered}) > 1:
        place, which = _find_difference(meeting, {places[i]: digest for i, digest in replicated_digests.items()})
        raise ValueError(f"{place} differs between processes: {which}. Different values cannot be saved as one leaf: "
                         "pass rows=True if each process has its own rows, make one global array of the parts "
                         "(lamina.make_array_from_process_local_data), or save a value that is the same in all")
    return [w["part"] for w in gathered]


def find_row_leaves(call: str, rows: bool | Tree, tree: Tree, leaves: list[Leaf], places: list[str]) -> list[int]:
    """Return the numbers of the leaves of which each process has its own rows."""
    try:
        wanted = [rows] * len(leaves) if isinstance(rows, bool) else trees.broadcast_prefix(rows, tree)
    except ValueError as e:
        raise ValueError(f"{call}: rows: {e}") from None
    row_leaves = []
    for i, (leaf, is_rows) in enumerate(zip(leaves, wanted)):
        if not isinstance(is_rows, bool):
            raise TypeError(f"{call}: rows must be True, False or a tree of these; got {type(is_rows).__name__}: "
                            f"{is_rows!r:.60}")
        if is_rows and leaf.is_array:
            if leaf.shape:
                row_leaves.append(i)
            elif not isinstance(rows, bool):
                raise ShapeError(f"{places[i]} is {leaf.str_long()}, which has no rows")
    return row_leaves


def digest_metadata(structure: EncodedTree, leaves: list[Leaf], row_leaves: list[int]) -> str:
    """Return a digest of the tree structure, shapes and dtypes, which must be the same in all processes."""
    metadata = [leaf._replace(shape=leaf.shape[1:]) if i in row_leaves else leaf for i, leaf in enumerate(leaves)]
    return _digest_of([structure, metadata, row_leaves])


def _digest_of(value: object) -> str:
    return sha256(repr(value).encode()).hexdigest()[:32]


def check_processes_agree(call: str, meeting: host_gather.HostGather, gathered: list[Message], structure: EncodedTree,
                leaves: list[Leaf], row_leaves: list[int], places: list[str]) -> None:
    """Raise ValueError unless all processes save the same step, tree structure, shapes and dtypes."""
    numbers = [w["step"] for w in gathered]
    if len({*numbers}) > 1:
        raise ValueError(f"{call}: all processes must save the same step; got {numbers}")
    if len({w["about"] for w in gathered}) > 1:
        texts = {f"{call}: the structure of the tree": repr(structure)}
        texts |= {place: f"{leaf} {i in row_leaves}" for i, (place, leaf) in enumerate(zip(places, leaves))}
        place, which = _find_difference(meeting, {k: _digest_of(v) for k, v in texts.items()})
        mine = texts.get(place, "no such leaf")
        raise ValueError(f"{place} differs between processes: {which}; this one has {mine:.300}")


def _find_difference(meeting: host_gather.HostGather, digests: dict[str, str]) -> tuple[str, str]:
    """Return the first leaf that differs between processes, and a text with those that differ from process 0."""
    gathered = meeting.gather(each=[(place, digest[:12]) for place, digest in digests.items()])
    digest_lists = [[tuple(pair) for pair in w["each"]] for w in gathered]
    # Slices instead of indices, because the trees may have different numbers of leaves.
    position = next(i for i in range(max(map(len, digest_lists)))
                    if len({tuple(pairs[i:i + 1]) for pairs in digest_lists}) > 1)
    differing = [r for r, pairs in enumerate(digest_lists)
                 if pairs[position:position + 1] != digest_lists[0][position:position + 1]]
    place = next(pairs[position][0] for pairs in digest_lists if len(pairs) > position)
    return place, f"{'process' if len(differing) == 1 else 'processes'} {str(differing)[1:-1]} against process 0"


def _blocks(x: Value, leaf: Leaf, number: int, place: str, start: int | None,
            meeting: host_gather.HostGather) -> Iterator[_Block]:
    """Yield the blocks of a leaf that this process writes, or compares with other processes.

    Each shard of a global array is written by one of the processes that hold a replica. The choice rotates with the
    number of the leaf and the shard, to spread the writing. `start` is the first row of this process, for leaves saved
    as rows.
    """
    zeros = (0,) * len(leaf.shape)
    offset = zeros if start is None else (start, *zeros[1:])
    owner = None if start is None else meeting.rank
    if type(x) is not ArrayImpl:
        yield _Block(offset, leaf.shape, None, owner)
        return
    sharding = x._sharding
    is_local = sharding.is_fully_addressable
    if not is_local and start is not None:
        raise ValueError(f"{place} is {x.aval.str_long()} over several processes, so no process has rows of its own; set "
                         "rows=False for it")
    devices, index = shardings.sharding_devices(sharding), shardings.index_map(sharding, leaf.shape)
    own = {d: i for i, d in enumerate(sharding._internal_device_list.addressable_device_list)}
    held: dict[tuple[tuple[int, int], ...], tuple[list[int], int | None]] = {}
    for d, part in zip(devices, index):
        block = tuple([s.indices(n)[:2] for s, n in zip(part, leaf.shape)])
        holders, shard = held.get(block, ([], None))
        if d.process_index not in holders:
            holders.append(d.process_index)
        held[block] = holders, own.get(d) if shard is None else shard
    for i, (block, (holders, shard)) in enumerate(held.items()):
        # Of the processes that hold the block, a different one for each block and leaf.
        writer = owner if is_local else holders[(number + i) % len(holders)]
        if shard is not None and writer in (None, meeting.rank):
            begin = tuple([a + f for (a, _), f in zip(block, offset)])
            yield _Block(begin, tuple([b - a for a, b in block]), shard, writer)


def _shard_to_host(x: Value, shard: int | None, place: str) -> np.ndarray:
    if shard is None:
        return np.asarray(x)
    arrays.check_not_deleted(x)
    try:
        if transfer_guard.any_guard_set:
            with transfer_guard.marking_explicit("get", "save"):
                return deletion.get_shards(x)[shard]._single_device_array_to_np_array_did_copy()[0]
        return deletion.get_shards(x)[shard]._single_device_array_to_np_array_did_copy()[0]
    except _jaxlib.LAUNCH_ERRORS as e:
        raise arrays._read_failure(place, x, e)


def _write_tiles(writer: _storage.Writer, meeting: host_gather.HostGather, flat: list[Value], leaves: list[Leaf],
                 places: list[str], counts: dict[int, list[int]]) -> tuple[list[Tile], dict[int, str]]:
    """Write the tiles of this process.

    Returns:
      (tiles, digests of the leaves whose values must be the same in all processes).
    """
    def records() -> Iterator[tuple[object, ...]]:
        for number, (x, leaf) in enumerate(zip(flat, leaves)):
            if not leaf.is_array:
                continue
            dtype = dtypes.as_dtype(leaf.dtype)
            start = sum(counts[number][:meeting.rank]) if number in counts else None
            for block in _blocks(x, leaf, number, places[number], start, meeting):
                value = _shard_to_host(x, block.shard, places[number])
                for i, (begin, shape) in enumerate(_storage.split_into_tiles(block.shape, dtype.itemsize)):
                    position = tuple([a + b for a, b in zip(block.start, begin)])
                    header = writer.header(dtype, shape)
                    length = len(header) + math.prod(shape) * dtype.itemsize
                    # A value that all processes have is written in tiles by turns; every process computes all
                    # digests, to compare them.
                    is_writer = block.owner == meeting.rank or (number + i) % meeting.count == meeting.rank
                    # Offsets are given out here, in one thread; records are written by several.
                    offset = writer.place(length) if is_writer else -1
                    piece = value[tuple([slice(a, a + n) for a, n in zip(begin, shape)])]
                    yield Tile(number, position, shape, offset, length, ""), header, piece, dtype, block.owner is None

    def act(tile: Tile, header: bytes, piece: np.ndarray, dtype: np.dtype, shared: bool) -> tuple[Tile, bool]:
        digest, raw = writer.digest(header, piece.astype(dtype, copy=False))
        if tile.offset >= 0:
            writer.write(header, raw, tile.offset)
        return tile._replace(digest=digest), shared

    tiles: list[Tile] = []
    same: dict[int, Any] = {}
    with _storage.make_thread_pool() as pool:
        for tile, shared in _storage.map_ordered(pool, act, records()):
            if shared and meeting.count > 1:
                same.setdefault(tile.leaf, sha256()).update(tile.digest.encode())
            if tile.offset >= 0:
                tiles.append(tile)
    return tiles, {leaf: digest.hexdigest() for leaf, digest in same.items()}
