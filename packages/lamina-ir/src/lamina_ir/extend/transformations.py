"""For people who write transformations: tables of rules, nested programs rewritten and divided, what checkpoints keep.

`saved_p` is the op that stands in a program of `keep(...).again` for a value that was kept: `saved(computed, kept)` is
the kept one, and its tangent is that of the one computed again.
"""
from ..checkpointing import keep, resume, saved_p
from ..rewrite import narrow
from ..stages import as_scan, checkpointed, divide, in_stretches, too_many
from ..tables import RuleTable, every_table, new_generation
from ..varying import varying
from ..wiring import Slot, Wire, Wired, backward, forward, with_signature

__all__ = ["RuleTable", "Slot", "Wire", "Wired", "as_scan", "backward", "checkpointed", "divide", "every_table", "forward",
           "in_stretches", "keep", "narrow", "new_generation", "resume", "saved_p", "too_many", "varying", "with_signature"]
