"""The classes of shardings that people name. `NamedSharding(mesh, spec)` and its like make objects of jaxlib's two classes, and
`isinstance` tells which an object is.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir.extend import Tiles
from lamina_parallel import Mesh, PartitionSpec

from . import _jaxlib, backends, sharding_methods, shardings
from ._jaxlib import HloSharding

__all__ = ["GSPMDSharding", "NamedSharding", "PmapSharding", "PositionalSharding", "SingleDeviceSharding"]

_one, _many = _jaxlib.SingleDeviceSharding, _jaxlib.GSPMDSharding


class _Face(type):
    """Of a class that has no objects of its own."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, _jaxlib.Sharding) and cls._is(x)  # type: ignore[attr-defined]


class NamedSharding(metaclass=_Face):
    """How arrays lie on the devices of a mesh: a spec says over which of its axes each dimension is split. Axes that it does
    not name hold copies.

    It places arrays of any rank of at least as many dimensions as the spec has entries, and is equal to any other placement on
    the same devices that gives each the same part.

    Args:
      mesh: a `Mesh`.
      spec: a `PartitionSpec`.
      memory_kind: None or 'device'.
    Raises:
      TypeError: `mesh` is no Mesh or `spec` no PartitionSpec.
      ValueError: the spec names an axis that the mesh has not, or one twice.

    >>> import lamina_runtime
    >>> from lamina_parallel import Mesh, PartitionSpec
    >>> mesh = Mesh(lamina_runtime.devices()[:1], "x")
    >>> NamedSharding(mesh, PartitionSpec("x", None))
    NamedSharding(mesh=Mesh('x': 1), spec=PartitionSpec('x', None))
    """

    mesh: Mesh
    spec: PartitionSpec

    def __new__(cls, mesh: Mesh, spec: PartitionSpec, *, memory_kind: str | None = None) -> Any:
        if not isinstance(mesh, Mesh):
            raise TypeError(f"NamedSharding: mesh: expected a Mesh; got {type(mesh).__name__}: {mesh!r:.60}")
        if not isinstance(spec, PartitionSpec):
            raise TypeError("NamedSharding: spec: expected a PartitionSpec, as PartitionSpec('x', None); got "
                            f"{type(spec).__name__}: {spec!r:.60}")
        if not isinstance(mesh.flat_devices[0], _jaxlib.Device):
            raise TypeError("NamedSharding: mesh: its devices must be those of lamina.devices(); got "
                            f"{mesh.flat_devices[0]!r:.60}")
        sharding_methods.check_memory("NamedSharding", memory_kind)
        return shardings.by_spec(mesh, spec)

    @staticmethod
    def _is(x: Any) -> bool:
        return x._mesh is not None


class SingleDeviceSharding(metaclass=_Face):
    """The placement on one device.

    Args:
      device: the device.
      memory_kind: None or 'device'.
    Raises:
      TypeError: it is no device.

    >>> import lamina_runtime
    >>> SingleDeviceSharding(lamina_runtime.devices()[0]).num_devices
    1
    """

    def __new__(cls, device: Any, *, memory_kind: str | None = None) -> Any:
        if not isinstance(device, _jaxlib.Device):
            raise TypeError(f"SingleDeviceSharding: expected a device; got {type(device).__name__}: {device!r:.60}")
        sharding_methods.check_memory("SingleDeviceSharding", memory_kind)
        return shardings.single(device)

    @staticmethod
    def _is(x: Any) -> bool:
        return type(x) is _one and x._mesh is None and x._places is None


class GSPMDSharding(metaclass=_Face):
    """How arrays lie on devices, in the compiler's words.

    Args:
      devices: one for each place of the assignment.
      op_sharding: the assignment: text as `{devices=[4,2]<=[8]}`, jaxlib's `OpSharding` or its `HloSharding`.
      memory_kind: None or 'device'.
    Raises:
      TypeError: the assignment is none.
      ValueError: it is of another number of devices, or of no equal parts.

    >>> import lamina_runtime
    >>> GSPMDSharding.get_replicated(lamina_runtime.devices()[:1]).is_fully_replicated
    True
    """

    def __new__(cls, devices: Sequence[Any], op_sharding: Any, *, memory_kind: str | None = None) -> Any:
        where = backends.check_devices("GSPMDSharding", devices)
        sharding_methods.check_memory("GSPMDSharding", memory_kind)
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
        if not tiles.whole and tiles.devices != len(where):
            raise ValueError(f"GSPMDSharding: op_sharding: {text} is of {tiles.devices} devices; got {len(where)}")
        return shardings.tiled(where, tiles)

    @classmethod
    def get_replicated(cls, device_assignment: Sequence[Any], *, memory_kind: str | None = None) -> Any:
        """A whole copy on each device."""
        return cls(device_assignment, "{replicated}", memory_kind=memory_kind)

    @staticmethod
    def _is(x: Any) -> bool:
        return type(x) is _many and x._mesh is None and x._places is None


class PmapSharding(metaclass=_Face):
    """How `pmap` lays its rows: a dimension is split over devices, which hold a row each.

    Args:
      devices: an array of devices, row by row.
      sharding_spec: a `ShardingSpec`: what becomes of each dimension, and along which axes of the devices its rows lie.
    Raises:
      TypeError: `sharding_spec` is no ShardingSpec.
      ValueError: it is of another number of devices, or of parts of several rows.

    >>> import lamina_runtime
    >>> PmapSharding.default((1, 3), devices=lamina_runtime.devices()[:1]).shard_shape((1, 3))
    (1, 3)
    """

    def __new__(cls, devices: Any, sharding_spec: Any = None) -> Any:
        call = "PmapSharding"
        where = backends.check_devices(call, np.array(devices, dtype=object).reshape(-1).tolist())
        tiles, count = sharding_methods.specs().tiles_for(call, sharding_spec)
        if count != len(where):
            raise ValueError(f"{call}: sharding_spec: {sharding_spec!r} is of {count} devices; got {len(where)}")
        return shardings.tiled(where, tiles)

    @classmethod
    def default(cls, shape: Sequence[int], sharded_dim: int = 0, devices: Sequence[Any] | None = None) -> Any:
        """One row of dimension `sharded_dim` on each of the devices; default: the first of this process.

        Raises:
          ValueError: there are not as many devices as rows.
        """
        call, dims = "PmapSharding.default", tuple(shape)
        if not -len(dims) <= sharded_dim < len(dims):
            raise ValueError(f"{call}: sharded_dim {sharded_dim} is no dimension of the shape {dims}")
        d = sharded_dim % len(dims)
        where = backends.check_devices(call, backends.local_devices()[:dims[d]] if devices is None else devices)
        if len(where) != dims[d]:
            raise ValueError(f"{call}: dimension {d} of the shape {dims} has {dims[d]} rows; got {len(where)} devices")
        return shardings.mapped(where, len(dims), ((d, dims[d]),))

    @staticmethod
    def _is(x: Any) -> bool:
        return x._mesh is None and x._places is None and bool(x.mapped_dims)


class PositionalSharding(metaclass=_Face):
    """How arrays lie on devices, by an array of devices that is reshaped until it has the form of the split: place `(i, j)` of
    a sharding of shape `(4, 2)` holds part `(i, j)` of four by two.

    Args:
      devices: an array of devices.
      memory_kind: None or 'device'.

    >>> import lamina_runtime
    >>> PositionalSharding(lamina_runtime.devices()[:1]).reshape(1, 1).shape
    (1, 1)
    """

    def __new__(cls, devices: Any, *, memory_kind: str | None = None) -> Any:
        grid = np.array(devices, dtype=object)
        where = backends.check_devices("PositionalSharding", grid.reshape(-1).tolist())
        sharding_methods.check_memory("PositionalSharding", memory_kind)
        return sharding_methods.positional(where, np.arange(len(where)).reshape((*grid.shape, 1)))

    @staticmethod
    def _is(x: Any) -> bool:
        return x._places is not None


def _show() -> None:
    """What the objects can do, on the classes that people look it up on."""
    every = ("addressable_devices addressable_devices_indices_map check_compatible_aval device_set devices_indices_map "
             "is_equivalent_to is_fully_addressable is_fully_replicated memory_kind num_devices shard_shape with_memory_kind")
    more = {NamedSharding: "mesh spec", PmapSharding: "devices sharding_spec",
            PositionalSharding: "T ndim replicate reshape shape transpose"}
    for kind in (GSPMDSharding, NamedSharding, PmapSharding, PositionalSharding, SingleDeviceSharding):
        for name in f"{every} {more.get(kind, '')}".split():
            setattr(kind, name, getattr(_many, name))


_show()
