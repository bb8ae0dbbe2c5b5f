"""`config.debug_nans` and `config.debug_infs`: every result is read, and where a NaN appears its op and line are named.

A compiled program is run once more for that, op by op, on the same arguments, until the first bad result (`second_look`).
Donated arguments are copied beforehand. The processes of a program over several tell one another of what they have seen, and
look together (`jointly`).
"""
from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np
from lamina_ir import CallbackError, ClosedJaxpr, config, dtypes, prims, trees
from lamina_ir.extend import Placement, Tiles, lone_map, rows_apart
from lamina_tracing import jit
from lamina_tracing.extend import batch_position, eager_lines, user_source

from . import _jaxlib, arrays, jointly, placing, second_look, shardings
from ._jaxlib import ArrayImpl
from .mesh_parts import part_shapes

__all__ = ["check_results", "install", "keeping", "settle", "wanted"]


def wanted() -> bool:
    """Whether results are to be checked in this thread."""
    return bool(config.debug_nans.value or config.debug_infs.value)


def _bad(x: Any) -> str | None:
    """'a NaN' or 'an infinity', if the array holds one that is looked for, as far as this process has it."""
    if type(x) is not ArrayImpl or not dtypes.is_inexact(x.aval.dtype) or x.is_deleted():
        return None
    parts = [x] if x._sharding.is_fully_addressable else [s.data for s in x.addressable_shards]
    nans, infs = config.debug_nans.value, config.debug_infs.value
    return next((k for k in [second_look.bad_value(arrays.host_value(part), nans, infs) for part in parts] if k), None)


class _Kept(threading.local):
    copies: dict[int, Any] = {}


_kept = _Kept()


@contextmanager
def keeping(given: Sequence[Any]) -> Iterator[None]:
    """Around a call that takes these arrays away: copies of them, for running it again. Of an array over several processes each
    copies what it has."""
    old, _kept.copies = _kept.copies, {id(x): np.array(x) if x._sharding.is_fully_addressable else copy(x) for x in given}
    try:
        yield
    finally:
        _kept.copies = old


def _first_bad(outs: Sequence[Any]) -> tuple[Any, str] | None:
    return next(((x, what) for x, what in [(x, _bad(x)) for x in outs] if what is not None), None)


def _setting(what: str) -> str:
    return "config.debug_nans" if what == "a NaN" else "config.debug_infs"


def check_results(name: str, outs: Sequence[Any], closed: ClosedJaxpr | None = None, flat: Sequence[Any] = (),
                  prim: str | None = None, placement: Placement | None = None) -> None:
    """FloatingPointError when a result holds a NaN, naming the op and the line it comes from.

    Args:
      name: the function's name.
      outs: its results.
      closed, flat: the program and its arguments, if it can be run again.
      prim: the op's name, if the results are those of a single op.
      placement: how the program lay on devices, if on several.
    """
    seen = _first_bad(outs)
    if seen is None:
        return
    x, what = seen
    if prim is not None:
        where = user_source(2)
        value = arrays.host_value(x)
        bad = np.isnan(value) if what == "a NaN" else np.isinf(value)

        def told() -> str:
            place = batch_position(where, prims.by_name(prim), bad)
            return (f"`{prim}` produced {what} in its result {x.aval.long()}" + (f" at {where}" if where is not None else "")
                    + (f", {place}" if place else "") + f" ({_setting(what)} is on)")

        error = FloatingPointError(told())
        error.told = told  # type: ignore[attr-defined]  # a batching row that runs knows the place of the batch only later
        raise error
    flat = _with_copies(flat)
    if closed is not None:
        closed = second_look.quiet(closed)
    if closed is None or closed.jaxpr.axis_names:
        reason = "it ran inside of a mapped program"
    elif any(type(a) is ArrayImpl and a.is_deleted() for a in flat):
        reason = _DONATED
    elif closed.jaxpr.effectful:
        reason = _TWICE
    else:
        line = user_source(2)
        with config.debug_nans(False), config.debug_infs(False):
            found = second_look.look(closed, flat, what == "a NaN", line, placement)
        if found is not None:
            raise FloatingPointError(f"{found.text(name)} ({_setting(what)} is on)")
        reason = _GONE
    raise _unknown(name, what, x.aval.long(), reason)


_DONATED = "its arguments were donated; leave donate_argnums out to find the operation"
_TWICE = "it has effects with results, which would happen twice"
_TURNED = ("its maps take their rows in another order than that of the processes; call the function itself, not a compiled "
           "step of it, to find the operation")
_GONE = "run op by op it is not there: the compiler orders operations differently"


def _with_copies(flat: Sequence[Any]) -> list[Any]:
    return [_kept.copies.get(id(a), a) if type(a) is ArrayImpl and a.is_deleted() else a for a in flat]


def _unknown(name: str, what: str, result: str, reason: str) -> FloatingPointError:
    return FloatingPointError(f"`{name}` produced {what} in a result {result} ({_setting(what)} is on); the operation is not "
                              f"known: {reason}")


# --- several processes --------------------------------------------------------------------------------------------------
def settle(name: str, closed: ClosedJaxpr, placement: Placement, flat: Sequence[Any], outs: Sequence[Any],
           failure: CallbackError | None) -> None:
    """What the processes of a program do after each launch of it that is looked at: all of them, in the order of launches. If
    something was wrong in one of them all raise.

    Args:
      name: the function's name.
      closed, placement, flat, outs: the program, how it lay, its arguments and results.
      failure: what a callback raised here.
    Raises:
      CallbackError: a callback raised in some process.
      FloatingPointError: some process has seen a NaN, as `check_results` says.
    """
    looks = wanted()
    seen = _first_bad(outs) if looks and failure is None else None
    closed = second_look.quiet(closed) if looks else closed
    flat = _with_copies(flat)
    turned = bool(placement.face and not placement.members and rows_apart(closed, placement) is None
                  and placing.turned(closed))
    known = looks and not turned and not closed.jaxpr.effectful and not any(
        type(a) is ArrayImpl and a.is_deleted() for a in flat)
    whole = not placement.face  # arrays over all devices, which the processes put together if they have to
    values = None if not known else [] if whole else [_host(x, a.dtype) for x, a in zip(flat, closed.in_avals)]
    settled = jointly.settle(placement.devices, failure, None if seen is None else seen[1], values)
    if settled is None:
        return
    what, parts = settled
    line, result = user_source(2), "of another process" if seen is None else seen[0].aval.long()
    if not parts:
        raise _unknown(name, what, result, _TURNED if turned else _TWICE if closed.jaxpr.effectful else _DONATED)
    with config.debug_nans(False), config.debug_infs(False):
        if whole:
            everywhere = shardings.tiled(placement.devices, Tiles())
            copied = jit(lambda *xs: xs, out_shardings=everywhere)(*flat)
            given = [[_host(x, a.dtype) for x, a in zip(copied, closed.in_avals)]]
        else:
            given = [_read(part, types) for part, types in zip(parts, _types(closed, placement))]
        found = second_look.look_over(closed, given, what == "a NaN", line, placement)
    if found is None:
        raise _unknown(name, what, result, _GONE)
    raise FloatingPointError(f"{found.text(name)} ({_setting(what)} is on)")


def _host(x: Any, dtype: np.dtype) -> np.ndarray:
    return np.asarray(arrays.host_value(x) if type(x) is ArrayImpl else x, dtype)


def _types(closed: ClosedJaxpr, placement: Placement) -> list[list[tuple[tuple[int, ...], np.dtype]]]:
    """Shapes and dtypes of the arguments of each process: of a map by itself, each has its own number of rows."""
    e = lone_map(closed) if placement.members else rows_apart(closed, placement)
    each = 1 if placement.members else len(placement.here) // placement.rows
    rows = Counter(d.process_index for d in placement.devices[::each])
    if e is not None and placing.over_mesh(e):
        entries = dict(zip(e.invars, e.params["in_specs"]))
        shapes = [part_shapes(e, v.aval.shape, entries.get(v, (None,) * v.aval.ndim)) for v in closed.jaxpr.invars]
        return [[(theirs[p], v.aval.dtype) for v, theirs in zip(closed.jaxpr.invars, shapes)] for p in range(len(rows))]
    axes = {} if e is None else dict(zip(e.invars, e.params["in_axes"]))

    def shape(v: Any, n: int) -> tuple[int, ...]:
        at = axes.get(v)
        return v.aval.shape if at is None else (*v.aval.shape[:at], n, *v.aval.shape[at + 1:])

    return [[(shape(v, n), v.aval.dtype) for v in closed.jaxpr.invars] for n in rows.values()]


def _read(data: bytes, types: Sequence[tuple[tuple[int, ...], np.dtype]]) -> list[np.ndarray]:
    at, found = 0, []
    for shape, dtype in types:
        count = math.prod(shape)
        found.append(np.frombuffer(data, dtype, count, at).reshape(shape))
        at += count * dtype.itemsize
    return found


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
    flat, tree, static = spec.split(args, kwargs)  # of one device: `Program.run` has looked at the others
    check_results(name, leaves, spec.stage_call(args, kwargs, flat, tree, static).closed, flat)


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
