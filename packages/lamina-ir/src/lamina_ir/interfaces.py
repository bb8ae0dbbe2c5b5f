"""Protocols between lowering, compiler and runtime: the only interfaces that an alternative implementation must
satisfy.

`lower` converts a program to a `Lowered`; a `Compiler` that accepts its `format` makes an executable of that; a
`Runtime` holds a compiler and launches executables. The protocols between tracing, transformations and dispatchers are
in `lamina_tracing.interfaces`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from ._types.avals import ShapedArray
from ._placement.placement import Placement
from ._core.jaxpr import ClosedJaxpr
from .typing import Device, Function, Value

__all__ = ["Compiler", "Lower", "Lowered", "Runtime"]


@runtime_checkable
class Lowered(Protocol):
    """A program in a compiler's input language.

    Attributes:
      format: the language: `stablehlo`, or another name that a compiler accepts.
      name: the name of the module, for printing.
      platform: the platform it was lowered for.
      used_args: one bool per argument of the program: whether the module takes it.
      const_args: constants that it takes before the used arguments.
      in_avals: types of all its arguments, constants first.
      out_avals: types of its results.
      donation: `(index of the argument, index of the result that reuses its memory or None)` of each donated argument.
      placement: its placement on devices.
    """

    format: str
    name: str
    platform: str
    used_args: tuple[bool, ...]
    const_args: list[Value]
    in_avals: list[ShapedArray]
    out_avals: list[ShapedArray]
    donation: tuple[tuple[int, int | None], ...]
    placement: Placement

    def bytecode(self) -> bytes:
        """Return the module as the compiler's input. It is also part of cache keys: equal programs have equal
        bytecode."""
        ...

    def as_text(self) -> str:
        """Return the module as readable text."""
        ...


class Lower(Protocol):
    """The type of `lamina_lowering.lower`. Implementations may take further settings, with defaults."""

    def __call__(self, closed_jaxpr: ClosedJaxpr, *, name: str = "main", platform: str = "cpu",
                 placement: Placement | None = None) -> Lowered: ...


@runtime_checkable
class Compiler(Protocol):
    """Compiles a lowered program to an executable.

    Attributes:
      name: part of the cache keys of its executables, in memory and on disk.
      accepts: the formats that it accepts.
    """

    name: str
    accepts: frozenset[str]

    def compile(self, lowered: Lowered, devices: Sequence[Device], settings: Any,
                host_functions: Sequence[Function] = ()) -> Any:
        """Compile a program.

        Args:
          lowered: the program, in a format in `accepts`.
          devices: one per (replica, partition), in row-major order.
          settings: the compile options of the runtime, for the client of the devices.
          host_functions: Python functions that the module calls, by index.
        Returns:
          An object that the runtime can launch: for `lamina_runtime` an executable of jaxlib's client.
        """
        ...


@runtime_checkable
class Runtime(Protocol):
    """A package that runs lowered programs, such as `lamina_runtime`.

    Attributes:
      accepts: the formats that it runs with its default compiler.
    """

    accepts: frozenset[str]
