"""Transpose rules of host callbacks: none for nonlinear ones; a debug callback has no results, so no cotangents."""
from __future__ import annotations

from typing import Any

from lamina_ir import prims

from .._engine.rule_tables import transpose_rules

__all__: list[str] = []


def debug_callback_transpose(cts: list[Any], *args: Any, **params: Any) -> Any:
    return None if len(args) == 1 else [None] * len(args)


transpose_rules.declare_missing(prims.pure_callback_p, "it is not linear")
transpose_rules.declare_missing(prims.io_callback_p, "it is not linear")
transpose_rules.define(prims.debug_callback_p, debug_callback_transpose)
