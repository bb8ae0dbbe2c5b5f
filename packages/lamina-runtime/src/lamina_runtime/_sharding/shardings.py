"""Make and intern shardings, which are objects of jaxlib's own classes.

jaxlib's call path tests for exact types, so exactly two classes are used: `SingleDeviceSharding` and `GSPMDSharding`.
Shardings are interned: equal ones are mostly the same object. A call with many arguments is faster that way.

A named sharding (of a mesh and a PartitionSpec) is an object of the same classes with these two as attributes. There is
one object per array rank. In Python it equals every sharding that places arrays alike. jaxlib compares shardings in
C++; for jaxlib it differs from them by a number, its `alias_id`. So calls with named arguments have cache entries of
their own, whose results are named like those arguments.

A mapped array (made by `pmap`) has one tile per device along its mapped axes. `mapped_dims` of a sharding are the
dimensions that are split. The compiler may assign the tiles of a result to devices in any order: those of a reversed
array go to the devices backwards. So use `tile_devices` to find the device of a tile.
"""
from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from lamina_ir.extend import Tiles
from lamina_parallel import Mesh, PartitionSpec
from lamina_parallel.extend import mesh_in_scope, partition_spec_from_tiles, tiles_from_partition_spec
from lamina_ir.typing import CacheKey, Device, Sharding

from .. import _jaxlib
from .._backend import client_state
from .._jaxlib import DeviceList, GSPMDSharding, HloSharding, SingleDeviceSharding
from .._typing import HloTiles

__all__ = ["aliased_sharding", "as_named_sharding", "check_fits", "device_list", "gspmd_sharding", "index_map",
           "intern_sharding", "is_replicated", "mapped_sharding", "named_sharding", "new_sharding_alias",
           "process_part_sharding", "replicated_sharding", "resolve_sharding", "sharding_devices", "sharding_key",
           "single_device_sharding", "split_plan", "tiled_sharding"]

Index = tuple[slice, ...]
_REPLICATED = HloSharding.replicate()


def single_device_sharding(device: Device) -> Sharding:
    """Return the sharding of arrays on one device."""
    known = client_state.current.single_shardings
    found = known.get(device)
    if found is None:
        client_state.check_open(device)
        found = SingleDeviceSharding(device)
        found.on_host = device.platform == "cpu"
        found = known.setdefault(device, found)
    return found


def device_list(devices: tuple[Device, ...]) -> DeviceList:
    """Return jaxlib's `DeviceList` of devices, in this order."""
    known = client_state.current.device_lists
    found = known.get(devices)
    if found is None:
        client_state.check_open(devices[0])
        if len(known) > 4096:
            known.clear()
        found = known.setdefault(devices, DeviceList(devices))
    return found


def gspmd_sharding(devices: tuple[Device, ...], tiles: HloTiles, alias_id: int = 0) -> Sharding:
    """Return the sharding over several devices with a tile assignment (an `HloSharding`).

    jaxlib distinguishes shardings with different `alias_id`; 0 is the plain sharding.
    """
    key = (devices, tiles, alias_id)
    known = client_state.current.gspmd_shardings
    found = known.get(key)
    if found is None:
        if len(known) > 4096:
            known.clear()
        found = GSPMDSharding(device_list(devices), _add_group_id(tiles, alias_id) if alias_id else tiles)
        # Attributes computed once, because the call path in Python reads them for each argument.
        found.on_host = devices[0].platform == "cpu"
        found.index_maps = {}  # shape -> the part of each device, see `index_map`
        found.split_plans = {}  # shape -> how to split host arrays, see `split_plan`
        found.mapped_dims = _find_split_dims(tiles)
        found.is_partially_replicated = tiles.is_tiled() and tiles.replicate_on_last_tile_dim()
        found.tile_devices = _find_tile_devices(tiles)
        found.tiles = Tiles.parse(str(tiles)) if tiles.is_tiled() else Tiles()
        found.plain_tiles, found.alias_id = tiles, alias_id
        found.placement_key = _make_placement_key(tiles, found.tiles)
        # `setdefault` is atomic: if two threads make the sharding, both use one object.
        found = known.setdefault(key, found)
    return found


def _add_group_id(tiles: HloTiles, alias_id: int) -> HloTiles:
    """Return equivalent tiles that jaxlib's call object considers different.

    The number is stored as the id of a shard group. The compiler gets the plain tiles, see `_to_xla_hlo_sharding`.
    """
    proto = tiles.to_proto()
    proto.is_shard_group, proto.shard_group_id = True, alias_id
    return HloSharding.from_proto(proto)


def _make_placement_key(hlo: HloTiles, tiles: Tiles) -> CacheKey:
    """Return a key that is equal for tile assignments with the same part of an array on each device, of any rank."""
    if not hlo.is_tiled():
        return () if hlo.is_replicated() else str(hlo)
    positions, counts = tiles.positions(), [*tiles.counts]
    # Devices with copies of one part may be listed in any order.
    if tiles.copies > 1:
        positions.sort(axis=-1)
    # Trailing dimensions that are not split change nothing, so shardings of different rank compare equal.
    while counts and counts[-1] == 1:
        counts.pop()
    return tuple(counts), positions.tobytes()


# --- named shardings ------------------------------------------------------------------------------------------------
_alias_ids = itertools.count(1)


def new_sharding_alias() -> int:
    """Return a new number by which jaxlib distinguishes a sharding from those that place arrays alike."""
    return next(_alias_ids)


def aliased_sharding(devices: tuple[Device, ...], tiles: Tiles, alias_id: int) -> Sharding:
    """Return a sharding that places arrays as `tiled_sharding` does, with an `alias_id` of its own."""
    if len(devices) > 1:
        return gspmd_sharding(devices, _REPLICATED if tiles.is_replicated else _hlo_tiles(tiles), alias_id)
    client_state.check_open(devices[0])
    # The tiles of one device have no place for the number, so jaxlib does not see it; Python code compares the
    # attribute.
    found = SingleDeviceSharding(devices[0])
    found.on_host, found.alias_id = devices[0].platform == "cpu", alias_id
    return found


def named_sharding(mesh: Mesh, spec: PartitionSpec, ndim: int | None = None,
            call: str | Callable[[], str] = "NamedSharding") -> Sharding:
    """Return the sharding of a mesh and a spec, for arrays with `ndim` dimensions (None: one for each spec entry).

    `call` is the name of the calling function for errors, or returns it.

    Raises:
      ValueError: the spec does not fit the mesh or the rank.
    """
    known = client_state.current.sharding_aliases.get((mesh, spec))
    rank = len(spec) if ndim is None else ndim
    found = None if known is None else known[1].get(rank)
    if found is not None:
        return found
    tiles, unconstrained = tiles_from_partition_spec(mesh, spec, rank, call if isinstance(call, str) else call())
    devices = mesh.flat_devices
    if known is None:
        if len(client_state.current.sharding_aliases) > 4096:
            client_state.current.sharding_aliases.clear()
        # One number for all ranks of a mesh and spec. The number is drawn before `setdefault`; one that loses the
        # race is not used.
        known = client_state.current.sharding_aliases.setdefault((mesh, spec), (new_sharding_alias(), {}))
    alias_id, by_rank = known
    found = aliased_sharding(devices, tiles, alias_id)
    found._mesh, found._spec, found.unconstrained_dims = mesh, spec, unconstrained
    return by_rank.setdefault(rank, found)


def as_named_sharding(mesh: Mesh, sharding: Sharding, ndim: int) -> Sharding:
    """Return an equal sharding named by a mesh over exactly its devices; itself if no spec of the mesh describes it."""
    known = client_state.current.sharding_aliases.setdefault((mesh, "read"), (0, {}))[1]
    key = (sharding.tiles, ndim)
    if key not in known:
        if len(known) > 1024:
            known.clear()
        known[key] = partition_spec_from_tiles(mesh, sharding.tiles)
    spec = known[key]
    return sharding if spec is None else named_sharding(mesh, spec, ndim)


def resolve_sharding(call: str | Callable[[], str], shape: tuple[int, ...], value: Any) -> Sharding:
    """Return the interned sharding, for arrays of this shape, of a value that the user passed.

    Args:
      call: name of the calling function for errors, or a function that returns it.
      shape: the shape of the arrays.
      value: a sharding, or a PartitionSpec for the mesh in scope.
    Raises:
      ValueError: the sharding does not fit the shape, or no mesh is in scope.
    """
    if type(value) is PartitionSpec:
        mesh = mesh_in_scope()
        if mesh is None:
            raise ValueError(f"{_show(call)}: {value!r} names axes of a mesh, and no mesh is in scope. Call it in a "
                             "block `with mesh:`, or pass NamedSharding(mesh, spec)")
        sharding = named_sharding(mesh, value, len(shape), call)
    elif not hasattr(value, "_mesh"):
        raise ValueError(f"{_show(call)}: expected a device or a sharding to put the array on; got "
                         f"{type(value).__name__}: {value!r:.60}. Devices are in lamina.devices()")
    elif value._mesh is not None:
        sharding = named_sharding(value._mesh, value._spec, len(shape), call)
    else:
        sharding = intern_sharding(value)
    # Placing data needs a definite part for each device.
    if sharding.unconstrained_dims:
        raise ValueError(f"{_show(call)}: {sharding._spec!r} leaves dimension {sharding.unconstrained_dims[0]} to the "
                         "compiler, which only with_sharding_constraint allows. Name an axis, or None")
    check_fits(call, shape, sharding)
    return sharding


# --- which device holds which part ----------------------------------------------------------------------------------
def _find_split_dims(tiles: HloTiles) -> tuple[int, ...]:
    return tuple(d for d, n in enumerate(_count_parts(tiles)) if n > 1) if tiles.is_tiled() else ()


def _find_tile_devices(tiles: HloTiles) -> tuple[int, ...]:
    """Return for each tile, in row-major order, the number of the first device that holds it."""
    if not tiles.is_tiled():
        return ()
    order = np.asarray(tiles.tile_assignment_devices())
    if tiles.replicate_on_last_tile_dim():
        order = order.reshape(tuple(tiles.tile_assignment_dimensions()))[..., 0]
    return tuple(order.reshape(-1).tolist())


def mapped_sharding(devices: tuple[Device, ...], ndim: int, dims: tuple[tuple[int, int], ...],
                    copies: int = 1) -> Sharding:
    """Return the sharding of a mapped array: one member of the mapped axes per device.

    Args:
      devices: in order of the mapped axes, the first one slowest; `copies` consecutive devices hold the same member.
      ndim: rank of the arrays.
      dims: (dimension, size) of each mapped axis, slowest first.
      copies: number of devices that hold each member (axes of the program that do not map this array).
    """
    counts, sizes = [1] * ndim, [n for _, n in dims]
    for d, n in dims:
        counts[d] = n
    numbers = np.arange(math.prod(sizes) * copies).reshape(*sizes, copies)
    # `numbers` has the devices by mapped axes, slowest first. Tiles are numbered by dimensions of the array, which
    # may have another order.
    by_dimension = sorted(range(len(dims)), key=lambda i: dims[i][0])
    order = (() if by_dimension == [*range(len(dims))]
             else numbers.transpose(*by_dimension, len(dims)).reshape(-1).tolist())
    return tiled_sharding(devices, Tiles(tuple(counts), copies, tuple(order)))


def replicated_sharding(devices: tuple[Device, ...]) -> Sharding:
    """Return the sharding with a full copy on each device."""
    if len(devices) == 1:
        return single_device_sharding(devices[0])
    return gspmd_sharding(devices, _REPLICATED)


def tiled_sharding(devices: tuple[Device, ...], tiles: Tiles) -> Sharding:
    """Return the sharding of one array of a `Placement`, given by its `Tiles`."""
    if len(devices) == 1 or tiles.is_replicated:
        return replicated_sharding(devices)
    return gspmd_sharding(devices, _hlo_tiles(tiles))


@lru_cache(maxsize=1024)
def _hlo_tiles(tiles: Tiles) -> HloTiles:
    counts = [*tiles.counts, tiles.copies] if tiles.copies > 1 else list(tiles.counts)
    kinds = [_jaxlib.xc.OpSharding.Type.REPLICATED] if tiles.copies > 1 else []
    if not tiles.order:
        return HloSharding.iota_tile(counts, subgroup_types=kinds)
    proto = _jaxlib.xc.OpSharding()
    proto.type = _jaxlib.xc.OpSharding.Type.OTHER
    proto.tile_assignment_dimensions, proto.tile_assignment_devices = counts, list(tiles.order)
    proto.replicate_on_last_tile_dim = tiles.copies > 1
    return HloSharding.from_proto(proto)


def process_part_sharding(devices: tuple[Device, ...], tiles: Tiles) -> Sharding:
    """Return the sharding of this process's part of an array that spans processes.

    With one local device this is a `GSPMDSharding` too, not the `SingleDeviceSharding` of that device's own arrays. For
    jaxlib it still is the array of all processes, which must not be read as a single-device array.
    """
    return gspmd_sharding(devices, _REPLICATED) if tiles.is_replicated else gspmd_sharding(devices, _hlo_tiles(tiles))


def sharding_devices(sharding: Sharding) -> tuple[Device, ...]:
    """Return the devices of a sharding, in its order."""
    if type(sharding) is SingleDeviceSharding:
        return (sharding._device,)
    return tuple(sharding._internal_device_list)


def is_replicated(sharding: Sharding) -> bool:
    """Return whether each device holds a full copy of the array."""
    return type(sharding) is SingleDeviceSharding or sharding._hlo_sharding.is_replicated()


def _compute_slices(tiles: HloTiles, shape: tuple[int, ...]) -> tuple[Index, ...]:
    """Return the part that each device of the device list holds."""
    ndim = len(shape)
    if not tiles.is_tiled():
        raise ValueError(f"the parts of arrays with the sharding {tiles} are not known: it is neither tiled nor "
                         "replicated")
    counts = list(tiles.tile_assignment_dimensions())
    order = np.asarray(tiles.tile_assignment_devices()).reshape(counts)
    found: dict[int, Index] = {}
    # As XLA pads: parts of equal size, rounded up; the last ones may be shorter or empty.
    sizes = [-(-n // k) for n, k in zip(shape, counts[:ndim])]
    for at in np.ndindex(*counts):
        found[int(order[at])] = tuple(slice(None) if counts[d] == 1 else
                                      slice(min(at[d] * sizes[d], shape[d]), min((at[d] + 1) * sizes[d], shape[d]))
                                      for d in range(ndim))
    return tuple(found[i] for i in range(len(found)))


def index_map(sharding: Sharding, shape: tuple[int, ...]) -> tuple[Index, ...]:
    """Return the part of an array of this shape that each device holds, as a tuple of slices, in device order."""
    if is_replicated(sharding):
        return ((slice(None),) * len(shape),) * sharding.num_devices
    # Cached as an attribute of the sharding. In a global table keyed by jaxlib's tiles, the entries would keep the
    # sharding and its devices alive.
    known = sharding.index_maps
    found = known.get(shape)
    if found is None:
        if len(known) > 256:
            known.clear()
        found = known[shape] = _compute_slices(sharding._hlo_sharding, shape)
    return found


def check_fits(call: str | Callable[[], str], shape: tuple[int, ...], sharding: Sharding) -> None:
    """Raise ValueError if a sharding has another rank than `shape`, or splits a dimension unevenly.

    `call` is the name of the calling function for errors, or returns it.
    """
    if is_replicated(sharding) or not sharding._hlo_sharding.is_tiled():
        return
    counts = _count_parts(sharding._hlo_sharding)
    if len(counts) != len(shape):
        parts = " x ".join(map(str, counts))
        raise ValueError(f"{_show(call)}: {sharding} places arrays of {len(counts)} dimensions, in {parts} parts; got "
                         f"an array of {len(shape)} dimensions, of shape {shape}. Reshape it, or use a sharding of its "
                         "rank")
    for d, (n, k) in enumerate(zip(shape, counts)):
        if n % k:
            cause = f"{sharding} cuts it into {k} parts" if sharding._mesh is None else (
                f"{sharding._spec} cuts it into {k} parts along {sharding._spec[d]!r} of {sharding._mesh}")
            raise ValueError(f"{_show(call)}: dimension {d} of an array of shape {shape} has length {n}, which cannot "
                             f"be split over {k} devices evenly: {cause}. Pad it to a multiple of {k}, or split "
                             "another dimension")


def _show(call: str | Callable[[], str]) -> str:
    return call if isinstance(call, str) else call()


def intern_sharding(sharding: Sharding) -> Sharding:
    """Return the interned object equal to a sharding; users can make jaxlib's GSPMDSharding directly."""
    client_state.check_open(sharding._internal_device_list[0])
    if type(sharding) is SingleDeviceSharding or "split_plans" in sharding.__dict__:
        return sharding
    return gspmd_sharding(sharding_devices(sharding), sharding._hlo_sharding)


_ATOMS = frozenset((int, bool, str, type(None), frozenset))


def sharding_key(x: Any) -> CacheKey:
    """Return a hashable key of a value in which devices and shardings, also in tuples, do not keep clients alive.

    jaxlib stores the cache key of a call for as long as the function lives, so it must not hold devices.
    """
    if isinstance(x, _jaxlib.Device):
        return weakref.ref(x.client), x.id
    if isinstance(x, _jaxlib.Sharding):
        devices = sharding_devices(x)
        tiles = str(x._to_xla_hlo_sharding(0))  # as text: the object itself holds x
        return weakref.ref(devices[0].client), tuple([d.id for d in devices]), tiles, x.alias_id
    return tuple([y if type(y) in _ATOMS else sharding_key(y) for y in x]) if type(x) is tuple else x


def _count_parts(tiles: HloTiles) -> list[int]:
    """Return the number of parts along each dimension."""
    counts = list(tiles.tile_assignment_dimensions())
    return counts[:-1] if tiles.replicate_on_last_tile_dim() else counts


def split_plan(sharding: Sharding, shape: tuple[int, ...]) -> tuple[list[Device], tuple[Index, ...] | None]:
    """Return how to split a host array of this shape over the devices of this process.

    Returns:
      (the devices of this process, the part of each one). The parts are None if each device gets the full array.
    """
    # Cached with the sharding, because a training loop puts the same batch shape at each step.
    try:
        return sharding.split_plans[shape]
    except KeyError:
        pass
    devices = list(sharding._internal_device_list.addressable_device_list)
    parts = None
    if not is_replicated(sharding):
        check_fits("device_put", shape, sharding)
        by_device = dict(zip(sharding_devices(sharding), index_map(sharding, shape)))
        parts = tuple(by_device[d] for d in devices)
    if len(sharding.split_plans) > 256:
        sharding.split_plans.clear()
    found = sharding.split_plans[shape] = devices, parts
    return found
