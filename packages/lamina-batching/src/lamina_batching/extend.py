"""The door for people who write rows or replace a part of batching."""
from .batch import (BatchAxis, Batched, BatchTrace, BatchTracer, batch_program, materialise, move_to, run_batched)
from .mapping import axis_specs, mapped_size
from .tables import batching_rules

__all__ = ["BatchAxis", "BatchTrace", "BatchTracer", "Batched", "axis_specs", "batch_program", "batching_rules",
           "mapped_size", "materialise", "move_to", "run_batched"]
