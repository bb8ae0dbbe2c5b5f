"""Type aliases for annotations inside this package; `lamina_ir.typing` has the general ones."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

__all__ = ["BatchDims", "OutDims", "Outputs", "RuleResult"]

# The result of a primitive: a value, or a sequence of values if the primitive has several results.
Outputs: TypeAlias = Any
# The batch axis of each value, None for an unbatched one.
BatchDims: TypeAlias = Sequence["int | None"]
# The batch axes of `Outputs`: an integer or None, or a sequence of these.
OutDims: TypeAlias = Any
# What a batching rule returns.
RuleResult: TypeAlias = tuple[Outputs, OutDims]
