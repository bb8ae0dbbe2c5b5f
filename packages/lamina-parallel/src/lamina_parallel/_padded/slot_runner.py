"""Run a per-row program over all slots.

It is a map over devices, of a batch or of a loop over the rounds of each device."""
from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from lamina_batching import vmap
from lamina_batching.extend import move_axis
from lamina_ir import ClosedJaxpr, UnnamedAxis
from lamina_ir.typing import Device, Function, Params, Tree, Value
from lamina_tracing import jit, lax
from lamina_tracing.extend import eval_jaxpr, jaxpr_as_fun

from .._maps.pmap import PmapSpec, pmap
from .axis_index_operand import communicates_over, pass_axis_index
from .collective_rules import cast_like
from .rewrite import rewrite_for_slots
from .row_layout import RowLayout
from .slot_layout import PartOfAxis, SlotLayout

__all__ = ["Runner", "make_runner"]

Runner = Callable[[RowLayout, Sequence[Value]], Sequence[Value]]


def make_runner(spec: PmapSpec, params: Params, layout: RowLayout, on_one_device: bool) -> Runner:
    """Return a function from operands to results in slots; both have an axis of devices followed by one of rounds.

    Args:
      spec: the map of rows.
      params: the params of its map equation.
      layout: the layout of the first call; later calls have as many devices and rounds.
      on_one_device: whether a map over devices is around the call.
    """
    name = spec.axis_name
    if type(name) is not UnnamedAxis and communicates_over(params["call_jaxpr"], name):
        return _batch_rounds(spec, params, layout, on_one_device)
    return _loop_over_rounds(spec, params, layout, on_one_device)


def _batch_rounds(spec: PmapSpec, params: Params, layout: RowLayout, on_one_device: bool) -> Runner:
    """Return the runner of a program with collectives, which need all rows at once: each device batches its rounds."""
    closed, slots, ins, outs = params["call_jaxpr"], layout.slots, params["in_axes"], _out_positions(params)
    if on_one_device:
        # One device has as many rounds as rows: there is no padding, and the rounds are the whole axis, under its own
        # name.
        batched = vmap(jaxpr_as_fun(closed), in_axes=ins, out_axes=outs, axis_name=spec.axis_name, axis_size=slots.rounds)
        mapped = _map_over_devices(spec, batched, ins, outs, None, layout.devices, None)
    else:
        if slots.num_padding and closed.jaxpr.effectful:
            raise ValueError(f"{spec.error_prefix}: the function has collectives and effects, and its "
                             f"{slots.num_members} rows leave {slots.num_padding} of {slots.devices} x {slots.rounds} slots "
                             f"empty, which would have the effects too. Use a multiple of {slots.devices} rows")
        over_devices, over_rounds = slots.axis_parts
        batched = vmap(jaxpr_as_fun(rewrite_for_slots(closed, slots)), in_axes=ins, out_axes=outs, axis_name=over_rounds,
                       axis_size=slots.rounds)
        mapped = _map_over_devices(spec, batched, ins, outs, slots, layout.devices, over_devices)
    return lambda layout, operands: mapped(*operands)


def _loop_over_rounds(spec: PmapSpec, params: Params, layout: RowLayout, on_one_device: bool) -> Runner:
    """Return the runner of a program without collectives: each device computes one row after the other."""
    closed, slots, ins, outs = params["call_jaxpr"], layout.slots, params["in_axes"], _out_positions(params)
    reads_index = spec.axis_name in closed.jaxpr.axis_names
    # With an axis name there is a program for each number of rows, so it is known here whether slots are empty.
    # Without one, a program serves all row counts with this number of rounds.
    all_real = on_one_device or (not slots.num_padding and type(spec.axis_name) is not UnnamedAxis)
    step = _make_step(closed, pass_axis_index(closed, spec.axis_name) if reads_index else closed, all_real)

    def rounds(real: Value, row: Value, *operands: Value) -> list[Value]:
        slices = [move_axis(x, axis, 0) for x, axis in zip(operands, ins) if axis is not None]

        def one_round(_: Tree, xs: Tree) -> tuple[tuple[()], list[Value]]:
            is_real, index, parts = xs[0], xs[1], iter(xs[2:])
            row_operands = [x if axis is None else next(parts) for x, axis in zip(operands, ins)]
            return (), step(is_real, [*row_operands, index] if reads_index else row_operands)

        _, found = lax.scan(one_round, (), [real, row, *slices])
        return [move_axis(x, 0, to) for x, to in zip(found, outs)]

    # The name of the axis informs the runtime that processes have different numbers of rows.
    uneven = PartOfAxis(None, "devices", True) if slots.axis_parts[0].apart else None
    mapped = _map_over_devices(spec, rounds, (0, 0, *ins), outs, None if on_one_device else slots, layout.devices, uneven)

    def run(layout: RowLayout, operands: Sequence[Value]) -> Sequence[Value]:
        # These are operands, so that one program serves all row counts with this number of rounds. They are read from
        # the layout of this call, not from that of the first one.
        real, row = layout.slots.slot_sources()
        return mapped(real[layout.own_devices], row[layout.own_devices], *operands)

    return run


def _make_step(closed: ClosedJaxpr, body: ClosedJaxpr, all_real: bool) -> Callable[[Value, list[Value]], list[Value]]:
    """Return the function of one round, which runs `body` unless the slot is padding; `closed` has the result types."""
    def step(is_real: Value, given: list[Value]) -> list[Value]:
        def work() -> list[Value]:
            return eval_jaxpr(body, given)

        def skip() -> list[Value]:
            return [cast_like(lax.full(a.shape, 0, a.dtype), a) for a in closed.out_avals]

        # A branch, not a select: a padding slot must have no effects and should cost no time.
        return work() if all_real else lax.cond(is_real, work, skip)

    return step


def _out_positions(params: Params) -> list[int]:
    """Return where each result has its two axes; a result that is equal for all rows has them in front."""
    return [0 if to is None else to for to in params["out_axes"]]


def _map_over_devices(spec: PmapSpec, fun: Function, ins: Sequence[int | None], outs: Sequence[int],
                  slots: SlotLayout | None, devices: tuple[Device, ...] | None, axis_name: Hashable | None) -> Function:
    """Map the function of one device's slots over the devices; if `slots` is None, run it on the current device."""
    fun.__name__ = spec.name
    if slots is not None:
        return pmap(fun, axis_name, in_axes=tuple(ins), out_axes=list(outs), devices=devices, backend=spec.backend,
                    axis_size=slots.devices)

    def run_on_current(*operands: Value) -> list[Value]:
        found = fun(*[x if axis is None else lax.index_in_dim(x, 0, axis, False) for x, axis in zip(operands, ins)])
        return [lax.expand_dims(x, (to,)) for x, to in zip(found, outs)]

    return jit(run_on_current)
