"""Transpose rules of host callbacks: none for nonlinear ones; a debug callback has no results, so no cotangents."""
from __future__ import annotations

from lamina_ir import prims
from lamina_ir.typing import ParamValue, Value

from .._engine.rule_tables import transpose_rules
from .._typing import Cotangents

__all__: list[str] = []


def debug_callback_transpose(cts: list[Value], *args: Value, **params: ParamValue) -> Cotangents:
    return None if len(args) == 1 else [None] * len(args)


transpose_rules.declare_missing(prims.pure_callback_p, "it is not linear")
transpose_rules.declare_missing(prims.io_callback_p, "it is not linear")
transpose_rules.define(prims.debug_callback_p, debug_callback_transpose)
