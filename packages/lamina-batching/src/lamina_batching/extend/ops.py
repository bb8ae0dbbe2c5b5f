"""Extension API for authors of primitives: the batching rule table and helpers for rules.

A rule in `batching_rules` is `rule(axis, args, dims, /, **params) -> (out, dim)`. `axis` is a `BatchAxis`; `dims` holds
the batch axis of each operand, or None; `dim` is the batch axis of the result. For several results, `out` and `dim` are
sequences.
"""
from typing import TYPE_CHECKING

from lamina_ir.layers import deprecated_getattr

from ..batch_trace import BatchAxis, BatchedProgram, batch_program, materialise, move_axis
from ..higher_order import batch_higher_order, make_higher_order_rule
from ..tables import batching_rules

__all__ = ["BatchAxis", "BatchedProgram", "batch_higher_order", "batch_program", "batching_rules",
           "make_higher_order_rule", "materialise", "move_axis"]

if TYPE_CHECKING:
    from .._deprecated import *
else:
    __getattr__ = deprecated_getattr(__name__)
