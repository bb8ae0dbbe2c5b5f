"""`Mesh`: an array of devices whose axes have names, and `with mesh:`, the mesh in scope.

Devices must be comparable and have `platform`, `id` and `process_index`.
"""
from __future__ import annotations

import math
import threading
import weakref
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias
from functools import cached_property

import numpy as np
from typing_extensions import override
from lamina_ir import config
from lamina_ir.typing import CacheKey, Device
from lamina_tracing.extend import enable_explicit_meshes

from .abstract_mesh import AbstractMesh, AxisType, format_axes, normalize_axis_types

__all__ = ["AbstractDevice", "Block", "Mesh", "enter_mesh", "exit_mesh", "local_mesh_shape", "mesh_in_scope",
           "mesh_without_devices", "with_axis_types"]

# The part of the cache key: names, sizes, ids of the devices, types of the axes. The mesh itself would keep its devices alive.
_in_scope = config.Option("mesh", None, keyed=True, check=lambda value: _check_scope(value),
                          help="the mesh of `with mesh:`, which sets it")


# An open block: the mesh, or None for a block without one, and the context of the setting.
Block: TypeAlias = "tuple[Mesh | None, AbstractContextManager[object]]"


class _Open(threading.local):
    """Per thread, the open blocks."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []


_open = _Open()
# value of the setting -> the mesh
_entered: weakref.WeakValueDictionary[CacheKey, Mesh] = weakref.WeakValueDictionary()


@dataclass(frozen=True)
class AbstractDevice:
    """A device of a mesh without devices.

    Args:
      id: its number.

    >>> AbstractDevice(3).platform
    'abstract'
    """

    id: int
    platform: str = "abstract"
    process_index: int = 0

    @override
    def __repr__(self) -> str:
        return f"{self.platform}:{self.id}"


def mesh_without_devices(mesh: AbstractMesh) -> Mesh:
    """Return the mesh that is in scope while programs are traced for an abstract mesh.

    >>> mesh_without_devices(AbstractMesh((4,), ("x",))).is_abstract
    True
    """
    return Mesh(np.array([AbstractDevice(i) for i in range(mesh.size)], object).reshape(mesh.axis_sizes), mesh.axis_names,
                mesh.axis_types)


class Mesh:
    """An array of devices with a name for each axis; a `PartitionSpec` assigns the axes to the dimensions of arrays.

    In a block `with mesh:` a `PartitionSpec` alone denotes a sharding over this mesh. Blocks may be nested, also blocks
    of one mesh; the innermost block of the thread applies.

    Args:
      devices: an array or nested list of devices, of one platform, each once.
      axis_names: a name for each axis of it, or one name.
      axis_types: an `AxisType` for all axes, or one for each; None: `AxisType.Auto`.
    Attributes:
      devices: an array of devices.
      axis_names, axis_types: tuples.
      shape: name -> length of the axis, in order.
      size: the number of devices.
    Raises:
      TypeError: `devices` contains something else than devices, or a name is invalid.
      ValueError: there is no device, a device occurs twice, devices are of two platforms, or the number of names or
        axis types is wrong.

    >>> from lamina_parallel.testing import fake_devices
    >>> mesh = Mesh(np.reshape(fake_devices(8), (4, 2)), ("x", "y"))
    >>> mesh
    Mesh('x': 4, 'y': 2)
    >>> mesh.shape["y"], mesh.size
    (2, 8)
    """

    devices: np.ndarray
    axis_names: tuple[Hashable, ...]
    axis_types: tuple[AxisType, ...]

    def __init__(self, devices: Device, axis_names: Hashable | Sequence[Hashable],
                 axis_types: AxisType | Sequence[AxisType] | None = None) -> None:
        grid = _grid(devices)
        names = tuple(axis_names) if isinstance(axis_names, (tuple, list)) else (axis_names,)
        flat = _check_devices(grid, names)
        self.axis_types = normalize_axis_types("Mesh", axis_types, len(names))
        if AxisType.Explicit in self.axis_types:
            import_module("lamina_parallel._explicit.traced")  # on demand: it installs the analysis
            enable_explicit_meshes()
        grid.flags.writeable = False
        self.devices, self.axis_names = grid, names
        self._key = names, grid.shape, tuple(flat), self.axis_types
        self._hash = hash(self._key)
        self.token = names, grid.shape, flat[0].platform, tuple([d.id for d in flat]), self.axis_types

    @property
    def is_abstract(self) -> bool:
        """Whether the mesh stands for an `AbstractMesh`, so that its devices exist only while programs are traced."""
        return isinstance(self.flat_devices[0], AbstractDevice)

    @property
    def flat_devices(self) -> tuple[Device, ...]:
        """The devices in row-major order."""
        return self._key[2]

    @cached_property
    def shape(self) -> OrderedDict[Hashable, int]:
        return OrderedDict(zip(self.axis_names, self.devices.shape))

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return self.devices.shape

    @cached_property
    def explicit_axes(self) -> frozenset[Hashable]:
        """The names of the axes whose type is `Explicit`."""
        return frozenset([name for name, kind in zip(self.axis_names, self.axis_types) if kind is AxisType.Explicit])

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The names, sizes and types of the axes, without the devices."""
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types)

    @property
    def shape_tuple(self) -> tuple[tuple[Hashable, int], ...]:
        """(name, length) of each axis."""
        return tuple(self.shape.items())

    @property
    def size(self) -> int:
        return self.devices.size

    @property
    def empty(self) -> bool:
        """False: a mesh has devices."""
        return self.size == 0

    @property
    def device_ids(self) -> np.ndarray:
        """The ids of the devices."""
        return np.array([d.id for d in self.flat_devices]).reshape(self.devices.shape)

    @cached_property
    def _own(self) -> np.ndarray:
        """Which devices belong to this process."""
        client = getattr(self.flat_devices[0], "client", None)
        here = 0 if client is None else client.process_index()
        return np.array([d.process_index == here for d in self.flat_devices]).reshape(self.devices.shape)

    @cached_property
    def _processes(self) -> np.ndarray:
        """The process index of each device."""
        return np.array([d.process_index for d in self.flat_devices]).reshape(self.devices.shape)

    @cached_property
    def _blocks(self) -> tuple[dict[int, tuple[int, ...] | None], tuple[int, ...] | None]:
        """Process -> extent of its block of devices along each axis, None if its devices form no block; and the extent
        of this process's block."""
        found: dict[int, tuple[int, ...] | None] = {}
        for process in sorted({*self._processes.reshape(-1).tolist()}):
            theirs = self._processes == process
            sizes = tuple([len(np.unique(at)) for at in np.nonzero(theirs)])
            found[process] = sizes if math.prod(sizes) == theirs.sum() else None
        own = self._processes[self._own]
        return found, found[int(own[0])] if own.size else None

    @property
    def local_devices(self) -> list[Device]:
        """The devices of this process."""
        return self.devices[self._own].tolist()

    @property
    def is_multi_process(self) -> bool:
        """Whether some devices belong to other processes."""
        return not self._own.all()

    @property
    def local_mesh(self) -> Mesh:
        """The mesh of this process's devices, a block of this mesh. Raises ValueError if they do not form a block."""
        own = self._own
        inside = np.ix_(*[np.unique(at) for at in np.nonzero(own)])
        if not own.any() or not own[inside].all():
            raise ValueError(f"local_mesh: this process's devices {self.local_devices} do not form a block of {self}, whose "
                             f"devices are {self.device_ids.tolist()}. Give the devices of a process adjacent positions")
        return self if own.all() else Mesh(self.devices[inside], self.axis_names, self.axis_types)

    def __enter__(self) -> Mesh:
        enter_mesh(self)
        return self

    def __exit__(self, *error: Any) -> None:
        block = next((block for block in reversed(_open.blocks) if block[0] is self), None)
        if block is None:
            raise RuntimeError(f"{self}: its block was not entered in this thread")
        exit_mesh(block)

    @override
    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Mesh) and self._key == other._key)

    @override
    def __hash__(self) -> int:
        return self._hash

    @override
    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return Mesh, (self.devices, self.axis_names, self.axis_types)

    @override
    def __repr__(self) -> str:
        return f"Mesh({format_axes(self.shape.items(), self.axis_types)})"

    def _repr_html_(self) -> str:
        from lamina_ir.extend import html  # noqa: PLC0415 (on demand: only notebooks need it)
        facts = [("axes", ", ".join([f"{name!r}: {n}" for name, n in self.shape.items()])),
                 ("devices", f"{self.size} ({self.flat_devices[0].platform})")]
        if self.is_multi_process:
            facts.append(("this process", f"{len(self.local_devices)} devices"))
        several = self.devices.ndim > 1
        rows = self.devices.reshape(self.devices.shape[0] if several else 1, -1)
        across = ", ".join(map(str, self.axis_names[several:]))
        note = f"{self.axis_names[0]} down, {across} across" if several else f"{across} across"
        texts = [[_device_text(d, self.is_multi_process) for d in row] for row in rows.tolist()]
        return html.fact_box("Mesh", facts, html.text_table(texts, note))


def _device_text(device: Device, with_process: bool) -> str:
    return f"{device.platform}:{device.id}{f' of process {device.process_index}' if with_process else ''}"


def enter_mesh(mesh: Mesh | None) -> Block:
    """Begin a block of this thread with a mesh in scope, or without one."""
    block = mesh, _in_scope(None if mesh is None else mesh.token)
    block[1].__enter__()
    if mesh is not None:
        _entered[mesh.token] = mesh
    _open.blocks.append(block)
    return block


def exit_mesh(block: Block) -> None:
    """End a block, which need not be the innermost one. Raise RuntimeError if it is not open in this thread."""
    if block not in _open.blocks:
        raise RuntimeError(f"{block[0]}: its block was not entered in this thread")
    _open.blocks.remove(block)
    block[1].__exit__(None, None, None)


def local_mesh_shape(lead: str, mesh: Mesh) -> tuple[int, ...]:
    """Return the extent of this process's block of a mesh along each axis; () if the mesh has no devices of other
    processes.

    Args:
      lead: the call, for messages.
      mesh: the mesh.
    Raises:
      ValueError: this process has no device of the mesh, or the devices of a process form no block.

    >>> from lamina_parallel.testing import fake_devices
    >>> local_mesh_shape("xmap", Mesh(fake_devices(4), "x"))
    ()
    """
    if not mesh.is_multi_process:
        return ()
    found, own = mesh._blocks
    for process, block in found.items():
        if block is None:
            raise ValueError(f"{lead}: the devices of process {process} do not form a block of {mesh}, whose devices are of "
                             f"the processes {mesh._processes.tolist()}: they must be a "
                             "sub-grid, the product of some indices of each axis. Arrange the devices so, as "
                             "np.reshape(lamina.devices(), (process count, -1)) does")
    if own is None:
        raise ValueError(f"{lead}: {mesh} has no devices of this process, so it has no part of the arguments: call it in the "
                         "processes whose devices the mesh has")
    return own


def mesh_in_scope() -> Mesh | None:
    """Return the mesh of the innermost `with mesh:` of this thread.

    A program that is traced later for code in such a block, as custom rules are, uses the mesh of that block.

    Returns:
      A mesh, or None outside of such blocks.
    Raises:
      RuntimeError: a program is traced for a block whose mesh has been deleted.

    >>> mesh_in_scope() is None
    True
    """
    token = _in_scope.value
    if token is None:
        return None
    blocks = _open.blocks
    innermost = blocks[-1][0] if blocks else None
    if innermost is not None and innermost.token == token:
        return innermost
    found = _entered.get(token)
    if found is None:
        axes = ", ".join([f"{name!r}: {n}" for name, n in zip(*token[:2])])
        raise RuntimeError(f"with mesh: the function being traced belongs to a block whose mesh, with the axes {axes}, has "
                           "been deleted. Keep the mesh as long as the functions that were called in its block")
    return found


def with_axis_types(mesh: Mesh, axes: Sequence[int], kind: AxisType) -> Mesh:
    """Return a mesh with another type of some axes.

    Args:
      mesh: the mesh.
      axes: the numbers of the axes; empty: all.
      kind: their type.

    >>> from lamina_parallel.testing import fake_devices
    >>> with_axis_types(Mesh(fake_devices(4), "x"), [0], AxisType.Explicit)
    Mesh('x': 4, axis_types=(Explicit,))
    """
    return Mesh(mesh.devices, mesh.axis_names,
                [kind if not axes or i in axes else old for i, old in enumerate(mesh.axis_types)])


def _grid(devices: Device) -> np.ndarray:
    if isinstance(devices, np.ndarray):
        return devices.astype(object)
    found = np.array(devices, dtype=object)  # its shape is that of the nested lists; a new array
    if found.size and any(isinstance(d, (list, tuple)) for d in found.reshape(-1)):
        raise ValueError("Mesh: devices: the nested lists must be of equal lengths, as the rows of a grid are")
    return found


def _check_devices(grid: np.ndarray, names: tuple[Hashable, ...]) -> list[Device]:
    """Check the devices and names of a mesh and return the devices in row-major order."""
    flat = grid.reshape(-1).tolist()
    if not flat:
        raise ValueError(f"Mesh: devices: there must be at least one device; got an array of shape {grid.shape}")
    for d in flat:
        if not (hasattr(d, "platform") and hasattr(d, "id") and hasattr(d, "process_index")):
            raise TypeError("Mesh: devices: expected devices, as lamina.devices() gives them; got "
                            f"{type(d).__name__}: {d!r:.60}")
    if grid.ndim != len(names):
        raise ValueError(f"Mesh: axis_names: expected a name for each axis of devices, which have the shape {grid.shape}; got "
                         f"{len(names)}: {names}. Reshape the devices, as np.reshape(lamina.devices(), (4, 2))")
    for name in names:
        try:
            hash(name)
        except TypeError:
            raise TypeError(f"Mesh: axis_names: a name must be hashable; got {type(name).__name__}: {name!r:.60}") from None
        if name is None or isinstance(name, tuple):
            raise TypeError(f"Mesh: axis_names: {name!r} cannot be a name: in a PartitionSpec it means something else")
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise ValueError(f"Mesh: axis_names: {twice[0]!r} names two axes: {names}. Give each its own name")
    seen = set()
    for d in flat:
        if d in seen:
            raise ValueError(f"Mesh: devices: {d} occurs twice. A device may occur only once in a mesh")
        seen.add(d)
    platforms = sorted({d.platform for d in flat})
    if len(platforms) > 1:
        raise ValueError(f"Mesh: devices: the devices of a mesh must be of one platform; got {', '.join(platforms)}")
    return flat


def _check_scope(value: object) -> None:
    if value is not None and not (isinstance(value, tuple) and len(value) == 5):
        raise TypeError(f"config mesh: the setting is changed only by `with mesh:`; got {value!r:.60}")
