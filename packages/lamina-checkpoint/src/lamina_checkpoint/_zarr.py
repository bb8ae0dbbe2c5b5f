"""Arrays of a checkpoint in Zarr's format, version 3, through TensorStore: chunks with CRC-32C checksums.

Each chunk belongs to one shard of a device, so processes write to one array without locks. dtypes without a name in Zarr's
specification (float8, int4) are stored as uint8; the index of the checkpoint has their names.
"""
from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import tensorstore as ts

from ._folder import DATA_FOLDER
from ._stores import TS_ERRORS, CheckpointError, Store, storage_errors, ts_context

__all__ = ["StoredArray", "Writer", "ZarrReader", "chunk_shape", "find_overlap", "split_into_chunks"]

_MAX_CHUNK_BYTES = 16 << 20
_MAX_BYTES_IN_FLIGHT = 256 << 20
_MAX_FACTOR = 64  # a chunk is not cut into more parts than this at once
_NAMED = frozenset(["bool", *[f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)], "float16", "float32", "float64",
                    "complex64", "complex128", "bfloat16"])
_ARRAY = re.compile(r"\d+(\.\d+)?")
Ranges = tuple[int, ...]


class StoredArray(NamedTuple):
    """A Zarr array: a leaf, or the part of it that one process has written.

    Attributes:
      leaf: number of the leaf.
      name: its folder.
      start, shape: the part of the leaf.
    """

    leaf: int
    name: str
    start: tuple[int, ...]
    shape: tuple[int, ...]


def find_overlap(start: Ranges, shape: Ranges, other_start: Ranges, other_shape: Ranges) -> tuple[list[int], list[int]] | None:
    """Return (begin, end) of the intersection of two parts of a leaf; None if it is empty."""
    low = [max(a, b) for a, b in zip(start, other_start)]
    high = [min(a + n, b + m) for a, n, b, m in zip(start, shape, other_start, other_shape)]
    return None if any(a >= b for a, b in zip(low, high)) else (low, high)


def chunk_shape(shape: tuple[int, ...], itemsize: int, limit: int | None = None) -> tuple[int, ...]:
    """Return the shape of chunks that divide a block of this shape evenly, of at most 16 MiB if its sizes have factors."""
    size, limit = [max(n, 1) for n in shape], limit or _MAX_CHUNK_BYTES
    # Dividing the longest dimension keeps chunks close to cubes, which suits readers of rows and readers of columns.
    while math.prod(size) * itemsize > limit:
        factors = {d: f for d, n in enumerate(size) if (f := _smallest_factor(n))}
        if not factors:
            break
        longest = max(factors, key=lambda d: size[d])
        size[longest] //= factors[longest]
    return tuple(size)


def _smallest_factor(n: int) -> int | None:
    return next((f for f in range(2, min(n, _MAX_FACTOR) + 1) if n % f == 0), None)


def split_into_chunks(shape: tuple[int, ...], chunk: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Yield the index of each chunk of a block; nothing if it is empty."""
    if 0 not in shape:
        for start in product(*[range(0, n, c) for n, c in zip(shape, chunk)]):
            yield tuple([slice(a, min(a + c, n)) for a, c, n in zip(start, chunk, shape)])


def _stored_dtype(dtype: np.dtype) -> np.dtype:
    return dtype if dtype.name in _NAMED else np.dtype(f"u{dtype.itemsize}")


class Writer:
    """Writes the arrays of this process into the data folder of a checkpoint, with a limited amount of data in flight."""

    def __init__(self, call: str, store: Store, pieces: str) -> None:
        self._place, self._store, self._pieces = f"{call}: {store.path(pieces)}", store, pieces
        self._running: deque[tuple[Any, int]] = deque()
        self._in_flight = 0

    def open(self, array: StoredArray, dtype: np.dtype, chunk: tuple[int, ...], is_creator: bool) -> Any:
        """Return TensorStore's object of an array. The creator writes its metadata."""
        metadata = {"shape": array.shape, "data_type": _stored_dtype(dtype).name,
                    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
                    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]}
        spec = {"driver": "zarr3", "kvstore": self._store.kvstore(f"{self._pieces}/{array.name}"), "metadata": metadata,
                "store_data_equal_to_fill_value": True}
        with storage_errors(self._place):
            return ts.open(spec, open=True, create=is_creator, assume_metadata=not is_creator,
                           context=ts_context()).result()

    def write(self, array: Any, start: Sequence[int], piece: np.ndarray) -> None:
        """Start to write a chunk. Its memory must not change before `finish`."""
        stored = _stored_dtype(piece.dtype)
        data = piece if stored == piece.dtype else piece.view(stored)
        index = tuple([slice(a, a + n) for a, n in zip(start, piece.shape)])
        with storage_errors(self._place):
            target = array[index] if index else array
            self._running.append((target.write(data), piece.nbytes))
        self._in_flight += piece.nbytes
        while self._in_flight > _MAX_BYTES_IN_FLIGHT:
            self._wait_for_first()

    def _wait_for_first(self) -> None:
        future, size = self._running.popleft()
        self._in_flight -= size
        with storage_errors(self._place):
            future.result()

    def finish(self) -> None:
        """Wait until all data is on the disk."""
        while self._running:
            self._wait_for_first()

    def cancel(self) -> None:
        """Stop after an error: wait for what is being written, and ignore its errors."""
        for future, _ in self._running:
            future.exception()
        self._running.clear()


class ZarrReader:
    """Reads the arrays of one checkpoint."""

    def __init__(self, call: str, store: Store, state: dict[str, Any]) -> None:
        self._store, self._pieces = store, state["pieces"]
        if not DATA_FOLDER.fullmatch(self._pieces) or not all(_ARRAY.fullmatch(name) for _, name, _, _ in state["arrays"]):
            raise CheckpointError(f"{call}: checkpoint {state['step']} in {store.root} names files that save does not "
                                  "write")
        self.arrays: dict[int, list[StoredArray]] = {}
        for leaf, name, start, shape in state["arrays"]:
            self.arrays.setdefault(leaf, []).append(StoredArray(leaf, name, tuple(start), tuple(shape)))

    def read_blocks(self, leaf: int, place: str, dtype: np.dtype,
                    blocks: Sequence[tuple[tuple[int, ...], np.ndarray]]) -> None:
        """Read the data of blocks of a leaf. Each block is (start, array to fill).

        Raises:
          CheckpointError: data are damaged or missing.
        """
        found = sum([self._read_array(array, place, dtype, blocks) for array in self.arrays.get(leaf, ())])
        # The arrays of a leaf do not overlap, so the count finds missing ones.
        if found != sum([block.size for _, block in blocks]):
            raise CheckpointError(f"{place}: arrays of it are missing: the checkpoint is damaged")

    def _read_array(self, array: StoredArray, place: str, dtype: np.dtype,
                    blocks: Sequence[tuple[tuple[int, ...], np.ndarray]]) -> int:
        overlaps = [(low, high, start, block) for start, block in blocks
                    if (found := find_overlap(start, block.shape, array.start, array.shape)) for low, high in [found]]
        if not overlaps:
            return 0
        name = f"{self._pieces}/{array.name}"
        stored = _stored_dtype(dtype)
        spec = {"driver": "zarr3", "kvstore": self._store.kvstore(name), "fill_missing_data_reads": False}
        try:
            source = ts.open(spec, open=True, context=ts_context(), dtype=ts.dtype(stored), shape=array.shape).result()
            wanted = sum([math.prod([b - a for a, b in zip(low, high)]) for low, high, _, _ in overlaps])
            if len(overlaps) > 1 and wanted >= math.prod(array.shape):
                # Reading block by block would read chunks that overlap several blocks once for each.
                whole = source.read().result()
                for low, high, start, block in overlaps:
                    part = whole[tuple([slice(a - s, b - s) for a, b, s in zip(low, high, array.start)])]
                    block[_within(low, high, start)] = part.view(dtype) if stored != dtype else part
            else:
                writes = []
                for low, high, start, block in overlaps:
                    wanted_part = source[_within(low, high, array.start)] if low else source
                    target = block[_within(low, high, start)] if low else block
                    writes.append(ts.array(target.view(stored), copy=False).write(wanted_part))
                for future in writes:
                    future.result()
        except TS_ERRORS as e:
            raise _translate(f"{place}: {self._store.path(name)}", e) from None
        return wanted


def _within(low: Sequence[int], high: Sequence[int], start: Sequence[int]) -> tuple[slice, ...]:
    return tuple([slice(a - s, b - s) for a, b, s in zip(low, high, start)])


def _translate(place: str, error: Exception) -> Exception:
    """Return the exception for an error of reading."""
    text = str(error)
    if "PERMISSION_DENIED" in text:
        return PermissionError(f"{place}: no permission: {text}")
    if "NOT_FOUND" in text:
        return CheckpointError(f"{place} is missing: {text}")
    if "UNAVAILABLE" in text or "DEADLINE_EXCEEDED" in text:
        return OSError(f"{place}: {text}")
    return CheckpointError(f"{place} is damaged: it is not what save wrote: {text}")
