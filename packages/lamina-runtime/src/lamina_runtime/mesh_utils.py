"""Arrange devices in arrays, for meshes."""
from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from lamina_parallel import AxisType, Mesh
from lamina_ir.typing import Device

from ._backend import backends

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]


def _lengths(call: str, what: str, given: Any) -> tuple[int, ...]:
    found = (given,) if isinstance(given, (int, np.integer)) else tuple(given)
    for n in found:
        if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 1:
            raise ValueError(f"{call}: {what}: expected axis lengths, whole numbers from 1; got {given!r:.60}")
    return tuple([int(n) for n in found])


def _grid(devices: Sequence[Device], shape: tuple[int, ...]) -> np.ndarray:
    found = np.empty(len(devices), object)
    found[:] = devices
    return found.reshape(shape)


def _by_id(call: str, devices: Sequence[Device] | None) -> list[Device]:
    every = backends.devices() if devices is None else list(np.asarray(devices, object).reshape(-1))
    return list(backends.check_devices(call, every))


def create_device_mesh(mesh_shape: Sequence[int], devices: Sequence[Device] | None = None, *,
                       contiguous_submeshes: bool = False,
                       allow_split_physical_axes: bool = False) -> np.ndarray:
    """Return an array of devices with a given shape, for a `Mesh`.

    Args:
      mesh_shape: lengths of the axes; their product must be the number of devices.
      devices: the devices, arranged in row-major order; default: all devices.
      contiguous_submeshes, allow_split_physical_axes: accepted for compatibility; they only matter for machines whose
        devices are connected as a physical grid.
    Returns:
      An array of devices.
    Raises:
      ValueError: the number of devices does not match.

    >>> import lamina_runtime
    >>> create_device_mesh((1, 1), lamina_runtime.devices()[:1]).shape
    (1, 1)
    """
    call = "create_device_mesh"
    shape, every = _lengths(call, "mesh_shape", mesh_shape), _by_id(call, devices)
    if math.prod(shape) != len(every):
        raise ValueError(f"{call}: mesh_shape: {shape} needs {math.prod(shape)} devices; there are {len(every)}. Pass "
                         "devices=, as lamina.devices()[:4]")
    return _grid(every, shape)


def create_hybrid_device_mesh(mesh_shape: Sequence[int], dcn_mesh_shape: Sequence[int],
                              devices: Sequence[Device] | None = None,
                              *, process_is_granule: bool = False, should_sort_granules_by_key: bool = True,
                              allow_split_physical_axes: bool = False) -> np.ndarray:
    """Return an array of devices for several groups that are connected by a slower network.

    Along each axis, the groups are the major part and the devices within a group the minor part.

    Args:
      mesh_shape: lengths of the axes within each group.
      dcn_mesh_shape: for each axis, the number of groups along it.
      devices: the devices; default: all devices.
      process_is_granule: whether the groups are processes. Otherwise they are slices, or processes if devices have no
        `slice_index`.
      should_sort_granules_by_key: whether the groups are sorted by number; otherwise they are in the order of the
        devices.
      allow_split_physical_axes: accepted for compatibility; has no effect.
    Returns:
      An array of devices; axis i has length `mesh_shape[i] * dcn_mesh_shape[i]`.
    Raises:
      ValueError: the number of groups, or of devices in a group, does not match.

    >>> import lamina_runtime
    >>> create_hybrid_device_mesh((1, 1), (1, 1), lamina_runtime.devices()[:1]).shape
    (1, 1)
    """
    call = "create_hybrid_device_mesh"
    inner, outer = _lengths(call, "mesh_shape", mesh_shape), _lengths(call, "dcn_mesh_shape", dcn_mesh_shape)
    if len(inner) != len(outer):
        raise ValueError(f"{call}: mesh_shape and dcn_mesh_shape must have the same length; got {inner} and {outer}")
    groups: dict[int, list[Device]] = {}
    for d in _by_id(call, devices):
        own = None if process_is_granule else getattr(d, "slice_index", None)
        groups.setdefault(d.process_index if own is None else own, []).append(d)
    keys = sorted(groups) if should_sort_granules_by_key else list(groups)
    if len(keys) != math.prod(outer):
        raise ValueError(f"{call}: dcn_mesh_shape: {outer} needs {math.prod(outer)} groups; the devices have "
                         f"{len(keys)}")
    for key in keys:
        if len(groups[key]) != math.prod(inner):
            raise ValueError(f"{call}: mesh_shape: {inner} needs {math.prod(inner)} devices; group {key} has "
                             f"{len(groups[key])}")
    found = np.empty([n * k for n, k in zip(inner, outer)], object)
    for position, key in zip(np.ndindex(*outer), keys):
        found[tuple([slice(i * n, i * n + n) for i, n in zip(position, inner)])] = _grid(groups[key], inner)
    return found


def make_mesh(axis_shapes: Sequence[int], axis_names: Sequence[Hashable],
              axis_types: AxisType | Sequence[AxisType] | None = None, *,
              devices: Sequence[Device] | None = None) -> Mesh:
    """Return a mesh of devices in row-major order.

    Args:
      axis_shapes: lengths of the axes.
      axis_names: a name for each.
      axis_types: an `AxisType` for all axes, or one for each; None: `AxisType.Auto`.
      devices: the devices; default: the first devices of all.
    Returns:
      A `Mesh`.
    Raises:
      ValueError: there are too few devices, or the number of `devices` or axis types does not match.

    >>> make_mesh((1,), ("x",))
    Mesh('x': 1)
    """
    call = "make_mesh"
    shape = _lengths(call, "axis_shapes", axis_shapes)
    need = math.prod(shape)
    every = _by_id(call, devices)
    if len(every) < need or devices is not None and len(every) > need:
        raise ValueError(f"{call}: axis_shapes: {shape} needs {need} devices; "
                         + (f"there are {len(every)}" if devices is None else f"devices has {len(every)}"))
    return Mesh(_grid(every[:need], shape), tuple(axis_names) if not isinstance(axis_names, str) else axis_names,
                axis_types)
