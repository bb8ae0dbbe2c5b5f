"""For people who add ops: the table of rows, and what rows are made of.

A row of `batching_rules` is `row(axis, args, dims, /, **params) -> (out, dim)`: `axis` is a `BatchAxis`, `dims` says per
operand which axis is the batch, None for none, and `dim` does so for the result (of several results both are sequences).
"""
from ..batch import BatchAxis, Batched, batch_program, materialise, move_to
from ..flows import flow_batch, flow_row
from ..tables import batching_rules

__all__ = ["BatchAxis", "Batched", "batch_program", "batching_rules", "flow_batch", "flow_row", "materialise", "move_to"]
