"""`padded`: map a function over any number of rows, several per device if there are more rows than devices.

Rows are laid out in slots, `rounds` for each device, in order, so that each device has consecutive rows. Slots without
a row are padding at the end and repeat the last row. The page docs/internals/padded-maps.md explains what a padding slot
computes and why it affects no result.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from lamina_batching import vmap
from lamina_batching.extend import move_axis
from lamina_ir import UnnamedAxis, config, shaped, trees
from lamina_tracing import jit, lax, hooks
from lamina_tracing.extend import (EVALUATION, FunctionCache, Tracer, api_boundary, eval_jaxpr, jaxpr_as_fun,
                                   trace_state, has_jax_array, typeof)

from .._maps.pmap import PmapSpec, pmap
from .rewrite import PartOfAxis, PaddedLayout, cast_like, rewrite_for_slots, repeat_slice
from .axis_index_operand import communicates_over, pass_axis_index

__all__ = ["padded"]

_runners = FunctionCache()  # function -> compiled forms of its traced programs
_MAX_CACHED = 256  # forms that are cached for one function


@api_boundary
def padded(fun: Callable[..., Any] | None = None, axis_name: Hashable | None = None, *, in_axes: Any = 0, out_axes: Any = 0,
           static_broadcasted_argnums: int | Sequence[int] = (), devices: Sequence[Any] | None = None,
           backend: str | None = None, axis_size: int | None = None) -> Callable[..., Any]:
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
    >>> padded(lambda x: x / lax.psum(x, "i"), "i")(np.arange(5.0))
    Array([0. , 0.1, 0.2, 0.3, 0.4], dtype=float32)
    """
    options = dict(in_axes=in_axes, out_axes=out_axes, static_broadcasted_argnums=static_broadcasted_argnums, devices=devices,
                   backend=backend, axis_size=axis_size)
    if fun is None:
        return functools.partial(padded, axis_name=axis_name, **options)
    if not callable(fun):
        raise TypeError(f"padded: expected a function; got {type(fun).__name__}")
    spec = PmapSpec(fun, axis_name, call="padded", **options)
    runners = _runners.get_table(spec.function_key)

    @api_boundary
    def mapped(*args: Any, **kwargs: Any) -> Any:
        flat, tree, static = spec.split(args, kwargs)
        flat = [x.__jax_array__() if has_jax_array(x) else x for x in flat]
        on_one_device = any(frame.trace is None for frame in trace_state.axes)  # a member of a map over devices has one device
        own_share, total_share = spec.share()
        multi_process = total_share > own_share
        try:
            axes, rows = spec.axes_and_size(args, kwargs, flat, tree)
        except ValueError:
            if multi_process:  # the other processes wait for this row count
                _rows_of_each(spec, 0)
            raise
        layout = _multi_process_layout(spec, rows) if multi_process else _local_layout(spec, rows, on_one_device)
        if layout.places.rounds == 1 and not on_one_device:  # one device per row
            key: Any = layout.devices, "each", spec.options_key if type(spec.options_key) is tuple else spec
            direct = runners.get(key)
            if direct is None:
                direct = _remember(runners, key, hooks.dispatcher.pmap(spec if layout.devices == spec.devices else PmapSpec(
                    fun, axis_name, call="padded", **{**options, "devices": layout.devices})))
            return direct(*args, **kwargs)
        given = flat if axis_name is not None else _with_two_rows(flat, axes, rows)
        total_rows = None if not multi_process else layout.places.num_members if axis_name is not None else 2
        staged = spec.trace_call(args, kwargs, given, tree, static, total_rows)
        params = staged.closed.jaxpr.eqns[0].params
        places = layout.places
        counts = layout.counts if axis_name is not None else places.axis_parts[0].apart
        key = (layout.devices, params["call_jaxpr"], places.devices, places.rounds, counts, params["in_axes"],
               params["out_axes"], backend, on_one_device, config.cache_key())
        run = runners.get(key)
        if run is None:
            run = _make_runner(spec, params, places, layout.devices, on_one_device)
            if not staged.outer:
                _remember(runners, key, run)
        operands = [x if axis is None else _to_slots(x, axis, layout.own)
                    for x, axis in zip([*staged.outer, *flat], params["in_axes"])]
        outs = run(layout, operands)
        outs = [_drop_padding(o, axis, rows) for o, axis in zip(outs, params["out_axes"])]
        return trees.tree_unflatten(staged.out_tree, outs)

    functools.update_wrapper(mapped, fun, updated=())
    mapped.spec = spec  # type: ignore[attr-defined]
    return mapped


def _remember(known: dict[Any, Any], key: Any, made: Any) -> Any:
    """Store a value in a bounded cache and return it; a full cache is emptied first."""
    if len(known) >= _MAX_CACHED:
        known.clear()
    known[key] = made
    return made


def _forget_devices(is_closed: Callable[[Any], bool]) -> None:
    """Drop cache entries for devices of closed clients; `is_closed` reports whether a device is one of these."""
    for table in _runners.tables():
        for key in list(table):
            if key[0] and is_closed(key[0][0]):
                table.pop(key, None)


hooks.on_devices_closed.append(_forget_devices)


class _RowLayout(NamedTuple):
    """Layout of the rows of a call.

    Attributes:
      places: the slots of all rows.
      own: the slots of this process, counted among themselves.
      here: indices of this process's devices among the devices of `places`.
      devices: the `devices` argument of `pmap`.
      counts: the number of rows of each process.
    """

    places: PaddedLayout
    own: PaddedLayout
    here: Any
    devices: tuple[Any, ...] | None
    counts: tuple[int, ...]


def _local_layout(spec: PmapSpec, rows: int, on_one_device: bool) -> _RowLayout:
    """Lay out rows that are all in this process."""
    limit = 1 if on_one_device else len(spec.devices) if spec.devices is not None else _device_count(spec)
    devices = rows if limit is None else min(limit, rows)
    places = PaddedLayout(spec.axis_name, rows, devices, -(-rows // devices))
    return _RowLayout(places, places, slice(None), None if spec.devices is None else spec.devices[:devices], (rows,))


def _multi_process_layout(spec: PmapSpec, rows: int) -> _RowLayout:
    """Lay out rows of several processes: each on its own devices, in as many rounds as the process that needs most.

    The row counts are exchanged on every call. They cannot be cached by shape: a process that has seen these counts
    does not know whether they are new to another process, which would then wait for the exchange.
    """
    each, mine = _rows_of_each(spec, rows)
    empty = [p for p, (_, n) in enumerate(each) if not n]
    if empty:
        raise ValueError(f"{spec.error_prefix}: the {empty[0] + 1}. of {len(each)} processes has no rows; expected at "
                         "least one in each. Name the devices of those that have some with devices=")
    used = [owned[:n] for owned, n in each]
    counts = tuple([n for _, n in each])
    rounds = max([-(-n // len(owned)) for owned, n in zip(used, counts)])
    owner = {d: (p, l) for p, owned in enumerate(used) for l, d in enumerate(owned)}
    devices = [d for d in spec.devices or owner if d in owner]
    # Rows are numbered device by device. A padding slot repeats the last row of its process.
    sources, last, number = np.zeros((len(devices), rounds), np.int32), [0] * len(each), 0
    for k, d in enumerate(devices):
        p, l = owner[d]
        real = min(max(counts[p] - l * rounds, 0), rounds)
        sources[k, :real] = np.arange(number, number + real)
        number += real
        if real:
            last[p] = number - 1
        if real < rounds:  # padding
            sources[k, real:] = last[p]
    sources = sources.reshape(-1)
    padding_is_last = np.array_equal(sources, np.minimum(np.arange(sources.size), number - 1))
    even = spec.devices is None and len({*map(len, used)}) == 1
    own = PaddedLayout(spec.axis_name, rows, len(used[mine]), rounds)
    places = PaddedLayout(spec.axis_name, number, len(devices), rounds, None if padding_is_last else sources,
                          len({*counts}) > 1)
    return _RowLayout(places, own, [k for k, d in enumerate(devices) if owner[d][0] == mine],
                      None if even else tuple(devices), counts)


def _rows_of_each(spec: PmapSpec, rows: int) -> Any:
    """Return `(devices, row count)` of each process, and the index of this process."""
    dispatcher: Any = hooks.dispatcher  # any multi-process dispatcher has this method
    return dispatcher.rows_of_each(rows, spec.devices, spec.backend)


def _device_count(spec: PmapSpec) -> int | None:
    try:
        return hooks.dispatcher.device_count(spec.backend)
    except RuntimeError as e:
        raise RuntimeError(f"{spec.error_prefix}: backend={spec.backend!r}: {e}") from e.__cause__


def _with_two_rows(flat: Sequence[Any], axes: Sequence[int | None], rows: int) -> list[Any]:
    """Return the arguments with at most two rows.

    Without an axis name the function cannot read the number of rows, so calls with different numbers share one program.
    """
    found = []
    for x, axis in zip(flat, axes):
        if axis is not None:
            aval = typeof(x)
            shape = (*aval.shape[:axis], min(rows, 2), *aval.shape[axis + 1:])
            x = Tracer(EVALUATION, shaped(shape, aval.dtype, aval.weak_type))
        found.append(x)
    return found


# --- rows to slots and back -------------------------------------------------------------------------------------------
def _to_slots(x: Any, axis: int, places: PaddedLayout) -> Any:
    """Split the axis of rows into two axes, devices and rounds. The last row is repeated as padding, with zero
    derivative."""
    if type(x) is np.ndarray:  # NumPy arrays need no compiled program
        last = x[(slice(None),) * axis + (slice(places.num_members - 1, None),)]
        padded_rows = np.concatenate([x, *[last] * places.num_padding], axis)
        return padded_rows.reshape(*x.shape[:axis], places.devices, places.rounds, *x.shape[axis + 1:])
    return _split_rows(x, axis, places.devices, places.rounds)


@functools.partial(jit, static_argnums=(1, 2, 3), inline=True)
def _split_rows(x: Any, axis: int, devices: int, rounds: int) -> Any:
    shape = typeof(x).shape
    rows, count = shape[axis], devices * rounds
    if rows < count:
        last = lax.stop_gradient(lax.slice_in_dim(x, rows - 1, rows, 1, axis))
        x = lax.concatenate([x, repeat_slice(last, axis, count - rows)], axis)
    return lax.reshape(x, (*shape[:axis], devices, rounds, *shape[axis + 1:]))


@functools.partial(jit, static_argnums=(1, 2), inline=True)
def _drop_padding(x: Any, axis: int | None, rows: int) -> Any:
    """Merge the axes of devices and rounds of a result and drop the padding."""
    if axis is None:
        return lax.index_in_dim(lax.index_in_dim(x, 0, 0, False), 0, 0, False)  # all rows have the same value
    shape = typeof(x).shape
    x = lax.reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2:]))
    return lax.slice_in_dim(x, 0, rows, 1, axis)


# --- compiled forms ---------------------------------------------------------------------------------------------------
def _make_runner(spec: PmapSpec, params: dict[str, Any], places: PaddedLayout, devices: tuple[Any, ...] | None,
                 on_one_device: bool) -> Callable[[_RowLayout, Sequence[Any]], Sequence[Any]]:
    """Return a function from operands to results in slots; both have an axis of devices followed by one of rounds."""
    closed, name = params["call_jaxpr"], spec.axis_name
    outs = [0 if to is None else to for to in params["out_axes"]]
    ins = params["in_axes"]
    communicates = type(name) is not UnnamedAxis and communicates_over(closed, name)
    if communicates and on_one_device:
        batched = vmap(jaxpr_as_fun(closed), in_axes=ins, out_axes=outs, axis_name=name, axis_size=places.rounds)
        mapped = _over_devices(spec, batched, ins, outs, None, devices, None)
        return lambda laid, operands: mapped(*operands)
    if communicates:
        if places.num_padding and closed.jaxpr.effectful:
            raise ValueError(f"{spec.error_prefix}: the function has collectives and effects, and its "
                             f"{places.num_members} rows leave {places.num_padding} of {places.devices} x "
                             f"{places.rounds} slots empty, which would have the effects too. Use a multiple of "
                             f"{places.devices} rows")
        one = rewrite_for_slots(closed, places)
        batched = vmap(jaxpr_as_fun(one), in_axes=ins, out_axes=outs, axis_name=places.axis_parts[1], axis_size=places.rounds)
        mapped = _over_devices(spec, batched, ins, outs, places, devices, places.axis_parts[0])
        return lambda laid, operands: mapped(*operands)
    reads_index = name in closed.jaxpr.axis_names
    body = pass_axis_index(closed, name) if reads_index else closed
    # With an axis name there is a program for each number of rows, so it is known here whether slots are empty.
    # Without one, a program serves all row counts with this number of rounds.
    all_real = on_one_device or (not places.num_padding and type(name) is not UnnamedAxis)

    def rounds(real: Any, row: Any, *operands: Any) -> list[Any]:
        slices = [move_axis(x, axis, 0) for x, axis in zip(operands, ins) if axis is not None]

        def step(_: Any, xs: Any) -> Any:
            is_real, mine, parts = xs[0], xs[1], iter(xs[2:])
            given = [x if axis is None else next(parts) for x, axis in zip(operands, ins)]
            given += [mine] if reads_index else []

            def work() -> list[Any]:
                return eval_jaxpr(body, given)

            def skip() -> list[Any]:
                return [cast_like(lax.full(a.shape, 0, a.dtype), a) for a in closed.out_avals]

            return (), work() if all_real else lax.cond(is_real, work, skip)

        _, found = lax.scan(step, (), [real, row, *slices])
        return [move_axis(x, 0, to) for x, to in zip(found, outs)]

    apart = PartOfAxis(None, "devices", True) if places.axis_parts[0].apart else None
    mapped = _over_devices(spec, rounds, (0, 0, *ins), outs, None if on_one_device else places, devices, apart)

    def run(laid: _RowLayout, operands: Sequence[Any]) -> Sequence[Any]:
        real, row = laid.places.slot_sources()
        return mapped(real[laid.here], row[laid.here], *operands)

    return run


def _over_devices(spec: PmapSpec, fun: Callable[..., Any], ins: Sequence[int | None], outs: Sequence[int],
                  places: PaddedLayout | None, devices: tuple[Any, ...] | None,
                  axis_name: Hashable | None) -> Callable[..., Any]:
    """Map the function of one device's slots over the devices; if `places` is None, run it on the current device."""
    fun.__name__ = spec.name
    if places is not None:
        return pmap(fun, axis_name, in_axes=tuple(ins), out_axes=list(outs), devices=devices, backend=spec.backend,
                    axis_size=places.devices)

    def run_on_current(*operands: Any) -> list[Any]:
        found = fun(*[x if axis is None else lax.index_in_dim(x, 0, axis, False) for x, axis in zip(operands, ins)])
        return [lax.expand_dims(x, (to,)) for x, to in zip(found, outs)]

    return jit(run_on_current)
