"""Where the parts of an array lie: jaxlib's own sharding classes, given a Python face and interned.

Exactly two classes are used, because jaxlib's call path looks for exactly these: `SingleDeviceSharding` and
`GSPMDSharding`. One object stands for one placement, so comparing is mostly a matter of identity.

A mapped array (made by `pmap`) is tiled with one row per device along its mapped axes. `mapped_dims` of a sharding are
the dimensions that are split at all. The compiler may give the tiles of a result to the devices in any order (those of a
reversed array go to the devices backwards), so a tile is never looked for at its own number: `holders` says who has it.
"""
from __future__ import annotations

import copyreg
import math
import weakref
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from lamina_ir.extend import Tiles

from . import _jaxlib, backends, owner
from ._jaxlib import DeviceList, GSPMDSharding, HloSharding, SingleDeviceSharding

__all__ = ["check_fits", "device_list", "gspmd", "index_map", "interned", "is_replicated", "mapped", "named", "part", "plan",
           "replicated", "sharding_devices", "single", "tiled"]

Index = tuple[slice, ...]
_REPLICATED = HloSharding.replicate()


def single(device: Any) -> Any:
    """The placement on one device."""
    known = owner.current.singles
    found = known.get(device)
    if found is None:
        owner.check_open(device)
        found = SingleDeviceSharding(device)
        found.on_host = device.platform == "cpu"
        found = known.setdefault(device, found)
    return found


def device_list(devices: tuple[Any, ...]) -> Any:
    """jaxlib's list object for these devices, in this order."""
    known = owner.current.lists
    found = known.get(devices)
    if found is None:
        owner.check_open(devices[0])
        if len(known) > 4096:
            known.clear()
        found = known.setdefault(devices, DeviceList(devices))
    return found


def gspmd(devices: tuple[Any, ...], tiles: Any) -> Any:
    """The placement over several devices that a tile assignment describes."""
    key = (devices, tiles)
    known = owner.current.gspmds
    found = known.get(key)
    if found is None:
        if len(known) > 4096:
            known.clear()
        found = GSPMDSharding(device_list(devices), tiles)
        found.on_host = devices[0].platform == "cpu"
        found.parts = {}  # shape -> what each device holds
        found.plans = {}  # shape -> how host arrays are split
        found.mapped_dims = _split_dims(tiles)
        found.partly_copied = tiles.is_tiled() and tiles.replicate_on_last_tile_dim()
        found.holders = _holders(tiles)
        found.tiles = Tiles.parse(str(tiles)) if tiles.is_tiled() else Tiles()
        found = known.setdefault(key, found)
    return found


def _split_dims(tiles: Any) -> tuple[int, ...]:
    return tuple(d for d, n in enumerate(_counts(tiles)) if n > 1) if tiles.is_tiled() else ()


def _holders(tiles: Any) -> tuple[int, ...]:
    """For each tile, row by row, the number of the first device that holds it."""
    if not tiles.is_tiled():
        return ()
    order = np.asarray(tiles.tile_assignment_devices())
    if tiles.replicate_on_last_tile_dim():
        order = order.reshape(tuple(tiles.tile_assignment_dimensions()))[..., 0]
    return tuple(order.reshape(-1).tolist())


def mapped(devices: tuple[Any, ...], ndim: int, dims: tuple[tuple[int, int], ...], copies: int = 1) -> Any:
    """One row per device.

    Args:
      devices: in order of the mapped axes, the first slowest; `copies` neighbours hold the same row.
      ndim: rank of the arrays.
      dims: (dimension, number of rows) of each mapped axis, slowest first.
      copies: how many devices hold each row (axes of the program that do not map this array).
    """
    counts, sizes = [1] * ndim, [n for _, n in dims]
    for d, n in dims:
        counts[d] = n
    places = np.arange(math.prod(sizes) * copies).reshape(*sizes, copies)
    by_dimension = sorted(range(len(dims)), key=lambda i: dims[i][0])
    order = () if by_dimension == [*range(len(dims))] else places.transpose(*by_dimension, len(dims)).reshape(-1).tolist()
    return tiled(devices, Tiles(tuple(counts), copies, tuple(order)))


def replicated(devices: tuple[Any, ...]) -> Any:
    """A whole copy on each device."""
    if len(devices) == 1:
        return single(devices[0])
    return gspmd(devices, _REPLICATED)


def tiled(devices: tuple[Any, ...], tiles: Tiles) -> Any:
    """What a `Placement` says of one array, as jaxlib's sharding."""
    if tiles.whole or len(devices) == 1:
        return replicated(devices)
    return gspmd(devices, _hlo_tiles(tiles))


@lru_cache(maxsize=1024)
def _hlo_tiles(tiles: Tiles) -> Any:
    counts = [*tiles.counts, tiles.copies] if tiles.copies > 1 else list(tiles.counts)
    kinds = [_jaxlib.xc.OpSharding.Type.REPLICATED] if tiles.copies > 1 else []
    if not tiles.order:
        return HloSharding.iota_tile(counts, subgroup_types=kinds)
    proto = _jaxlib.xc.OpSharding()
    proto.type = _jaxlib.xc.OpSharding.Type.OTHER
    proto.tile_assignment_dimensions, proto.tile_assignment_devices = counts, list(tiles.order)
    proto.replicate_on_last_tile_dim = tiles.copies > 1
    return HloSharding.from_proto(proto)


def part(devices: tuple[Any, ...], tiles: Tiles) -> Any:
    """The placement of this process's part of an array that other processes have parts of as well. On one device it is not
    what that device's own arrays have: jaxlib, which sees the array of all processes, may not read it as one of these."""
    return gspmd(devices, _REPLICATED) if tiles.whole else gspmd(devices, _hlo_tiles(tiles))


def sharding_devices(sharding: Any) -> tuple[Any, ...]:
    """The devices of a placement, in its order."""
    if type(sharding) is SingleDeviceSharding:
        return (sharding._device,)
    return tuple(sharding._internal_device_list)


def is_replicated(sharding: Any) -> bool:
    """Whether each device holds all of the array."""
    return type(sharding) is SingleDeviceSharding or sharding._hlo_sharding.is_replicated()


def _slices(tiles: Any, shape: tuple[int, ...]) -> tuple[Index, ...]:
    """For each position in the device list, the part it holds."""
    ndim = len(shape)
    if not tiles.is_tiled():
        raise ValueError(f"the parts of a placement {tiles} are not known to Python")
    counts = list(tiles.tile_assignment_dimensions())
    order = np.asarray(tiles.tile_assignment_devices()).reshape(counts)
    found: dict[int, Index] = {}
    sizes = [-(-n // k) for n, k in zip(shape, counts[:ndim])]
    for at in np.ndindex(*counts):
        found[int(order[at])] = tuple(slice(None) if counts[d] == 1 else
                                      slice(min(at[d] * sizes[d], shape[d]), min((at[d] + 1) * sizes[d], shape[d]))
                                      for d in range(ndim))
    return tuple(found[i] for i in range(len(found)))


def index_map(sharding: Any, shape: tuple[int, ...]) -> tuple[Index, ...]:
    """For each device of a placement, in order, the part of an array of this shape it holds, as a tuple of slices."""
    if is_replicated(sharding):
        return ((slice(None),) * len(shape),) * sharding.num_devices
    known = sharding.parts  # kept here, as jaxlib's tiles hold their placement, and that its devices
    found = known.get(shape)
    if found is None:
        if len(known) > 256:
            known.clear()
        found = known[shape] = _slices(sharding._hlo_sharding, shape)
    return found


def check_fits(call: str | Callable[[], str], shape: tuple[int, ...], sharding: Any) -> None:
    """ValueError for a placement that splits other dimensions than an array of this shape has, or unevenly. `call` is who asks,
    or says it."""
    if is_replicated(sharding) or not sharding._hlo_sharding.is_tiled():
        return
    counts = _counts(sharding._hlo_sharding)
    if len(counts) != len(shape):
        raise ValueError(f"{_said(call)}: {sharding} places arrays of {len(counts)} dimensions, in {_by(counts)} parts; got "
                         f"an array of {len(shape)} dimensions, of shape {shape}. Reshape it, or place it by one of its rank")
    for d, (n, k) in enumerate(zip(shape, counts)):
        if n % k:
            raise ValueError(f"{_said(call)}: dimension {d} of an array of shape {shape} has length {n}, which cannot be split "
                             f"over {k} devices evenly: {sharding} cuts it into {k} parts. Pad it to a multiple of {k}, or "
                             "split another dimension")


def _said(call: str | Callable[[], str]) -> str:
    return call if isinstance(call, str) else call()


def interned(sharding: Any) -> Any:
    """Our own object for a placement that a user gave, who may have made one of jaxlib's class."""
    owner.check_open(sharding._internal_device_list[0])
    if type(sharding) is SingleDeviceSharding or "plans" in sharding.__dict__:
        return sharding
    return gspmd(sharding_devices(sharding), sharding._hlo_sharding)


def named(x: Any) -> Any:
    """A value that tells devices and placements, in tuples as well, from others, and does not keep their clients. What jaxlib
    finds a call by stays as long as the function does."""
    if isinstance(x, _jaxlib.Device):
        return weakref.ref(x.client), x.id
    if isinstance(x, _jaxlib.Sharding):
        devices = sharding_devices(x)
        tiles = str(x._to_xla_hlo_sharding(0))  # which would hold x
        return weakref.ref(devices[0].client), tuple([d.id for d in devices]), tiles
    return tuple(map(named, x)) if type(x) is tuple else x


def _counts(tiles: Any) -> list[int]:
    """In how many parts each dimension is cut."""
    counts = list(tiles.tile_assignment_dimensions())
    return counts[:-1] if tiles.replicate_on_last_tile_dim() else counts


def _by(counts: list[int]) -> str:
    return " x ".join(map(str, counts))


def plan(sharding: Any, shape: tuple[int, ...]) -> tuple[list[Any], tuple[Index, ...] | None]:
    """How to split a host array of this shape: the devices of this process, and the part for each (None: all of it)."""
    try:
        return sharding.plans[shape]
    except KeyError:
        pass
    # Kept with the placement: the same batch shape is split the same way at each step.
    where = list(sharding._internal_device_list.addressable_device_list)
    parts = None
    if not is_replicated(sharding):
        check_fits("device_put", shape, sharding)
        at = dict(zip(sharding_devices(sharding), index_map(sharding, shape)))
        parts = tuple(at[d] for d in where)
    if len(sharding.plans) > 256:
        sharding.plans.clear()
    found = sharding.plans[shape] = where, parts
    return found


def _shard_shape(self: Any, global_shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of one device's part of an array of `global_shape`."""
    shape = tuple(global_shape)
    if is_replicated(self):
        return shape
    counts = self._hlo_sharding.tile_assignment_dimensions()
    return tuple(-(-n // k) for n, k in zip(shape, counts))


def _equal_single(self: Any, other: Any) -> bool:
    return self is other or (type(other) is SingleDeviceSharding and self._device == other._device)


def _equal_gspmd(self: Any, other: Any) -> bool:
    return self is other or (type(other) is GSPMDSharding and self._hlo_sharding == other._hlo_sharding
                             and self._internal_device_list == other._internal_device_list)


def _repr_gspmd(self: Any) -> str:
    devices = ", ".join(str(d) for d in self._internal_device_list)
    dims = self.mapped_dims
    if dims:
        return f"MappedSharding(dims={dims}, devices=[{devices}])"
    if self._hlo_sharding.is_replicated():
        return f"ReplicatedSharding(devices=[{devices}])"
    return f"GSPMDSharding({self._hlo_sharding}, devices=[{devices}])"


def _indices(self: Any, global_shape: tuple[int, ...]) -> dict[Any, Index]:
    """Device -> the part of an array of `global_shape` it holds."""
    return dict(zip(sharding_devices(self), index_map(interned(self), tuple(global_shape))))


def _install() -> None:
    # jaxlib's call path knows these two classes by their exact type, so they are dressed instead of derived from; what it
    # looks up in Python (`memory_kind`, `_to_xla_hlo_sharding`) it finds on the class.
    one, many = SingleDeviceSharding, GSPMDSharding
    one._to_xla_hlo_sharding = lambda self, ndim: _REPLICATED
    many._to_xla_hlo_sharding = lambda self, ndim: self._hlo_sharding
    one.__eq__, many.__eq__ = _equal_single, _equal_gspmd
    one.__hash__ = lambda self: hash(self._device)
    many.__hash__ = lambda self: hash(self._hlo_sharding)
    one.__repr__ = lambda self: f"SingleDeviceSharding(device={self._device!r})"
    many.__repr__ = _repr_gspmd
    copyreg.pickle(_jaxlib.Device, lambda self: (device_called, (self.platform, self.id)))
    one.__reduce__ = lambda self: (single, (self._device,))
    many.__reduce__ = lambda self: (_restore_gspmd, (sharding_devices(self), self._hlo_sharding.to_proto()))
    one.num_devices = 1
    many.num_devices = property(lambda self: len(self._internal_device_list))
    many.mapped_dims = one.mapped_dims = many.holders = one.holders = ()
    many.partly_copied = one.partly_copied = False
    one.tiles = Tiles()
    many.on_host = one.on_host = False
    for kind in (one, many):
        kind.memory_kind = None
        kind.device_set = property(lambda self: set(sharding_devices(self)))
        kind.is_fully_replicated = property(is_replicated)
        kind.is_fully_addressable = property(lambda self: self._internal_device_list.is_fully_addressable)
        kind.addressable_devices = property(lambda self: set(self._internal_device_list.addressable_device_list))
        kind.devices_indices_map = _indices
        kind.shard_shape = _shard_shape


def device_called(platform: str, number: int) -> Any:
    """The device of this number, for pickles. RuntimeError where there is none."""
    here = backends.devices(platform)
    for d in here:
        if d.id == number:
            return d
    raise RuntimeError(f"what was pickled names device {number} of platform {platform!r}; here the numbers are "
                       f"{[d.id for d in here]}. Run with as many devices as where it was pickled")


def _restore_gspmd(devices: tuple[Any, ...], tiles: Any) -> Any:
    return gspmd(devices, HloSharding.from_proto(tiles))


_install()
