"""Former public names of this package. Each works for one minor version and warns when it is used."""
from __future__ import annotations

from typing import Any

from typing_extensions import deprecated

from ._emit.rule_tables import merged_rules
from .extend import compute_in, lower_to_op

__all__ = [
    "direct", "rows", "through"]

@deprecated("use lower_to_op")
def direct(*args: Any, **kwargs: Any) -> Any: return lower_to_op(*args, **kwargs)

@deprecated("use merged_rules")
def rows(*args: Any, **kwargs: Any) -> Any: return merged_rules(*args, **kwargs)

@deprecated("use compute_in")
def through(*args: Any, **kwargs: Any) -> Any: return compute_in(*args, **kwargs)
