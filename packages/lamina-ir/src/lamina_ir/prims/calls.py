"""Primitives that run a nested program: `xla_call` (a jitted function) and `xla_pmap` (one copy per device of an
axis)."""
from __future__ import annotations


import numpy as np

from .._types.avals import ShapedArray, shaped
from .._core.axis_binding import SingleAxisBinding
from ..errors import ExecutionError, ShapeError
from .._core.region_signature import RegionSignature, const_operands
from .._core.primitive import Primitive
from .._core.axis_env import PROCESSES, AxisEnv, check_axis_name
from ._operands import check_operands, run_param
from ..typing import AxisName, ParamValue, Params, Value
from .._core.jaxpr import ClosedJaxpr
from .._typing import RunProgram

__all__ = ["xla_call_p", "xla_pmap_p"]


def _call_infer(*avals: ShapedArray, call_jaxpr: ClosedJaxpr, **_: ParamValue) -> list[ShapedArray]:
    check_operands("xla_call: call_jaxpr", call_jaxpr, avals)
    return [v.aval for v in call_jaxpr.jaxpr.outvars]


xla_call_p = Primitive(
    "xla_call", params=("call_jaxpr", "name", "donated_invars", "inline", "device", "backend"), family="calls",
    infer=_call_infer, multiple=True, spec="func.call", **run_param("call_jaxpr"),
    region_signature=RegionSignature(const_operands(), body="call_jaxpr", transient={"donated_invars": False}),
    defaults={"donated_invars": (), "inline": False, "device": None, "backend": None})


def member_aval(aval: ShapedArray, axis: int | None, size: int, what: str) -> ShapedArray:
    """Return the type of one device's slice of an operand mapped along `axis`; None: every device has all of it."""
    if axis is None:
        return aval
    if not 0 <= axis < len(aval.shape) or aval.shape[axis] != size:
        raise ShapeError(f"xla_pmap: {what} is mapped along axis {axis}, which must have the axis_size {size}; "
                         f"got {aval.str_long()}")
    return shaped(aval.shape[:axis] + aval.shape[axis + 1:], aval.dtype, aval.weak_type)


def _pmap_infer(*avals: ShapedArray, call_jaxpr: ClosedJaxpr, axis_name: AxisName, axis_size: int,
                in_axes: tuple[int | None, ...], out_axes: tuple[int | None, ...], global_axis_size: int | None = None,
                **_: ParamValue) -> list[ShapedArray]:
    check_axis_name("xla_pmap", axis_name)
    if global_axis_size is not None and global_axis_size < axis_size:
        raise ShapeError("xla_pmap: global_axis_size, the axis size over all processes, must be at least axis_size, the "
                         f"members in this process; got {global_axis_size} and {axis_size}")
    if len(in_axes) != len(avals):
        raise ShapeError(f"xla_pmap: in_axes {in_axes} must have one entry per operand; got {len(avals)} operands")
    parts = tuple(member_aval(a, axis, axis_size, f"operand {i}") for i, (a, axis) in enumerate(zip(avals, in_axes)))
    check_operands("xla_pmap: call_jaxpr", call_jaxpr, parts)
    outs = call_jaxpr.jaxpr.outvars
    if len(out_axes) != len(outs):
        raise ShapeError(f"xla_pmap: out_axes {out_axes} must have one entry per result; call_jaxpr has {len(outs)}")
    results = []
    for v, axis in zip(outs, out_axes):
        aval = v.aval.with_varying_axes(v.aval.varying_axes - {axis_name})
        if axis is not None:
            if not 0 <= axis <= len(aval.shape):
                raise ShapeError(f"xla_pmap: out_axes {axis} is out of range for a result {aval.str_long()} per device")
            aval = shaped(aval.shape[:axis] + (axis_size,) + aval.shape[axis:], aval.dtype, aval.weak_type)
        results.append(aval)
    return results


def _pmap_spmd(run: RunProgram, env: AxisEnv, args: list[list[Value]], params: Params) -> list[list[Value]]:
    """Run the mapped call inside the axes of `env`: each device splits its operands among `axis_size` new ones.

    If the map spans processes, `env` has the axis PROCESSES. The map then has one axis with the members of all
    processes.
    """
    size, n = params["axis_size"], env.size
    if params["global_axis_size"] in (None, size):
        inside = env.extend(params["axis_name"], size)
    elif env.names == (PROCESSES,) and size * n == params["global_axis_size"]:
        inside = AxisEnv([(params["axis_name"], size * n)])
    else:
        raise ExecutionError(f"xla_pmap of `{params['name']}`: only {size} of the {params['global_axis_size']} members are in "
                             "this process; it needs the operands of the other processes, so only the runtime can run it")
    inner = []
    for xs, axis in zip(args, params["in_axes"]):
        inner.append([x if axis is None else np.asarray(np.take(x, i, axis)) for x in xs for i in range(size)])
    outs = run(params["call_jaxpr"], inner, inside)
    return [[vs[d * size] if axis is None else np.stack(vs[d * size:(d + 1) * size], axis) for d in range(n)]
            for vs, axis in zip(outs, params["out_axes"])]


def _pmap_numpy(run: RunProgram, *args: Value, **params: ParamValue) -> tuple[Value, ...]:
    return tuple(vs[0] for vs in _pmap_spmd(run, AxisEnv(), [[a] for a in args], params))


xla_pmap_p = Primitive(
    "xla_pmap", params=("axis_name", "axis_size", "backend", "call_jaxpr", "devices", "donated_invars",
                        "global_arg_shapes", "global_axis_size", "in_axes", "name", "out_axes"),
    family="calls", infer=_pmap_infer, numpy=_pmap_numpy, spmd=_pmap_spmd, multiple=True,
    region_signature=RegionSignature(
        const_operands(), body="call_jaxpr", axis_binding=SingleAxisBinding("axis_name", "axis_size", "global_axis_size"),
        per_operand={"in_axes": 0}, per_result={"out_axes": 0},
        transient={"donated_invars": False, "global_arg_shapes": None}),
    kinds={"devices": "devices?", "in_axes": "ints or None", "out_axes": "ints or None"},
    spec="num_replicas / num_partitions of the module")
