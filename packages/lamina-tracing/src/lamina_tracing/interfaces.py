"""Protocols between this package and higher ones: calls with custom rules, staged programs, implementations of hooks.

A dispatcher makes callables from `CallSpec`s; their programs are `StagedProgramLike`. A transformation's trace receives
a `CustomCallLike` if a function has custom rules. The protocols of lowering, compiler and runtime are in
`lamina_ir.interfaces`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from lamina_ir import ClosedJaxpr, Primitive, ShapedArray
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import Params, Value

from ._jit.call_spec import CallSpec
from ._jit.hooks import Dispatcher, Evaluator
from ._typing import AnyTrace

__all__ = ["CallSpec", "CustomCallLike", "Dispatcher", "Evaluator", "StagedProgramLike"]


@runtime_checkable
class CustomCallLike(Protocol):
    """One call of a function with custom rules, as `lamina_tracing.extend.call_custom` passes it to a trace.

    `lamina_tracing.extend.CustomCall` implements it; its default hooks bind the call's equation.
    """

    def run(self, *flat: Value) -> list[Value]:
        """Run the function itself on flat arguments."""
        ...

    def as_equation(self, avals: Sequence[ShapedArray]) -> tuple[Primitive, list[Value], Params]:
        """Return the call as an equation: (primitive, closed-over values, params). Those values lead the operands."""
        ...

    def push(self, trace: AnyTrace, args: Sequence[Value]) -> list[Value]:
        """Handle the call under a differentiating trace."""
        ...

    def batch(self, trace: AnyTrace, args: Sequence[Value], rules_needed: bool) -> list[Value]:
        """Handle the call under a batching trace; `minded`: an outer transformation uses the rules."""
        ...

    def bind(self, args: Sequence[Value]) -> list[Value]:
        """Bind the call as one equation, so that every transformation of the arguments handles it."""
        ...


class StagedProgramLike(Protocol):
    """Staged program of one signature of a `CallSpec`.

    Attributes:
      closed: the program. It takes the values in `outer`, then the flat arguments.
      outer: values of enclosing traces.
      out_tree: the structure of the result.
    """

    @property
    def closed(self) -> ClosedJaxpr: ...
    @property
    def outer(self) -> list[Value]: ...
    @property
    def out_tree(self) -> PyTreeDef: ...
