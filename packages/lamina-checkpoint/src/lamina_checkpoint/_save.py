"""Save a checkpoint in two parts: `prepare` checks the tree and lists the blocks of this process; `finish` writes them.

Between the two, `copy_blocks` copies the blocks, so that the arrays may be donated while another thread runs `finish`.
"""
from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import ShapeError, dtypes, trees
from lamina_ir.typing import Tree, Value
from lamina_runtime.extend import HostGather, KeyArray, blocks_of_array, is_array, read_shard

from . import _tree_metadata
from ._folder import CheckpointFolder, steps_to_drop
from ._tree_metadata import EncodedTree, Leaf
from ._zarr import StoredArray, Writer, chunk_shape, split_into_chunks

__all__ = ["HostBuffers", "SavePlan", "copy_blocks", "finish", "prepare", "undo_on_error"]

_COPY_THREADS = min(4, os.cpu_count() or 1)


class _Block(NamedTuple):
    """A block of a leaf that this process writes.

    Attributes:
      array: the array in the checkpoint that contains it.
      start: its position in that array.
      chunk: shape of the chunks of that array.
      is_shared: whether all processes have the same value and share the writing, chunk by chunk.
      read: function that returns (its elements, whether they are a copy).
    """

    array: StoredArray
    start: tuple[int, ...]
    chunk: tuple[int, ...]
    is_shared: bool
    read: Callable[[], tuple[np.ndarray, bool]]


@dataclass
class SavePlan:
    """What one save does in this process."""

    call: str
    meeting: HostGather
    folder: CheckpointFolder
    step: int
    token: str
    structure: EncodedTree
    leaves: list[Leaf]
    names: list[str]
    counts: dict[int, list[int]]
    blocks: list[_Block]
    global_chunks: dict[int, tuple[int, ...]] = field(default_factory=dict)  # of arrays over several processes
    lock: Any = None
    pieces: str = ""
    may_be_committed: bool = False

    def abandon(self) -> None:
        """After an error, once no process writes: remove the data, unless the error was in the commit or after it."""
        if self.lock is not None and self.pieces and not self.may_be_committed:
            with suppress(OSError, ValueError):  # the error of the save is raised
                self.folder.store.remove(self.pieces)

    def close(self) -> None:
        """Release the lock and the values."""
        self.blocks = []
        if self.lock is not None:
            self.lock.close()
            self.lock = None


@contextmanager
def undo_on_error(meeting: HostGather, plans: list[SavePlan]) -> Iterator[None]:
    """Context of a gather for saves. After an error, remove the data once no process writes, and release the lock.

    Data that another process may still write to are left; the next save removes them.
    """
    try:
        with meeting:
            try:
                yield
            except FileNotFoundError:  # the other processes may have removed the data
                _raise_if_counted_out(meeting)
                raise
    except BaseException:
        for plan in plans:
            try:
                if plan.lock is not None and meeting.have_others_stopped():
                    plan.abandon()
            finally:
                plan.close()
        raise


_NOTICE_TIMEOUT = 3.0  # seconds in which a process that was stopped learns that the others consider it lost


def _raise_if_counted_out(meeting: HostGather) -> None:
    """Raise ProcessLostError if this process was stopped so long that the others have given up the save."""
    until = time.monotonic() + (_NOTICE_TIMEOUT if meeting.count > 1 else 0)
    while True:
        meeting.raise_if_lost()
        if time.monotonic() >= until:
            return
        time.sleep(0.05)


def prepare(call: str, meeting: HostGather, folder: CheckpointFolder, tree: Tree, step: int, rows: bool | Tree,
            plans: list[SavePlan]) -> SavePlan:
    """Check a tree, agree with the other processes, lock the folder, and list the blocks of this process.

    The plan is appended to `plans` before the folder is locked, for `undo_on_error`.
    """
    structure, flat, paths = _tree_metadata.encode_tree(tree)
    names = [f"{call}: {path}" for path in paths]  # as messages start
    leaves = [_tree_metadata.describe_leaf(x, name) for x, name in zip(flat, names)]
    flat = [x.key_data if type(x) is KeyArray else x for x in flat]
    row_leaves = _find_row_leaves(call, rows, tree, leaves, names)
    for x, leaf, name in zip(flat, leaves, names):
        if is_array(x) and x.is_deleted():
            raise RuntimeError(f"{name} has been deleted or donated: {leaf.str_long()}")
    plan = SavePlan(call, meeting, folder, step, os.urandom(4).hex(), structure, leaves, names, {}, [])
    plans.append(plan)
    try:
        if meeting.rank == 0:
            folder.store.make()
            plan.lock = folder.store.lock(call, plan.token)
            plan.pieces = folder.begin(step, plan.token)
        gathered = meeting.gather(step=step, pieces=plan.pieces, counts=[leaves[i].shape[0] for i in row_leaves],
                                  about=_digest_metadata(structure, leaves, row_leaves))
        _check_processes_agree(plan, gathered, row_leaves)
        plan.pieces = gathered[0]["pieces"]
        plan.counts = {i: [w["counts"][n] for w in gathered] for n, i in enumerate(row_leaves)}
        if not folder.store.has_folder(plan.pieces):
            raise FileNotFoundError(f"{call}: this process cannot find {folder.store.path(plan.pieces)}, which process 0 "
                                    "has created: path must be a folder that all processes share")
        plan.blocks = [block for number, x in enumerate(flat) for block in _list_blocks(plan, number, x)]
    except BaseException:
        plan.blocks = []  # `undo_on_error` releases the lock, once no process writes any more
        raise
    return plan


class HostBuffers:
    """Host memory of the copies of one save, which the next save uses again.

    Memory that the system maps for the first time costs more time than the copy.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[np.ndarray]] = {}
        self._used: list[np.ndarray] = []

    def copy(self, value: np.ndarray) -> np.ndarray:
        """Return a copy of an array. Several threads may call this."""
        free = self._free.get(value.nbytes)
        try:
            raw = free.pop() if free else np.empty(value.nbytes, np.uint8)
        except IndexError:  # another thread took the last one
            raw = np.empty(value.nbytes, np.uint8)
        self._used.append(raw)
        copied = raw.view(value.dtype).reshape(value.shape)
        np.copyto(copied, value)
        return copied

    def release(self) -> None:
        """Make the memory of all copies free for the next save, and drop memory that this save did not use."""
        self._free = {}
        for raw in self._used:
            self._free.setdefault(raw.nbytes, []).append(raw)
        self._used = []


def copy_blocks(plan: SavePlan, buffers: HostBuffers) -> None:
    """Copy the blocks of this process to host memory that programs do not use."""
    def copy(block: _Block) -> _Block:
        value, is_copy = block.read()
        kept = value if is_copy else buffers.copy(value)
        return block._replace(read=lambda: (kept, True))

    with ThreadPoolExecutor(_COPY_THREADS, "lamina-checkpoint") as pool:
        plan.blocks = list(pool.map(copy, plan.blocks))


def finish(plan: SavePlan, keep: int | None, keep_every: int | None) -> None:
    """Write the data of this process, wait for the other processes, commit, and remove old checkpoints."""
    meeting, folder = plan.meeting, plan.folder
    try:
        digests = _write_blocks(plan)
        gathered = meeting.gather(same=_digest_of(sorted(digests.items())))
        if len({w["same"] for w in gathered}) > 1:
            place, which = _find_difference(meeting, {plan.names[i]: digest for i, digest in sorted(digests.items())})
            raise ValueError(f"{place} differs between processes: {which}. Different values cannot be saved as one leaf: "
                             "pass rows=True if each process has its own rows, make one global array of the parts "
                             "(lamina.make_array_from_process_local_data), or save a value that is the same in all")
        if meeting.rank == 0:
            folder.store.sync(plan.pieces)
            plan.lock.check()
            folder.store.claim_commit(plan.call, plan.pieces)
        plan.may_be_committed = True  # from here on a failure may be in or after the commit: do not delete the data
        if meeting.rank == 0:
            leaves = [leaf._replace(shape=(sum(plan.counts[i]), *leaf.shape[1:])) if i in plan.counts else leaf
                      for i, leaf in enumerate(plan.leaves)]
            paths = [name.removeprefix(f"{plan.call}: ") for name in plan.names]
            folder.commit(plan.step, plan.token, {"step": plan.step, "pieces": plan.pieces, "tree": plan.structure,
                                                  "leaves": leaves, "paths": paths, "arrays": _all_arrays(plan)})
        meeting.wait_for_process_0()
        if meeting.rank == 0:
            dropped = steps_to_drop(folder.steps(), plan.step, keep, keep_every)
            if dropped or not folder.store.is_local:
                folder.drop(dropped)
        plan.close()
    finally:
        plan.blocks = []


# --- agreement of processes ---------------------------------------------------------------------------------------
def _find_row_leaves(call: str, rows: bool | Tree, tree: Tree, leaves: list[Leaf], places: list[str]) -> list[int]:
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


def _digest_metadata(structure: EncodedTree, leaves: list[Leaf], row_leaves: list[int]) -> str:
    """Return a digest of the tree structure, shapes and dtypes, which must be the same in all processes."""
    metadata = [leaf._replace(shape=leaf.shape[1:]) if i in row_leaves else leaf for i, leaf in enumerate(leaves)]
    return _digest_of([structure, metadata, row_leaves])


def _digest_of(value: object) -> str:
    return sha256(repr(value).encode()).hexdigest()[:32]


def _check_processes_agree(plan: SavePlan, gathered: list[dict[str, Any]], row_leaves: list[int]) -> None:
    """Raise ValueError unless all processes save the same step, tree structure, shapes and dtypes."""
    numbers = [w["step"] for w in gathered]
    if len({*numbers}) > 1:
        raise ValueError(f"{plan.call}: all processes must save the same step; got {numbers}")
    if len({w["about"] for w in gathered}) > 1:
        texts = {f"{plan.call}: the structure of the tree": repr(plan.structure)}
        texts |= {name: f"{leaf} {i in row_leaves}" for i, (name, leaf) in enumerate(zip(plan.names, plan.leaves))}
        place, which = _find_difference(plan.meeting, {k: _digest_of(v) for k, v in texts.items()})
        mine = texts.get(place, "no such leaf")
        raise ValueError(f"{place} differs between processes: {which}; this one has {mine:.300}")


def _find_difference(meeting: HostGather, digests: dict[str, str]) -> tuple[str, str]:
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


# --- blocks -------------------------------------------------------------------------------------------------------
def _array_of(plan: SavePlan, number: int, rank: int) -> StoredArray:
    """Return the array of leaf `number` into which process `rank` writes."""
    leaf, counts = plan.leaves[number], plan.counts.get(number)
    if counts is None:
        return StoredArray(number, str(number), (0,) * len(leaf.shape), leaf.shape)
    start = (sum(counts[:rank]), *[0] * (len(leaf.shape) - 1))
    return StoredArray(number, f"{number}.{rank}", start, (counts[rank], *leaf.shape[1:]))


def _all_arrays(plan: SavePlan) -> list[StoredArray]:
    arrays = [_array_of(plan, number, rank) for number, leaf in enumerate(plan.leaves) if leaf.is_array
              for rank in range(plan.meeting.count if number in plan.counts else 1)]
    return [array for array in arrays if 0 not in array.shape]


def _list_blocks(plan: SavePlan, number: int, x: Value) -> Iterator[_Block]:
    """Yield the blocks of a leaf that this process writes, or compares with other processes.

    Each block of a global array is written by one of the processes that hold it. The choice rotates with the number of
    the leaf and the block, to spread the writing.
    """
    leaf, name, meeting = plan.leaves[number], plan.names[number], plan.meeting
    if not leaf.is_array:
        return
    array, has_rows = _array_of(plan, number, meeting.rank), number in plan.counts
    dtype, is_shared = dtypes.as_dtype(leaf.dtype), not has_rows and meeting.count > 1
    is_global = is_array(x) and not x.is_fully_addressable
    if is_global and has_rows:
        raise ValueError(f"{name} is {leaf.str_long()} over several processes, so no process has rows of its own; set "
                         "rows=False for it")
    if not is_array(x) or is_shared and not is_global:
        # Another process may have another sharding of the value; the chunks must be the same in all.
        chunk = chunk_shape(array.shape, dtype.itemsize)
        yield _Block(array, (0,) * len(array.shape), chunk, is_shared, partial(_read_whole, name, x, dtype))
        return
    blocks = blocks_of_array(x)
    chunk = chunk_shape(blocks[0].shape, dtype.itemsize)
    if is_global:
        plan.global_chunks[number] = chunk
    for i, block in enumerate(blocks):
        writer = block.processes[(number + i) % len(block.processes)] if is_global else meeting.rank
        if writer == meeting.rank and block.shard is not None:
            yield _Block(array, block.start, chunk, False, partial(read_shard, name, x, block.shard))


def _read_whole(name: str, x: Value, dtype: np.dtype) -> tuple[np.ndarray, bool]:
    if not is_array(x):
        return np.asarray(x).astype(dtype, copy=False), False
    blocks = blocks_of_array(x)
    if len(blocks) == 1:
        return read_shard(name, x, blocks[0].shard or 0)
    whole = np.empty(x.shape, dtype)
    for block in blocks:
        index = tuple([slice(a, a + n) for a, n in zip(block.start, block.shape)])
        whole[index] = read_shard(name, x, block.shard or 0)[0]
    return whole, True


def _write_blocks(plan: SavePlan) -> dict[int, str]:
    """Write the blocks of this process. Return digests of the leaves whose values must be the same in all processes."""
    writer, digests, opened = Writer(plan.call, plan.folder.store, plan.pieces), {}, {}
    try:
        for block in plan.blocks:
            array, leaf = block.array, block.array.leaf
            if 0 in array.shape:
                continue
            dtype = dtypes.as_dtype(plan.leaves[leaf].dtype)
            if array not in opened:
                # Process 0 creates the arrays of all processes; each process creates those of its own rows.
                is_creator = plan.meeting.rank == 0 or leaf in plan.counts
                opened[array] = writer.open(array, dtype, block.chunk, is_creator)
            value = block.read()[0]
            digest = sha256()
            for i, index in enumerate(split_into_chunks(value.shape, block.chunk)):
                piece = value[index]
                if block.is_shared:
                    digest.update(np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data)
                # A value that all processes have is written in chunks by turns.
                plan.meeting.raise_if_lost()  # then no process needs the data
                if not block.is_shared or (leaf + i) % plan.meeting.count == plan.meeting.rank:
                    writer.write(opened[array], [a + s.start for a, s in zip(block.start, index)], piece)
            if block.is_shared:
                digests[leaf] = digest.hexdigest()
            del value
        if plan.meeting.rank == 0:
            _create_rest(plan, writer, opened)
        writer.finish()
    except BaseException:
        writer.cancel()
        raise
    return digests


def _create_rest(plan: SavePlan, writer: Writer, opened: dict[StoredArray, Any]) -> None:
    """Create the arrays of which process 0 writes nothing."""
    written = {array.leaf for array in opened}
    for number, chunk in plan.global_chunks.items():
        array = _array_of(plan, number, 0)
        if number not in written and 0 not in array.shape:
            writer.open(array, dtypes.as_dtype(plan.leaves[number].dtype), chunk, True)
