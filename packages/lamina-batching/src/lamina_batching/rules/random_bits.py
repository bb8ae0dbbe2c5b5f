"""Random bits are drawn element by element: the elementwise rule, with two results."""
from __future__ import annotations

from typing import Any

from lamina_ir import prims
from lamina_tracing import lax

from ..tables import batching_rules
from .elementwise import aligned

__all__: list[str] = []


def threefry2x32_batching(axis: Any, args: Any, dims: Any) -> Any:
    args, at = aligned(axis, args, dims)
    return list(lax.threefry2x32(*args)), [at, at]


batching_rules.define(prims.threefry2x32_p, threefry2x32_batching)
