"""Rule table of batching.

`batching_rules[prim](axis, args, dims, /, **params) -> (out, dim)`: `axis` has the batch `size` and `name`; `dims[i]`
is the batch axis of operand i, or None if it is unbatched. At least one operand is batched, except for collectives over
`axis.name`. For primitives with several results, `out` and `dim` are sequences. A result may be unbatched (dim None).
"""
from __future__ import annotations

from lamina_ir import RuleTable

__all__ = ["batching_rules"]

batching_rules = RuleTable("vmap", "lamina_batching/rules", leading_params=("axis", "args", "dims"))
