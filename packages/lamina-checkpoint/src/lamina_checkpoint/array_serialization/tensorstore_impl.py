"""Coroutines that write the shards of one array to TensorStore, and read them for any sharding."""
from __future__ import annotations

import asyncio
import math
import os
import re
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import numpy as np
import tensorstore as ts
from lamina_ir import dtypes, shaped
from lamina_ir.typing import Sharding, Value
from lamina_runtime import make_array_from_single_device_arrays, process_index
from lamina_runtime.extend import aligned_empty, array_from_host, own_blocks, placement

from .._stores import ts_context

__all__ = ["async_deserialize", "async_serialize", "create_async_array_from_callback", "estimate_read_memory_footprint",
           "get_tensorstore_spec", "is_remote_storage", "run_deserialization", "run_serialization"]

_REMOTE = re.compile(r"(gs|s3)://")
_REMOTE_DRIVERS = ("gcs", "s3")
_T = TypeVar("_T")


class _ByteLimit:
    """Limits the bytes that coroutines hold at the same time."""

    def __init__(self, limit: int) -> None:
        self._limit, self._free, self._condition = limit, limit, asyncio.Condition()

    async def wait_for_bytes(self, count: int) -> None:
        async with self._condition:
            # A larger request waits until nothing else is held.
            await self._condition.wait_for(lambda: self._free >= min(count, self._limit))
            self._free -= min(count, self._limit)

    async def release_bytes(self, count: int) -> None:
        async with self._condition:
            self._free += min(count, self._limit)
            self._condition.notify_all()


def run(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of a coroutine, also if an event loop runs in this thread, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    results: list[_T] = []
    errors: list[BaseException] = []

    def target() -> None:
        try:
            results.append(asyncio.run(coroutine))
        except BaseException as e:
            errors.append(e)

    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def get_tensorstore_spec(ckpt_path: str | os.PathLike[str], ocdbt: bool = True, process_idx: int | None = None,
                         arr: Value | None = None, driver: str = "zarr3") -> dict[str, Any]:
    """Return TensorStore's specification of an array in a folder.

    Args:
      ckpt_path: the path, absolute with `ocdbt`, or a URL that begins with `gs://` or `s3://`.
      ocdbt: whether the last part of the path is a key in a database of TensorStore in the rest of the path.
      process_idx: with `ocdbt`, the process for which the database is in a folder of its own; None: the common one.
      arr: an array, to include its shape and dtype; None: the specification has none.
      driver: the format of the array: `zarr3` or `zarr`.
    Raises:
      ValueError: the path is not absolute, or has no last part.

    >>> get_tensorstore_spec("/tmp/run/w", ocdbt=False)
    {'driver': 'zarr3', 'kvstore': {'driver': 'file', 'path': '/tmp/run/w'}}
    """
    path = os.fspath(ckpt_path)
    if not _REMOTE.match(path):
        path = os.path.normpath(path)
    if ocdbt:
        if not _REMOTE.match(path) and not os.path.isabs(path):
            raise ValueError(f"get_tensorstore_spec: ckpt_path must be absolute with ocdbt=True; got {ckpt_path!r}")
        base, _, name = path.rpartition("/")
        if not base or not name:
            raise ValueError(f"get_tensorstore_spec: ckpt_path must have a folder and a name; got {ckpt_path!r}")
        base = base if process_idx is None else f"{base}/process_{process_idx}"
        kvstore: dict[str, Any] = {"driver": "ocdbt", "base": _kvstore(base), "path": name}
    else:
        kvstore = _kvstore(path)
    spec: dict[str, Any] = {"driver": driver, "kvstore": kvstore}
    if arr is not None:
        spec |= {"dtype": ts.dtype(np.dtype(arr.dtype)).name, "schema": {"domain": {"shape": list(arr.shape)}}}
    return spec


def _kvstore(path: str) -> dict[str, Any]:
    found = re.fullmatch(r"(gs|s3)://([^/]+)/?(.*)", path)
    if found is None:
        return {"driver": "file", "path": path}
    return {"driver": "gcs" if found[1] == "gs" else "s3", "bucket": found[2], "path": found[3]}


def is_remote_storage(tspec: dict[str, Any] | str) -> bool:
    """Return whether a path or a specification of TensorStore is in an object store.

    >>> is_remote_storage("gs://bucket/w"), is_remote_storage("/tmp/w")
    (True, False)
    """
    if isinstance(tspec, str):
        return _REMOTE.match(tspec) is not None
    return tspec.get("driver") in _REMOTE_DRIVERS or any(is_remote_storage(tspec[key]) for key in ("base", "kvstore")
                                                         if key in tspec)


def estimate_read_memory_footprint(t: ts.TensorStore, domain: ts.IndexDomain) -> int:
    """Return the bytes of the chunks that reading a part of an array loads.

    Args:
      t: the array.
      domain: the part.
    """
    sizes = list(domain.shape)
    for d, chunk in enumerate(t.chunk_layout.read_chunk.shape or ()):
        if chunk:
            low, high = domain.inclusive_min[d] // chunk, -(-domain.exclusive_max[d] // chunk)
            sizes[d] = (high - low) * chunk
    return int(math.prod(sizes) * t.dtype.numpy_dtype.itemsize)


async def async_serialize(arr_inp: Value, tensorstore_spec: Any, commit_future: list[Any] | None = None,
                          context: Any = None, chunk_layout: Any = None, primary_host: int | None = None,
                          replica_id: int = 0, transaction: Any = None) -> None:
    """Write the shards of an array that this process holds.

    Args:
      arr_inp: an array, or a NumPy array, which the primary host writes.
      tensorstore_spec: where to, as from `get_tensorstore_spec`.
      commit_future: list to which the futures of the writes are added. The coroutine then returns once the data is
        copied. None: it returns once the data is written.
      context: TensorStore's context; None: that of this package.
      chunk_layout: TensorStore's chunk layout; None: one chunk for each shard.
      primary_host: the process that creates the array; None: each process creates it.
      replica_id: the replica that is written.
      transaction: TensorStore's transaction; None: none.
    Raises:
      DeletedArrayError: the array was deleted or donated.
      ValueError: TensorStore cannot open or write the array.
    """
    if isinstance(tensorstore_spec, ts.Spec):
        tensorstore_spec = tensorstore_spec.to_json()
    context = context or ts_context()
    is_host_value = isinstance(arr_inp, (np.ndarray, np.generic))
    shape, dtype = arr_inp.shape, np.dtype(arr_inp.dtype)
    shards = [] if is_host_value else [s for s in arr_inp.addressable_shards if s.replica_id == replica_id]
    first = shape if is_host_value else arr_inp.sharding.shard_shape(shape)
    if chunk_layout is None and "metadata" not in tensorstore_spec:
        chunk_layout = ts.ChunkLayout(chunk_shape=[max(n, 1) for n in first])
    more: dict[str, Any] = {} if "metadata" in tensorstore_spec else {"dtype": ts.dtype(dtype), "shape": shape}
    if chunk_layout is not None:
        more["chunk_layout"] = chunk_layout
    is_creator = primary_host is None or process_index() == primary_host
    t = await ts.open(ts.Spec(tensorstore_spec), create=is_creator, open=True, assume_metadata=not is_creator,
                      context=context, transaction=transaction, **more)
    if is_host_value:
        values = [(..., np.asarray(arr_inp))] if process_index() == (primary_host or 0) else []
    else:
        values = [(s.index if s.index else ..., np.asarray(s.data)) for s in shards]
    writes = [t[index].write(value) for index, value in values]
    for write in writes:
        await (write.copy if commit_future is not None else write.commit)
    if commit_future is not None:
        commit_future.extend([write.commit for write in writes])


async def async_deserialize(in_type: Any, tensorstore_spec: Any, global_shape: Sequence[int] | None = None,
                            dtype: Any = None, byte_limiter: Any = None, context: Any = None, chunk_layout: Any = None,
                            assume_metadata: bool = False) -> Value:
    """Read an array with a sharding; each process reads the parts of its devices.

    A missing chunk is read as zeros, because writers may leave out chunks of zeros. A specification with
    `"fill_missing_data_reads": False` raises an error instead.

    Args:
      in_type: a sharding, a device, or an array or `ShapeDtypeStruct` with a sharding, whose shape and dtype are used.
      tensorstore_spec: where from, as from `get_tensorstore_spec`.
      global_shape: shape of the result: a larger one is filled with zeros, a smaller one cut; None: the stored shape.
      dtype: dtype of the result; None: the stored dtype.
      byte_limiter: object with `wait_for_bytes` and `release_bytes`; None: no limit.
      context: TensorStore's context; None: that of this package.
      chunk_layout: TensorStore's chunk layout; None: the stored one.
      assume_metadata: whether to trust the metadata in `tensorstore_spec`.
    Raises:
      ValueError: TensorStore cannot open the array; the sharding cannot divide it.
    """
    if isinstance(tensorstore_spec, ts.Spec):
        tensorstore_spec = tensorstore_spec.to_json()
    more = {} if chunk_layout is None else {"chunk_layout": chunk_layout}
    t = await ts.open(ts.Spec(tensorstore_spec), open=True, assume_metadata=assume_metadata,
                      context=context or ts_context(), **more)
    target = getattr(in_type, "sharding", in_type)
    shape = tuple(global_shape if global_shape is not None else getattr(in_type, "shape", t.shape))
    chosen = dtype if dtype is not None else getattr(in_type, "dtype", t.dtype.numpy_dtype)
    wanted = dtypes.canonicalize(np.dtype(chosen))
    sharding, committed = placement(target)
    sharding, devices, bounds = own_blocks("async_deserialize", shape, sharding)

    async def read(part: tuple[tuple[int, int], ...]) -> np.ndarray:
        block = aligned_empty(tuple([b - a for a, b in part]), wanted)
        inner = tuple([slice(a, min(b, n)) for (a, b), n in zip(part, t.shape)])
        if any(s.stop - s.start < n for s, n in zip(inner, block.shape)):
            block.fill(0)
        if all(s.stop > s.start for s in inner):
            source = t[inner] if inner else t
            size = estimate_read_memory_footprint(t, source.domain)
            if byte_limiter is not None:
                await byte_limiter.wait_for_bytes(size)
            try:
                value = await source.read()
            finally:
                if byte_limiter is not None:
                    await byte_limiter.release_bytes(size)
            block[tuple([slice(0, n) for n in value.shape])] = value.astype(wanted, copy=False)
        return block

    parts = list(dict.fromkeys(bounds))
    found = dict(zip(parts, await asyncio.gather(*map(read, parts))))
    return array_from_host("async_deserialize", shaped(shape, wanted), sharding, [found[p] for p in bounds], devices, committed)


async def create_async_array_from_callback(global_shape: Sequence[int], inp_sharding: Sharding,
                                           data_callback: Callable[[Any, Any], Awaitable[Value]]) -> Value:
    """Return the array whose part on each device of this process is `await data_callback(index, device)`.

    Args:
      global_shape: shape of the array.
      inp_sharding: its sharding.
      data_callback: coroutine function of the index of a part and its device; returns an array on that device.
    """
    index = inp_sharding.addressable_devices_indices_map(tuple(global_shape))
    parts = await asyncio.gather(*[data_callback(i, d) for d, i in index.items()])
    return make_array_from_single_device_arrays(tuple(global_shape), inp_sharding, list(parts))


def run_serialization(arrays: Sequence[Value], tensorstore_specs: Sequence[Any], concurrent_gb: int = 32) -> None:
    """Write arrays, and wait until they are written.

    Args:
      arrays: the arrays.
      tensorstore_specs: where to, one for each.
      concurrent_gb: limit of the data that is held at once, in GB.
    """
    async def write_all() -> None:
        limit = _ByteLimit(concurrent_gb * 10 ** 9)

        async def write(x: Value, spec: Any) -> None:
            await limit.wait_for_bytes(x.nbytes)
            try:
                await async_serialize(x, spec, primary_host=0)
            finally:
                await limit.release_bytes(x.nbytes)

        await asyncio.gather(*[write(x, spec) for x, spec in zip(arrays, tensorstore_specs, strict=True)])

    run(write_all())


def run_deserialization(shardings: Sequence[Any], tensorstore_specs: Sequence[Any],
                        global_shapes: Sequence[Sequence[int]] | None = None, dtypes: Sequence[Any] | None = None,
                        concurrent_gb: int = 32) -> list[Value]:
    """Read arrays.

    Args:
      shardings: their shardings.
      tensorstore_specs: where from, one for each.
      global_shapes: their shapes, or None for the stored ones.
      dtypes: their dtypes, or None for the stored ones.
      concurrent_gb: limit of the data that is read at once, in GB.
    """
    none = [None] * len(tensorstore_specs)

    async def read_all() -> list[Value]:
        limit = _ByteLimit(concurrent_gb * 10 ** 9)
        return list(await asyncio.gather(*[
            async_deserialize(sharding, spec, shape, dtype, limit) for sharding, spec, shape, dtype in
            zip(shardings, tensorstore_specs, global_shapes or none, dtypes or none, strict=True)]))

    return run(read_all())
