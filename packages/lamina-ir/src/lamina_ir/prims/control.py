"""Control flow: `cond` (one of several programs), `while`, and `scan` (a loop of known length over stacked values).

`platform_index` is the index of a branch that is chosen when the program is lowered.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .._types.avals import ShapedArray, shaped
from ..errors import DTypeError, MissingRuleError, ProgramError, ShapeError
from .._core.region_signature import RegionSignature, carry_operands, selector_operand, const_operands, scanned_operands
from .._core.primitive import Primitive
from .._core.jaxpr import ClosedJaxpr, subprograms
from .._core.axis_env import AxisEnv, PROCESSES
from .._core.loop_context import begin_iteration, run_per_device
from ._operands import check_operands
from ..typing import Function, ParamValue, Params, Value
from .._typing import RunProgram

__all__ = ["cond_p", "platform_index_p", "platform_number", "scan_p", "while_p"]


def _common_types(where: str, got: Sequence[ShapedArray], wanted: Sequence[ShapedArray]) -> list[ShapedArray]:
    """Return the common types, weak if both are; raise ShapeError or DTypeError if they differ."""
    if len(got) != len(wanted):
        raise ShapeError(f"{where} must have {len(wanted)} results; got {len(got)}")
    for i, (a, b) in enumerate(zip(got, wanted)):
        if a is not b and not a.same_type(b):
            kind = ShapeError if a.shape != b.shape else DTypeError
            raise kind(f"{where} must have a result {i} of type {b.str_long()}; got {a.str_long()}")
    return [a if a.weak_type <= b.weak_type else b for a, b in zip(got, wanted)]


def _needs_lockstep(env: AxisEnv, *programs: ClosedJaxpr) -> bool:
    """Return whether the devices must run the programs in lockstep, because the programs communicate."""
    return any(p.jaxpr.axis_names for p in programs) or PROCESSES in env.names and any(map(_spans_processes, programs))


def _spans_processes(program: ClosedJaxpr) -> bool:
    """Return whether a program, or one nested in it, contains a map over several processes."""
    def find() -> bool:
        return any(e.primitive.map_primitive and (e.params.get("global_axis_size") or 0) > e.params.get("axis_size", 0)
                   or e.primitive.name != "xla_pmap" and any(map(_spans_processes, subprograms(e)))
                   for e in program.jaxpr.eqns)

    return bool(program.memo("spans processes", find))


# --- cond ---------------------------------------------------------------------------------------------------------
def _cond_infer(index: ShapedArray, *avals: ShapedArray, branches: tuple[ClosedJaxpr, ...]) -> list[ShapedArray]:
    if index.shape or index.dtype != np.dtype("int32"):
        kind = ShapeError if index.shape else DTypeError
        raise kind(f"cond: index must be int32[]; got {index.str_long()}")
    if not branches:
        raise ShapeError("cond: branches must have at least one program")
    outs = branches[0].out_avals
    for i, branch in enumerate(branches):
        check_operands(f"cond: branch {i}", branch, avals)
        outs = _common_types(f"cond: branch {i}", branch.out_avals, outs)
    return outs


def _select_branch(index: Value, branches: tuple[ClosedJaxpr, ...]) -> ClosedJaxpr:
    """Return the branch at `index`; an index out of range selects the last branch, as in StableHLO."""
    i = int(index)
    return branches[i if 0 <= i < len(branches) else -1]


def _cond_numpy(run: RunProgram, index: Value, *args: Value, branches: tuple[ClosedJaxpr, ...]) -> Sequence[Value]:
    return run(_select_branch(index, branches), args)


def _cond_spmd(run: RunProgram, env: AxisEnv, args: list[list[Value]], params: Params) -> Sequence[Value]:
    branches = params["branches"]
    picked = [_select_branch(i, branches) for i in args[0]]
    if all(p is picked[0] for p in picked):
        return run(picked[0], args[1:], env)
    if _needs_lockstep(env, *branches):
        raise ProgramError("cond: devices take different branches, and the branches communicate; the index must be the "
                           "same on all devices")
    return run_per_device(env.size, lambda d: run(picked[d], [xs[d] for xs in args[1:]]))


cond_p = Primitive("cond", params=("branches",), family="control", infer=_cond_infer, numpy=_cond_numpy, spmd=_cond_spmd,
                   multiple=True, region_signature=RegionSignature(selector_operand(), const_operands(), body="branches"),
                   spec="case")


# --- platform_index: the branch for the platform of the program ---------------------------------------------------
def platform_number(platform: str, platforms: Sequence[tuple[str, ...]], has_default: bool) -> int:
    """Return the index of the first group of names that contains `platform`, or the number of groups for the
    default."""
    for i, names in enumerate(platforms):
        if platform in names:
            return i
    if has_default:
        return len(platforms)
    known = ", ".join(sorted({n for names in platforms for n in names}))
    raise MissingRuleError(f"platform_dependent: there is a function for {known} only, and the program is lowered for "
                           f"{platform}; give one for {platform}, or default=")


platform_index_p = Primitive(
    "platform_index", params=("has_default", "platforms"), family="control", spec="a constant",
    infer=lambda *, has_default, platforms: shaped((), np.dtype("int32")),
    numpy=lambda *, has_default, platforms: np.array(platform_number("cpu", platforms, has_default), np.int32))


# --- while --------------------------------------------------------------------------------------------------------
def _while_infer(*avals: ShapedArray, cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr, cond_nconsts: int,
                 body_nconsts: int, max_iters: int | None = None) -> list[ShapedArray]:
    carry = avals[cond_nconsts + body_nconsts:]
    check_operands("while: cond_jaxpr", cond_jaxpr, (*avals[:cond_nconsts], *carry))
    check_operands("while: body_jaxpr", body_jaxpr, avals[cond_nconsts:])
    pred = cond_jaxpr.out_avals
    if len(pred) != 1 or pred[0].shape or pred[0].dtype != np.bool_:
        raise DTypeError(f"while: cond_jaxpr must have one result bool[]; got {', '.join(a.str_long() for a in pred)}")
    if max_iters is not None and max_iters < 0:
        raise ShapeError(f"while: max_iters must be None or at least 0; got {max_iters}")
    return _common_types("while: body_jaxpr", body_jaxpr.out_avals, carry)


def _while_numpy(run: RunProgram, *args: Value, **params: ParamValue) -> Sequence[Value]:
    return _run_while(run, bool, args, **params)


def _run_while(run: RunProgram, truth: Callable[[Value], bool], args: Sequence[Value], cond_jaxpr: ClosedJaxpr,
               body_jaxpr: ClosedJaxpr, cond_nconsts: int, body_nconsts: int,
               max_iters: int | None = None) -> Sequence[Value]:
    n = cond_nconsts + body_nconsts
    cond_consts, body_consts, carry = args[:cond_nconsts], args[cond_nconsts:n], args[n:]
    count = 0
    begin_iteration(0)
    while count != max_iters and truth(run(cond_jaxpr, (*cond_consts, *carry))[0]):
        carry = run(body_jaxpr, (*body_consts, *carry))
        count += 1
        begin_iteration(count)
    return carry


def _while_spmd(run: RunProgram, env: AxisEnv, args: list[list[Value]], params: Params) -> Sequence[Value]:
    if not _needs_lockstep(env, params["cond_jaxpr"], params["body_jaxpr"]):
        return run_per_device(env.size, lambda d: _while_numpy(run, *[xs[d] for xs in args], **params))

    def truth(preds: Sequence[Value]) -> bool:
        if len({bool(p) for p in preds}) > 1:
            raise ProgramError("while: devices stop after different numbers of iterations, and the loop communicates; "
                               "the condition must be the same on all devices")
        return bool(preds[0])

    return _run_while(lambda p, xs: run(p, xs, env), truth, args, **params)


while_p = Primitive("while", params=("body_jaxpr", "body_nconsts", "cond_jaxpr", "cond_nconsts", "max_iters"),
                    family="control", infer=_while_infer, numpy=_while_numpy, spmd=_while_spmd,
                    multiple=True,
                    region_signature=RegionSignature(
                        const_operands("cond_nconsts", of="cond_jaxpr"), const_operands("body_nconsts", of="body_jaxpr"),
                        carry_operands(), body="body_jaxpr", test="cond_jaxpr", max_iters="max_iters"),
                    defaults={"max_iters": None}, spec="while")


# --- scan ---------------------------------------------------------------------------------------------------------
def _slice_type(a: ShapedArray) -> ShapedArray:
    part = shaped(a.shape[1:], a.dtype, a.weak_type)
    return a.with_inner(part) if a.is_reference else part  # type: ignore[attr-defined]


def _scan_infer(*avals: ShapedArray, jaxpr: ClosedJaxpr, length: int, num_consts: int, num_carry: int, reverse: bool,
                unroll: int) -> list[ShapedArray]:
    n = num_consts + num_carry
    for i, a in enumerate(avals[n:], n):
        if not a.shape or a.shape[0] != length:
            raise ShapeError(f"scan: operand {i} is scanned over and must have a leading axis of length {length}; got "
                             f"{a.str_long()}")
    slices = tuple(map(_slice_type, avals[n:]))
    check_operands("scan: jaxpr", jaxpr, avals[:n] + slices)
    outs = jaxpr.out_avals
    if unroll < 1:
        raise ShapeError(f"scan: unroll must be at least 1; got {unroll}")
    carry = _common_types("scan: jaxpr", outs[:num_carry], avals[num_consts:n])
    return carry + [shaped((length, *a.shape), a.dtype, a.weak_type) for a in outs[num_carry:]]


def _run_scan(run: RunProgram, cut: Function, stack: Function, args: Sequence[Value], jaxpr: ClosedJaxpr, length: int,
              num_consts: int, num_carry: int, reverse: bool, **_: ParamValue) -> list[Value]:
    n = num_consts + num_carry
    consts, carry, xs = list(args[:num_consts]), list(args[num_consts:n]), args[n:]
    avals = jaxpr.out_avals[num_carry:]
    ys: list[list[Value]] = [[] for _ in avals]
    for i in reversed(range(length)) if reverse else range(length):
        begin_iteration(i)
        outs = run(jaxpr, consts + carry + [cut(x, i) for x in xs])
        carry = list(outs[:num_carry])
        for slices, y in zip(ys, outs[num_carry:]):
            slices.append(y)
    return carry + [stack(slices[::-1] if reverse else slices, a) for slices, a in zip(ys, avals)]


def _stack(slices: Sequence[Value], aval: ShapedArray) -> np.ndarray:
    return np.stack(slices) if slices else np.zeros((0, *aval.shape), aval.dtype)


def _scan_numpy(run: RunProgram, *args: Value, **params: ParamValue) -> Sequence[Value]:
    return _run_scan(run, lambda x, i: x[i], _stack, args, **params)


def _scan_spmd(run: RunProgram, env: AxisEnv, args: list[list[Value]], params: Params) -> Sequence[Value]:
    def stack(slices: Sequence[Value], aval: ShapedArray) -> list[np.ndarray]:
        return [_stack([values[d] for values in slices], aval) for d in range(env.size)]

    return _run_scan(lambda p, xs: run(p, xs, env), lambda xs, i: [x[i] for x in xs], stack, args, **params)


scan_p = Primitive("scan", params=("jaxpr", "length", "num_carry", "num_consts", "reverse", "unroll"),
                   family="control", infer=_scan_infer, numpy=_scan_numpy, spmd=_scan_spmd,
                   multiple=True, spec="while",
                   region_signature=RegionSignature(
                       const_operands("num_consts"), carry_operands("num_carry"), scanned_operands(), body="jaxpr",
                       length="length", reverse="reverse"))
