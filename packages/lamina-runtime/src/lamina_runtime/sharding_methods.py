"""The methods of jaxlib's two sharding classes."""
from __future__ import annotations

import copyreg
from importlib import import_module
from typing import Any

import numpy as np
from lamina_ir.extend import Tiles, tiles_of
from lamina_parallel.extend import placement_text

from . import _jaxlib, backends, owner, shardings
from ._jaxlib import HloSharding

__all__ = ["check_memory", "device_called", "positional"]

_one, _many = _jaxlib.SingleDeviceSharding, _jaxlib.GSPMDSharding


# --- by position ----------------------------------------------------------------------------------------------------
def positional(devices: tuple[Any, ...], places: np.ndarray) -> Any:
    """A `PositionalSharding`: `places[..., k]` are the numbers of the devices that hold the part there."""
    key = (devices, places.shape, places.tobytes())
    known = owner.current.faces
    found = known.get(key)
    if found is None:
        tiles = tiles_of(places.shape[:-1], places.shape[-1], places.reshape(-1).tolist())
        found = shardings.faced(devices, tiles, shardings.new_face())
        found._places = places
        found = known.setdefault(key, found)
    return found


def _places(self: Any, what: str) -> np.ndarray:
    if self._places is None:
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {what!r}")
    return self._places


def _reshape(self: Any, *shape: Any) -> Any:
    """The same devices in an array of another shape."""
    places = _places(self, "reshape")
    wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    try:
        found = places.reshape((*wanted, places.shape[-1]))
    except ValueError:
        raise ValueError(f"PositionalSharding.reshape: the shape {places.shape[:-1]} cannot become {tuple(wanted)}") from None
    return positional(shardings.sharding_devices(self), found)


def _transpose(self: Any, *axes: Any) -> Any:
    """The same devices, the axes in another order; default: turned round."""
    places = _places(self, "transpose")
    order = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
    n = places.ndim - 1
    order = tuple(reversed(range(n))) if not order else tuple([a % n for a in order])
    if sorted(order) != [*range(n)]:
        raise ValueError(f"PositionalSharding.transpose: expected each of {n} axes once; got {order}")
    return positional(shardings.sharding_devices(self), places.transpose((*order, n)))


def _replicate(self: Any, axis: Any = None, keepdims: bool = True) -> Any:
    """Copies along an axis (several, or all) instead of parts."""
    places = _places(self, "replicate")
    n = places.ndim - 1
    gone = [a % n for a in (range(n) if axis is None else (axis,) if isinstance(axis, int) else axis)]
    kept = [a for a in range(n) if a not in gone]
    shape = [1 if a in gone else places.shape[a] for a in (range(n) if keepdims else kept)]
    return positional(shardings.sharding_devices(self), places.transpose((*kept, *gone, n)).reshape((*shape, -1)))


# --- what lies where ------------------------------------------------------------------------------------------------
def _of_rank(self: Any, ndim: int) -> Any:
    return self if self._mesh is None else shardings.by_spec(self._mesh, self._spec, ndim)


def _shard_shape(self: Any, global_shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of one device's part of an array of `global_shape`; of the largest, where they are not of one size."""
    shape = tuple(global_shape)
    if shardings.is_replicated(self):
        return shape
    counts = _of_rank(self, len(shape))._hlo_sharding.tile_assignment_dimensions()
    return tuple(-(-n // k) for n, k in zip(shape, counts))


def _indices(self: Any, global_shape: tuple[int, ...]) -> dict[Any, Any]:
    """Device -> the part of an array of `global_shape` it holds."""
    shape = tuple(global_shape)
    sharding = shardings.interned(_of_rank(self, len(shape)))
    return dict(zip(shardings.sharding_devices(sharding), shardings.index_map(sharding, shape)))


def _own_indices(self: Any, global_shape: tuple[int, ...]) -> dict[Any, Any]:
    """The same, of this process's devices."""
    own = {*self._internal_device_list.addressable_device_list}
    return {d: index for d, index in _indices(self, global_shape).items() if d in own}


def _check_aval(self: Any, aval_shape: tuple[int, ...]) -> None:
    """ValueError if an array of this shape cannot lie so."""
    shardings.fitted("check_compatible_aval", tuple(aval_shape), self)


def _is_equivalent(self: Any, other: Any, ndim: int) -> bool:
    """Whether arrays of so many dimensions lie alike by both."""
    return isinstance(other, _jaxlib.Sharding) and bool(_of_rank(self, ndim) == _of_rank(other, ndim))


def check_memory(call: str, memory_kind: Any) -> None:
    """ValueError for another memory than the devices' own."""
    if memory_kind not in (None, "device", "unpinned_host"):  # what devices call theirs
        raise ValueError(f"{call}: memory_kind: arrays lie in the devices' own memory, 'device' or None; got {memory_kind!r}")


def _with_memory_kind(self: Any, kind: str) -> Any:
    """The same: there is one kind of memory."""
    check_memory("with_memory_kind", kind)
    return self


def _constraint(self: Any, aval: Any) -> tuple[str, tuple[int, ...]]:
    """What `with_sharding_constraint` writes of it, and the dimensions that are the compiler's."""
    sharding = shardings.interned(_of_rank(self, aval.ndim))
    counts = sharding.tiles.counts
    if counts and len(counts) != aval.ndim:
        raise ValueError(f"with_sharding_constraint: the sharding must be of arrays with {aval.ndim} axes, as {aval.long()}; "
                         f"got one for {len(counts)} axes: {sharding}")
    return placement_text(sharding.tiles, shardings.sharding_devices(sharding), self._mesh), sharding.free


# --- comparing, printing, pickling ----------------------------------------------------------------------------------
def _equal_single(self: Any, other: Any) -> bool:
    return self is other or (type(other) is _one and self._device == other._device)


def _equal_many(self: Any, other: Any) -> bool:
    return self is other or (type(other) is _many and self.lies == other.lies
                             and self._internal_device_list == other._internal_device_list)


def _said(self: Any) -> str | None:
    if self._mesh is not None:
        return f"NamedSharding(mesh={self._mesh!r}, spec={self._spec!r})"
    if self._places is not None:
        devices = shardings.sharding_devices(self)
        grid = np.empty(self._places.shape[:-1], object)
        for at in np.ndindex(*grid.shape):
            held = [str(devices[i]) for i in self._places[at]]
            grid[at] = held[0] if len(held) == 1 else "{" + ", ".join(held) + "}"
        return f"PositionalSharding({grid.tolist()})".replace("'", "")
    return None


def _repr_many(self: Any) -> str:
    said = _said(self)
    if said is not None:
        return said
    devices = ", ".join(str(d) for d in self._internal_device_list)
    dims = self.mapped_dims
    if dims:
        return f"MappedSharding(dims={dims}, devices=[{devices}])"
    if self._hlo_sharding.is_replicated():
        return f"ReplicatedSharding(devices=[{devices}])"
    return f"GSPMDSharding({self._hlo_sharding}, devices=[{devices}])"


def _reduced(self: Any) -> Any:
    if self._mesh is not None:
        return shardings.by_spec, (self._mesh, self._spec)
    if self._places is not None:
        return positional, (shardings.sharding_devices(self), self._places)
    if type(self) is _one:
        return shardings.single, (self._device,)
    return _restored, (shardings.sharding_devices(self), self._hlo_sharding.to_proto())


def _restored(devices: tuple[Any, ...], tiles: Any) -> Any:
    return shardings.gspmd(devices, HloSharding.from_proto(tiles))


def device_called(platform: str, number: int) -> Any:
    """The device of this number, for pickles. RuntimeError where there is none."""
    here = backends.devices(platform)
    for d in here:
        if d.id == number:
            return d
    raise RuntimeError(f"what was pickled names device {number} of platform {platform!r}; here the numbers are "
                       f"{[d.id for d in here]}. Run with as many devices as where it was pickled")


class _Lies:
    """`lies` of a sharding that is not ours."""

    def __get__(self, x: Any, kind: Any = None) -> Any:
        return shardings.interned(x).lies


def _known(what: str) -> property:
    def get(self: Any) -> Any:
        found = getattr(self, f"_{what}")
        if found is None:
            raise AttributeError(f"this sharding has no {what}, it was not made of a mesh: {self!r}")
        return found
    return property(get)


def specs() -> Any:
    """The module of the words for rows."""
    return import_module(f"{__package__}.sharding_spec")  # seldom needed


def _sharding_spec(self: Any) -> Any:
    """How rows lie, one on a device, as a `ShardingSpec`."""
    found = specs().spec_of(self.tiles) if self._mesh is None and self._places is None and self.mapped_dims else None
    if found is None:
        raise AttributeError(f"this placement has no sharding_spec, which says how rows lie along axes of devices: {self!r}")
    return found


def _no_feed(name: str) -> Any:
    def refuse(self: Any, *args: Any) -> Any:
        raise NotImplementedError(f"{name}: devices have no feeds here; let the program call a function on the host, with "
                                  "lamina.experimental.io_callback(function, result_shape_dtypes, ordered=True)")
    return refuse


def _install() -> None:
    # jaxlib's call path knows these two classes by their exact type, so they are dressed instead of derived from; what it
    # looks up in Python (`memory_kind`, `_to_xla_hlo_sharding`) it finds on the class.
    one, many, whole = _one, _many, HloSharding.replicate()
    one._to_xla_hlo_sharding = lambda self, ndim: whole
    many._to_xla_hlo_sharding = lambda self, ndim: self.__dict__.get("plain", self._hlo_sharding)
    one.__eq__, many.__eq__ = _equal_single, _equal_many
    one.__hash__ = lambda self: hash(self._device)
    many.__hash__ = lambda self: hash(self.lies)
    one.__repr__ = lambda self: _said(self) or f"SingleDeviceSharding(device={self._device!r})"
    many.__repr__ = _repr_many
    copyreg.pickle(_jaxlib.Device, lambda self: (device_called, (self.platform, self.id)))
    one.num_devices = 1
    many.num_devices = property(lambda self: len(self._internal_device_list))
    many.mapped_dims = one.mapped_dims = many.holders = one.holders = ()
    many.partly_copied = one.partly_copied = False
    one.tiles, many.lies = Tiles(), _Lies()
    many.on_host = one.on_host = False
    for name in ("transfer_to_infeed", "transfer_from_outfeed"):
        setattr(_jaxlib.Device, name, _no_feed(name))
    for kind in (_jaxlib.Sharding, one, many):
        kind.memory_kind, kind.with_memory_kind = None, _with_memory_kind
        kind.device_set = property(lambda self: set(shardings.sharding_devices(self)))
        kind.is_fully_replicated = property(shardings.is_replicated)
        kind.is_fully_addressable = property(lambda self: self._internal_device_list.is_fully_addressable)
        kind.addressable_devices = property(lambda self: set(self._internal_device_list.addressable_device_list))
        kind.devices_indices_map, kind.addressable_devices_indices_map = _indices, _own_indices
        kind.shard_shape, kind.is_equivalent_to = _shard_shape, _is_equivalent
    for kind in (one, many):
        kind._mesh = kind._spec = kind._places = None
        kind.free, kind.face = (), 0
        kind.mesh, kind.spec = _known("mesh"), _known("spec")
        kind.__reduce__ = _reduced
        kind.check_compatible_aval, kind.constraint = _check_aval, _constraint
        kind.reshape, kind.transpose, kind.replicate = _reshape, _transpose, _replicate
        kind.T = property(_transpose)
        kind.sharding_spec = property(_sharding_spec)
        kind.devices = property(lambda self: np.array(shardings.sharding_devices(self), object))
        kind.shape = property(lambda self: _places(self, "shape").shape[:-1])
        kind.ndim = property(lambda self: _places(self, "ndim").ndim - 1)


_install()
