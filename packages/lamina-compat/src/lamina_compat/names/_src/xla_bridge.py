"""`jax._src.xla_bridge`: the clients of the devices."""
from collections.abc import Iterator, Mapping
from typing import Any

from lamina_runtime import backends, get_backend
from typing_extensions import override

__all__ = ["backends", "get_backend"]


class _Clients(Mapping[str, Any]):
    """The clients that are in use, by platform; empty before the first use of a device."""

    @override
    def __getitem__(self, platform: str) -> Any:
        return backends(start=False)[platform]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(backends(start=False))

    @override
    def __len__(self) -> int:
        return len(backends(start=False))


_backends = _Clients()
