"""The runtime's `dispatcher` slot: `jit` and `pmap` on jaxlib's call object."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from lamina_tracing import slots
from lamina_tracing.extend import CallSpec

from . import backends, dispatch, jointly

__all__ = ["XlaDispatcher", "install"]


class XlaDispatcher:
    """What makes the callables of `jit` and `pmap`."""

    def jit(self, spec: CallSpec) -> Callable[..., Any]:
        return dispatch.make_call(spec)

    def pmap(self, spec: CallSpec) -> Callable[..., Any]:
        return dispatch.make_call(spec)

    def device_count(self, backend: str | None) -> int | None:
        return len(backends.local_devices(backend=backend))

    def share(self, devices: Sequence[Any] | None, backend: str | None) -> tuple[int, int]:
        return backends.share(devices, backend)

    def rows_of_each(self, rows: int, devices: Sequence[Any] | None,
                     backend: str | None) -> tuple[list[tuple[tuple[Any, ...], int]], int]:
        """The devices and the rows of each process, of these devices or of all, and which of these processes this one is: all
        of them come here, each with its number of rows."""
        processes = backends.by_process(backend) if devices is None else backends.checked("padded", devices).rows
        found = jointly.rows_of(tuple([theirs[0] for theirs in processes]), np.array([rows], np.int32))[:, 0].tolist()
        return [*zip(processes, found)], next(p for p, theirs in enumerate(processes) if backends.is_local(theirs[0]))


def install() -> None:
    """Fill the slot."""
    dispatch.install()
    slots.set_dispatcher(XlaDispatcher())
