"""JVP rules of primitives that move elements: only `concatenate` and `iota`; the others are declared linear."""
from __future__ import annotations

from lamina_ir import prims
from lamina_tracing.extend import bind

from .._engine.jvp_trace import instantiate
from .._engine.rule_tables import jvp_rules, def_zero_jvp

__all__: list[str] = []

def_zero_jvp(prims.iota_p)


def concatenate_jvp(primals, tangents, *, dimension):
    ts = [instantiate(t, x) for t, x in zip(tangents, primals, strict=True)]
    return bind(prims.concatenate_p, *primals, dimension=dimension), bind(prims.concatenate_p, *ts, dimension=dimension)


jvp_rules.define(prims.concatenate_p, concatenate_jvp)
