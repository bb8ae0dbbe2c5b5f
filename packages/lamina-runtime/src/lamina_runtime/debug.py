"""`config.debug_nans` and `config.debug_infs`: every result is read, and where a NaN appears its op and line are named.

A compiled program is run once more for that, op by op, on the same arguments, until the first bad result: on the device,
or, where it ran on several of them, in lockstep by NumPy. Donated arguments are copied beforehand.
"""
from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, Literal, config, dtypes, evaluate_primitive, prims, rewrite, trees
from lamina_ir.extend import Turn, lone_map, running_device, running_turns, turns_text, watching
from lamina_tracing import slots
from lamina_tracing.extend import batch_position, eager_lines, user_source

from . import _jaxlib, arrays
from ._jaxlib import ArrayImpl
from .placing import rows_across

__all__ = ["check_results", "install", "keeping", "wanted"]


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


class _Kept(threading.local):
    copies: dict[int, np.ndarray] = {}


_kept = _Kept()


@contextmanager
def keeping(given: Sequence[Any]) -> Iterator[None]:
    """Around a call that takes these arrays away: host copies of them, for running it again."""
    old, _kept.copies = _kept.copies, {id(x): np.array(x) for x in given}
    try:
        yield
    finally:
        _kept.copies = old


def check_results(name: str, outs: Sequence[Any], closed: ClosedJaxpr | None = None, flat: Sequence[Any] = (),
                  prim: str | None = None, mapped: dict[str, Any] | None = None) -> None:
    """FloatingPointError when a result holds a NaN, naming the op and the line it comes from.

    Args:
      name: the function's name.
      outs: its results.
      closed, flat: the program and its arguments, if it can be run again.
      prim: the op's name, if the results are those of a single op.
      mapped: the params of the `xla_pmap`, if the program ran on the devices of one.
    """
    for x in outs:
        what = _bad(x)
        if what is not None:
            break
    else:
        return
    # From here on `x` is the first bad result. Where it was made is found by running the program again, op by op.
    setting = "config.debug_nans" if what == "a NaN" else "config.debug_infs"
    if prim is not None:
        where = user_source(2)
        value = arrays.host_value(x)
        bad = np.isnan(value) if what == "a NaN" else np.isinf(value)

        def told() -> str:
            place = batch_position(where, prims.by_name(prim), bad)
            return (f"`{prim}` produced {what} in its result {x.aval.long()}" + (f" at {where}" if where is not None else "")
                    + (f", {place}" if place else "") + f" ({setting} is on)")

        error = FloatingPointError(told())
        error.told = told  # type: ignore[attr-defined]  # a batching row that runs knows the place of the batch only later
        raise error
    if closed is not None:
        closed = _quiet(closed)
    if mapped is not None:
        mapped = {**mapped, "call_jaxpr": _quiet(mapped["call_jaxpr"])}
    flat = [_kept.copies.get(id(a), a) if type(a) is ArrayImpl and a.is_deleted() else a for a in flat]
    if closed is None or closed.jaxpr.axis_names and mapped is None:
        reason = "it ran inside of a mapped program"
    elif any(type(a) is ArrayImpl and a.is_deleted() for a in flat):
        reason = "its arguments were donated; leave donate_argnums out to find the operation"
    elif closed.jaxpr.effectful:
        reason = "it has effects with results, which would happen twice"
    elif rows_across(closed) or mapped is not None and (mapped["global_axis_size"] or 0) > mapped["axis_size"]:
        reason = "its rows are given by several processes"
    elif mapped is not None and not all(map(_readable, flat)):
        reason = "its arguments lie in several processes"
    else:
        found: list[_Found] = []
        line = user_source(2)
        with config.debug_nans(False), config.debug_infs(False):
            if mapped is not None:
                _run_mapped(mapped, flat, found, what == "a NaN", line)
            else:
                _run(closed, flat, found, what == "a NaN", line)
        if found:
            eqn, kind, values, where, device, steps, place = found[0]
            on = "" if device is None else f" on device {device} of the mapped axes"
            given = ", ".join(map(_range, values))
            raise FloatingPointError(f"`{eqn.primitive.name}` produced {kind} in its result {eqn.outvars[0].aval.long()}"
                                     + (f" at {where}" if where else "") + (f", {place}" if place else "") + turns_text(steps)
                                     + f", in `{name}`{on}; its operands were {given} ({setting} is on)")
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
    known = wide[~np.isnan(wide)]
    some = f"in [{known.min():g}, {known.max():g}]" if known.size else "all NaN"
    return f"{value.dtype.name}{list(value.shape)} {some}" + (" and NaN" if 0 < known.size < wide.size else "")


class _Found(NamedTuple):
    """A bad result: whose, what, from what; where in the user's code, on which device, in which turns of the loops around
    (outermost first), in which example of a batch."""

    eqn: Eqn
    kind: str
    operands: Sequence[Any]
    line: Any
    device: int | None = None
    turns: tuple[Turn, ...] = ()
    place: str = ""


# --- op by op -----------------------------------------------------------------------------------------------------
def _readable(x: Any) -> bool:
    return type(x) is not ArrayImpl or x.is_fully_addressable


def _quiet(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program without the effects that give nothing: they have been had."""
    return rewrite(closed, lambda e: [] if e.primitive.effectful and not e.outvars else None)


class _Stop(Exception):
    """A bad result has been found."""


def _run_mapped(params: dict[str, Any], args: Sequence[Any], found: list[_Found], nans: bool, line: Any,
                turns: Sequence[Turn] = ()) -> None:
    """All devices of an `xla_pmap` in lockstep, by the ops' NumPy meanings, until one gives a bad result."""
    def see(eqn: Eqn, operands: Any, results: Any) -> None:
        for rows in results:
            for device, x in enumerate(rows):
                kind = _bad_value(np.asarray(x), nans)
                if kind:
                    here = device if len(rows) > 1 else running_device()
                    found.append(_Found(eqn, kind, [xs[device] for xs in operands], eqn.source or line, here,
                                        (*turns, *running_turns()), _place(eqn, x, nans)))
                    raise _Stop

    try:
        with watching(see), np.errstate(all="ignore"):
            evaluate_primitive(prims.xla_pmap_p, [np.asarray(x) for x in args], params)
    except _Stop:
        pass


def _place(eqn: Eqn, x: Any, nans: bool) -> str:
    """Which example of a batch is bad, where that is known."""
    value = np.asarray(x)
    return batch_position(eqn.source, eqn.primitive, np.isnan(value) if nans else np.isinf(value))


def _run(closed: ClosedJaxpr, args: Sequence[Any], found: list[_Found], nans: bool, line: Any,
         turns: Sequence[Turn] = ()) -> list[Any]:
    """The program's results; as soon as an op gives a bad one, it is put in `found` and the walk stops.

    `line` is where the program is called, for equations of our own functions, which have no line in it; `turns` says which
    turns of which loops run.
    """
    jaxpr = closed.jaxpr
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts))
    env.update(zip(jaxpr.invars, args))

    def read(a: Any) -> Any:
        return a.val if type(a) is Literal else env[a]

    for eqn in jaxpr.eqns:
        prim = eqn.primitive
        values = [read(a) for a in eqn.invars]
        inner = _inside(eqn, values, found, nans, eqn.source or line, turns)
        if found:
            return []
        if inner is not None:
            outs: Any = inner
        else:
            out = slots.evaluator.primitive(prim, values, eqn.params)
            outs = out if prim.multiple else (out,)
            kind = next((k for k in (_holds(o, nans) for o in outs) if k), None)
            if kind:
                found.append(_Found(eqn, kind, values, eqn.source or line, None, tuple(turns),
                                    _place(eqn, outs[0], nans) if len(outs) == 1 else ""))
                return []
        env.update(zip(eqn.outvars, outs))
    return [read(a) for a in jaxpr.outvars]


def _holds(x: Any, nans: bool) -> str | None:
    if type(x) is not ArrayImpl or not dtypes.is_inexact(x.aval.dtype):
        return None
    return _bad_value(arrays.host_value(x), nans)


def _bad_value(value: np.ndarray, nans: bool) -> str | None:
    if not dtypes.is_inexact(value.dtype):
        return None
    if nans:
        return "a NaN" if np.isnan(value).any() else None
    return "an infinity" if np.isinf(value).any() else None


def _inside(eqn: Eqn, values: list[Any], found: list[_Found], nans: bool, line: Any,
            turns: Sequence[Turn]) -> list[Any] | None:
    """The results of a call or of control flow, its programs run op by op; None for anything else."""
    name, params = eqn.primitive.name, eqn.params

    def run(program: ClosedJaxpr, args: Sequence[Any], turn: int | None = None) -> list[Any]:
        return _run(program, args, found, nans, line, turns if turn is None else (*turns, Turn(name, turn, line)))

    if name == "xla_pmap":
        _run_mapped(params, values, found, nans, line, turns)
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
            go = run(params["cond_jaxpr"], values[:a] + carry, count)
            if found or not bool(go[0]):
                break
            carry = run(params["body_jaxpr"], values[a:b] + carry, count)
            if found:
                break
            count += 1
        return carry
    if name == "scan":
        # Turn by turn until one is bad; the stacked results are those of the whole op, wanted only if none is.
        n, m = params["num_consts"], params["num_consts"] + params["num_carry"]
        carry, rows = values[n:m], [np.asarray(x) for x in values[m:]]
        steps = range(params["length"])
        for i in reversed(steps) if params["reverse"] else steps:
            outs = run(params["jaxpr"], values[:n] + carry + [x[i] for x in rows], i)
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
    closed = spec.stage_call(args, kwargs, flat, tree, static).closed
    e = lone_map(closed)
    if e is None:
        check_results(name, leaves, closed, flat)
    else:
        check_results(name, leaves, e.params["call_jaxpr"], flat, mapped=e.params)


def _watch(value: Any, is_local: bool) -> None:
    hook = _after_call if wanted() else None
    eager_lines[:] = [True] if hook else []
    if not is_local:
        _jaxlib.post_hook_state.set_global(hook)
        return
    own = any(o.own is not config.UNSET for o in (config.debug_nans, config.debug_infs))
    _jaxlib.post_hook_state.set_local(hook if own else _jaxlib.UNSET)


def install() -> None:
    """Follow the settings."""
    config.debug_nans.watch(_watch)
    config.debug_infs.watch(_watch)
