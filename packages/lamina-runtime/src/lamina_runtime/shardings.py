"""Where the parts of an array lie: jaxlib's own sharding classes, given a Python face and interned.

Exactly two classes are used, because jaxlib's call path looks for exactly these: `SingleDeviceSharding` and
`GSPMDSharding`. One object stands for one placement, so comparing is mostly a matter of identity.

A sharding that a user said in names, by a mesh and a spec, is an object of the same classes that knows them, one for each
rank. It is equal to others that place arrays alike, and jaxlib, which compares in its own way, tells it from them by a number
(`face`), so that a repeated call gives results in the names of its own arguments.

A mapped array (made by `pmap`) is tiled with one row per device along its mapped axes. `mapped_dims` of a sharding are
the dimensions that are split at all. The compiler may give the tiles of a result to the devices in any order (those of a
reversed array go to the devices backwards), so a tile is never looked for at its own number: `holders` says who has it.
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
from lamina_parallel.extend import mesh_in_scope, spec_of, tiles_for

from . import _jaxlib, owner
from ._jaxlib import DeviceList, GSPMDSharding, HloSharding, SingleDeviceSharding

__all__ = ["by_spec", "check_fits", "device_list", "faced", "fitted", "gspmd", "in_words", "index_map", "interned",
           "is_replicated", "mapped", "named", "new_face", "part", "plan", "replicated", "sharding_devices", "single",
           "tiled"]

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


def gspmd(devices: tuple[Any, ...], tiles: Any, face: int = 0) -> Any:
    """The placement over several devices that a tile assignment describes; those with a face are told from others by it."""
    key = (devices, tiles, face)
    known = owner.current.gspmds
    found = known.get(key)
    if found is None:
        if len(known) > 4096:
            known.clear()
        found = GSPMDSharding(device_list(devices), _marked(tiles, face) if face else tiles)
        found.on_host = devices[0].platform == "cpu"
        found.parts = {}  # shape -> what each device holds
        found.plans = {}  # shape -> how host arrays are split
        found.mapped_dims = _split_dims(tiles)
        found.partly_copied = tiles.is_tiled() and tiles.replicate_on_last_tile_dim()
        found.holders = _holders(tiles)
        found.tiles = Tiles.parse(str(tiles)) if tiles.is_tiled() else Tiles()
        found.plain, found.face, found.lies = tiles, face, _lies(tiles, found.tiles)
        found = known.setdefault(key, found)
    return found


def _marked(tiles: Any, face: int) -> Any:
    """The same tiles, which jaxlib's call object takes for others. The compiler never sees the mark."""
    proto = tiles.to_proto()
    proto.is_shard_group, proto.shard_group_id = True, face
    return HloSharding.from_proto(proto)


def _lies(hlo: Any, tiles: Tiles) -> Any:
    """The same for all tile assignments by which each device holds the same part of an array, of whatever rank."""
    if not hlo.is_tiled():
        return () if hlo.is_replicated() else str(hlo)
    places, counts = tiles.positions(), [*tiles.counts]
    if tiles.copies > 1:
        places.sort(axis=-1)
    while counts and counts[-1] == 1:
        counts.pop()
    return tuple(counts), places.tobytes()


# --- in names -------------------------------------------------------------------------------------------------------
_faces = itertools.count(1)


def new_face() -> int:
    """Another number by which jaxlib tells a placement from those that place arrays alike."""
    return next(_faces)


def faced(devices: tuple[Any, ...], tiles: Tiles, face: int) -> Any:
    """What `tiled` gives, told from it."""
    if len(devices) > 1:
        return gspmd(devices, _REPLICATED if tiles.whole else _hlo_tiles(tiles), face)
    owner.check_open(devices[0])
    found = SingleDeviceSharding(devices[0])
    found.on_host, found.face = devices[0].platform == "cpu", face
    return found


def by_spec(mesh: Mesh, spec: PartitionSpec, ndim: int | None = None, call: str | Callable[[], str] = "NamedSharding") -> Any:
    """The placement that a spec says in the names of a mesh's axes, of arrays of so many dimensions; None: of as many as it has
    entries. ValueError where it does not."""
    known = owner.current.faces.get((mesh, spec))
    rank = len(spec) if ndim is None else ndim
    found = None if known is None else known[1].get(rank)
    if found is not None:
        return found
    tiles, free = tiles_for(mesh, spec, rank, call if isinstance(call, str) else call())
    devices = mesh.flat_devices
    if known is None:
        if len(owner.current.faces) > 4096:
            owner.current.faces.clear()
        known = owner.current.faces.setdefault((mesh, spec), (new_face(), {}))
    face, ranks = known
    found = faced(devices, tiles, face)
    found._mesh, found._spec, found.free = mesh, spec, free
    return ranks.setdefault(rank, found)


def in_words(mesh: Mesh, sharding: Any, ndim: int) -> Any:
    """The same placement in the names of a mesh, which has just its devices; itself where the mesh has no words for it."""
    known = owner.current.faces.setdefault((mesh, "read"), (0, {}))[1]
    key = (sharding.tiles, ndim)
    if key not in known:
        if len(known) > 1024:
            known.clear()
        known[key] = spec_of(mesh, sharding.tiles)
    spec = known[key]
    return sharding if spec is None else by_spec(mesh, spec, ndim)


def fitted(call: str | Callable[[], str], shape: tuple[int, ...], given: Any) -> Any:
    """Our own object for a placement that a user gave, as it is of arrays of this shape: a sharding, or a spec in the mesh in
    scope. ValueError where it does not fit them. `call` is who asks, or says it."""
    if type(given) is PartitionSpec:
        mesh = mesh_in_scope()
        if mesh is None:
            raise ValueError(f"{_said(call)}: {given!r} names axes of a mesh, and no mesh is in scope. Call it in a block "
                             "`with mesh:`, or give NamedSharding(mesh, spec)")
        sharding = by_spec(mesh, given, len(shape), call)
    elif not hasattr(given, "_mesh"):
        raise ValueError(f"{_said(call)}: expected a device or a sharding to put the array on; got {type(given).__name__}: "
                         f"{given!r:.60}. Devices are in lamina.devices()")
    elif given._mesh is not None:
        sharding = by_spec(given._mesh, given._spec, len(shape), call)
    else:
        sharding = interned(given)
    if sharding.free:
        raise ValueError(f"{_said(call)}: {sharding._spec!r} leaves dimension {sharding.free[0]} to the compiler, which is for "
                         "with_sharding_constraint. Name an axis, or None")
    check_fits(call, shape, sharding)
    return sharding


# --- which part lies where ------------------------------------------------------------------------------------------
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
            by = f"{sharding} cuts it into {k} parts" if sharding._mesh is None else (
                f"{sharding._spec} cuts it into {k} parts along {sharding._spec[d]!r} of {sharding._mesh}")
            raise ValueError(f"{_said(call)}: dimension {d} of an array of shape {shape} has length {n}, which cannot be split "
                             f"over {k} devices evenly: {by}. Pad it to a multiple of {k}, or split another dimension")


def _said(call: str | Callable[[], str]) -> str:
    return call if isinstance(call, str) else call()


def interned(sharding: Any) -> Any:
    """Our own object for a placement that a user gave, who may have made one of jaxlib's class."""
    owner.check_open(sharding._internal_device_list[0])
    if type(sharding) is SingleDeviceSharding or "plans" in sharding.__dict__:
        return sharding
    return gspmd(sharding_devices(sharding), sharding._hlo_sharding)


_PLAIN = frozenset((int, bool, str, type(None), frozenset))


def named(x: Any) -> Any:
    """A value that tells devices and placements, in tuples as well, from others, and does not keep their clients. What jaxlib
    finds a call by stays as long as the function does."""
    if isinstance(x, _jaxlib.Device):
        return weakref.ref(x.client), x.id
    if isinstance(x, _jaxlib.Sharding):
        devices = sharding_devices(x)
        tiles = str(x._to_xla_hlo_sharding(0))  # which would hold x
        return weakref.ref(devices[0].client), tuple([d.id for d in devices]), tiles, x.face
    return tuple([y if type(y) in _PLAIN else named(y) for y in x]) if type(x) is tuple else x


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
