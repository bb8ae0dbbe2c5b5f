"""Forward rows of control flow: those of loops and branches follow from their flow (see flows.py)."""
from __future__ import annotations

from lamina_ir import prims

from ..tables import zero_jvp

__all__: list[str] = []

zero_jvp(prims.platform_index_p)
