"""The door for people who write rows or replace a part of batching."""
from .batch import (BatchAxis, Batched, BatchTrace, BatchTracer, batch_program, materialise, move_to, run_batched)
from .flows import flow_batch, flow_row
from .mapping import axis_specs, mapped_size
from .tables import batching_rules

__all__ = ["BatchAxis", "BatchTrace", "BatchTracer", "Batched", "axis_specs", "batch_program", "batching_rules",
           "flow_batch", "flow_row", "mapped_size", "materialise", "move_to", "run_batched"]
