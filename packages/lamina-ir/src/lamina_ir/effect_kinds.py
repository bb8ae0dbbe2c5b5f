"""What an equation does beside its results, for those who read programs: the members of `eqn.effects`."""
from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

__all__ = ["DebugEffect", "Effect", "EqnContext", "IOEffect", "own_effects"]


@dataclasses.dataclass(frozen=True)
class Effect:
    """A meaning beyond the results of an op.

    Args:
      op: name of the op that has it.
      ordered: whether it keeps its place among the other ordered effects of a program.

    >>> Effect("send", ordered=True)
    Effect(op='send', ordered=True)
    """

    op: str
    ordered: bool = False


@dataclasses.dataclass(frozen=True)
class DebugEffect(Effect):
    """A report for the one who looks into a program: `debug.print`, `debug.callback`, a check. It may be repeated.

    >>> DebugEffect()
    DebugEffect(op='debug_callback', ordered=False)
    """

    op: str = "debug_callback"


@dataclasses.dataclass(frozen=True)
class IOEffect(Effect):
    """A call of the host that happens exactly once: `io_callback`.

    >>> IOEffect(ordered=True)
    IOEffect(op='io_callback', ordered=True)
    """

    op: str = "io_callback"


_KINDS: dict[str, type[Effect]] = {"debug_callback": DebugEffect, "io_callback": IOEffect}


def own_effects(op: str, params: dict[str, Any]) -> frozenset[Effect]:
    """The effects of an op itself, without those of the programs it holds.

    Args:
      op: its name.
      params: those of the equation.
    """
    return frozenset([_KINDS.get(op, Effect)(op, bool(params.get("ordered", False)))])


class EqnContext:
    """Settings that an equation runs under: none here, as what changes a program's meaning is part of the program.

    >>> with EqnContext().manager:
    ...     pass
    """

    __slots__ = ()
    compute_type = None
    manager = contextlib.nullcontext()

    def __repr__(self) -> str:
        return "EqnContext()"
