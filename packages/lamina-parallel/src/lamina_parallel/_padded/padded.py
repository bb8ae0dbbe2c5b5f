"""`padded`: map a function over any number of rows, several per device if there are more rows than devices.

Rows are laid out in slots, `rounds` for each device, in order, so that each device has consecutive rows. Slots without
a row are padding at the end and repeat the last row. The page docs/design/padded-maps.md explains what a padding slot
computes and why it affects no result.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from lamina_ir import config, shaped, trees
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import CacheKey, Device, Function, Tree, Value
from lamina_tracing import hooks
from lamina_tracing.extend import (EVALUATION, FunctionCache, StagedProgram, Tracer, api_boundary, trace_state,
                                   has_jax_array, read_jax_array, typeof, wraps)

from .._maps.pmap import PmapSpec
from .row_layout import (RowLayout, exchange_row_counts, lay_out_local_rows, lay_out_rows_of_processes, rows_to_slots,
                         slots_to_rows)
from .slot_runner import Runner, make_runner

__all__ = ["padded"]

T = TypeVar("T")

_runners = FunctionCache()  # function -> compiled forms of its traced programs
_MAX_CACHED = 256  # forms that are cached for one function


@api_boundary
def padded(fun: Function | None = None, axis_name: Hashable | None = None, *, in_axes: Tree = 0, out_axes: Tree = 0,
           static_broadcasted_argnums: int | Sequence[int] = (), devices: Sequence[Device] | None = None,
           backend: str | None = None, axis_size: int | None = None) -> Function:
    """Map a function over any number of rows in parallel: `pmap`, with several rows per device if there are more rows
    than devices.

    Results and derivatives are those of `vmap`, and collectives include exactly the rows. A function without
    collectives runs for one row at a time on each device; with collectives, the rows of a device are batched. In
    several processes each process passes and receives its own rows, as with `pmap`. Processes may have different
    numbers of rows.

    Args:
      fun: function of one row: arrays and trees of them. Left out, `padded` is a decorator with options.
      axis_name: a name for the axis, for collectives such as `lax.psum`.
      in_axes: which axis of each positional argument to map (None: every row gets the whole argument), a prefix of the
        arguments. Keyword arguments are mapped over axis 0.
      out_axes: where the mapped axis goes in each result; None if the result is equal for all rows.
      static_broadcasted_argnums: positions of arguments that are Python values, part of the program.
      devices: the devices to use, in order. Default: all devices of each process; within another map over devices, the
        device of the member.
      backend: platform name.
      axis_size: the number of rows, needed if no argument is mapped.
    Returns:
      A function of unmapped arguments. Its program is compiled once for each number of rounds. With an `axis_name`, whose
      size the function may read, it is compiled once for each number of rows.
    Raises:
      ValueError: axes or sizes do not fit, a process has no rows, or the function has collectives and calls the host, and
        the rows do not fill the devices. The message names the arguments.
      TypeError: an argument is no array.

    >>> import numpy as np
    >>> from lamina_tracing import lax
    >>> padded(lambda x: x / lax.psum(x, "i"), "i")(np.arange(5.0))
    Array([0. , 0.1, 0.2, 0.3, 0.4], dtype=float32)
    """
    options = dict(in_axes=in_axes, out_axes=out_axes, static_broadcasted_argnums=static_broadcasted_argnums, devices=devices,
                   backend=backend, axis_size=axis_size)
    if fun is None:
        return functools.partial(padded, axis_name=axis_name, **options)
    if not callable(fun):
        raise TypeError(f"padded: expected a function; got {type(fun).__name__}")
    function = _PaddedFunction(fun, axis_name, options)
    mapped: Any = api_boundary(function.call)
    wraps(fun)(mapped)
    mapped.spec = function.spec
    return mapped


class _PaddedFunction:
    """A function, the options of `padded`, and the compiled forms of its programs."""

    def __init__(self, fun: Function, axis_name: Hashable | None, options: dict[str, Any]) -> None:
        self.fun, self.axis_name, self.options = fun, axis_name, options
        self.spec = PmapSpec(fun, axis_name, call="padded", **options)
        self.runners = _runners.get_table(self.spec.function_key)

    def call(self, /, *args: Tree, **kwargs: Tree) -> Tree:
        """Lay out the rows, and run the function on the slots."""
        spec = self.spec
        flat, tree, static = spec.split(args, kwargs)
        if any(map(has_jax_array, flat)):
            flat = [read_jax_array(x) if has_jax_array(x) else x for x in flat]
        # A member of a map over devices has one device.
        on_one_device = bool(trace_state.axes) and any(frame.trace is None for frame in trace_state.axes)
        axes, rows, layout = self._lay_out(args, kwargs, flat, tree, on_one_device)
        # One round means one row for each device and no padding, since a layout never has more devices than rows.
        if layout.slots.rounds == 1 and not on_one_device:
            return self._get_pmap(layout)(*args, **kwargs)
        operands_to_trace = flat if self.axis_name is not None else _with_two_rows(flat, axes, rows)
        staged = spec.trace_call(args, kwargs, operands_to_trace, tree, static, self._size_to_trace(layout))
        params = staged.closed.jaxpr.eqns[0].params
        operands = [x if axis is None else rows_to_slots(x, axis, layout.own_slots)
                    for x, axis in zip([*staged.outer, *flat], params["in_axes"])]
        outs = self._get_runner(staged, layout, on_one_device)(layout, operands)
        outs = [slots_to_rows(o, axis, rows) for o, axis in zip(outs, params["out_axes"])]
        return trees.tree_unflatten(staged.out_tree, outs)

    def _lay_out(self, args: Sequence[Tree], kwargs: dict[str, Tree], flat: Sequence[Value], tree: PyTreeDef,
                 on_one_device: bool) -> tuple[list[int | None], int, RowLayout]:
        """Return the mapped axis of each flat argument, the number of rows of this process, and the layout of all rows."""
        spec = self.spec
        own_share, total_share = spec.share()
        if total_share == own_share:
            axes, rows = spec.axes_and_size(args, kwargs, flat, tree)
            return axes, rows, lay_out_local_rows(spec, rows, on_one_device)
        try:
            axes, rows = spec.axes_and_size(args, kwargs, flat, tree)
        except ValueError:
            exchange_row_counts(spec, 0)  # the other processes wait for this row count
            raise
        return axes, rows, lay_out_rows_of_processes(spec, rows)

    def _get_pmap(self, layout: RowLayout) -> Function:
        """Return the function mapped over one device per row."""
        spec = self.spec
        key = layout.devices, "each", spec.options_key if type(spec.options_key) is tuple else spec
        found = self.runners.get(key)
        if found is None:
            own = spec if layout.devices == spec.devices else PmapSpec(
                self.fun, self.axis_name, call="padded", **{**self.options, "devices": layout.devices})
            found = _remember(self.runners, key, hooks.dispatcher.pmap(own))
        return found

    def _size_to_trace(self, layout: RowLayout) -> int | None:
        """Return the axis size in all processes with which to trace; None: the rows of the arguments determine it."""
        if len(layout.counts) == 1:
            return None
        # Without a name the size cannot be read, so every number of rows above one traces the same program
        # (`_with_two_rows`).
        return layout.slots.num_members if self.axis_name is not None else 2

    def _get_runner(self, staged: StagedProgram, layout: RowLayout, on_one_device: bool) -> Runner:
        """Return the compiled form of a program for these slots; one with values of enclosing traces is not cached."""
        slots, params = layout.slots, staged.closed.jaxpr.eqns[0].params
        counts = layout.counts if self.axis_name is not None else slots.axis_parts[0].apart
        key = (layout.devices, params["call_jaxpr"], slots.devices, slots.rounds, counts, params["in_axes"],
               params["out_axes"], self.spec.backend, on_one_device, config.cache_key())
        run = self.runners.get(key)
        if run is None:
            run = make_runner(self.spec, params, layout, on_one_device)
            # Values of enclosing traces (`outer`) differ from call to call, and a cached form would keep their traces
            # alive.
            if not staged.outer:
                _remember(self.runners, key, run)
        return run


def _remember(known: dict[CacheKey, T], key: CacheKey, value: T) -> T:
    """Store a value in a bounded cache and return it; a full cache is emptied first."""
    if len(known) >= _MAX_CACHED:
        # Emptying keeps no order of use, so a hit is one look-up.
        known.clear()
    known[key] = value
    return value


def _forget_devices(is_closed: Callable[[Device], bool]) -> None:
    """Drop cache entries for devices of closed clients; `is_closed` reports whether a device is one of these."""
    _runners.drop(lambda key: key[0] and is_closed(key[0][0]))


hooks.on_devices_closed.append(_forget_devices)


def _with_two_rows(flat: Sequence[Value], axes: Sequence[int | None], rows: int) -> list[Value]:
    """Return the arguments with at most two rows.

    Without an axis name the function cannot read the number of rows, so calls with different numbers share one program.
    """
    found = []
    for x, axis in zip(flat, axes):
        if axis is not None:
            aval = typeof(x)
            # One row is a case of its own: with a single row no result can differ between rows (`PmapSpec`).
            shape = (*aval.shape[:axis], min(rows, 2), *aval.shape[axis + 1:])
            x = Tracer(EVALUATION, shaped(shape, aval.dtype, aval.weak_type))
        found.append(x)
    return found
