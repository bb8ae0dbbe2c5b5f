"""Set the methods of shardings on jaxlib's two sharding classes."""
from __future__ import annotations

import copyreg
from importlib import import_module
from typing import Any, NoReturn
from collections.abc import Callable, Sequence
from types import ModuleType

import numpy as np
from lamina_ir.extend import Tiles, make_tiles
from lamina_parallel.extend import check_explicit_spec, explicit_spec, format_placement, spec_entries
from lamina_ir.typing import CacheKey, Device, Function, Sharding, Tree
from lamina_ir import ShapedArray
from lamina_parallel import Mesh, PartitionSpec

from .. import _jaxlib
from .._backend import backends, client_state
from . import shardings
from .._jaxlib import HloSharding
from .._typing import OpSharding

__all__ = ["check_memory_kind", "find_device", "positional_sharding"]

_Single, _Gspmd = _jaxlib.SingleDeviceSharding, _jaxlib.GSPMDSharding


# --- positional shardings -------------------------------------------------------------------------------------------
def positional_sharding(devices: tuple[Device, ...], grid: np.ndarray) -> Sharding:
    """Return a `PositionalSharding`; `grid[..., k]` are the indices into `devices` of the holders of the part there."""
    key = (devices, grid.shape, grid.tobytes())
    known = client_state.current.sharding_aliases
    found = known.get(key)
    if found is None:
        tiles = make_tiles(grid.shape[:-1], grid.shape[-1], grid.reshape(-1).tolist())
        found = shardings.aliased_sharding(devices, tiles, shardings.new_sharding_alias())
        found._device_grid = grid
        found = known.setdefault(key, found)
    return found


def _device_grid(self: Sharding, what: str) -> np.ndarray:
    if self._device_grid is None:
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {what!r}")
    return self._device_grid


def _reshape(self: Sharding, *shape: int | Sequence[int]) -> Sharding:
    """Return the sharding with its devices in an array of another shape."""
    grid = _device_grid(self, "reshape")
    new_shape = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    try:
        new_grid = grid.reshape((*new_shape, grid.shape[-1]))
    except ValueError:
        raise ValueError(f"PositionalSharding.reshape: the shape {grid.shape[:-1]} cannot become "
                         f"{tuple(new_shape)}") from None
    return positional_sharding(shardings.sharding_devices(self), new_grid)


def _transpose(self: Sharding, *axes: Any) -> Sharding:
    """Return the sharding with the axes of its devices permuted; default: reversed."""
    grid = _device_grid(self, "transpose")
    order = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
    n = grid.ndim - 1
    order = tuple(reversed(range(n))) if not order else tuple([a % n for a in order])
    if sorted(order) != [*range(n)]:
        raise ValueError(f"PositionalSharding.transpose: expected each of {n} axes once; got {order}")
    return positional_sharding(shardings.sharding_devices(self), grid.transpose((*order, n)))


def _replicate(self: Sharding, axis: int | Sequence[int] | None = None, keepdims: bool = True) -> Sharding:
    """Return the sharding with copies instead of parts along an axis, several axes, or all (None)."""
    grid = _device_grid(self, "replicate")
    n = grid.ndim - 1
    copied = [a % n for a in (range(n) if axis is None else (axis,) if isinstance(axis, int) else axis)]
    split = [a for a in range(n) if a not in copied]
    shape = [1 if a in copied else grid.shape[a] for a in (range(n) if keepdims else split)]
    return positional_sharding(shardings.sharding_devices(self), grid.transpose((*split, *copied, n)).reshape((*shape, -1)))


# --- parts of arrays ------------------------------------------------------------------------------------------------
def _of_rank(self: Sharding, ndim: int) -> Sharding:
    """Return the sharding for arrays with `ndim` dimensions: a named sharding has one object per rank."""
    return self if self._mesh is None else shardings.named_sharding(self._mesh, self._spec, ndim)


def _shard_shape(self: Sharding, global_shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of one device's part of an array of shape `global_shape`; of the largest if they differ."""
    shape = tuple(global_shape)
    if shardings.is_replicated(self):
        return shape
    counts = _of_rank(self, len(shape))._hlo_sharding.tile_assignment_dimensions()
    return tuple(-(-n // k) for n, k in zip(shape, counts))


def _indices(self: Sharding, global_shape: tuple[int, ...]) -> dict[Device, shardings.Index]:
    """Return a dict from devices to the parts that they hold of an array of shape `global_shape`."""
    shape = tuple(global_shape)
    sharding = shardings.intern_sharding(_of_rank(self, len(shape)))
    return dict(zip(shardings.sharding_devices(sharding), shardings.index_map(sharding, shape)))


def _own_indices(self: Sharding, global_shape: tuple[int, ...]) -> dict[Device, shardings.Index]:
    """Return `devices_indices_map` restricted to the devices of this process."""
    own = {*self._internal_device_list.addressable_device_list}
    return {d: index for d, index in _indices(self, global_shape).items() if d in own}


def _check_aval(self: Sharding, aval_shape: tuple[int, ...]) -> None:
    """Raise ValueError if arrays of this shape cannot have this sharding."""
    shardings.resolve_sharding("check_compatible_aval", tuple(aval_shape), self)


def _is_equivalent(self: Sharding, other: object, ndim: int) -> bool:
    """Return whether both shardings place arrays of rank `ndim` alike."""
    return isinstance(other, _jaxlib.Sharding) and bool(_of_rank(self, ndim) == _of_rank(other, ndim))


def check_memory_kind(call: str, memory_kind: object) -> None:
    """Raise ValueError for a memory kind other than the default one of devices."""
    if memory_kind not in (None, "device", "unpinned_host"):  # the names of the default memory
        raise ValueError(f"{call}: memory_kind must be 'device' or None: arrays are in the default memory of devices; "
                         f"got {memory_kind!r}")


def _with_memory_kind(self: Sharding, kind: str) -> Sharding:
    """Return the sharding itself: only the default memory kind is supported."""
    check_memory_kind("with_memory_kind", kind)
    return self


def _constraint(self: Sharding, aval: ShapedArray) -> tuple[str, tuple[int, ...]]:
    """Return (sharding text for `with_sharding_constraint`, dimensions that the compiler may split)."""
    sharding = shardings.intern_sharding(_of_rank(self, aval.ndim))
    counts = sharding.tiles.counts
    if counts and len(counts) != aval.ndim:
        raise ValueError(f"with_sharding_constraint: the sharding must be for arrays with {aval.ndim} axes, as "
                         f"{aval.str_long()}; got one for {len(counts)} axes: {sharding}")
    text = format_placement(sharding.tiles, shardings.sharding_devices(sharding), self._mesh)
    return text, sharding.unconstrained_dims


def _check_explicit(self: Sharding, call: str) -> None:
    """Raise ValueError unless the sharding is a NamedSharding over `Explicit` axes."""
    if self._mesh is None:
        raise ValueError(f"{call}: out_sharding: expected None, a PartitionSpec or a NamedSharding; got {self}")
    check_explicit_spec(self._mesh, self._spec, f"{call}: out_sharding")


def _explicit_of_rank(self: Sharding, ndim: int) -> Sharding:
    """Return the sharding over the `Explicit` axes of its mesh, with an entry for each of `ndim` dimensions.

    None if the mesh has no such axes.
    """
    if self._mesh is None or not self._mesh.explicit_axes:
        return None
    return shardings.named_sharding(self._mesh, explicit_spec(self._mesh, self._spec, ndim), ndim)


# --- comparing, printing, pickling ----------------------------------------------------------------------------------
def _equal_single(self: Sharding, other: Any) -> bool:
    return self is other or (type(other) is _Single and self._device == other._device)


def _equal_gspmd(self: Sharding, other: Any) -> bool:
    return self is other or (type(other) is _Gspmd and self.placement_key == other.placement_key
                             and self._internal_device_list == other._internal_device_list)


def _repr_named(self: Sharding) -> str | None:
    """Return the repr of a named or positional sharding; None for other shardings."""
    if self._mesh is not None:
        return f"NamedSharding(mesh={self._mesh!r}, spec={self._spec!r})"
    if self._device_grid is not None:
        devices = shardings.sharding_devices(self)
        grid = np.empty(self._device_grid.shape[:-1], object)
        for at in np.ndindex(*grid.shape):
            names = [str(devices[i]) for i in self._device_grid[at]]
            grid[at] = names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"
        return f"PositionalSharding({grid.tolist()})".replace("'", "")
    return None


def _repr_gspmd(self: Sharding) -> str:
    text = _repr_named(self)
    if text is not None:
        return text
    devices = ", ".join(str(d) for d in self._internal_device_list)
    dims = self.mapped_dims
    if dims:
        return f"MappedSharding(dims={dims}, devices=[{devices}])"
    if self._hlo_sharding.is_replicated():
        return f"ReplicatedSharding(devices=[{devices}])"
    return f"GSPMDSharding({self._hlo_sharding}, devices=[{devices}])"


def _repr_html(self: Sharding) -> str:
    from .sharding_html import sharding_html  # noqa: PLC0415 (on demand: only notebooks need it)
    return sharding_html(self)


# A pickle contains the module and name of the function that `__reduce__` returns. Renaming or moving one of these
# functions makes older pickles unreadable.
def _reduce(self: Sharding) -> tuple[Function, tuple[object, ...]]:
    if self._mesh is not None:
        return shardings.named_sharding, (self._mesh, self._spec)
    if self._device_grid is not None:
        return positional_sharding, (shardings.sharding_devices(self), self._device_grid)
    if type(self) is _Single:
        return shardings.single_device_sharding, (self._device,)
    return _restore_gspmd, (shardings.sharding_devices(self), self._hlo_sharding.to_proto())


def _restore_gspmd(devices: tuple[Device, ...], tiles: OpSharding) -> Sharding:
    return shardings.gspmd_sharding(devices, HloSharding.from_proto(tiles))


def find_device(platform: str, number: int) -> Device:
    """Return the device with this number, when unpickling. RuntimeError if it does not exist."""
    every = backends.devices(platform)
    for d in every:
        if d.id == number:
            return d
    raise RuntimeError(f"the pickle names device {number} of platform {platform!r}; here the numbers are "
                       f"{[d.id for d in every]}. Run with as many devices as where it was pickled")


class _PlacementKey:
    """Descriptor of `placement_key` for shardings that are not interned."""

    def __get__(self, x: Sharding, kind: type | None = None) -> CacheKey:
        return shardings.intern_sharding(x).placement_key


def _named_property(what: str) -> property:
    def get(self: Sharding) -> Mesh | PartitionSpec:
        found = getattr(self, f"_{what}")
        if found is None:
            raise AttributeError(f"this sharding has no {what}, because it was not made from a mesh: {self!r}")
        return found
    return property(get)


def pmap_spec_module() -> ModuleType:
    """Return the module of `ShardingSpec`, which is rarely needed and so imported on first use."""
    return import_module(f"{__package__}.pmap_spec")


def _sharding_spec(self: Sharding) -> Any:
    """The `ShardingSpec` of a mapped array's sharding."""
    is_mapped = self._mesh is None and self._device_grid is None and self.mapped_dims
    found = pmap_spec_module().spec_from_tiles(self.tiles) if is_mapped else None
    if found is None:
        raise AttributeError("this sharding has no sharding_spec: only shardings of mapped arrays have one; got "
                             f"{self!r}")
    return found


def _refuse_feed(name: str) -> Callable[..., NoReturn]:
    def refuse(self: Sharding, *args: Tree) -> NoReturn:
        raise NotImplementedError(f"{name}: devices have no feeds; call a function on the host instead, with "
                                  "lamina.experimental.io_callback(function, result_shape_dtypes, ordered=True)")
    return refuse


def _install() -> None:
    # jaxlib's call path tests for exactly these two classes, so they get their methods by assignment instead of by
    # subclassing. jaxlib looks up `memory_kind` and `_to_xla_hlo_sharding` in Python, on the class.
    one, many, replicated = _Single, _Gspmd, HloSharding.replicate()
    _jaxlib.Sharding.__doc__ = ("The base class of all shardings, which say how an array is divided over devices. "
                                "`x.sharding` is one; `NamedSharding` makes one.")
    one._to_xla_hlo_sharding = lambda self, ndim: replicated
    many._to_xla_hlo_sharding = lambda self, ndim: self.__dict__.get("plain_tiles", self._hlo_sharding)
    one.__eq__, many.__eq__ = _equal_single, _equal_gspmd
    one.__hash__ = lambda self: hash(self._device)
    many.__hash__ = lambda self: hash(self.placement_key)
    one.__repr__ = lambda self: _repr_named(self) or f"SingleDeviceSharding(device={self._device!r})"
    many.__repr__ = _repr_gspmd
    one._repr_html_ = many._repr_html_ = _repr_html
    copyreg.pickle(_jaxlib.Device, lambda self: (find_device, (self.platform, self.id)))
    one.num_devices = 1
    many.num_devices = property(lambda self: len(self._internal_device_list))
    # The class attributes below are the defaults of attributes that `shardings` sets on interned objects.
    many.mapped_dims = one.mapped_dims = many.tile_devices = one.tile_devices = ()
    many.is_partially_replicated = one.is_partially_replicated = False
    one.tiles, many.placement_key = Tiles(), _PlacementKey()
    many.on_host = one.on_host = False
    for name in ("transfer_to_infeed", "transfer_from_outfeed"):
        setattr(_jaxlib.Device, name, _refuse_feed(name))
    for kind in (_jaxlib.Sharding, one, many):
        kind.memory_kind, kind.with_memory_kind = None, _with_memory_kind
        kind.device_set = property(lambda self: set(shardings.sharding_devices(self)))
        kind.is_fully_replicated = property(shardings.is_replicated)
        kind.is_fully_addressable = property(lambda self: self._internal_device_list.is_fully_addressable)
        kind.addressable_devices = property(lambda self: set(self._internal_device_list.addressable_device_list))
        kind.devices_indices_map, kind.addressable_devices_indices_map = _indices, _own_indices
        kind.shard_shape, kind.is_equivalent_to = _shard_shape, _is_equivalent
    for kind in (one, many):
        kind._mesh = kind._spec = kind._device_grid = None
        kind.unconstrained_dims, kind.alias_id = (), 0
        kind.mesh, kind.spec = _named_property("mesh"), _named_property("spec")
        kind.__reduce__ = _reduce
        kind.explicit_of_rank, kind.check_explicit = _explicit_of_rank, _check_explicit
        kind.explicit_entries = property(lambda self: spec_entries(self._spec))
        kind.check_compatible_aval, kind.constraint = _check_aval, _constraint
        kind.reshape, kind.transpose, kind.replicate = _reshape, _transpose, _replicate
        kind.T = property(_transpose)
        kind.sharding_spec = property(_sharding_spec)
        kind.devices = property(lambda self: np.array(shardings.sharding_devices(self), object))
        kind.shape = property(lambda self: _device_grid(self, "shape").shape[:-1])
        kind.ndim = property(lambda self: _device_grid(self, "ndim").ndim - 1)


_install()
