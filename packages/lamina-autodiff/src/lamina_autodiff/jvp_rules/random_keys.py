"""JVP rules of PRNG keys and their uint32 key data: no tangents."""
from __future__ import annotations

from lamina_ir import prims
from lamina_tracing.extend import bind

from .._engine.rule_tables import jvp_rules

__all__: list[str] = []

for _p in (prims.random_wrap_p, prims.random_unwrap_p):
    jvp_rules.define(_p, lambda primals, tangents, _p=_p, **params: (bind(_p, *primals, **params), None))
