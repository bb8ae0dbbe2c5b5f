"""Calls with special behaviour under a transformation: custom derivatives and batching, rematerialization, names,
barriers.

The params of a custom call hold its rules as `Rule`s. Their programs are traced lazily, because a derivative rule may
use the function it belongs to.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from .._types.avals import ShapedArray
from ..errors import MissingRuleError, ShapeError
from .._core.region_signature import RegionSignature, const_operands
from .._types.param_values import register_param_type
from .._core.primitive import Primitive
from .._core.custom_rule import Rule
from ._operands import check_operands, run_param
from .convolution import conv_general_dilated_p
from .products import dot_general_p
from ..typing import Function, ParamValue, Params, Value
from .._core.jaxpr import ClosedJaxpr
from .._typing import RunProgram

__all__ = ["CheckpointPolicy", "Offload", "Rule", "custom_jvp_call_p", "custom_vjp_call_p", "custom_vmap_call_p", "name_p",
           "optimization_barrier_p", "remat_p", "sharding_constraint_p", "to_memory_p",
           "transposed_call_p"]


@register_param_type
@dataclasses.dataclass(frozen=True, slots=True)
class Offload:
    """A policy's decision to save a value in the memory `dst` and to copy it back to `src` where it is used.

    Args:
      src: the kind of memory where the value is computed and used.
      dst: the kind of memory that stores it in between.
    """

    src: str
    dst: str


@register_param_type
@dataclasses.dataclass(frozen=True)
class CheckpointPolicy:
    """The results that a checkpointed function saves. Called with a primitive, its operands' types and its params.

    Args:
      kind: one of `everything`, `nothing`, `dots`, `dots_with_no_batch_dims`, `anything_except_names`, `any_names_but`,
        `only_names`, `both`, `offload_dots_with_no_batch_dims`, `offload_names`.
      names: names given with `checkpoint_name`.
      parts: the policies that `both` combines.
      away: names of values that are offloaded.
      offload: the memories for offloaded values.
    """

    kind: str
    names: tuple[str, ...] = ()
    parts: tuple[Function, ...] = ()
    away: tuple[str, ...] = ()
    offload: Offload | None = None

    def __call__(self, prim: Primitive, *avals: ShapedArray, **params: ParamValue) -> bool | Offload:
        return _KINDS[self.kind](self, prim, params)


_DOTS = frozenset([dot_general_p, conv_general_dilated_p])


def _is_name(prim: Primitive) -> bool:
    return prim is name_p


def _no_batch(params: Params) -> bool:
    return "dimension_numbers" not in params or params["dimension_numbers"][1] == ((), ())


def _either(policies: tuple[Function, ...], prim: Primitive, params: Params) -> bool | Offload:
    """Combine the decisions of several policies: saving in place wins over offloading, and that over not saving."""
    answers = [p(prim, **params) for p in policies]
    return any(a and not isinstance(a, Offload) for a in answers) or next((a for a in answers if a), False)


_KINDS: dict[str, Callable[[CheckpointPolicy, Primitive, Params], Any]] = {
    "everything": lambda p, prim, params: True,
    "nothing": lambda p, prim, params: False,
    "dots": lambda p, prim, params: prim in _DOTS,
    "dots_with_no_batch_dims": lambda p, prim, params: prim is dot_general_p and _no_batch(params),
    "anything_except_names": lambda p, prim, params: not _is_name(prim) or params["name"] not in p.names,
    "any_names_but": lambda p, prim, params: _is_name(prim) and params["name"] not in p.names,
    "only_names": lambda p, prim, params: _is_name(prim) and params["name"] in p.names,
    "both": lambda p, prim, params: _either(p.parts, prim, params),
    "offload_dots_with_no_batch_dims": lambda p, prim, params: (
        prim is dot_general_p and _no_batch(params) and p.offload),
    "offload_names": lambda p, prim, params: _is_name(prim) and (
        params["name"] in p.names or (params["name"] in p.away and p.offload)),
}


# --- primitives ---------------------------------------------------------------------------------------------------
def _infer(name: str) -> Callable[..., list[ShapedArray]]:
    def infer(*avals: ShapedArray, call_jaxpr: ClosedJaxpr, **_: ParamValue) -> list[ShapedArray]:
        check_operands(f"{name}: call_jaxpr", call_jaxpr, avals)
        return [v.aval for v in call_jaxpr.jaxpr.outvars]
    return infer


def _call(name: str, *params: str, spec: str, defaults: Params | None = None, **signature: str) -> Primitive:
    consts = [const_operands("num_consts")] if "num_consts" in params else []
    regions = RegionSignature(*consts, const_operands(), body="call_jaxpr", **signature)  # type: ignore[arg-type]
    return Primitive(name, params=("call_jaxpr", *params), family="custom", infer=_infer(name), multiple=True,
                     region_signature=regions, spec=spec, defaults=defaults, **run_param("call_jaxpr"))


# jvp: (operands, tangents of the inexact operands after the first num_consts) -> (results, tangents of inexact results)
custom_jvp_call_p = _call("custom_jvp_call", "jvp", "name", "num_consts", spec="func.call; custom forward derivative",
                          defaults={"num_consts": 0}, jvp_rule="jvp")
# fwd: operands -> (results, residuals); bwd: (residuals, cotangents of inexact results) -> cotangents of the inexact
# operands after the first num_consts
custom_vjp_call_p = _call("custom_vjp_call", "bwd", "fwd", "name", "num_consts",
                          spec="func.call; custom reverse derivative", defaults={"num_consts": 0},
                          indivisible="its backward rule maps the cotangents of all results to those of all operands at once")
# rule.call: (axis_size, which operands are batched, operands) -> (results, which are batched)
custom_vmap_call_p = _call("custom_vmap_call", "name", "num_consts", "rule", spec="func.call; custom batching",
                           defaults={"num_consts": 0}, indivisible="its batching rule is a Python function of all operands")
remat_p = _call("remat", "differentiated", "name", "policy", "prevent_cse",
                spec="func.call; optimization_barrier", defaults={"policy": None}, remat_policy="policy")


def _transposed_infer(*avals: ShapedArray, transpose_jaxpr: ClosedJaxpr, num_held: int,
                      **_: ParamValue) -> list[ShapedArray]:
    """Infer result types from the transpose, which maps (constants, cotangents of the results) to operand
    cotangents."""
    ins, outs = transpose_jaxpr.in_avals, transpose_jaxpr.out_avals
    if not 0 <= num_held <= min(len(avals), len(ins)) or len(avals) != num_held + len(outs):
        raise ShapeError(f"transposed_call: takes num_held {num_held} values and one operand for each of the "
                         f"{len(outs)} results of transpose_jaxpr; got {len(avals)}")
    for i, (a, b) in enumerate(zip(avals, [*ins[:num_held], *outs])):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise ShapeError(f"transposed_call: operand {i} must be {b.str_long()}; got {a.str_long()}")
    return [a.strip_weak_type() for a in ins[num_held:]]


def _transposed_numpy(run: RunProgram, *args: Value, forward: Rule, transpose_jaxpr: ClosedJaxpr,
                      num_held: int) -> tuple[Value, ...]:
    """Run the map itself if it is known. Otherwise compute it from its transpose, element by element: result k of L t
    is e_k . L t = (L^T e_k) . t, the inner product of the operands with the transpose of the k-th basis vector."""
    try:
        return tuple(run(forward.program(), args))
    except MissingRuleError:
        pass
    consts, tangents = args[:num_held], args[num_held:]
    avals = transpose_jaxpr.in_avals[num_held:]
    results = [np.zeros(a.shape, a.dtype) for a in avals]
    for i, result in enumerate(results):
        for k in range(result.size):
            basis = [np.zeros(a.shape, a.dtype) for a in avals]
            basis[i].reshape(-1)[k] = 1
            back = run(transpose_jaxpr, [*consts, *basis])
            result.reshape(-1)[k] = sum(np.sum(b * t) for b, t in zip(back, tangents))
    return tuple(results)


transposed_call_p = Primitive(
    "transposed_call", params=("forward", "num_held", "transpose_jaxpr"), family="custom", infer=_transposed_infer,
    numpy=_transposed_numpy, multiple=True,
    region_signature=RegionSignature(extra_programs=("transpose_jaxpr",),
                                     indivisible="only the transpose of the whole map is known"),
    varying_axes=lambda total, names, params, bound: total | names,  # with collectives each member has its own result
    spec="the linear map whose transpose is transpose_jaxpr")

name_p = Primitive("name", params=("name",), family="custom", infer=lambda x, *, name: x, numpy=lambda x, *, name: x,
                   elementwise=True, linear_in=(0,), spec="identity; a value's name for checkpoint policies")

to_memory_p = Primitive("to_memory", params=("memory_kind",), family="custom", infer=lambda x, *, memory_kind: x,
                        numpy=lambda x, *, memory_kind: x, linear_in=(0,), elementwise=True,
                        spec="identity; custom_call @annotate_device_placement where there is more than one memory")

optimization_barrier_p = Primitive(
    "optimization_barrier", family="custom", infer=lambda *avals: list(avals), numpy=lambda *xs: xs, multiple=True,
    spec="optimization_barrier")

# The param `sharding` is XLA's text, then ` on cpu:3,1,2,0`: the devices of the sharding, in order, which must be those
# of the program. Without that part, it fits any program on as many devices. The numbers in XLA's text index the devices
# in the order of their ids, independent of the program's placement.
sharding_constraint_p = Primitive(
    "sharding_constraint", params=("sharding", "unspecified_dims"), family="custom", linear_in=(0,),
    infer=lambda x, *, sharding, unspecified_dims: x, numpy=lambda x, *, sharding, unspecified_dims: x,
    spec="identity; custom_call @Sharding where the program is partitioned")

CALLS = (custom_jvp_call_p, custom_vjp_call_p, custom_vmap_call_p, remat_p)
