"""`jax._src.effects`: classes of side effects, and the sets in which programs register theirs.

lamina keeps the effects of each equation through every transformation. So the sets restrict nothing: they record what
programs add.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lamina_ir import Effect

__all__ = ["Effect", "EffectTypeSet", "Effects", "control_flow_allowed_effects", "custom_derivatives_allowed_effects",
           "lowerable_effects", "no_effects", "ordered_effects", "remat_allowed_effects", "shardable_ordered_effects"]

Effects = frozenset[Effect]
no_effects: Final[Effects] = frozenset()


class EffectTypeSet:
    """A set of classes of effects."""

    def __init__(self) -> None:
        self._types: set[type] = set()

    def add_type(self, effect_type: type) -> None:
        """Add a class; its subclasses are included."""
        self._types.add(effect_type)

    def contains(self, eff: object) -> bool:
        """Return whether an effect is of one of the classes."""
        return isinstance(eff, tuple(self._types))

    def filter_in(self, effects: Iterable[object]) -> list[object]:
        """Return the effects of these classes."""
        return [e for e in effects if self.contains(e)]

    def filter_not_in(self, effects: Iterable[object]) -> list[object]:
        """Return the other effects."""
        return [e for e in effects if not self.contains(e)]


control_flow_allowed_effects = EffectTypeSet()
custom_derivatives_allowed_effects = EffectTypeSet()
lowerable_effects = EffectTypeSet()
ordered_effects = EffectTypeSet()
remat_allowed_effects = EffectTypeSet()
shardable_ordered_effects = EffectTypeSet()
