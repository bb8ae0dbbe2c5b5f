"""What crosses between this room and those above, in types: calls with rules, staged calls, and what fills the slots.

A dispatcher gets `CallSpec`s and makes callables of them; its programs are `StagedCall`s. A transformation's trace is handed
`RuledCall`s where a function has rules of its own. `lamina_ir.seams` has those of lowering, compiler and runtime.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from lamina_ir import ClosedJaxpr, Primitive, ShapedArray

from .slots import CallSpec, Dispatcher, Evaluator

__all__ = ["CallSpec", "Dispatcher", "Evaluator", "RuledCall", "StagedCall"]


@runtime_checkable
class RuledCall(Protocol):
    """One call of a function with rules of its own, as `lamina_tracing.extend.call_custom` hands it to a trace.

    `lamina_tracing.extend.CustomCall` is one whose hooks do as its equation does.
    """

    def run(self, *flat: Any) -> list[Any]:
        """The function itself, on flat arguments."""
        ...

    def staged(self, avals: Sequence[ShapedArray]) -> tuple[Primitive, list[Any], dict[str, Any]]:
        """(primitive, values closed over, params): the call as an equation on those values and then the arguments."""
        ...

    def push(self, trace: Any, args: Sequence[Any]) -> list[Any]:
        """Under a differentiating trace."""
        ...

    def batch(self, trace: Any, args: Sequence[Any], minded: bool) -> list[Any]:
        """Under a batching trace; `minded`: whether a transformation further out wants the rules."""
        ...

    def bind(self, args: Sequence[Any]) -> list[Any]:
        """As one equation, through whatever transformations the arguments are in."""
        ...


class StagedCall(Protocol):
    """One signature's program, as a `CallSpec` stages it.

    Attributes:
      closed: takes the values in `outer` and then the flat arguments.
      outer: values of enclosing traces.
      out_tree: the structure of the result.
    """

    @property
    def closed(self) -> ClosedJaxpr: ...
    @property
    def outer(self) -> list[Any]: ...
    @property
    def out_tree(self) -> Any: ...
