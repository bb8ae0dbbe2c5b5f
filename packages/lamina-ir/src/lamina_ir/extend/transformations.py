"""Extension API for new transformations: rule tables, rewriting and splitting of nested programs, checkpoint policies.

`saved_p` is the primitive for a saved value in a program with rematerialization: `saved(recomputed, saved)` returns the
saved value, and its tangent is that of the recomputed one. `FEW` is the maximal number of cheap equations that are
recomputed for one value.
"""
from ..again import FEW, compared, is_cheap
from ..avals import set_axis_sizes
from ..checkpointing import keep, resume, saved_p
from ..needless import without_needless
from ..primitive import bound_by
from ..over import over_of_results, refuse_disagreement, speaks_of_axes, typed_equation, typed_program
from ..rewrite import narrow
from ..stages import as_scan, checkpointed, divide, in_stretches, too_many
from ..tables import RuleTable, every_table, new_generation
from ..wiring import Slot, Wire, Wired, backward, forward, with_signature

__all__ = ["FEW", "RuleTable", "Slot", "Wire", "Wired", "as_scan", "backward", "bound_by", "checkpointed", "compared",
           "divide", "every_table", "forward", "in_stretches", "is_cheap", "keep", "narrow", "new_generation",
           "over_of_results", "refuse_disagreement", "resume", "saved_p", "set_axis_sizes", "speaks_of_axes", "too_many",
           "typed_equation", "typed_program", "with_signature", "without_needless"]
