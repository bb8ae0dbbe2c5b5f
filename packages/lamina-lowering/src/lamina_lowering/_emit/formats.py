"""Conversions of a lowered program: HLO text, serialized `HloModuleProto`, Graphviz text."""
from __future__ import annotations

from typing import Protocol

from .. import _jaxlib
from .._typing import XlaComputation

__all__ = ["as_dot_graph", "as_hlo_text", "as_portable_artifact", "as_serialized_hlo_module_proto", "xla_computation"]


class Lowered(Protocol):
    """The part of `module.Lowered` that these functions use."""

    def bytecode(self) -> bytes: ...


def xla_computation(lowered: Lowered, *, tuple_args: bool = False, return_tuple: bool = False) -> XlaComputation:
    """Return jaxlib's `XlaComputation` of a lowered program, before optimization.

    Args:
      lowered: the program.
      tuple_args: whether it takes its arguments as one tuple.
      return_tuple: whether it returns a tuple even for a single result.
    """
    return _jaxlib.hlo_computation(lowered.bytecode(), tuple_args, return_tuple)


def as_hlo_text(lowered: Lowered, *, print_large_constants: bool = False) -> str:
    """Return HLO text before optimization; long constants are shortened unless `print_large_constants`."""
    return xla_computation(lowered).as_hlo_text(print_large_constants)


def as_serialized_hlo_module_proto(lowered: Lowered) -> bytes:
    """Return the serialized `HloModuleProto` message."""
    return xla_computation(lowered).as_serialized_hlo_module_proto()


def as_portable_artifact(lowered: Lowered) -> bytes:
    """Return the StableHLO module in its portable form (VHLO), which stays readable for years.

    Raises:
      ValueError: the module contains operations without a portable form, as those of Shardy for nested maps.
    """
    return _jaxlib.portable_artifact(lowered.bytecode())


def as_dot_graph(lowered: Lowered) -> str:
    """Return Graphviz text of the entry computation and the computations that it calls."""
    return _jaxlib.dot_graph(xla_computation(lowered).get_hlo_module())
