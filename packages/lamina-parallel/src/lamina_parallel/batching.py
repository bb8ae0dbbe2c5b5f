"""Row of `xla_pmap` in the batching table."""
from lamina_batching.extend import batching_rules, flow_row
from lamina_ir import prims

__all__: list[str] = []

batching_rules.define(prims.xla_pmap_p, flow_row(prims.xla_pmap_p))
