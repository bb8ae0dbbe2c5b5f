"""Check results for NaNs and infinities (`config.debug_nans`, `config.debug_infs`), and report the primitive and its
line.

If a compiled program returns one, it is run again with the same arguments, primitive by primitive, up to the first bad
result (`nan_locator`). Donated arguments are copied before the launch for that purpose. The processes of a
multi-process program exchange their errors and locate the NaN together (`error_consensus`).
"""
from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy

import numpy as np
from lamina_ir import CallbackError, ClosedJaxpr, Var, config, dtypes, prims, trees
from lamina_ir.extend import Placement, Tiles, single_map_eqn, find_per_member_map
from lamina_tracing import jit
from lamina_tracing.extend import describe_batch_position, eager_source_requests, find_user_source, typeof
from lamina_ir.typing import Tree, Value

from .. import _jaxlib
from .._array import arrays
from .._launch import error_consensus
from .._placement import resolve
from . import nan_locator
from .._sharding import shardings
from .._jaxlib import ArrayImpl
from .._placement.process_shards import process_shard_shapes
from .._typing import Array, CallObject, SettingValue

__all__ = ["check_results", "check_results_multi_process", "install", "is_enabled", "saving_copies"]


def is_enabled() -> bool:
    """Return whether results are checked in this thread."""
    return bool(config.debug_nans.value or config.debug_infs.value)


def _find_nonfinite(x: Value) -> str | None:
    """Return 'a NaN' or 'an infinity' if the addressable shards of an array have one and its check is on; else None."""
    if type(x) is not ArrayImpl or not dtypes.is_inexact(x.aval.dtype) or x.is_deleted():
        return None
    parts = [x] if x._sharding.is_fully_addressable else [s.data for s in x.addressable_shards]
    nans, infs = config.debug_nans.value, config.debug_infs.value
    return next((k for k in [nan_locator.find_nonfinite(arrays.host_value(part), nans, infs) for part in parts] if k), None)


class _SavedCopies(threading.local):
    copies: dict[int, Value] = {}


_saved = _SavedCopies()


@contextmanager
def saving_copies(given: Sequence[Array]) -> Iterator[None]:
    """Context for a call that donates `given`: save copies of these arrays, so that the call can be run again.

    Of an array over several processes, each process copies its own shards.
    """
    # Keyed by id: the arrays live as long as the call, so ids are not reused meanwhile.
    old, _saved.copies = _saved.copies, {id(x): np.array(x) if x._sharding.is_fully_addressable else copy(x)
                                         for x in given}
    try:
        yield
    finally:
        _saved.copies = old


def _find_bad_result(outs: Sequence[Value]) -> tuple[Array, str] | None:
    return next(((x, what) for x, what in [(x, _find_nonfinite(x)) for x in outs] if what is not None), None)


def _setting_name(what: str) -> str:
    return "config.debug_nans" if what == "a NaN" else "config.debug_infs"


def check_results(name: str, outs: Sequence[Value], closed: ClosedJaxpr | None = None, flat: Sequence[Value] = (),
                  prim: str | None = None, placement: Placement | None = None) -> None:
    """Raise FloatingPointError if a result has a NaN, naming the primitive and its source line.

    Args:
      name: the function's name.
      outs: its results.
      closed: the program, if it can be run again.
      flat: its arguments; the operands, if the results are those of a single primitive.
      prim: the primitive's name, if the results are those of a single primitive.
      placement: the placement of the program, if it ran on several devices.
    """
    bad_result = _find_bad_result(outs)
    if bad_result is None:
        return
    x, what = bad_result
    if prim is not None:
        line = find_user_source(2)
        value = arrays.host_value(x)
        bad = np.isnan(value) if what == "a NaN" else np.isinf(value)
        operands = nan_locator.describe_operands(flat, [typeof(a) for a in flat])

        def format_message() -> str:
            example = describe_batch_position(line, prims.get_primitive(prim), bad)
            return (f"`{prim}` produced {what} in its result {x.aval.str_long()}"
                    + (f" at {line}" if line is not None else "")
                    + (f", {example}" if example else "")
                    + f"; its operands were {operands} ({_setting_name(what)} is on)")

        # If this is raised inside a batching rule, the batch axis of the result is known only after the rule has run.
        # Batching then calls this function again for the final text.
        error = FloatingPointError(format_message())
        error.format_message = format_message  # type: ignore[attr-defined]
        raise error
    # The launch has deleted the donated arguments.
    flat = _restore_donated(flat)
    if closed is not None:
        closed = nan_locator.drop_resultless_effects(closed)
    if closed is None or closed.jaxpr.axis_names:
        reason = "it ran inside a mapped program"
    elif any(type(a) is ArrayImpl and a.is_deleted() for a in flat):
        reason = _ARGS_DONATED
    elif closed.jaxpr.effectful:
        reason = _HAS_EFFECTS
    else:
        line = find_user_source(2)
        # The search produces the bad value again, and must not be checked itself.
        with config.debug_nans(False), config.debug_infs(False):
            found = nan_locator.locate_nan(closed, flat, what == "a NaN", line, placement)
        if found is not None:
            raise FloatingPointError(f"{found.text(name)} ({_setting_name(what)} is on)")
        reason = _NOT_REPRODUCED
    raise _unlocated_error(name, what, x.aval.str_long(), reason)


_ARGS_DONATED = "its arguments were donated; leave donate_argnums out to find the operation"
_HAS_EFFECTS = "it has effects with results, which would happen twice"
_PERMUTED = ("the devices of its maps are not in the order of the processes; call the function itself, not its "
             "compiled form, to find the operation")
_NOT_REPRODUCED = "it does not occur when the operations run one by one: the compiler reorders operations"


def _restore_donated(flat: Sequence[Value]) -> list[Value]:
    return [_saved.copies.get(id(a), a) if type(a) is ArrayImpl and a.is_deleted() else a for a in flat]


def _unlocated_error(name: str, what: str, result: str, reason: str) -> FloatingPointError:
    return FloatingPointError(f"`{name}` produced {what} in a result {result} ({_setting_name(what)} is on); the "
                              f"operation is not known: {reason}")


# --- several processes ------------------------------------------------------------------------------------------------
def check_results_multi_process(name: str, closed: ClosedJaxpr, placement: Placement, flat: Sequence[Value],
                                outs: Sequence[Value], failure: CallbackError | None) -> None:
    """Check the results of a multi-process launch. If one process saw an error, all processes raise.

    All processes of the program must call this after each checked launch, in the order of the launches.

    Args:
      name: the function's name.
      closed, placement, flat, outs: the program, its placement, arguments and results.
      failure: the exception of a callback in this process, or None.
    Raises:
      CallbackError: a callback raised in one of the processes.
      FloatingPointError: a result has a NaN in one of the processes, see `check_results`.
    """
    checked = is_enabled()
    bad_result = _find_bad_result(outs) if checked and failure is None else None
    closed = nan_locator.drop_resultless_effects(closed) if checked else closed
    flat = _restore_donated(flat)
    permuted = bool(placement.local_devices and not placement.one_member_per_device
                    and find_per_member_map(closed, placement) is None
                    and resolve.rows_permuted(closed))
    can_rerun = checked and not permuted and not closed.jaxpr.effectful and not any(
        type(a) is ArrayImpl and a.is_deleted() for a in flat)
    is_global = not placement.local_devices  # global arrays; gathered below only if a NaN was seen
    values: list[np.ndarray] | None = None
    if can_rerun:
        values = [] if is_global else [_to_host(x, a.dtype) for x, a in zip(flat, closed.in_avals)]
    consensus = error_consensus.exchange_errors(placement.devices, failure, None if bad_result is None
                                                else bad_result[1], values)
    if consensus is None:
        return
    what, arg_bytes = consensus
    line, result = find_user_source(2), "of another process" if bad_result is None else bad_result[0].aval.str_long()
    if not arg_bytes:
        reason = _PERMUTED if permuted else _HAS_EFFECTS if closed.jaxpr.effectful else _ARGS_DONATED
        raise _unlocated_error(name, what, result, reason)
    with config.debug_nans(False), config.debug_infs(False):
        if is_global:
            replicated = shardings.tiled_sharding(placement.devices, Tiles())
            # A collective, which all processes reach: they have the same consensus.
            gathered = jit(lambda *xs: xs, out_shardings=replicated)(*flat)
            process_args = [[_to_host(x, a.dtype) for x, a in zip(gathered, closed.in_avals)]]
        else:
            process_args = [_split_bytes(part, types)
                            for part, types in zip(arg_bytes, _arg_types_by_process(closed, placement))]
        found = nan_locator.locate_nan_multi_process(closed, process_args, what == "a NaN", line, placement)
    if found is None:
        raise _unlocated_error(name, what, result, _NOT_REPRODUCED)
    raise FloatingPointError(f"{found.text(name)} ({_setting_name(what)} is on)")


def _to_host(x: Value, dtype: np.dtype) -> np.ndarray:
    return np.asarray(arrays.host_value(x) if type(x) is ArrayImpl else x, dtype)


def _arg_types_by_process(closed: ClosedJaxpr, placement: Placement) -> list[list[tuple[tuple[int, ...], np.dtype]]]:
    """Return (shape, dtype) of the arguments of each process.

    In a single map, each process may have its own size of the mapped axis.
    """
    e = single_map_eqn(closed) if placement.one_member_per_device else find_per_member_map(closed, placement)
    devices_per_member = 1 if placement.one_member_per_device else len(placement.visible_devices) // placement.local_members
    member_counts = Counter(d.process_index for d in placement.devices[::devices_per_member])
    if e is not None and resolve.is_multi_process_mesh_map(e):
        specs = dict(zip(e.invars, e.params["in_specs"]))
        shapes = [process_shard_shapes(e, v.aval.shape, specs.get(v, (None,) * v.aval.ndim)) for v in closed.jaxpr.invars]
        return [[(part_shapes_of[p], v.aval.dtype) for v, part_shapes_of in zip(closed.jaxpr.invars, shapes)]
                for p in range(len(member_counts))]
    in_axes = {} if e is None else dict(zip(e.invars, e.params["in_axes"]))

    def shape(v: Var, n: int) -> tuple[int, ...]:
        at = in_axes.get(v)
        return v.aval.shape if at is None else (*v.aval.shape[:at], n, *v.aval.shape[at + 1:])

    return [[(shape(v, n), v.aval.dtype) for v in closed.jaxpr.invars] for n in member_counts.values()]


def _split_bytes(data: bytes, types: Sequence[tuple[tuple[int, ...], np.dtype]]) -> list[np.ndarray]:
    offset, values = 0, []
    for shape, dtype in types:
        count = math.prod(shape)
        values.append(np.frombuffer(data, dtype, count, offset).reshape(shape))
        offset += count * dtype.itemsize
    return values


# --- calls on the C++ fast path ---------------------------------------------------------------------------------------
def _after_call(call: CallObject, args: Sequence[Tree], kwargs: Mapping[str, Tree], out: Tree) -> None:
    leaves = trees.tree_leaves(out)
    if not any(_find_nonfinite(x) for x in leaves):
        return
    name = getattr(call, "__name__", "program")
    spec = getattr(call, "spec", None)
    if spec is None:
        check_results(name, leaves, flat=trees.tree_leaves(args), prim=name)
        return
    flat, tree, static = spec.split(args, kwargs)  # one device only: `CompiledProgram.run` checks programs over several
    check_results(name, leaves, spec.trace_call(args, kwargs, flat, tree, static).closed, flat)


def _update_hook(value: SettingValue, is_local: bool) -> None:
    # jaxlib calls the hook after each fast-path call. Without checks it is None, which costs nothing.
    hook = _after_call if is_enabled() else None
    eager_source_requests[:] = [True] if hook else []
    # A block sets a value for its thread only, which takes precedence in jaxlib too.
    if not is_local:
        _jaxlib.post_hook_state.set_global(hook)
        return
    has_local = any(o.thread_value is not config.UNSET for o in (config.debug_nans, config.debug_infs))
    _jaxlib.post_hook_state.set_local(hook if has_local else _jaxlib.UNSET)


def install() -> None:
    """Install the checks, and update them when the settings change."""
    config.debug_nans.watch(_update_hook)
    config.debug_infs.watch(_update_hook)
