"""What is raised where another process is gone."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["ProcessLostError", "lost"]


class ProcessLostError(RuntimeError):
    """Other processes have ended, or are silent, and what this one was to do with them cannot be done.

    What needs no other process works on. `shutdown()` and then `initialize(...)` make a new system of those who are left; what
    was jitted works there.

    Attributes:
      process_indices: numbers of those that are gone, in order.

    >>> ProcessLostError("jit of `f`: process 2 is gone", [2]).process_indices
    (2,)
    """

    def __init__(self, message: str, process_indices: Iterable[int] = ()) -> None:
        super().__init__(message)
        self.process_indices = tuple(sorted({*process_indices}))

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.process_indices)


def lost(call: str, gone: Mapping[int, str]) -> ProcessLostError:
    """The error of a call that needs processes which are gone: number -> what became of it."""
    ranks = sorted(gone)
    told = "; ".join([gone[r] for r in ranks[:8]]) + (f"; and {len(ranks) - 8} more" if len(ranks) > 8 else "")
    return ProcessLostError(f"{call}: process_indices {tuple(ranks)} are gone: {told}. What needs no other process works on; "
                            "lamina.distributed.shutdown() and initialize(...) make a system of those who are left", ranks)
