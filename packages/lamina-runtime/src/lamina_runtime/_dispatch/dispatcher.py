"""Implement the `dispatcher` hook: `jit` and `pmap` on jaxlib's call object."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from lamina_tracing import hooks
from lamina_tracing.extend import CallSpec
from lamina_ir.typing import Device, Function

from .._backend import backends
from . import jit_call
from .._launch import error_consensus

__all__ = ["XlaDispatcher", "install"]


class XlaDispatcher:
    """The `dispatcher` hook: makes the callables of `jit` and `pmap`, and counts devices."""

    def jit(self, spec: CallSpec) -> Function:
        return jit_call.build_call(spec)

    def pmap(self, spec: CallSpec) -> Function:
        return jit_call.build_call(spec)

    def device_count(self, backend: str | None) -> int | None:
        return len(backends.local_devices(backend=backend))

    def share(self, devices: Sequence[Device] | None, backend: str | None) -> tuple[int, int]:
        return backends.process_share(devices, backend)

    def rows_of_each(self, rows: int, devices: Sequence[Device] | None,
                     backend: str | None) -> tuple[list[tuple[tuple[Device, ...], int]], int]:
        """Exchange the numbers of rows between processes. All processes of the devices must call this.

        Args:
          rows: the number of rows of this process.
          devices: the devices of the map; None: all devices.
          backend: their platform, if `devices` is None.
        Returns:
          ([(devices, number of rows) of each process], index of this process in that list).
        """
        processes = (backends.devices_by_process(backend) if devices is None
                     else backends.checked_device_group("padded", devices).process_groups)
        counts = error_consensus.gather_rows(tuple([group[0] for group in processes]),
                                             np.array([rows], np.int32))[:, 0].tolist()
        return [*zip(processes, counts)], next(p for p, group in enumerate(processes) if backends.is_local(group[0]))


def install() -> None:
    """Install the dispatcher hook."""
    jit_call.install()
    hooks.set_dispatcher(XlaDispatcher())
