"""`jax._src.sharding_impls`: shardings, and the values for "none given".

`make_single_device_sharding` must stay absent: jaxlib would call it for each shard that it makes.
"""
from typing import Final

from lamina_parallel import AbstractMesh, Mesh, PartitionSpec
from lamina_runtime import (GSPMDSharding, NamedSharding, PmapSharding, PositionalSharding, Sharding,
                            SingleDeviceSharding)
from typing_extensions import override

__all__ = ["AUTO", "AbstractMesh", "GSPMDSharding", "Mesh", "NamedSharding", "PartitionSpec", "PmapSharding",
           "PositionalSharding", "Sharding", "SingleDeviceSharding", "UNSPECIFIED", "UnspecifiedValue", "is_auto", "is_unspecified", "is_unspecified_or_auto"]


class UnspecifiedValue:
    """The class of `UNSPECIFIED`."""

    @override
    def __repr__(self) -> str:
        return "UnspecifiedValue"


UNSPECIFIED: Final = UnspecifiedValue()


class AUTO:
    """A sharding that the compiler chooses. lamina chooses one where none is given, so leave the argument out.

    Args:
      mesh: the mesh.
    """

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh


def is_unspecified(x: object) -> bool:
    """Return whether no sharding was given."""
    return isinstance(x, UnspecifiedValue)


def is_auto(x: object) -> bool:
    """Return whether the compiler is to choose the sharding."""
    return isinstance(x, AUTO)


def is_unspecified_or_auto(x: object) -> bool:
    """Return whether no sharding was given, or the compiler is to choose it."""
    return is_unspecified(x) or is_auto(x)
