"""The rule table of batching.

`batching_rules[prim](axis, args, dims, /, **params) -> (out, dim)`: `axis` has the batch `size` and `name`; `dims[i]` is
where operand i carries the batch axis, or None. At least one does, except for collectives over `axis.name`. For ops
with several results both are sequences. A result may be unbatched (dim None).
"""
from __future__ import annotations

from lamina_ir import RuleTable

__all__ = ["batching_rules"]

batching_rules = RuleTable("vmap", "lamina_batching/rules", leads=("axis", "args", "dims"))
