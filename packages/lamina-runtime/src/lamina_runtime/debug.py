"""`config.debug_nans` and `config.debug_infs`: every result is read, and where a NaN appears its op and line are named.

A compiled program is run once more for that, op by op, on the same arguments, until the first bad result.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import config, dtypes, trees
from lamina_ir.program import ClosedJaxpr, Eqn, Literal
from lamina_tracing import slots
from lamina_tracing.extend import user_source

from . import _jaxlib, arrays
from ._jaxlib import ArrayImpl

__all__ = ["check_results", "install", "wanted"]


def wanted() -> bool:
    """Whether results are to be checked in this thread."""
    return bool(config.debug_nans.value or config.debug_infs.value)


def _bad(x: Any) -> str | None:
    """'a NaN' or 'an infinity', if the array holds one that is looked for."""
    if type(x) is not ArrayImpl or not dtypes.is_inexact(x.aval.dtype) or x.is_deleted():
        return None
    value = arrays.host_value(x)
    if config.debug_nans.value and np.isnan(value).any():
        return "a NaN"
    if config.debug_infs.value and np.isinf(value).any():
        return "an infinity"
    return None


def check_results(name: str, outs: Sequence[Any], closed: ClosedJaxpr | None = None, flat: Sequence[Any] = (),
                  prim: str | None = None) -> None:
    """FloatingPointError when a result holds a NaN, naming the op and the line it comes from.

    Args:
      name: the function's name.
      outs: its results.
      closed, flat: the program and its arguments, if it can be run again.
      prim: the op's name, if the results are those of a single op.
    """
    for x in outs:
        what = _bad(x)
        if what is not None:
            break
    else:
        return
    setting = "config.debug_nans" if what == "a NaN" else "config.debug_infs"
    if prim is not None:
        where = user_source(2)
        raise FloatingPointError(f"`{prim}` produced {what} in its result {x.aval.long()}"
                                 + (f" at {where}" if where is not None else "") + f" ({setting} is on)")
    reason = "it ran on several devices"
    if closed is not None and not closed.jaxpr.axis_names:
        if any(type(a) is ArrayImpl and a.is_deleted() for a in flat):
            reason = "its arguments were donated; leave donate_argnums out to find the operation"
        else:
            found: list[tuple[Eqn, str, Any]] = []
            with config.debug_nans(False), config.debug_infs(False):
                _run(closed, flat, found, what == "a NaN")
            if found:
                eqn, kind, values = found[0]
                given = ", ".join(map(_range, values))
                raise FloatingPointError(f"`{eqn.primitive.name}` produced {kind} in its result "
                                         f"{eqn.outvars[0].aval.long()}" + (f" at {eqn.source}" if eqn.source else "")
                                         + f", in `{name}`; its operands were {given} ({setting} is on)")
            reason = "run op by op it is not there: the compiler orders operations differently"
    raise FloatingPointError(f"`{name}` produced {what} in a result {x.aval.long()} ({setting} is on); the operation is not "
                             f"known: {reason}")


def _range(x: Any) -> str:
    value = np.asarray(x)
    if value.size == 0 or not (value.dtype.kind in "fiub" or dtypes.is_float(value.dtype)):
        return f"{value.dtype.name}{list(value.shape)}"
    wide = value.astype(np.float64)
    if value.ndim == 0:
        return f"{value.dtype.name}[] {float(wide):g}"
    return f"{value.dtype.name}{list(value.shape)} in [{np.nanmin(wide):g}, {np.nanmax(wide):g}]"


# --- op by op -----------------------------------------------------------------------------------------------------
def _run(closed: ClosedJaxpr, args: Sequence[Any], found: list[Any], nans: bool) -> list[Any]:
    """The program's results; as soon as an op gives a bad one, it is put in `found` and the walk stops."""
    jaxpr = closed.jaxpr
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts))
    env.update(zip(jaxpr.invars, args))

    def read(a: Any) -> Any:
        return a.val if type(a) is Literal else env[a]

    for eqn in jaxpr.eqns:
        prim = eqn.primitive
        if prim.effectful and not eqn.outvars:
            continue  # its effect has been had
        values = [read(a) for a in eqn.invars]
        inner = _inside(eqn, values, found, nans)
        if found:
            return []
        if inner is not None:
            outs: Any = inner
        else:
            out = slots.evaluator.primitive(prim, values, eqn.params)
            outs = out if prim.multiple else (out,)
            kind = next((k for k in (_holds(o, nans) for o in outs) if k), None)
            if kind:
                found.append((eqn, kind, values))
                return []
        env.update(zip(eqn.outvars, outs))
    return [read(a) for a in jaxpr.outvars]


def _holds(x: Any, nans: bool) -> str | None:
    if type(x) is not ArrayImpl or not dtypes.is_inexact(x.aval.dtype):
        return None
    value = arrays.host_value(x)
    if nans:
        return "a NaN" if np.isnan(value).any() else None
    return "an infinity" if np.isinf(value).any() else None


def _inside(eqn: Eqn, values: list[Any], found: list[Any], nans: bool) -> list[Any] | None:
    """The results of a call or of control flow, its programs run op by op; None for anything else."""
    name, params = eqn.primitive.name, eqn.params

    def run(program: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        return _run(program, args, found, nans)

    if name == "xla_pmap":
        return None
    if "call_jaxpr" in eqn.primitive.subprograms:
        return run(params["call_jaxpr"], values)
    if name == "cond":
        branches, index = params["branches"], int(values[0])
        return run(branches[index if 0 <= index < len(branches) else -1], values[1:])
    if name == "while":
        a, b = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        carry = values[b:]
        count = 0
        while count != params.get("max_iters"):
            go = run(params["cond_jaxpr"], values[:a] + carry)
            if found or not bool(go[0]):
                break
            carry = run(params["body_jaxpr"], values[a:b] + carry)
            if found:
                break
            count += 1
        return carry
    if name == "scan":
        n, m = params["num_consts"], params["num_consts"] + params["num_carry"]
        carry, rows = values[n:m], [np.asarray(x) for x in values[m:]]
        steps = range(params["length"])
        for i in reversed(steps) if params["reverse"] else steps:
            outs = run(params["jaxpr"], values[:n] + carry + [x[i] for x in rows])
            if found:
                return []
            carry = outs[:params["num_carry"]]
        return list(slots.evaluator.primitive(eqn.primitive, values, params))
    return None


# --- calls that run without Python ----------------------------------------------------------------------------------
def _after_call(call: Any, args: Any, kwargs: Any, out: Any) -> None:
    leaves = trees.tree_leaves(out)
    if not any(_bad(x) for x in leaves):
        return
    name = getattr(call, "__name__", "program")
    spec = getattr(call, "spec", None)
    if spec is None:
        check_results(name, leaves, prim=name)
        return
    flat, tree, static = spec.split(args, kwargs)
    staged = spec.stage(flat, tree, static)
    check_results(name, leaves, staged.closed, flat)


def _watch(value: Any, is_local: bool) -> None:
    hook = _after_call if wanted() else None
    if not is_local:
        _jaxlib.post_hook_state.set_global(hook)
        return
    own = any(o._local.value is not config.UNSET for o in (config.debug_nans, config.debug_infs))
    _jaxlib.post_hook_state.set_local(hook if own else _jaxlib.UNSET)


def install() -> None:
    """Follow the settings."""
    config.debug_nans.watch(_watch)
    config.debug_infs.watch(_watch)
