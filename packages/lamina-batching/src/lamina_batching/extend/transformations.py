"""Extension API for authors of transformations: `vmap` with another way to apply a function to a batch.

`ApplyBatched` is the type of such a function: `apply(fun, axis, args, dims)` returns (flat results, batch axis of
each).
`run_batched` is the default one: it applies batching rules, primitive by primitive.
"""
from ..batch import run_batched
from ..mapping import Strategy, vmap_by

__all__ = ["Strategy", "run_batched", "vmap_by"]
