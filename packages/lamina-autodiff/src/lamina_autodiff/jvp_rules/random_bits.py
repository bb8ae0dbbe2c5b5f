"""JVP rules of random bits: integers, so without tangents. `rng_uniform` has none: its draws cannot be repeated."""
from __future__ import annotations

from lamina_ir import prims
from lamina_tracing import lax
from lamina_tracing.extend import bind

from .._engine.rule_tables import declare_missing, jvp_rules

__all__: list[str] = []

jvp_rules.define(prims.threefry2x32_p, lambda primals, tangents: (list(lax.threefry2x32(*primals)), [None, None]))
jvp_rules.define(prims.rng_bit_generator_p, lambda primals, tangents, **params: (
    list(bind(prims.rng_bit_generator_p, *primals, **params)), [None, None]))
declare_missing(prims.rng_uniform_p, "its draws cannot be repeated; use lamina.random.uniform")
