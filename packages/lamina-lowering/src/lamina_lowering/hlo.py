"""Other forms of a lowered program: HLO text, serialised `HloModuleProto`, Graphviz text."""
from __future__ import annotations

from typing import Any, Protocol

from . import _jaxlib

__all__ = ["as_dot_graph", "as_hlo_text", "as_portable_artifact", "as_serialized_hlo_module_proto", "xla_computation"]


class Lowered(Protocol):
    """What is needed of a lowered program here; `module.Lowered` is one."""

    def bytecode(self) -> bytes: ...


def xla_computation(lowered: Lowered, *, tuple_args: bool = False, return_tuple: bool = False) -> Any:
    """jaxlib's `XlaComputation` of a lowered program, before any optimisation.

    Args:
      lowered: the program.
      tuple_args: whether it takes its arguments as one tuple.
      return_tuple: whether it returns a tuple where there is one result.
    """
    return _jaxlib.hlo_computation(lowered.bytecode(), tuple_args, return_tuple)


def as_hlo_text(lowered: Lowered, *, print_large_constants: bool = False) -> str:
    """HLO text, before any optimisation; long constants are shortened unless asked for."""
    return xla_computation(lowered).as_hlo_text(print_large_constants)


def as_serialized_hlo_module_proto(lowered: Lowered) -> bytes:
    """The `HloModuleProto` message, serialised."""
    return xla_computation(lowered).as_serialized_hlo_module_proto()


def as_portable_artifact(lowered: Lowered) -> bytes:
    """The StableHLO module in the form that is kept readable for years (VHLO), for other programs that take StableHLO.

    Raises:
      ValueError: the module holds what has no such form, as Shardy's operations where maps stand inside.
    """
    return _jaxlib.portable_artifact(lowered.bytecode())


def as_dot_graph(lowered: Lowered) -> str:
    """Graphviz text of the entry computation and those it calls."""
    return _jaxlib.dot_graph(xla_computation(lowered).get_hlo_module())
