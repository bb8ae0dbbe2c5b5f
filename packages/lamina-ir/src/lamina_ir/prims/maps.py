"""Maps of several axes: `xmap` (a program of named axes, given a positional face) and `shard_map` (a device's view of a mesh).

Both run one program for all members of the axes they bind, and say of each operand and result, dimension by dimension, what
becomes of it inside: `None`, `Indexed` or `Split` (`lamina_ir.binds`).
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ..avals import ShapedArray, shaped
from ..binds import AxesOf, Binds, Entry, Indexed, Split, are_sizes, inside, is_mesh, outside, part
from ..errors import ExecutionError, ShapeError
from ..flow import Flow, held
from ..params import plain_text
from ..primitive import Primitive
from ..spmd import AxisEnv, checked_axis_name
from ._operands import check_operands

__all__ = ["Indexed", "Split", "shard_map_p", "xmap_p"]


def _words(entry: Entry) -> str:
    return plain_text(entry)


def _checked(op: str, what: str, entry: Any, sizes: Mapping[Hashable, int]) -> Entry:
    """An entry, if it is one of a map of these axes."""
    names = [name for kind in entry if kind is not None for name in kind.names]
    for name in names:
        if name not in sizes:
            raise ShapeError(f"{op}: {what} lies along {name!r}, which is none of the axes it binds: "
                             f"{', '.join(map(repr, sizes)) or 'none'}")
    if len(set(names)) < len(names):
        raise ShapeError(f"{op}: {what} lies along an axis twice: {_words(entry)}")
    return entry


def _infer(op: str, binds: Binds, avals: Sequence[ShapedArray], params: dict[str, Any]) -> list[ShapedArray]:
    axes, program = binds.axes(params), params["call_jaxpr"]
    sizes = dict(axes)
    if len(sizes) < len(axes):
        raise ShapeError(f"{op}: each axis has a name of its own; got {axes}")
    for name, size in axes:
        checked_axis_name(op, name)
        if type(size) is not int or size < 1:
            raise ShapeError(f"{op}: the size of the axis {name!r} must be a positive integer; got {size!r}")
    here, mesh = params.get("here"), params.get("mesh")
    if here and (mesh is None or len(here) != len(mesh[1]) or any(not 1 <= h <= n for h, n in zip(here, mesh[1]))):
        raise ShapeError(f"{op}: here must have, for each axis of the mesh, how many places on it are of this process; "
                         f"got {here}")
    sizes = dict(binds.here(params))
    ins, outs = params[binds.ins], params[binds.outs]
    results = program.jaxpr.outvars
    for param, entries, count in ((binds.ins, ins, len(avals)), (binds.outs, outs, len(results))):
        if len(entries) != count:
            raise ShapeError(f"{op}: {param} must have {count} entries; got {len(entries)}")
    parts = []
    for i, (aval, entry) in enumerate(zip(avals, ins)):
        mine = inside(_checked(op, f"operand {i}", entry, sizes), aval.shape, sizes)
        if mine is None:
            raise ShapeError(f"{op}: operand {i}, {aval.long()}, must fit {_words(entry)}, with the sizes {sizes}")
        parts.append(shaped(mine, aval.dtype, aval.weak_type))
    check_operands(f"{op}: call_jaxpr", program, parts)
    names, whole = frozenset(sizes), []
    for j, (v, entry) in enumerate(zip(results, outs)):
        shape = outside(_checked(op, f"result {j}", entry, sizes), v.aval.shape, sizes)
        if shape is None:
            raise ShapeError(f"{op}: result {j}, {v.aval.long()} for each member, must fit {_words(entry)}")
        whole.append(shaped(shape, v.aval.dtype, v.aval.weak_type).differing(v.aval.over - names))
    return whole


def _spmd(binds: Binds, run: Any, env: AxisEnv, args: Sequence[Sequence[Any]], params: dict[str, Any]) -> list[list[Any]]:
    """Each participant splits its operands among the members of the axes bound here, row by row, and gets whole results. Of a
    result that lies along no axis, or not along all, the members have the same: the first is taken."""
    axes = binds.axes(params)
    if params.get("here"):
        raise ExecutionError(f"map `{params['name']}` over a mesh of several processes: other processes have their parts of "
                             "operands and results, which only the runtime knows")
    env_inside = env
    for name, size in axes:
        env_inside = env_inside.extend(name, size)
    places = list(itertools.product(*[range(size) for _, size in axes]))
    inner = [[np.asarray(np.asarray(x)[part(entry, np.shape(x), axes, place)]) for x in xs for place in places]
             for xs, entry in zip(args, params[binds.ins])]
    found = run(params["call_jaxpr"], inner, env_inside)
    sizes, n = dict(axes), len(places)
    results = []
    for values, entry in zip(found, params[binds.outs]):
        shape = outside(entry, np.shape(values[0]), sizes)
        wholes = []
        for d in range(0, len(values), n):
            whole = np.empty(shape, np.asarray(values[d]).dtype)  # type: ignore[type-var]
            for value, place in zip(reversed(values[d:d + n]), reversed(places)):
                whole[part(entry, shape, axes, place)] = value  # type: ignore[arg-type]
            wholes.append(whole)
        results.append(wholes)
    return results


def _map(name: str, binds: Binds, params: tuple[str, ...], mesh: str, **facts: Any) -> Primitive:
    ins, outs = binds.ins, binds.outs

    def spmd(run: Any, env: AxisEnv, args: list[list[Any]], given: dict[str, Any]) -> list[list[Any]]:
        return _spmd(binds, run, env, args, given)

    def numpy(run: Any, *args: Any, **given: Any) -> tuple[Any, ...]:
        return tuple([vs[0] for vs in spmd(run, AxisEnv(), [[a] for a in args], given)])

    return Primitive(name, params=params, family="maps", infer=lambda *avals, **given: _infer(name, binds, avals, given),
                     numpy=numpy, spmd=spmd, multiple=True,
                     flow=Flow(held(), body="call_jaxpr", binds=binds, each={ins: None}, results={outs: None},
                               spent={"donated_invars": False}), kinds={ins: "entries", outs: "entries", "mesh": mesh}, **facts)


def _sizes_of_xmap(params: Mapping[str, Any]) -> tuple[tuple[Hashable, int], ...]:
    return params["axis_sizes"] if are_sizes(params["axis_sizes"]) else ()  # `check` refuses others


def _here_of_xmap(params: Mapping[str, Any]) -> tuple[tuple[Hashable, int], ...]:
    axes, devices = _sizes_of_xmap(params), _grids(params)
    if not devices:
        return axes
    over = {name: [devices[r] for r in mine if r in devices] for name, mine in params["axis_resources"]}
    return tuple([(name, size * math.prod([h for _, h in over.get(name, ())]) // math.prod([n for n, _ in over.get(name, ())]))
                  for name, size in axes])


def _grids(params: Mapping[str, Any]) -> dict[Hashable, tuple[int, int]]:
    """Of each axis of the mesh its size, and how many places on it are of this process. Of a map that is seen whole, none."""
    return {name: (n, h) for name, n, h in zip(*params["mesh"][:2], params["here"])} if params.get("here") else {}


def _sizes_of_mesh(params: Mapping[str, Any]) -> tuple[tuple[Hashable, int], ...]:
    if not is_mesh(params["mesh"]) or type(params["auto"]) is not tuple:
        return ()
    return tuple([(name, size) for name, size in zip(*params["mesh"][:2]) if name not in params["auto"]])


def _here_of_mesh(params: Mapping[str, Any]) -> tuple[tuple[Hashable, int], ...]:
    devices = _grids(params)
    return tuple([(name, devices[name][1] if devices else size) for name, size in _sizes_of_mesh(params)])


xmap_p = _map("xmap", AxesOf(_sizes_of_xmap, _here_of_xmap, "axis_sizes", "here", ins="in_axes", outs="out_axes",
                           loops="loops"),
              ("axis_resources", "axis_sizes", "backend", "call_jaxpr", "donated_invars", "here", "in_axes", "loops",
               "mesh", "name", "out_axes"),
              "mesh?", spec="written in terms of others: lamina_parallel.placement",
              defaults={"axis_resources": (), "backend": None, "donated_invars": (), "here": (), "loops": (),
                        "mesh": None})

shard_map_p = _map("shard_map", AxesOf(_sizes_of_mesh, _here_of_mesh, "mesh", "auto", "here", ins="in_specs", outs="out_specs"),
                   ("auto", "call_jaxpr", "donated_invars", "here", "in_specs", "mesh", "name", "out_specs"),
                   "mesh", spec="sdy.manual_computation",
                   defaults={"auto": (), "donated_invars": (), "here": ()})
