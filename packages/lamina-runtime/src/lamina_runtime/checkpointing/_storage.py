"""Read and write the files of checkpoints: array tiles with digests, and their indexes.

A checkpoint of step 12 has an index `12.json` and a folder `12-9f3c1a04` with the data. The checkpoint exists once its
index exists. In the data folder, each process that wrote data has a file `0.npys` and its own index `0.json`. A `.npys`
file is a sequence of records in NumPy's `.npy` format, each at a multiple of 64 bytes. `np.load` reads one from an open
file that is positioned there. dtypes that NumPy's format cannot name (bfloat16, small floats and integers) are stored
as unsigned integers of the same width.

Arrays are split into tiles of at most 4 MiB along their longest dimensions. A process that needs a part of an array,
rows or columns, so reads little else, and each tile has its own digest.
"""
from __future__ import annotations

import fcntl
import io
import json
import os
import re
import shutil
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np
from lamina_ir import LaminaError
from lamina_ir.typing import Function

from .._version import __version__
from .._typing import Message

__all__ = ["CheckpointError", "CheckpointFolder", "FolderLock", "Reader", "Tile", "Writer", "copy_overlap",
           "find_overlap", "make_thread_pool", "map_ordered", "split_into_tiles", "sync_folder"]

FORMAT = 1
_MAX_TILE_BYTES = 4 << 20
_ALIGN = 64
_WORKERS = min(8, os.cpu_count() or 1)
_INDEX, _DATA_FOLDER = re.compile(r"(0|[1-9]\d*)\.json"), re.compile(r"(0|[1-9]\d*)-[0-9a-f]{8}")
_UNFINISHED = re.compile(r"\.\d+\.json\.[0-9a-f]{8}")
_NATIVE_KINDS = "biufc"


class CheckpointError(LaminaError, ValueError):
    """The files of a checkpoint are damaged, truncated, missing, or have another format.

    Fix: restore an earlier step; copy the files again if they were truncated.
    """

    code: ClassVar[str] = "LAM1701"


# --- tiles --------------------------------------------------------------------------------------------------------
class Tile(NamedTuple):
    """A tile of an array, stored as one record of a file.

    Attributes:
      leaf: number of the leaf.
      start, shape: the part of the leaf.
      offset, length: position and size of the record in the file, in bytes.
      digest: SHA-256 of the record, header included.
      file: name of the file; only set when reading.
    """

    leaf: int
    start: tuple[int, ...]
    shape: tuple[int, ...]
    offset: int
    length: int
    digest: str
    file: str = ""


def split_into_tiles(shape: tuple[int, ...], itemsize: int,
             limit: int = _MAX_TILE_BYTES) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield (start, shape) of the tiles of a block of this shape; nothing if it is empty."""
    if 0 in shape:
        return
    size, total = list(shape), itemsize
    for n in shape:
        total *= n
    while total > limit and max(size) > 1:
        # Halving the longest dimension keeps tiles close to cubes, which suits readers of rows and readers of
        # columns.
        d = size.index(max(size))
        total = total // size[d] * -(-size[d] // 2)
        size[d] = -(-size[d] // 2)
    for start in product(*[range(0, n, s) for n, s in zip(shape, size)]):
        yield start, tuple([min(s, n - a) for a, s, n in zip(start, size, shape)])


def find_overlap(start: tuple[int, ...], shape: tuple[int, ...], tile: Tile) -> tuple[list[int], list[int]] | None:
    """Return (begin, end) of the intersection of a tile and a block, in coordinates of the leaf; None if empty."""
    low = [max(a, b) for a, b in zip(start, tile.start)]
    high = [min(a + n, b + m) for a, n, b, m in zip(start, shape, tile.start, tile.shape)]
    return None if any(a >= b for a, b in zip(low, high)) else (low, high)


def copy_overlap(into: np.ndarray, start: tuple[int, ...], tile: Tile, piece: np.ndarray) -> int:
    """Copy the intersection of a tile and the block at `start` into the block. Return the number of elements."""
    found = find_overlap(start, into.shape, tile)
    if found is None:
        return 0
    low, high = found
    part = piece[tuple([slice(a - t, b - t) for a, b, t in zip(low, high, tile.start)])]
    into[tuple([slice(a - s, b - s) for a, b, s in zip(low, high, start)])] = part
    return part.size


def make_thread_pool() -> ThreadPoolExecutor:
    """Return a thread pool for reading, hashing and writing, as a context."""
    return ThreadPoolExecutor(_WORKERS, "lamina-checkpoint")


def map_ordered(pool: ThreadPoolExecutor, act: Function, arg_tuples: Iterable[tuple[object, ...]]) -> Iterator[Any]:
    """Yield `act(*args)` of each tuple of arguments, in order, computed by several threads.

    Arguments are taken lazily, at most `2 * _WORKERS` ahead, because they may be slices of large arrays on the host.
    """
    running: deque[Future[Any]] = deque()
    try:
        for args in arg_tuples:
            running.append(pool.submit(act, *args))
            if len(running) >= 2 * _WORKERS:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        # After an error, or if the consumer stops: jobs that have not begun are dropped.
        for job in running:
            job.cancel()


# --- writing ------------------------------------------------------------------------------------------------------
def _stored_dtype(dtype: np.dtype) -> np.dtype:
    """Return the NumPy dtype in which a dtype is stored."""
    return dtype if dtype.isbuiltin == 1 and dtype.kind in _NATIVE_KINDS else np.dtype(f"u{dtype.itemsize}")


class Writer:
    """Writes the data file and the index of one process.

    Offsets are allocated in order by one thread; records may be written by several threads.
    """

    def __init__(self, folder: str, name: str) -> None:
        self._folder, self._name, self._end = folder, name, 0
        self._file = os.open(os.path.join(folder, f"{name}.npys"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        self._headers: dict[tuple[np.dtype, tuple[int, ...]], bytes] = {}

    def header(self, dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
        """Return the `.npy` header of a record."""
        key = dtype, shape
        found = self._headers.get(key)
        if found is None:
            text = io.BytesIO()
            # Little-endian on every machine, so that checkpoints can be exchanged.
            np.lib.format.write_array_header_1_0(text, {"descr": _stored_dtype(dtype).newbyteorder("<").str,
                                                        "fortran_order": False, "shape": shape})
            found = self._headers[key] = text.getvalue()
        return found

    def place(self, length: int) -> int:
        """Allocate space for a record, and return its offset."""
        offset = self._end
        self._end = -(-(offset + length) // _ALIGN) * _ALIGN
        return offset

    def digest(self, header: bytes, piece: np.ndarray) -> tuple[str, memoryview]:
        """Return the digest of a record and its data as bytes, without a copy if the array is contiguous."""
        # `.npy` has no names for the types of ml_dtypes: their bits are stored as unsigned integers, their names in
        # the metadata.
        stored = _stored_dtype(piece.dtype)
        data = np.ascontiguousarray(piece).reshape(-1)
        if stored != piece.dtype:
            data = data.view(stored)
        data = data.astype(stored.newbyteorder("<"), copy=False)
        raw = data.view(np.uint8).data
        found = sha256(header)
        found.update(raw)
        return found.hexdigest(), raw

    def write(self, header: bytes, raw: memoryview, offset: int) -> None:
        """Write a record at an offset."""
        parts: list[memoryview] = [memoryview(header), raw]
        while parts:
            # A positional write, so that several threads need no common position. It may write less than asked.
            n = os.pwritev(self._file, parts, offset)
            offset += n
            while parts and n >= len(parts[0]):
                n -= len(parts.pop(0))
            if parts:
                parts[0] = parts[0][n:]

    def finish(self, tiles: list[Tile]) -> Message:
        """Write the index, and wait until all data is on the disk. Return the index entry of this process."""
        # Data before the index: an index must never refer to data that a power failure can lose.
        os.fsync(self._file)
        self.close()
        text = json.dumps([t[:-1] for t in tiles], separators=(",", ":")).encode()
        _write_durably(os.path.join(self._folder, f"{self._name}.json"), text)
        sync_folder(self._folder)
        return {"name": self._name, "bytes": self._end, "digest": sha256(text).hexdigest()}

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def _write_durably(path: str, text: bytes) -> None:
    with open(path, "xb") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())


def sync_folder(folder: str) -> None:
    """Wait until the entries of a folder are on the disk."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


# --- folders ------------------------------------------------------------------------------------------------------
class FolderLock:
    """An exclusive lock on a checkpoint folder, for writing.

    The operating system releases it when the process ends, also after a crash.
    """

    def __init__(self, call: str, folder: str) -> None:
        self._file = os.open(os.path.join(folder, ".lock"), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise RuntimeError(f"{call}: {folder} is locked: another process or thread is saving to it") from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self._file)


class CheckpointFolder:
    """A folder of checkpoints.

    Attributes:
      path: its path.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def steps(self) -> list[int]:
        """Return the steps of the complete checkpoints, in order; [] if the folder does not exist."""
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return []
        return sorted([int(found[1]) for found in map(_INDEX.fullmatch, names) if found])

    def make(self) -> None:
        """Create the folder and its parents, durably."""
        # A new folder is durable only once the folder that contains it is synced.
        missing, path_at = [], os.path.abspath(self.path)
        while not os.path.isdir(path_at) and path_at not in missing:
            missing.append(path_at)
            path_at = os.path.dirname(path_at)
        os.makedirs(self.path, exist_ok=True)
        for created in missing:
            sync_folder(os.path.dirname(created))

    def begin(self, step: int, token: str) -> str:
        """Remove leftovers of unfinished saves, create the data folder of a new checkpoint, and return its name."""
        # Under the lock no other save runs, so all data without an index is left over from a crash.
        self.sweep()
        name = f"{step}-{token}"
        os.mkdir(os.path.join(self.path, name))
        sync_folder(self.path)
        return name

    def sweep(self) -> None:
        """Remove data that belongs to no checkpoint. The caller must hold the lock."""
        names = os.listdir(self.path)
        for name in filter(_UNFINISHED.fullmatch, names):
            os.unlink(os.path.join(self.path, name))
        pieces = [name for name in names if _DATA_FOLDER.fullmatch(name)]
        for name in pieces:
            step = name.split("-")[0]
            if f"{step}.json" in names:
                # The only data of a complete checkpoint: it needs no look at the index.
                if [n.split("-")[0] for n in pieces].count(step) == 1:
                    continue
                try:
                    if self.read("save", int(step))[0]["pieces"] == name:
                        continue
                except CheckpointError:  # the index is damaged: keep all its data, for recovery by hand
                    continue
            shutil.rmtree(os.path.join(self.path, name), ignore_errors=True)

    def discard(self, pieces: str) -> None:
        """Remove the data of a failed save; errors are ignored."""
        shutil.rmtree(os.path.join(self.path, pieces), ignore_errors=True)

    def commit(self, step: int, token: str, state: Message) -> None:
        """Make a checkpoint complete: write its index, replacing an older one of the same step.

        The index is written under a temporary name and synced. The rename is atomic, and the folder is synced after it,
        so that a power failure leaves the old or the new index.
        """
        state = {"format": FORMAT, "writer": f"lamina-runtime {__version__}", **state}
        text = f'{{"digest": "{_digest(state)}", "state": {_to_json(state)}}}\n'.encode()
        temporary = os.path.join(self.path, f".{step}.json.{token}")
        _write_durably(temporary, text)
        os.replace(temporary, os.path.join(self.path, f"{step}.json"))
        sync_folder(self.path)

    def drop(self, steps: Iterable[int]) -> None:
        """Remove checkpoints. The indexes go first, so that a crash leaves no index without data."""
        for step in steps:
            os.unlink(os.path.join(self.path, f"{step}.json"))
        sync_folder(self.path)
        self.sweep()

    def read(self, call: str, step: int) -> tuple[Message, str]:
        """Return the index of a checkpoint and its digest.

        Raises:
          FileNotFoundError: the checkpoint does not exist.
          CheckpointError: the index is damaged, or has another format.
        """
        path = os.path.join(self.path, f"{step}.json")
        try:
            with open(path, "rb") as f:
                text = f.read()
        except FileNotFoundError:
            raise FileNotFoundError(f"{call}: no checkpoint {step} in {self.path}; there are {self.steps()}") from None
        try:
            document = json.loads(text)
            state = document["state"]
            file_format = state["format"]
            if file_format == FORMAT and document["digest"] == _digest(state):
                return state, document["digest"]
        except (ValueError, TypeError, KeyError):
            file_format = FORMAT
        if file_format != FORMAT:
            raise CheckpointError(f"{call}: {path} was written in format {file_format!r}; this version of "
                                  f"lamina-runtime reads format {FORMAT}. Load it with a newer one")
        others = [other for other in self.steps() if other != step]
        raise CheckpointError(f"{call}: {path} is damaged: it is not what save wrote. "
                              + (f"Load another step; there are {others}" if others else "There is no other step"))


def _to_json(state: Message) -> str:
    return json.dumps(state, separators=(",", ":"))


def _digest(state: Message) -> str:
    return sha256(_to_json(state).encode()).hexdigest()


# --- reading ------------------------------------------------------------------------------------------------------
class Reader:
    """Reads the data of one checkpoint, with the indexes of all processes that wrote it."""

    def __init__(self, call: str, folder: CheckpointFolder, state: Message) -> None:
        self._call, self._folder = call, os.path.join(folder.path, state["pieces"])
        self.tiles: dict[int, list[Tile]] = {}
        if not _DATA_FOLDER.fullmatch(state["pieces"]) or not all(str(p["name"]).isdecimal() for p in state["parts"]):
            raise CheckpointError(f"{call}: checkpoint {state['step']} in {folder.path} names files that save does not "
                                  "write")
        for part in state["parts"]:
            text = self._read_index(f"{part['name']}.json")
            if sha256(text).hexdigest() != part["digest"]:
                raise CheckpointError(f"{call}: {self._path(part['name'] + '.json')} is damaged: it is not what save "
                                      "wrote")
            for leaf, start, shape, offset, length, digest in json.loads(text):
                tile = Tile(leaf, tuple(start), tuple(shape), offset, length, digest, f"{part['name']}.npys")
                self.tiles.setdefault(leaf, []).append(tile)

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _read_index(self, name: str) -> bytes:
        try:
            with open(self._path(name), "rb") as f:
                return f.read()
        except FileNotFoundError:
            raise CheckpointError(f"{self._call}: {self._path(name)} is missing") from None

    def piece(self, tile: Tile, dtype: np.dtype, place: str) -> np.ndarray:
        """Read a tile and check its digest."""
        path = self._path(tile.file)
        try:
            file = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise CheckpointError(f"{place}: {path} is missing") from None
        raw, num_read = np.empty(tile.length, np.uint8).data, 0
        try:
            while num_read < tile.length:
                n = os.preadv(file, [raw[num_read:]], tile.offset + num_read)
                if n == 0:
                    raise CheckpointError(f"{place}: {path} is truncated: it ends before byte "
                                          f"{tile.offset + tile.length}")
                num_read += n
        finally:
            os.close(file)
        if sha256(raw).hexdigest() != tile.digest:
            raise CheckpointError(f"{place}: {path} is damaged: bytes {tile.offset} to {tile.offset + tile.length} are "
                                  "not what save wrote")
        stored = _stored_dtype(dtype)
        size = int(np.prod(tile.shape, dtype=np.int64))
        data = np.frombuffer(raw, stored.newbyteorder("<"), size, tile.length - size * stored.itemsize)
        return data.astype(stored, copy=False).view(dtype).reshape(tile.shape)
