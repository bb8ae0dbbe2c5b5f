"""Types of effects: the members of `eqn.effects`."""
from __future__ import annotations

import contextlib
import dataclasses

from typing_extensions import override

from ..typing import Params

__all__ = ["DebugEffect", "Effect", "EqnContext", "IOEffect", "primitive_effects"]


@dataclasses.dataclass(frozen=True)
class Effect:
    """A side effect of a primitive.

    Args:
      op: the name of the primitive.
      ordered: whether it must keep its order relative to the other ordered effects of a program.

    >>> Effect("send", ordered=True)
    Effect(op='send', ordered=True)
    """

    op: str
    ordered: bool = False


class DebugEffect(Effect):
    """A debugging output: `debug.print`, `debug.callback`, a check. It may be repeated.

    >>> DebugEffect()
    DebugEffect(op='debug_callback', ordered=False)
    """

    def __init__(self, op: str = "debug_callback", ordered: bool = False) -> None:
        super().__init__(op, ordered)


class IOEffect(Effect):
    """A host callback that runs exactly once: `io_callback`.

    >>> IOEffect(ordered=True)
    IOEffect(op='io_callback', ordered=True)
    """

    def __init__(self, op: str = "io_callback", ordered: bool = False) -> None:
        super().__init__(op, ordered)


_KINDS: dict[str, type[Effect]] = {"debug_callback": DebugEffect, "io_callback": IOEffect}


def primitive_effects(op: str, params: Params) -> frozenset[Effect]:
    """Return the effects of a primitive itself, without those of its nested programs.

    Args:
      op: the name of the primitive.
      params: the params of the equation.
    """
    return frozenset([_KINDS.get(op, Effect)(op, bool(params.get("ordered", False)))])


class EqnContext:
    """Settings of an equation. Always empty: everything that changes the results is part of the program.

    >>> with EqnContext().manager:
    ...     pass
    """

    __slots__ = ()
    compute_type = None
    manager = contextlib.nullcontext()

    @override
    def __repr__(self) -> str:
        return "EqnContext()"
