"""Former public names of this package. Each works for one minor version and warns when it is used."""
from __future__ import annotations

from typing import Any

from typing_extensions import deprecated

from .batch_trace import BatchedProgram, move_axis
from .higher_order import batch_higher_order, make_higher_order_rule
from .vmap import ApplyBatched, make_vmap

__all__ = [
    "Batched", "Strategy", "flow_batch", "flow_row", "move_to", "vmap_by"]

@deprecated("use BatchedProgram")
class Batched(BatchedProgram): ...

@deprecated("use batch_higher_order")
def flow_batch(*args: Any, **kwargs: Any) -> Any: return batch_higher_order(*args, **kwargs)

@deprecated("use make_higher_order_rule")
def flow_row(*args: Any, **kwargs: Any) -> Any: return make_higher_order_rule(*args, **kwargs)

@deprecated("use move_axis")
def move_to(*args: Any, **kwargs: Any) -> Any: return move_axis(*args, **kwargs)

@deprecated("use make_vmap")
def vmap_by(*args: Any, **kwargs: Any) -> Any: return make_vmap(*args, **kwargs)

Strategy = ApplyBatched
