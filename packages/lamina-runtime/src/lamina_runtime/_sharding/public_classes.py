"""Define the public sharding classes: `NamedSharding` and others.

Calling one of them returns an object of one of jaxlib's two classes, because jaxlib's call path tests for exact types.
`isinstance` works by a metaclass that looks at attributes of the object.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir.extend import Tiles
from lamina_parallel import AbstractMesh, Mesh, PartitionSpec
from lamina_parallel.extend import TypeSharding
from lamina_ir.typing import Device, Sharding
from typing_extensions import override

from .. import _jaxlib
from .._backend import backends
from . import methods, shardings
from .._jaxlib import HloSharding
from .._typing import HloTiles, OpSharding

__all__ = ["GSPMDSharding", "NamedSharding", "PmapSharding", "PositionalSharding", "SingleDeviceSharding",
           "make_single_device_sharding"]

_Single, _Gspmd = _jaxlib.SingleDeviceSharding, _jaxlib.GSPMDSharding


class _Facade(type):
    """Metaclass of a class without instances of its own; its method `_is` decides `isinstance`."""

    @override
    def __instancecheck__(cls, x: object) -> bool:
        return (isinstance(x, _jaxlib.Sharding) and cls._is(x)  # type: ignore[attr-defined]
                or isinstance(x, TypeSharding) and cls is NamedSharding)


class NamedSharding(metaclass=_Facade):
    """The sharding of arrays over the devices of a mesh, by a `PartitionSpec`.

    The spec has the mesh axes over which each dimension is split. Arrays are replicated over axes that it does not
    name. The sharding applies to arrays of any rank that is at least the length of the spec. It equals every sharding
    over the same devices that gives each device the same part.

    Args:
      mesh: a `Mesh`; or an `AbstractMesh`, for a sharding in types of `eval_shape` and `make_jaxpr`.
      spec: a `PartitionSpec`.
      memory_kind: None or 'device'.
    Raises:
      TypeError: `mesh` is not a Mesh, or `spec` is not a PartitionSpec.
      ValueError: the spec names an axis twice, or one that the mesh does not have.

    >>> import lamina_runtime
    >>> from lamina_parallel import Mesh, PartitionSpec
    >>> mesh = Mesh(lamina_runtime.devices()[:1], "x")
    >>> NamedSharding(mesh, PartitionSpec("x", None))
    NamedSharding(mesh=Mesh('x': 1), spec=PartitionSpec('x', None))
    """

    mesh: Mesh
    spec: PartitionSpec

    def __new__(cls, mesh: Mesh, spec: PartitionSpec, *, memory_kind: str | None = None) -> Sharding:
        if isinstance(mesh, AbstractMesh):
            return TypeSharding(mesh, spec)
        if not isinstance(mesh, Mesh):
            raise TypeError(f"NamedSharding: mesh: expected a Mesh; got {type(mesh).__name__}: {mesh!r:.60}")
        if not isinstance(spec, PartitionSpec):
            raise TypeError("NamedSharding: spec: expected a PartitionSpec, as PartitionSpec('x', None); got "
                            f"{type(spec).__name__}: {spec!r:.60}")
        if not isinstance(mesh.flat_devices[0], _jaxlib.Device):
            raise TypeError("NamedSharding: mesh: its devices must be those of lamina.devices(); got "
                            f"{mesh.flat_devices[0]!r:.60}")
        methods.check_memory_kind("NamedSharding", memory_kind)
        return shardings.named_sharding(mesh, spec)

    @staticmethod
    def _is(x: Sharding) -> bool:
        return x._mesh is not None


class SingleDeviceSharding(metaclass=_Facade):
    """The sharding of arrays on one device.

    Args:
      device: the device.
      memory_kind: None or 'device'.
    Raises:
      TypeError: `device` is not a device.

    >>> import lamina_runtime
    >>> SingleDeviceSharding(lamina_runtime.devices()[0]).num_devices
    1
    """

    def __new__(cls, device: Device, *, memory_kind: str | None = None) -> Sharding:
        if not isinstance(device, _jaxlib.Device):
            raise TypeError(f"SingleDeviceSharding: expected a device; got {type(device).__name__}: {device!r:.60}")
        methods.check_memory_kind("SingleDeviceSharding", memory_kind)
        return shardings.single_device_sharding(device)

    @staticmethod
    def _is(x: Sharding) -> bool:
        return type(x) is _Single and x._mesh is None and x._device_grid is None


make_single_device_sharding = SingleDeviceSharding  # the name of the function in later releases of JAX


class GSPMDSharding(metaclass=_Facade):
    """The sharding of arrays over devices, by a tile assignment of the compiler.

    Args:
      devices: one for each position of the assignment.
      op_sharding: the assignment: text as `{devices=[4,2]<=[8]}`, jaxlib's `OpSharding` or its `HloSharding`.
      memory_kind: None or 'device'.
    Raises:
      TypeError: `op_sharding` is of another type.
      ValueError: the assignment has another number of devices, or is not into equal parts.

    >>> import lamina_runtime
    >>> GSPMDSharding.get_replicated(lamina_runtime.devices()[:1]).is_fully_replicated
    True
    """

    def __new__(cls, devices: Sequence[Device], op_sharding: str | OpSharding | HloTiles, *,
                memory_kind: str | None = None) -> Sharding:
        distinct = backends.check_devices("GSPMDSharding", devices)
        methods.check_memory_kind("GSPMDSharding", memory_kind)
        text = op_sharding
        if isinstance(text, _jaxlib.xc.OpSharding):
            text = HloSharding.from_proto(text)
        if isinstance(text, HloSharding):
            text = str(text)
        if not isinstance(text, str):
            raise TypeError("GSPMDSharding: op_sharding: expected text as '{devices=[4,2]<=[8]}', an OpSharding or an "
                            f"HloSharding; got {type(op_sharding).__name__}: {op_sharding!r:.60}")
        try:
            tiles = Tiles.parse(text)
        except ValueError as e:
            raise ValueError(f"GSPMDSharding: op_sharding: {e}") from None
        if not tiles.is_replicated and tiles.devices != len(distinct):
            raise ValueError(f"GSPMDSharding: op_sharding: {text} is for {tiles.devices} devices; got {len(distinct)}")
        return shardings.tiled_sharding(distinct, tiles)

    @classmethod
    def get_replicated(cls, device_assignment: Sequence[Device], *, memory_kind: str | None = None) -> Sharding:
        """Return the sharding with a full copy on each device."""
        return cls(device_assignment, "{replicated}", memory_kind=memory_kind)

    @staticmethod
    def _is(x: Sharding) -> bool:
        return type(x) is _Gspmd and x._mesh is None and x._device_grid is None


class PmapSharding(metaclass=_Facade):
    """The sharding of the arrays of `pmap`: each device holds one element of the mapped dimensions.

    Args:
      devices: an array of devices, in row-major order.
      sharding_spec: a `ShardingSpec`: which dimensions are mapped, and over which axes of the devices.
    Raises:
      TypeError: `sharding_spec` is not a ShardingSpec.
      ValueError: the spec has another number of devices, or parts of several elements.

    >>> import lamina_runtime
    >>> PmapSharding.default((1, 3), devices=lamina_runtime.devices()[:1]).shard_shape((1, 3))
    (1, 3)
    """

    def __new__(cls, devices: Device, sharding_spec: Any = None) -> Sharding:
        call = "PmapSharding"
        distinct = backends.check_devices(call, np.array(devices, dtype=object).reshape(-1).tolist())
        tiles, count = methods.pmap_spec_module().tiles_from_spec(call, sharding_spec)
        if count != len(distinct):
            raise ValueError(f"{call}: sharding_spec: {sharding_spec!r} is for {count} devices; got {len(distinct)}")
        return shardings.tiled_sharding(distinct, tiles)

    @classmethod
    def default(cls, shape: Sequence[int], sharded_dim: int = 0, devices: Sequence[Device] | None = None) -> Sharding:
        """Return the sharding with one element of dimension `sharded_dim` on each device.

        Args:
          shape: of the arrays.
          sharded_dim: the mapped dimension.
          devices: as many as the length of that dimension; None: the first devices of this process.
        Raises:
          ValueError: the number of devices differs from the length of the dimension.
        """
        call, dims = "PmapSharding.default", tuple(shape)
        if not -len(dims) <= sharded_dim < len(dims):
            raise ValueError(f"{call}: sharded_dim must be a dimension of the shape {dims}; got {sharded_dim}")
        d = sharded_dim % len(dims)
        distinct = backends.check_devices(call, backends.local_devices()[:dims[d]] if devices is None else devices)
        if len(distinct) != dims[d]:
            raise ValueError(f"{call}: dimension {d} of the shape {dims} has length {dims[d]}; got {len(distinct)} "
                             "devices")
        return shardings.mapped_sharding(distinct, len(dims), ((d, dims[d]),))

    @staticmethod
    def _is(x: Sharding) -> bool:
        return x._mesh is None and x._device_grid is None and bool(x.mapped_dims)


class PositionalSharding(metaclass=_Facade):
    """The sharding of arrays by an array of devices: device `(i, j)` holds block `(i, j)`.

    Reshape the sharding to the numbers of blocks: with shape `(4, 2)` it splits arrays into 4 by 2 blocks.

    Args:
      devices: an array of devices.
      memory_kind: None or 'device'.

    >>> import lamina_runtime
    >>> PositionalSharding(lamina_runtime.devices()[:1]).reshape(1, 1).shape
    (1, 1)
    """

    def __new__(cls, devices: Device, *, memory_kind: str | None = None) -> Sharding:
        grid = np.array(devices, dtype=object)
        distinct = backends.check_devices("PositionalSharding", grid.reshape(-1).tolist())
        methods.check_memory_kind("PositionalSharding", memory_kind)
        return methods.positional_sharding(distinct, np.arange(len(distinct)).reshape((*grid.shape, 1)))

    @staticmethod
    def _is(x: Sharding) -> bool:
        return x._device_grid is not None


def _copy_attributes() -> None:
    """Copy the methods of the objects to the public classes, for `help`, `dir` and `hasattr`."""
    common = ("addressable_devices addressable_devices_indices_map check_compatible_aval device_set "
              "devices_indices_map is_equivalent_to is_fully_addressable is_fully_replicated memory_kind num_devices "
              "shard_shape with_memory_kind")
    specific = {NamedSharding: "mesh spec", PmapSharding: "devices sharding_spec",
                PositionalSharding: "T ndim replicate reshape shape transpose"}
    for kind in (GSPMDSharding, NamedSharding, PmapSharding, PositionalSharding, SingleDeviceSharding):
        for name in f"{common} {specific.get(kind, '')}".split():
            setattr(kind, name, getattr(_Gspmd, name))


_copy_attributes()
