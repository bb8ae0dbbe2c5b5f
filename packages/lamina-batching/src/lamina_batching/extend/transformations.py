"""For people who map in another way: `vmap` with another strategy. `Strategy` is the type of one: `strategy(fun, axis, args,
dims)` gives (flat results, where each carries the batch); `run_batched` is the stock's, op by op on whole batches."""
from ..batch import run_batched
from ..mapping import Strategy, vmap_by

__all__ = ["Strategy", "run_batched", "vmap_by"]
