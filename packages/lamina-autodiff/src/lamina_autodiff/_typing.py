"""Type aliases for annotations inside this package; `lamina_ir.typing` has the general ones."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from lamina_ir import Primitive, Source
from lamina_ir.typing import Params, Value

__all__ = ["Cotangents", "EquationSource", "LinearEqn", "LinearRecorder", "Outputs", "Policy", "RebuiltParams",
           "RuleResult", "Tangent"]

# A tangent or a cotangent: a value, or None for zero.
Tangent: TypeAlias = Any
# The result of a primitive: a value, or a sequence of values if the primitive has several results.
Outputs: TypeAlias = Any
# `trace_state.source` of lamina_tracing.
EquationSource: TypeAlias = Any
# A checkpoint policy: `policy(primitive, *operand types, **params)` returns whether to save the results.
Policy: TypeAlias = Callable[..., bool]
# What `RegionView.rebuild` returns; lamina_ir does not export the class.
RebuiltParams: TypeAlias = Any
# What a JVP rule returns: the result and its tangent. With several results, both are sequences.
RuleResult: TypeAlias = tuple[Outputs, Any]
# What a transpose rule returns: the cotangent of the operand. With several operands, a sequence of cotangents.
Cotangents: TypeAlias = Any
# The `LinearTrace` that records the linear part; None for `jvp`. Its module imports those that use this name.
LinearRecorder: TypeAlias = Any
# An equation of a linear program: (primitive, operands, params, linear variables of the results, source line).
LinearEqn: TypeAlias = tuple[Primitive, Sequence[Value], Params, Any, "Source | None"]
