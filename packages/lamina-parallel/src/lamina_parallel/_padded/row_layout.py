"""`RowLayout`: how the rows of one call are laid out over processes, devices and rounds; rows to slots and back."""
from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from lamina_ir.typing import Device, Value
from lamina_tracing import jit, lax, hooks
from lamina_tracing.extend import typeof

from .._maps.pmap import PmapSpec
from .collective_rules import repeat_slice
from .slot_layout import SlotLayout

__all__ = ["RowLayout", "exchange_row_counts", "lay_out_local_rows", "lay_out_rows_of_processes", "rows_to_slots",
           "slots_to_rows"]


class RowLayout(NamedTuple):
    """Layout of the rows of a call.

    Attributes:
      slots: the slots of the rows of all processes.
      own_slots: the slots of this process, counted among themselves.
      own_devices: indices of this process's devices among the devices of `slots`.
      devices: the `devices` argument of `pmap`.
      counts: the number of rows of each process.
    """

    slots: SlotLayout
    own_slots: SlotLayout
    own_devices: slice | list[int]
    devices: tuple[Device, ...] | None
    counts: tuple[int, ...]


def lay_out_local_rows(spec: PmapSpec, rows: int, on_one_device: bool) -> RowLayout:
    """Lay out rows that are all in this process."""
    limit = 1 if on_one_device else len(spec.devices) if spec.devices is not None else _device_count(spec)
    # No limit: the dispatcher has no devices (NumPy), so each row has a slot of its own.
    devices = rows if limit is None else min(limit, rows)
    slots = SlotLayout(spec.axis_name, rows, devices, -(-rows // devices))
    return RowLayout(slots, slots, slice(None), None if spec.devices is None else spec.devices[:devices], (rows,))


def lay_out_rows_of_processes(spec: PmapSpec, rows: int) -> RowLayout:
    """Lay out rows of several processes: each on its own devices, in as many rounds as the process that needs most.

    The row counts are exchanged on every call. They cannot be cached by shape: a process that has seen these counts
    does not know whether they are new to another process, which would then wait for the exchange.
    """
    processes, this_process = exchange_row_counts(spec, rows)
    empty = [p for p, (_, n) in enumerate(processes) if not n]
    if empty:
        raise ValueError(f"{spec.error_prefix}: the process at index {empty[0]} of {len(processes)} has no rows; expected at "
                         "least one row in each. Pass devices= of the processes that have rows")
    used = [owned[:n] for owned, n in processes]  # no more devices than rows
    counts = tuple([n for _, n in processes])
    rounds = max([-(-n // len(owned)) for owned, n in zip(used, counts)])
    owner = {d: (p, i) for p, owned in enumerate(used) for i, d in enumerate(owned)}
    # The axis has the order of `devices=` if that is given, otherwise that of the processes. Devices without rows are
    # left out.
    devices = [d for d in spec.devices or owner if d in owner]
    sources = _number_rows([owner[d] for d in devices], counts, rounds)
    total = sum(counts)
    # If only the last slots are padding, sources are `min(slot, total - 1)`, and the rules need no tables.
    padding_is_last = np.array_equal(sources, np.minimum(np.arange(sources.size), total - 1))
    slots = SlotLayout(spec.axis_name, total, len(devices), rounds, None if padding_is_last else sources, len({*counts}) > 1)
    own_slots = SlotLayout(spec.axis_name, rows, len(used[this_process]), rounds)
    # The default of pmap is the same number of first devices in each process. It gives no `devices`, so that the
    # programs of pmap are shared.
    is_default_choice = spec.devices is None and len({*map(len, used)}) == 1
    return RowLayout(slots, own_slots, [k for k, d in enumerate(devices) if owner[d][0] == this_process],
                     None if is_default_choice else tuple(devices), counts)


def _number_rows(owners: Sequence[tuple[int, int]], counts: Sequence[int], rounds: int) -> np.ndarray:
    """Return the row that each slot computes. Rows are numbered device by device; padding repeats its process's last row.

    Args:
      owners: for each device its process, and its index among the devices of that process.
      counts: the number of rows of each process.
      rounds: the number of slots of each device.
    """
    sources, last, number = np.zeros((len(owners), rounds), np.int32), [0] * len(counts), 0
    for k, (process, i) in enumerate(owners):
        # Device i of a process has the rows i * rounds, i * rounds + 1, ... of that process.
        real = min(max(counts[process] - i * rounds, 0), rounds)
        sources[k, :real] = np.arange(number, number + real)
        number += real
        if real:
            last[process] = number - 1
        sources[k, real:] = last[process]
    return sources.reshape(-1)


def exchange_row_counts(spec: PmapSpec, rows: int) -> tuple[Sequence[tuple[Sequence[Device], int]], int]:
    """Return `(devices, row count)` of each process, and the index of this process."""
    dispatcher: Any = hooks.dispatcher  # any multi-process dispatcher has this method
    return dispatcher.rows_of_each(rows, spec.devices, spec.backend)


def _device_count(spec: PmapSpec) -> int | None:
    try:
        return hooks.dispatcher.device_count(spec.backend)
    except RuntimeError as e:
        raise RuntimeError(f"{spec.error_prefix}: backend={spec.backend!r}: {e}") from e.__cause__


def rows_to_slots(x: Value, axis: int, slots: SlotLayout) -> Value:
    """Split the axis of rows into two axes, devices and rounds. The last row is repeated as padding, with zero
    derivative."""
    if type(x) is np.ndarray:  # NumPy arrays need no compiled program
        last = x[(slice(None),) * axis + (slice(slots.num_members - 1, None),)]
        padded_rows = np.concatenate([x, *[last] * slots.num_padding], axis)
        return padded_rows.reshape(*x.shape[:axis], slots.devices, slots.rounds, *x.shape[axis + 1:])
    return _split_rows(x, axis, slots.devices, slots.rounds)


@functools.partial(jit, static_argnums=(1, 2, 3), inline=True)
def _split_rows(x: Value, axis: int, devices: int, rounds: int) -> Value:
    shape = typeof(x).shape
    rows, count = shape[axis], devices * rounds
    if rows < count:
        last = lax.stop_gradient(lax.slice_in_dim(x, rows - 1, rows, 1, axis))
        x = lax.concatenate([x, repeat_slice(last, axis, count - rows)], axis)
    return lax.reshape(x, (*shape[:axis], devices, rounds, *shape[axis + 1:]))


@functools.partial(jit, static_argnums=(1, 2), inline=True)
def slots_to_rows(x: Value, axis: int | None, rows: int) -> Value:
    """Merge the axes of devices and rounds of a result and drop the padding."""
    if axis is None:
        return lax.index_in_dim(lax.index_in_dim(x, 0, 0, False), 0, 0, False)  # all rows have the same value
    shape = typeof(x).shape
    x = lax.reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2:]))
    return lax.slice_in_dim(x, 0, rows, 1, axis)
