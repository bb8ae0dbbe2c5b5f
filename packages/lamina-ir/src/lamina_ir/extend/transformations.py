"""For people who write transformations: tables of rules, nested programs rewritten and divided, what checkpoints keep."""
from ..checkpointing import keep, resume, saved_p
from ..evaluator import last_uses
from ..rewrite import map_subprograms, narrow
from ..stages import as_scan, divide
from ..tables import RuleTable, every_table, new_generation
from ..varying import varying
from ..wiring import Slot, Wire, Wired, arrange, backward, forward, with_signature

__all__ = ["RuleTable", "Slot", "Wire", "Wired", "arrange", "as_scan", "backward", "divide", "every_table", "forward",
           "keep", "last_uses", "map_subprograms", "narrow", "new_generation", "resume", "saved_p", "varying",
           "with_signature"]
