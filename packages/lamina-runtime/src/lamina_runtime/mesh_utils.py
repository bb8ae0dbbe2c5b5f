"""Devices in grids, for meshes."""
from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from lamina_parallel import Mesh

from . import backends

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]


def _lengths(call: str, what: str, given: Any) -> tuple[int, ...]:
    found = (given,) if isinstance(given, (int, np.integer)) else tuple(given)
    for n in found:
        if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 1:
            raise ValueError(f"{call}: {what}: expected lengths of axes, whole numbers from 1; got {given!r:.60}")
    return tuple([int(n) for n in found])


def _grid(devices: Sequence[Any], shape: tuple[int, ...]) -> np.ndarray:
    found = np.empty(len(devices), object)
    found[:] = devices
    return found.reshape(shape)


def _by_id(call: str, devices: Sequence[Any] | None) -> list[Any]:
    every = backends.devices() if devices is None else list(np.asarray(devices, object).reshape(-1))
    return list(backends.check_devices(call, every))


def create_device_mesh(mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, *, contiguous_submeshes: bool = False,
                       allow_split_physical_axes: bool = False) -> np.ndarray:
    """An array of devices of a shape, to make a `Mesh` of.

    Args:
      mesh_shape: lengths of the axes, whose product is the number of devices.
      devices: the devices; default: all there are. They are laid row by row.
      contiguous_submeshes, allow_split_physical_axes: for machines whose devices are wired in grids; here they change nothing.
    Returns:
      An array of devices.
    Raises:
      ValueError: there are more or fewer devices.

    >>> import lamina_runtime
    >>> create_device_mesh((1, 1), lamina_runtime.devices()[:1]).shape
    (1, 1)
    """
    call = "create_device_mesh"
    shape, every = _lengths(call, "mesh_shape", mesh_shape), _by_id(call, devices)
    if math.prod(shape) != len(every):
        raise ValueError(f"{call}: mesh_shape: {shape} is of {math.prod(shape)} devices; there are {len(every)}. Give "
                         "devices=, as lamina.devices()[:4]")
    return _grid(every, shape)


def create_hybrid_device_mesh(mesh_shape: Sequence[int], dcn_mesh_shape: Sequence[int], devices: Sequence[Any] | None = None,
                              *, process_is_granule: bool = False, should_sort_granules_by_key: bool = True,
                              allow_split_physical_axes: bool = False) -> np.ndarray:
    """An array of devices for several groups that are joined by a slower network: axis by axis the groups are the slow part.

    Args:
      mesh_shape: lengths of the axes within each group.
      dcn_mesh_shape: as many lengths, over the groups.
      devices: the devices; default: all there are.
      process_is_granule: the groups are processes; otherwise slices, where devices know theirs.
      should_sort_granules_by_key: the groups in order of their numbers, otherwise in that of the devices.
      allow_split_physical_axes: changes nothing.
    Returns:
      An array of devices, of lengths `mesh_shape[i] * dcn_mesh_shape[i]`.
    Raises:
      ValueError: there are other numbers of groups, or of devices in a group.

    >>> import lamina_runtime
    >>> create_hybrid_device_mesh((1, 1), (1, 1), lamina_runtime.devices()[:1]).shape
    (1, 1)
    """
    call = "create_hybrid_device_mesh"
    inner, outer = _lengths(call, "mesh_shape", mesh_shape), _lengths(call, "dcn_mesh_shape", dcn_mesh_shape)
    if len(inner) != len(outer):
        raise ValueError(f"{call}: mesh_shape and dcn_mesh_shape must be equally long; got {inner} and {outer}")
    groups: dict[Any, list[Any]] = {}
    for d in _by_id(call, devices):
        own = None if process_is_granule else getattr(d, "slice_index", None)
        groups.setdefault(d.process_index if own is None else own, []).append(d)
    keys = sorted(groups) if should_sort_granules_by_key else list(groups)
    if len(keys) != math.prod(outer):
        raise ValueError(f"{call}: dcn_mesh_shape: {outer} is of {math.prod(outer)} groups; the devices are of {len(keys)}")
    for key in keys:
        if len(groups[key]) != math.prod(inner):
            raise ValueError(f"{call}: mesh_shape: {inner} is of {math.prod(inner)} devices; group {key} has "
                             f"{len(groups[key])}")
    found = np.empty([n * k for n, k in zip(inner, outer)], object)
    for at, key in zip(np.ndindex(*outer), keys):
        found[tuple([slice(i * n, i * n + n) for i, n in zip(at, inner)])] = _grid(groups[key], inner)
    return found


def make_mesh(axis_shapes: Sequence[int], axis_names: Sequence[Hashable], *, devices: Sequence[Any] | None = None) -> Mesh:
    """A mesh of devices laid row by row.

    Args:
      axis_shapes: lengths of the axes.
      axis_names: a name for each.
      devices: the devices; default: the first of all there are.
    Returns:
      A `Mesh`.
    Raises:
      ValueError: there are too few devices, or `devices` are of another number.

    >>> make_mesh((1,), ("x",))
    Mesh('x': 1)
    """
    call = "make_mesh"
    shape = _lengths(call, "axis_shapes", axis_shapes)
    need = math.prod(shape)
    every = _by_id(call, devices)
    if len(every) < need or devices is not None and len(every) > need:
        raise ValueError(f"{call}: axis_shapes: {shape} is of {need} devices; "
                         + (f"there are {len(every)}" if devices is None else f"devices are {len(every)}"))
    return Mesh(_grid(every[:need], shape), tuple(axis_names) if not isinstance(axis_names, str) else axis_names)
