"""Read checkpoints in the former format of lamina-runtime: tiles of arrays as `.npy` records with SHA-256 digests.

The data folder has a file `0.npys` and an index `0.json` of each process that wrote. A record is in NumPy's `.npy` format;
the index has the position and the digest of each. dtypes that NumPy's format cannot name (bfloat16, float8, int4) are
unsigned integers of the same width.
"""
from __future__ import annotations

import json
import os
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from ._folder import DATA_FOLDER
from ._stores import CheckpointError, Store
from ._zarr import find_overlap

__all__ = ["OldReader"]

_NATIVE_KINDS = "biufc"


class _Tile(NamedTuple):
    """A tile of an array, stored as one record of a file.

    Attributes:
      leaf: number of the leaf.
      start, shape: the part of the leaf.
      offset, length: position and size of the record in the file, in bytes.
      digest: SHA-256 of the record, header included.
      file: name of the file.
    """

    leaf: int
    start: tuple[int, ...]
    shape: tuple[int, ...]
    offset: int
    length: int
    digest: str
    file: str


class OldReader:
    """Reads the data of one checkpoint, with the indexes of all processes that wrote it."""

    def __init__(self, call: str, store: Store, state: dict[str, Any]) -> None:
        self._call, self._store, self._pieces = call, store, state["pieces"]
        self._tiles: dict[int, list[_Tile]] = {}
        if not DATA_FOLDER.fullmatch(state["pieces"]) or not all(str(p["name"]).isdecimal() for p in state["parts"]):
            raise CheckpointError(f"{call}: checkpoint {state['step']} in {store.root} names files that save did not "
                                  "write")
        for part in state["parts"]:
            name = f"{self._pieces}/{part['name']}.json"
            text = store.read(name)
            if text is None:
                raise CheckpointError(f"{call}: {store.path(name)} is missing")
            if sha256(text).hexdigest() != part["digest"]:
                raise CheckpointError(f"{call}: {store.path(name)} is damaged: it is not what save wrote")
            for leaf, start, shape, offset, length, digest in json.loads(text):
                tile = _Tile(leaf, tuple(start), tuple(shape), offset, length, digest, f"{part['name']}.npys")
                self._tiles.setdefault(leaf, []).append(tile)

    def read_blocks(self, leaf: int, place: str, dtype: np.dtype,
                    blocks: Sequence[tuple[tuple[int, ...], np.ndarray]]) -> None:
        """Read the data of blocks of a leaf. Each block is (start, array to fill).

        Raises:
          CheckpointError: data are damaged or missing.
        """
        found = 0
        for tile in self._tiles.get(leaf, ()):
            overlaps = [(o, start, block) for start, block in blocks
                        if (o := find_overlap(start, block.shape, tile.start, tile.shape)) is not None]
            piece = self._read_tile(tile, dtype, place) if overlaps else None
            for (low, high), start, block in overlaps:
                assert piece is not None
                part = piece[tuple([slice(a - t, b - t) for a, b, t in zip(low, high, tile.start)])]
                block[tuple([slice(a - s, b - s) for a, b, s in zip(low, high, start)])] = part
                found += part.size
        # Every element is written exactly once, as tiles do not overlap. So the count finds missing tiles.
        if found != sum([block.size for _, block in blocks]):
            raise CheckpointError(f"{place}: tiles of it are missing: the checkpoint is damaged")

    def _read_tile(self, tile: _Tile, dtype: np.dtype, place: str) -> np.ndarray:
        """Read a tile and check its digest."""
        path = self._store.path(f"{self._pieces}/{tile.file}")
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
        stored = dtype if dtype.isbuiltin == 1 and dtype.kind in _NATIVE_KINDS else np.dtype(f"u{dtype.itemsize}")
        size = int(np.prod(tile.shape, dtype=np.int64))
        data = np.frombuffer(raw, stored.newbyteorder("<"), size, tile.length - size * stored.itemsize)
        return data.astype(stored, copy=False).view(dtype).reshape(tile.shape)
