"""What crosses between lowering, compiler and runtime, in types: who replaces one of them keeps to these and nothing else.

`lower` makes a `Lowered` of a program; a `Compiler` that accepts its `format` makes an executable of that; a `Runtime` holds a
compiler and launches what it made. The seams above, between tracing and the transformations and dispatchers, are those of
`lamina_tracing.seams`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from .avals import ShapedArray
from .placements import Placement
from .program import ClosedJaxpr

__all__ = ["Compiler", "Lower", "Lowered", "Runtime"]


@runtime_checkable
class Lowered(Protocol):
    """A program in a compiler's language.

    Attributes:
      format: which language: `stablehlo`, or a name that a compiler accepts.
      name: of the module, for print.
      platform: what it was lowered for.
      kept_args: one bool per argument of the program: whether the module takes it.
      const_args: constants that it takes before the kept arguments.
      in_avals: types of everything it takes, constants first.
      out_avals: types of its results.
      donation: `(position among what it takes, result it is written into or None)` of each donated argument.
      placement: how it lies on devices.
    """

    format: str
    name: str
    platform: str
    kept_args: tuple[bool, ...]
    const_args: list[Any]
    in_avals: list[ShapedArray]
    out_avals: list[ShapedArray]
    donation: tuple[tuple[int, int | None], ...]
    placement: Placement

    def bytecode(self) -> bytes:
        """The module as a compiler is given it, and the program's part of cache keys: equal for equal programs."""
        ...

    def as_text(self) -> str:
        """The module for people."""
        ...


class Lower(Protocol):
    """`lamina_lowering.lower`: a program in a compiler's language. It may take more settings than these, with defaults."""

    def __call__(self, closed_jaxpr: ClosedJaxpr, *, name: str = "main", platform: str = "cpu",
                 placement: Placement | None = None) -> Lowered: ...


@runtime_checkable
class Compiler(Protocol):
    """What makes an executable of a lowered program.

    Attributes:
      name: part of the key of everything it makes, in memory and on disk.
      accepts: the formats it takes.
    """

    name: str
    accepts: frozenset[str]

    def compile(self, lowered: Lowered, devices: Sequence[Any], settings: Any, host_functions: Sequence[Any] = ()) -> Any:
        """The executable.

        Args:
          lowered: of a format in `accepts`.
          devices: one per (replica, partition), in row-major order.
          settings: the runtime's, for the client of the devices.
          host_functions: Python functions the module calls, by number.
        Returns:
          What the runtime launches: for `lamina_runtime` an executable of jaxlib's client.
        """
        ...


@runtime_checkable
class Runtime(Protocol):
    """A room that runs lowered programs, as `lamina_runtime` does.

    Attributes:
      accepts: the formats that it runs without another compiler being set.
    """

    accepts: frozenset[str]
