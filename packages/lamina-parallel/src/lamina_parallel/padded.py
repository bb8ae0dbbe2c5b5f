"""`padded`: any number of rows over the devices, each of which has several, in rounds.

Rows are laid out in places, `rounds` for each device, in order, so that each device's rows lie together. Places that no row
fills are at the end, and repeat the last row. docs/rows-in-rounds.md says what a place does and why nothing leaks out of it.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from lamina_batching import vmap
from lamina_batching.extend import move_to
from lamina_ir import UnnamedAxis, config, shaped, trees
from lamina_tracing import jit, lax, slots
from lamina_tracing.extend import (EVALUATION, PerFunction, Tracer, boundary, eval_jaxpr, jaxpr_as_fun, now, stands_for_array,
                                   typeof)

from .pmap import PmapSpec, pmap
from .rounds import PartOfAxis, Places, like, over_places, repeated
from .row_numbers import communicates_over, numbered

__all__ = ["padded"]

_rounds = PerFunction()  # what runs a staged program in rounds
_MOST = 256  # of these, for a function


@boundary
def padded(fun: Callable[..., Any] | None = None, axis_name: Hashable | None = None, *, in_axes: Any = 0, out_axes: Any = 0,
           static_broadcasted_argnums: int | Sequence[int] = (), devices: Sequence[Any] | None = None,
           backend: str | None = None, axis_size: int | None = None) -> Callable[..., Any]:
    """Parallel map of any number of rows: `pmap`, with several rows for each device where there are more rows than devices.

    Results and derivatives are those of `vmap`, and collectives are over all rows and nothing else. A function without
    collectives is run for one row at a time on each device; with collectives, a device's rows are batched. In several processes
    each gives and gets its own rows, as of `pmap`, of which it may have another number than the others.

    Args:
      fun: function of one row: arrays and trees of them. Left out, `padded` is a decorator with options.
      axis_name: a name for the axis, for collectives such as `lax.psum`.
      in_axes: which axis of each positional argument to map (None: every row gets the whole), a prefix of the arguments.
        Keyword arguments are mapped over axis 0.
      out_axes: where the mapped axis goes in each result; None: it is the same for all rows.
      static_broadcasted_argnums: positions of arguments that are Python values, part of the program.
      devices: the devices to use, in order. Default: all of each process; within another map over devices none but the one
        that is there.
      backend: platform name.
      axis_size: how many rows there are, where no argument says it.
    Returns:
      A function of whole arguments. Its program is compiled once for a number of rounds; with an `axis_name`, whose size
      the function may ask for, once for a number of rows.
    Raises:
      ValueError: axes or sizes that do not fit, a process without rows, or a function that calls the host and has
        collectives, where rows do not fill the devices; names the arguments.
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
    known = _rounds.of(spec.known_as)

    @boundary
    def mapped(*args: Any, **kwargs: Any) -> Any:
        flat, tree, static = spec.split(args, kwargs)
        flat = [x.__jax_array__() if stands_for_array(x) else x for x in flat]
        alone = any(frame.trace is None for frame in now.axes)  # each member of a map over devices has one
        own, every = spec.share()
        across = every > own
        try:
            axes, rows = spec.extent(args, kwargs, flat, tree)
        except ValueError:
            if across:  # the others are waiting for the number
                _rows_of_each(spec, 0)
            raise
        laid = _over_processes(spec, rows) if across else _here(spec, rows, alone)
        if laid.places.rounds == 1 and not alone:  # a device for each
            key: Any = laid.devices, "each", spec.known_by if type(spec.known_by) is tuple else spec
            direct = known.get(key)
            if direct is None:
                direct = _kept(known, key, slots.dispatcher.pmap(spec if laid.devices == spec.devices else PmapSpec(
                    fun, axis_name, call="padded", **{**options, "devices": laid.devices})))
            return direct(*args, **kwargs)
        given = flat if axis_name is not None else _shortened(flat, axes, rows)
        everyone = None if not across else laid.places.rows if axis_name is not None else 2
        staged = spec.stage_call(args, kwargs, given, tree, static, everyone)
        params = staged.closed.jaxpr.eqns[0].params
        places = laid.places
        key = (laid.devices, params["call_jaxpr"], places.devices, places.rounds,
               laid.counts if axis_name is not None else places.parts[0].apart, params["in_axes"], params["out_axes"], backend,
               alone, config.cache_key())
        run = known.get(key)
        if run is None:
            run = _program(spec, params, places, laid.devices, alone)
            if not staged.outer:
                _kept(known, key, run)
        operands = [x if axis is None else _laid_out(x, axis, laid.own)
                    for x, axis in zip([*staged.outer, *flat], params["in_axes"])]
        outs = run(laid, operands)
        return trees.tree_unflatten(staged.out_tree, [_rows(o, axis, rows) for o, axis in zip(outs, params["out_axes"])])

    functools.update_wrapper(mapped, fun, updated=())
    mapped.spec = spec  # type: ignore[attr-defined]
    return mapped


def _kept(known: dict[Any, Any], key: Any, made: Any) -> Any:
    if len(known) >= _MOST:
        known.clear()
    known[key] = made
    return made


def _forget_devices(gone: Callable[[Any], bool]) -> None:
    """Forget what runs on devices that are no more; `gone` says it of one."""
    for table in _rounds.tables():
        for key in list(table):
            if key[0] and gone(key[0][0]):
                table.pop(key, None)


slots.on_devices_gone.append(_forget_devices)


class _Laid(NamedTuple):
    """How the rows of a call are laid out.

    Attributes:
      places: of all rows; own: of this process's, among themselves.
      here: which of the devices of `places` are this process's.
      devices: as `pmap` is told them.
      counts: the rows of each process.
    """

    places: Places
    own: Places
    here: Any
    devices: tuple[Any, ...] | None
    counts: tuple[int, ...]


def _here(spec: PmapSpec, rows: int, alone: bool) -> _Laid:
    """All in this process."""
    found = 1 if alone else len(spec.devices) if spec.devices is not None else _device_count(spec)
    devices = rows if found is None else min(found, rows)
    places = Places(spec.axis_name, rows, devices, -(-rows // devices))
    return _Laid(places, places, slice(None), None if spec.devices is None else spec.devices[:devices], (rows,))


def _over_processes(spec: PmapSpec, rows: int) -> _Laid:
    """Each process has its rows on its own devices, in as many rounds as the one that needs most. All are told how many rows
    there are in each, at each call: one that has met these numbers before does not know that another has not."""
    each, mine = _rows_of_each(spec, rows)
    empty = [p for p, (_, n) in enumerate(each) if not n]
    if empty:
        raise ValueError(f"{spec.lead}: the {empty[0] + 1}. of {len(each)} processes has no rows; expected at least one in "
                         "each. Name the devices of those that have some with devices=")
    used = [theirs[:n] for theirs, n in each]
    counts = tuple([n for _, n in each])
    rounds = max([-(-n // len(theirs)) for theirs, n in zip(used, counts)])
    owner = {d: (p, l) for p, theirs in enumerate(used) for l, d in enumerate(theirs)}
    devices = [d for d in spec.devices or owner if d in owner]
    # The rows are counted device by device; a place without one works on the last row of its process.
    sources, last, number = np.zeros((len(devices), rounds), np.int32), [0] * len(each), 0
    for k, d in enumerate(devices):
        p, l = owner[d]
        real = min(max(counts[p] - l * rounds, 0), rounds)
        sources[k, :real] = np.arange(number, number + real)
        number += real
        if real:
            last[p] = number - 1
        if real < rounds:  # from its last row on
            sources[k, real:] = last[p]
    sources = sources.reshape(-1)
    plain = np.array_equal(sources, np.minimum(np.arange(sources.size), number - 1))
    even = spec.devices is None and len({*map(len, used)}) == 1
    own = Places(spec.axis_name, rows, len(used[mine]), rounds)
    places = Places(spec.axis_name, number, len(devices), rounds, None if plain else sources, len({*counts}) > 1)
    return _Laid(places, own, [k for k, d in enumerate(devices) if owner[d][0] == mine], None if even else tuple(devices),
                 counts)


def _rows_of_each(spec: PmapSpec, rows: int) -> Any:
    """(devices and rows of each process, which of them this is)"""
    dispatcher: Any = slots.dispatcher  # one that says it has several processes can say this too
    return dispatcher.rows_of_each(rows, spec.devices, spec.backend)


def _device_count(spec: PmapSpec) -> int | None:
    try:
        return slots.dispatcher.device_count(spec.backend)
    except RuntimeError as e:
        raise RuntimeError(f"{spec.lead}: backend={spec.backend!r}: {e}") from e.__cause__


def _shortened(flat: Sequence[Any], axes: Sequence[int | None], rows: int) -> list[Any]:
    """Arguments of two rows: where nobody can ask for their number, all numbers of them share a program."""
    found = []
    for x, axis in zip(flat, axes):
        if axis is not None:
            aval = typeof(x)
            shape = (*aval.shape[:axis], min(rows, 2), *aval.shape[axis + 1:])
            x = Tracer(EVALUATION, shaped(shape, aval.dtype, aval.weak_type))
        found.append(x)
    return found


# --- rows to places and back ------------------------------------------------------------------------------------------
def _laid_out(x: Any, axis: int, places: Places) -> Any:
    """An operand with the axis of rows as two: devices and rounds. The last row is repeated, and has no derivative there."""
    if type(x) is np.ndarray:  # on the host there is nothing to compile
        last = x[(slice(None),) * axis + (slice(places.rows - 1, None),)]
        whole = np.concatenate([x, *[last] * places.empty], axis)
        return whole.reshape(*x.shape[:axis], places.devices, places.rounds, *x.shape[axis + 1:])
    return _lay_out(x, axis, places.devices, places.rounds)


@functools.partial(jit, static_argnums=(1, 2, 3), inline=True)
def _lay_out(x: Any, axis: int, devices: int, rounds: int) -> Any:
    shape = typeof(x).shape
    rows, count = shape[axis], devices * rounds
    if rows < count:
        last = lax.stop_gradient(lax.slice_in_dim(x, rows - 1, rows, 1, axis))
        x = lax.concatenate([x, repeated(last, axis, count - rows)], axis)
    return lax.reshape(x, (*shape[:axis], devices, rounds, *shape[axis + 1:]))


@functools.partial(jit, static_argnums=(1, 2), inline=True)
def _rows(x: Any, axis: int | None, rows: int) -> Any:
    """A result without the places that no row fills."""
    if axis is None:
        return lax.index_in_dim(lax.index_in_dim(x, 0, 0, False), 0, 0, False)  # as all agree
    shape = typeof(x).shape
    x = lax.reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2:]))
    return lax.slice_in_dim(x, 0, rows, 1, axis)


# --- what runs the places ---------------------------------------------------------------------------------------------
def _program(spec: PmapSpec, params: dict[str, Any], places: Places, devices: tuple[Any, ...] | None,
             alone: bool) -> Callable[[_Laid, Sequence[Any]], Sequence[Any]]:
    """A function of operands in places to results in places, both with an axis of devices and one of rounds behind it."""
    closed, name = params["call_jaxpr"], spec.axis_name
    outs = [0 if to is None else to for to in params["out_axes"]]
    ins = params["in_axes"]
    communicates = type(name) is not UnnamedAxis and communicates_over(closed, name)
    if communicates and alone:
        batched = vmap(jaxpr_as_fun(closed), in_axes=ins, out_axes=outs, axis_name=name, axis_size=places.rounds)
        mapped = _over_devices(spec, batched, ins, outs, None, devices, None)
        return lambda laid, operands: mapped(*operands)
    if communicates:
        if places.empty and closed.jaxpr.effectful:
            raise ValueError(f"{spec.lead}: the function has collectives and effects, and its {places.rows} rows leave "
                             f"{places.empty} of {places.devices} x {places.rounds} places empty, which would have the "
                             f"effects too. Use a multiple of {places.devices} rows")
        one = over_places(closed, places)
        batched = vmap(jaxpr_as_fun(one), in_axes=ins, out_axes=outs, axis_name=places.parts[1], axis_size=places.rounds)
        mapped = _over_devices(spec, batched, ins, outs, places, devices, places.parts[0])
        return lambda laid, operands: mapped(*operands)
    asks = name in closed.jaxpr.axis_names
    body = numbered(closed, name) if asks else closed
    # With a name there is a program for each number of rows; without, one for all that take as many rounds.
    full = alone or (not places.empty and type(name) is not UnnamedAxis)

    def rounds(real: Any, row: Any, *operands: Any) -> list[Any]:
        slices = [move_to(x, axis, 0) for x, axis in zip(operands, ins) if axis is not None]

        def turn(_: Any, xs: Any) -> Any:
            is_real, mine, parts = xs[0], xs[1], iter(xs[2:])
            given = [x if axis is None else next(parts) for x, axis in zip(operands, ins)]
            given += [mine] if asks else []

            def work() -> list[Any]:
                return eval_jaxpr(body, given)

            def rest() -> list[Any]:
                return [like(lax.full(a.shape, 0, a.dtype), a) for a in closed.out_avals]

            return (), work() if full else lax.cond(is_real, work, rest)

        _, found = lax.scan(turn, (), [real, row, *slices])
        return [move_to(x, 0, to) for x, to in zip(found, outs)]

    apart = PartOfAxis(None, "devices", True) if places.parts[0].apart else None
    mapped = _over_devices(spec, rounds, (0, 0, *ins), outs, None if alone else places, devices, apart)

    def run(laid: _Laid, operands: Sequence[Any]) -> Sequence[Any]:
        real, row = laid.places.filled()
        return mapped(real[laid.here], row[laid.here], *operands)

    return run


def _over_devices(spec: PmapSpec, fun: Callable[..., Any], ins: Sequence[int | None], outs: Sequence[int],
                  places: Places | None, devices: tuple[Any, ...] | None, axis_name: Hashable | None) -> Callable[..., Any]:
    """The function of one device's places, mapped over the devices; without places, run on the one that is there."""
    fun.__name__ = spec.name
    if places is not None:
        return pmap(fun, axis_name, in_axes=tuple(ins), out_axes=list(outs), devices=devices, backend=spec.backend,
                    axis_size=places.devices)

    def alone(*operands: Any) -> list[Any]:
        found = fun(*[x if axis is None else lax.index_in_dim(x, 0, axis, False) for x, axis in zip(operands, ins)])
        return [lax.expand_dims(x, (to,)) for x, to in zip(found, outs)]

    return jit(alone)
