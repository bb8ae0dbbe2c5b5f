"""The first matrix product of a process, done beside the work that leads up to the user's own.

jaxlib makes its product kernels for the processor when the first product runs: 50 to 100 ms in every process, and some
20 ms more for loading the first executable. So once programs with products have been stored on disk, a small one is
stored too, and later processes run it in a thread of its own as soon as they have a CPU device, while Python still
traces. It has no arguments, its results are dropped, and nothing depends on it.
"""
from __future__ import annotations

import hashlib
import os
import threading
from typing import Any

from . import disk_cache, shardings

__all__ = ["begin", "prepare"]

_PROGRAM = """
module @warm_up attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main() -> tensor<64x64xf32> {
    %i = stablehlo.iota dim = 0 : tensor<32x64xf32>
    %x = stablehlo.optimization_barrier %i : tensor<32x64xf32>
    %p = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0]
       : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
    %q = stablehlo.dot_general %p, %p, contracting_dims = [1] x [0]
       : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %r = stablehlo.tanh %q : tensor<64x64xf32>
    return %r : tensor<64x64xf32>
  }
}
"""
_NAME = hashlib.sha256(_PROGRAM.encode()).digest()
_known: set[str] = set()  # files that are there, or on their way


def begin(device: Any) -> None:
    """Start the warm-up if earlier processes have left one."""
    if (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1) < 2:
        return  # there is no beside
    path = disk_cache.path_of(_NAME, (device,))
    if path is not None and os.path.exists(path):
        _known.add(path)
        _aside(lambda: _run(device, path))


def prepare(code: bytes, device: Any, settings: Any) -> None:
    """Store the warm-up for later processes, if this module has products and there is none yet."""
    if device.platform != "cpu" or b"dot_general" not in code:
        return
    path = disk_cache.path_of(_NAME, (device,))
    if path is None or path in _known:
        return
    _known.add(path)
    if not os.path.exists(path):
        _aside(lambda: _make(device, path, settings))


def _aside(work: Any) -> None:
    def quietly() -> None:
        try:
            work()
        except Exception:  # nothing depends on it
            pass
    threading.Thread(target=quietly, name="lamina warm-up").start()  # not a daemon: it must not outlive the interpreter


def _run(device: Any, path: str) -> None:
    payload = disk_cache.read(path)
    if payload is not None:
        executable = device.client.deserialize_executable(payload, shardings.device_list((device,)), None)
        executable.execute_sharded([], with_tokens=True).consume_token().block_until_ready()


def _make(device: Any, path: str, settings: Any) -> None:
    made = device.client.compile_and_load(_PROGRAM, shardings.device_list((device,)), settings)
    disk_cache.store(path, made.serialize())
