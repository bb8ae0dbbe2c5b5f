"""Random bits are integers: no derivative."""
from __future__ import annotations

from lamina_ir import prims
from lamina_tracing import lax

from ..tables import jvp_rules

__all__: list[str] = []

jvp_rules.define(prims.threefry2x32_p, lambda primals, tangents: (list(lax.threefry2x32(*primals)), [None, None]))
