"""`SlotLayout`: how the members of a mapped axis are laid out over devices and rounds, with padding at the end."""
from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence

import numpy as np
from lamina_ir import dtypes, register_param_type
from lamina_ir.typing import AxisName, Value
from lamina_tracing import lax
from lamina_tracing.extend import typeof

__all__ = ["PartOfAxis", "SlotLayout"]


@register_param_type
@dataclasses.dataclass(frozen=True)
class PartOfAxis:
    """The name of one of the two axes, `devices` or `rounds`, over which a mapped axis is laid out.

    `apart` informs the runtime that processes have different numbers of members, so that the program around the map over
    devices differs between them.
    """

    axis: Hashable
    part: str
    apart: bool = False


class SlotLayout:
    """Layout of the members of an axis in slots: member `m` is in round `m % rounds` of device `m // rounds`.

    Args:
      name: the name of the axis.
      num_members: the size of the axis.
      devices: the number of devices.
      rounds: the number of slots of each device.
      sources: the member that each slot computes, device by device; None if the padding slots are the last ones.
      apart: whether processes have different numbers of members.

    Attributes:
      num_slots, num_padding: the number of all slots, and of padding slots.
      first_slots: the slot of each member; None if member `m` is in slot `m`.
    """

    def __init__(self, name: Hashable, num_members: int, devices: int, rounds: int, sources: np.ndarray | None = None,
                 apart: bool = False) -> None:
        self.name, self.num_members, self.devices, self.rounds = name, num_members, devices, rounds
        self.num_slots = devices * rounds
        self.num_padding = self.num_slots - num_members
        self.axis_parts = PartOfAxis(name, "devices", apart), PartOfAxis(name, "rounds")
        # The first slot that computes a member is the member's own; later ones repeat it.
        self.sources = sources
        self.first_slots = None if sources is None else np.unique(sources, return_index=True)[1].astype(np.int32)

    def slot_sources(self) -> tuple[np.ndarray, np.ndarray]:
        """For each slot, by device and round, return whether it holds a member, and which member it computes."""
        # A slot holds a member if it is the first one that computes it. Any later slot with the same source is
        # padding.
        slots = np.arange(self.num_slots, dtype=np.int32)
        sources = np.minimum(slots, self.num_members - 1) if self.sources is None else self.sources
        real = (sources if self.first_slots is None else self.first_slots[sources]) == slots
        return real.reshape(self.devices, self.rounds), sources.reshape(self.devices, self.rounds)

    def split_axis_name(self, names: Sequence[AxisName]) -> tuple[AxisName, ...]:
        """Replace the name of this axis by those of its two parts; devices vary slowest, as in the order of the slots.
        """
        at = names.index(self.name)
        return (*names[:at], *self.axis_parts, *names[at + 1:])

    def slot_index(self) -> Value:
        """Emit the index of this slot."""
        return lax.add(lax.mul(lax.axis_index(self.axis_parts[0]), np.int32(self.rounds)), lax.axis_index(self.axis_parts[1]))

    def member_index(self) -> Value:
        """Emit the index of the member that this slot computes: its own or, in a padding slot, the last one."""
        if self.sources is not None:
            return lax.dynamic_index_in_dim(self.sources, self.slot_index(), 0, False)
        return lax.min(self.slot_index(), np.int32(self.num_members - 1)) if self.num_padding else self.slot_index()

    def is_real(self) -> Value:
        """Emit whether this slot holds a member."""
        if self.sources is not None:
            return lax.dynamic_index_in_dim(self.slot_sources()[0].reshape(-1), self.slot_index(), 0, False)
        return lax.lt(self.slot_index(), np.int32(self.num_members))

    def zero_padding(self, x: Value) -> Value:
        """Emit `x` in the slots of members and zero in padding slots."""
        # A select, not a product: a padding slot may hold NaN or infinity, and 0 * NaN is NaN.
        return lax.select(self.is_real(), x, lax.full_like(x, 0)) if self.num_padding else x

    def stop_padding_gradient(self, x: Value) -> Value:
        """Emit `x`, through which no derivative flows in padding slots."""
        if not dtypes.is_inexact(typeof(x).dtype):
            return x
        # The value is the same in both cases, so a padding slot still computes what its member computes.
        return lax.select(self.is_real(), x, lax.stop_gradient(x))
