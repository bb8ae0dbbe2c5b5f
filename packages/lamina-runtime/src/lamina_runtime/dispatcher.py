"""The runtime's `dispatcher` slot: `jit` and `pmap` on jaxlib's call object."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamina_tracing import slots
from lamina_tracing.extend import CallSpec

from . import backends, dispatch

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


def install() -> None:
    """Fill the slot."""
    dispatch.install()
    slots.set_dispatcher(XlaDispatcher())
