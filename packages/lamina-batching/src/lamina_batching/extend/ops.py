"""Extension API for authors of primitives: the batching rule table and helpers for rules.

A rule in `batching_rules` is `rule(axis, args, dims, /, **params) -> (out, dim)`. `axis` is a `BatchAxis`; `dims` holds
the batch axis of each operand, or None; `dim` is the batch axis of the result. For several results, `out` and `dim` are
sequences.
"""
from ..batch import BatchAxis, Batched, batch_program, materialise, move_to
from ..flows import flow_batch, flow_row
from ..tables import batching_rules

__all__ = ["BatchAxis", "Batched", "batch_program", "batching_rules", "flow_batch", "flow_row", "materialise", "move_to"]
