"""Maps over several axes: `xmap` (named axes with positional operands) and `shard_map` (a device's view of a mesh).

Both run one program for all members of the axes they bind. For each dimension of each operand and result an entry
states how the members see it: `None`, `Indexed` or `Split` (`lamina_ir.core.axis_binding`).
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from .._types.avals import ShapedArray, shaped
from .._core.axis_binding import (
    MultiAxisBinding, AxisBinding, Entry, Indexed, Split, are_sizes, member_shape, is_mesh, global_shape, member_index)
from ..errors import ExecutionError, ShapeError
from .._core.region_signature import RegionSignature, const_operands
from .._types.param_values import format_param
from .._core.primitive import Primitive
from .._core.axis_env import AxisEnv, check_axis_name
from ._operands import check_operands
from ..typing import ParamValue, Params, Value
from .._typing import RunProgram

__all__ = ["Indexed", "Split", "shard_map_p", "xmap_p"]


def _format_entry(entry: Entry) -> str:
    return format_param(entry)


def _check_entry(op: str, what: str, entry: Entry, sizes: Mapping[Hashable, int]) -> Entry:
    """Return an entry after checking that it names axes of this map, each at most once."""
    names = [name for kind in entry if kind is not None for name in kind.names]
    for name in names:
        if name not in sizes:
            raise ShapeError(f"{op}: {what} must be mapped along the axes it binds, "
                             f"{', '.join(map(repr, sizes)) or 'none'}; got {name!r}")
    if len(set(names)) < len(names):
        raise ShapeError(f"{op}: {what} must name each axis at most once; got {_format_entry(entry)}")
    return entry


def _check_axis_lists(op: str, sizes: Mapping[Hashable, int], params: Params) -> None:
    """Check the params that list axes of the map: `loops`, `axis_resources`, `auto`."""
    mesh = params.get("mesh")
    mesh_axes = () if mesh is None else mesh[0]
    for name, count in params.get("loops", ()):
        if name not in sizes or count < 1:
            raise ShapeError(f"{op}: loops must have, for axes of this map, a positive number; got {(name, count)!r}")
    for name, resources in params.get("axis_resources", ()):
        if name not in sizes or any(r not in mesh_axes for r in resources):
            raise ShapeError(f"{op}: axis_resources must have, for axes of this map, the names of axes of the mesh, "
                             f"{', '.join(map(repr, mesh_axes)) or 'none'}; got {(name, resources)!r}")
    for name in params.get("auto", ()):
        if name not in mesh_axes:
            raise ShapeError(f"{op}: auto must name axes of the mesh, {', '.join(map(repr, mesh_axes)) or 'none'}; got "
                             f"{name!r}")


def _infer(op: str, binds: AxisBinding, avals: Sequence[ShapedArray], params: Params) -> list[ShapedArray]:
    axes, program = binds.axes(params), params["call_jaxpr"]
    sizes = dict(axes)
    if len(sizes) < len(axes):
        raise ShapeError(f"{op}: axis names must be distinct; got {axes}")
    for name, size in axes:
        check_axis_name(op, name)
        if type(size) is not int or size < 1:
            raise ShapeError(f"{op}: the size of the axis {name!r} must be a positive integer; got {size!r}")
    here, mesh = params.get("here"), params.get("mesh")
    if here and (mesh is None or len(here) != len(mesh[1]) or any(not 1 <= h <= n for h, n in zip(here, mesh[1]))):
        raise ShapeError(f"{op}: here must have, for each axis of the mesh, the number of positions in this process; "
                         f"got {here}")
    _check_axis_lists(op, sizes, params)
    sizes = dict(binds.local_axes(params))
    ins, outs = params[binds.ins], params[binds.outs]
    results = program.jaxpr.outvars
    for param, entries, count in ((binds.ins, ins, len(avals)), (binds.outs, outs, len(results))):
        if len(entries) != count:
            raise ShapeError(f"{op}: {param} must have {count} entries; got {len(entries)}")
    parts = []
    for i, (aval, entry) in enumerate(zip(avals, ins)):
        mine = member_shape(_check_entry(op, f"operand {i}", entry, sizes), aval.shape, sizes)
        if mine is None:
            raise ShapeError(f"{op}: operand {i}, {aval.str_long()}, must fit {_format_entry(entry)}, with the sizes {sizes}")
        if aval.is_reference and mine != aval.shape:
            raise ShapeError(f"{op}: operand {i}, {aval.str_long()}, is a mutable reference, which is not divided among "
                             "members. Pass its value, ref[...], and write the result to it")
        parts.append(aval if aval.is_reference else shaped(mine, aval.dtype, aval.weak_type))
    check_operands(f"{op}: call_jaxpr", program, parts)
    names, outs_whole = frozenset(sizes), []
    for j, (v, entry) in enumerate(zip(results, outs)):
        shape = global_shape(_check_entry(op, f"result {j}", entry, sizes), v.aval.shape, sizes)
        if shape is None:
            raise ShapeError(f"{op}: result {j}, {v.aval.str_long()} for each member, must fit {_format_entry(entry)}")
        outs_whole.append(shaped(shape, v.aval.dtype, v.aval.weak_type).with_varying_axes(v.aval.varying_axes - names))
    return outs_whole


def _spmd(binds: AxisBinding, run: RunProgram, env: AxisEnv, args: Sequence[Sequence[Value]],
          params: Params) -> list[list[Value]]:
    """Run the map on NumPy: each participant splits its operands among the members of the axes bound here, in row-major
    order, and assembles global results. If a result is not mapped along an axis, the members along it hold the same
    value, and the first one is taken."""
    axes = binds.axes(params)
    if params.get("here"):
        raise ExecutionError(f"map `{params['name']}` is over a mesh of several processes: it needs the operands of the other "
                             "processes, so only the runtime can run it")
    env_inside = env
    for name, size in axes:
        env_inside = env_inside.extend(name, size)
    places = list(itertools.product(*[range(size) for _, size in axes]))
    inner = [[np.asarray(np.asarray(x)[member_index(entry, np.shape(x), axes, place)]) for x in xs for place in places]
             for xs, entry in zip(args, params[binds.ins])]
    found = run(params["call_jaxpr"], inner, env_inside)
    sizes, n = dict(axes), len(places)
    results = []
    for values, entry in zip(found, params[binds.outs]):
        shape = global_shape(entry, np.shape(values[0]), sizes)
        wholes = []
        for d in range(0, len(values), n):
            whole = np.empty(shape, np.asarray(values[d]).dtype)  # type: ignore[type-var]
            for value, place in zip(reversed(values[d:d + n]), reversed(places)):  # reversed: the first member wins
                whole[member_index(entry, shape, axes, place)] = value  # type: ignore[arg-type]
            wholes.append(whole)
        results.append(wholes)
    return results


def _map(name: str, binds: AxisBinding, params: tuple[str, ...], mesh: str, **facts: ParamValue) -> Primitive:
    ins, outs = binds.ins, binds.outs

    def spmd(run: RunProgram, env: AxisEnv, args: list[list[Value]], given: Params) -> list[list[Value]]:
        return _spmd(binds, run, env, args, given)

    def numpy(run: RunProgram, *args: Value, **given: ParamValue) -> tuple[Value, ...]:
        return tuple([vs[0] for vs in spmd(run, AxisEnv(), [[a] for a in args], given)])

    return Primitive(name, params=params, family="maps", infer=lambda *avals, **given: _infer(name, binds, avals, given),
                     numpy=numpy, spmd=spmd, multiple=True,
                     region_signature=RegionSignature(
                         const_operands(), body="call_jaxpr", axis_binding=binds, per_operand={ins: None},
                         per_result={outs: None}, transient={"donated_invars": False}),
                     kinds={ins: "entries", outs: "entries", "mesh": mesh}, **facts)


def _sizes_of_xmap(params: Mapping[str, ParamValue]) -> tuple[tuple[Hashable, int], ...]:
    return params["axis_sizes"] if are_sizes(params["axis_sizes"]) else ()  # `check` refuses others


def _local_sizes_of_xmap(params: Mapping[str, ParamValue]) -> tuple[tuple[Hashable, int], ...]:
    axes, devices = _sizes_of_xmap(params), _mesh_axis_sizes(params)
    if not devices:
        return axes
    over = {name: [devices[r] for r in mine if r in devices] for name, mine in params["axis_resources"]}
    return tuple([(name, size * math.prod([h for _, h in over.get(name, ())]) // math.prod([n for n, _ in over.get(name, ())]))
                  for name, size in axes])


def _mesh_axis_sizes(params: Mapping[str, ParamValue]) -> dict[Hashable, tuple[int, int]]:
    """Return for each axis of the mesh its size and the number of positions in this process; empty for a global
    view."""
    return {name: (n, h) for name, n, h in zip(*params["mesh"][:2], params["here"])} if params.get("here") else {}


def _sizes_of_mesh(params: Mapping[str, ParamValue]) -> tuple[tuple[Hashable, int], ...]:
    if not is_mesh(params["mesh"]) or type(params["auto"]) is not tuple:
        return ()
    return tuple([(name, size) for name, size in zip(*params["mesh"][:2]) if name not in params["auto"]])


def _local_sizes_of_mesh(params: Mapping[str, ParamValue]) -> tuple[tuple[Hashable, int], ...]:
    devices = _mesh_axis_sizes(params)
    return tuple([(name, devices[name][1] if devices else size) for name, size in _sizes_of_mesh(params)])


xmap_p = _map("xmap", MultiAxisBinding(_sizes_of_xmap, _local_sizes_of_xmap, "axis_sizes", "here", ins="in_axes",
                                       outs="out_axes", loops="loops"),
              ("axis_resources", "axis_sizes", "backend", "call_jaxpr", "donated_invars", "here", "in_axes", "loops",
               "mesh", "name", "out_axes"),
              "mesh?", spec="lowered to other primitives: lamina_parallel.maps.lower_xmap",
              defaults={"axis_resources": (), "backend": None, "donated_invars": (), "here": (), "loops": (),
                        "mesh": None})

shard_map_p = _map("shard_map", MultiAxisBinding(_sizes_of_mesh, _local_sizes_of_mesh, "mesh", "auto", "here", ins="in_specs",
                                                 outs="out_specs"),
                   ("auto", "call_jaxpr", "donated_invars", "here", "in_specs", "mesh", "name", "out_specs"),
                   "mesh", spec="sdy.manual_computation",
                   defaults={"auto": (), "donated_invars": (), "here": ()})
