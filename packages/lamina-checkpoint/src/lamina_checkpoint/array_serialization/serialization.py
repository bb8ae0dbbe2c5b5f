"""`GlobalAsyncCheckpointManager`: lists of arrays written to TensorStore in another thread, in the interface of JAX."""
from __future__ import annotations

import abc
import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from lamina_ir.typing import Value
from lamina_runtime import process_index
from lamina_runtime.extend.processes import ProcessLostError
from lamina_runtime.extend import GatherSeries, HostGather
from typing_extensions import override

from . import tensorstore_impl
from .tensorstore_impl import (async_deserialize, async_serialize, create_async_array_from_callback,
                               estimate_read_memory_footprint, is_remote_storage, run_deserialization, run_serialization)

__all__ = ["AsyncManager", "BarrierTimeoutError", "BarrierTimeoutException", "GlobalAsyncCheckpointManager",
           "GlobalAsyncCheckpointManagerBase", "async_deserialize", "async_serialize", "create_async_array_from_callback",
           "estimate_read_memory_footprint", "get_tensorstore_spec", "is_remote_storage", "run_deserialization",
           "run_serialization"]


# A process that does not come to the barrier after a write is lost. The second name is that of JAX 0.4.30.
BarrierTimeoutError = BarrierTimeoutException = ProcessLostError


def get_tensorstore_spec(ckpt_path: str | os.PathLike[str], ocdbt: bool = False) -> dict[str, Any]:
    """Return TensorStore's specification of an array in a folder, in version 2 of Zarr's format.

    Args:
      ckpt_path: the path, or a URL that begins with `gs://` or `s3://`.
      ocdbt: whether the last part of the path is a key in a database of TensorStore in the rest of the path.

    >>> get_tensorstore_spec("/tmp/run/w")
    {'driver': 'zarr', 'kvstore': {'driver': 'file', 'path': '/tmp/run/w'}}
    """
    return tensorstore_impl.get_tensorstore_spec(ckpt_path, ocdbt, driver="zarr")


class AsyncManager:
    """Waits in another thread for writes, and raises their errors later.

    Args:
      timeout_secs: not used: a lost process is detected by its heartbeat.
    """

    def __init__(self, timeout_secs: int = 300) -> None:
        self._timeout_secs, self._series = timeout_secs, GatherSeries()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._futures: list[Any] = []

    def _add_futures(self, futures: Sequence[Any]) -> None:
        self._futures = list(futures)

    def _start_async_commit(self, on_commit_callback: Callable[[], None] | None) -> None:
        self._start(self._series.begin("serialize"), on_commit_callback)

    def _start(self, meeting: HostGather, callback: Callable[[], None] | None) -> None:
        def wait_and_commit(futures: list[Any]) -> None:
            try:
                with meeting:
                    for future in futures:
                        future.result()
                    meeting.gather()  # all processes have written
                    if process_index() == 0 and callback is not None:
                        callback()
                    meeting.wait_for_process_0()
            except BaseException as e:
                self._error = e

        self._thread = threading.Thread(target=wait_and_commit, args=(self._futures,), name="lamina-checkpoint")
        self._futures = []
        self._thread.start()

    def check_for_errors(self) -> None:
        """Raise the error of the last write, if it has failed by now."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def wait_until_finished(self) -> None:
        """Wait until all data is written and the callback was called. Raise their error."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check_for_errors()


class GlobalAsyncCheckpointManagerBase(abc.ABC):
    """Interface of `GlobalAsyncCheckpointManager`."""

    @abc.abstractmethod
    def check_for_errors(self) -> None:
        """Raise the error of the last write, if it has failed by now."""

    @abc.abstractmethod
    def wait_until_finished(self) -> None:
        """Wait until all data is written and the callback was called. Raise their error."""

    @abc.abstractmethod
    def serialize(self, arrays: Sequence[Value], tensorstore_specs: Sequence[Any], *,
                  on_commit_callback: Callable[[], None]) -> None:
        """Copy arrays and start to write them."""

    @abc.abstractmethod
    def deserialize(self, shardings: Sequence[Any], tensorstore_specs: Sequence[Any],
                    global_shapes: Sequence[Sequence[int]] | None = None,
                    dtypes: Sequence[Any] | None = None) -> list[Value]:
        """Read arrays."""


class GlobalAsyncCheckpointManager(AsyncManager, GlobalAsyncCheckpointManagerBase):
    """Writes lists of arrays to TensorStore in another thread, and reads them.

    New programs use `lamina_checkpoint.Checkpointer`: it saves trees atomically, with checksums and their structure.

    Args:
      timeout_secs: not used: a lost process is detected by its heartbeat.
    """

    @override
    def serialize(self, arrays: Sequence[Value], tensorstore_specs: Sequence[Any], *,
                  on_commit_callback: Callable[[], None] | None = None, transaction: Any = None,
                  concurrent_gb: int = 32) -> None:
        """Copy arrays, and start to write them. Wait for the write before, if it still runs.

        Args:
          arrays: the arrays.
          tensorstore_specs: where to, one for each, as from `get_tensorstore_spec`.
          on_commit_callback: function that process 0 calls after all processes have written.
          transaction: TensorStore's transaction; None: none.
          concurrent_gb: not used: all arrays are copied before this returns.
        """
        self.wait_until_finished()
        meeting = self._series.begin("serialize")
        futures: list[Any] = []

        async def copy_all() -> None:
            await asyncio.gather(*[async_serialize(x, spec, futures, primary_host=0, transaction=transaction)
                                   for x, spec in zip(arrays, tensorstore_specs, strict=True)])

        with meeting:
            tensorstore_impl.run(copy_all())
        self._add_futures(futures)
        self._start(meeting, on_commit_callback)

    def serialize_with_paths(self, arrays: Sequence[Value], paths: Sequence[str], *,
                             on_commit_callback: Callable[[], None] | None = None, transaction: Any = None,
                             concurrent_gb: int = 32) -> None:
        """Copy arrays, and start to write them to paths; see `serialize`."""
        self.serialize(arrays, [get_tensorstore_spec(path) for path in paths], on_commit_callback=on_commit_callback,
                       transaction=transaction, concurrent_gb=concurrent_gb)

    @override
    def deserialize(self, shardings: Sequence[Any], tensorstore_specs: Sequence[Any],
                    global_shapes: Sequence[Sequence[int]] | None = None, dtypes: Sequence[Any] | None = None,
                    concurrent_gb: int = 32) -> list[Value]:
        """Read arrays, after the running write is finished; see `run_deserialization`."""
        self.wait_until_finished()
        return run_deserialization(shardings, tensorstore_specs, global_shapes, dtypes, concurrent_gb)

    def deserialize_with_paths(self, shardings: Sequence[Any], paths: Sequence[str],
                               global_shapes: Sequence[Sequence[int]] | None = None, dtypes: Sequence[Any] | None = None,
                               concurrent_gb: int = 32) -> list[Value]:
        """Read arrays from paths; see `deserialize`."""
        return self.deserialize(shardings, [get_tensorstore_spec(path) for path in paths], global_shapes, dtypes,
                                concurrent_gb)
