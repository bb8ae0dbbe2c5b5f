"""Extension API for authors of transformations: `vmap` with another way to apply a function to a batch.

`ApplyBatched` is the type of such a function: `apply(fun, axis, args, dims)` returns (flat results, batch axis of
each).
`run_batched` is the default one: it applies batching rules, primitive by primitive, with the trace `BatchTrace`, whose
tracers are of class `BatchTracer`.
"""
from typing import TYPE_CHECKING

from lamina_ir.layers import deprecated_getattr

from ..batch_trace import BatchTrace, BatchTracer, run_batched
from ..vmap import ApplyBatched, make_vmap

__all__ = ["ApplyBatched", "BatchTrace", "BatchTracer", "make_vmap", "run_batched"]

if TYPE_CHECKING:
    from .._deprecated import *
else:
    __getattr__ = deprecated_getattr(__name__)
