"""Launches of programs over several processes: what is asked before one, and how its failure is told."""
from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from . import _jaxlib, host_errors, losses, owner, presence

__all__ = ["Launches", "Over", "over"]

_WORD = 2.0  # seconds from a broken connection to the lobby's word of a death, at the most

_Outs = TypeVar("_Outs")


class Over(Protocol):
    """A program over several processes, as far as a launch asks for it.

    Attributes:
      call, name: who asked for it, and its function.
      processes: the numbers of those whose devices it runs on, in order.
      placement, lowered, loaded: how it lies on devices, what was lowered, and the executable.
    """

    call: str
    name: str
    processes: tuple[int, ...]
    placement: Any
    lowered: Any
    loaded: Any


class Launches:
    """Those of one session; `owner.current.together` is the one of the clients in force, None where there is one process.

    Attributes:
      presence: who is here.
      agree: asked, with the program, before each launch: whether the others launch the same; raises where they do not.
    """

    def __init__(self, here: presence.Presence) -> None:
        self.presence = here
        self.agree: Callable[[Over], None] = _agreed

    def launch(self, program: Over, args: Sequence[Any], start: Callable[[], _Outs]) -> _Outs:
        """What `start()` gives, which launches a program over several processes on `args`.

        Raises:
          ProcessLostError: a process of the program's is gone, or went meanwhile.
        """
        self.check(program)
        self.agree(program)
        try:
            return start()
        except _jaxlib.LAUNCH_ERRORS as e:
            if host_errors.original(e) is None and host_errors.is_failed_launch(e):
                self.await_word(f"{program.call} of `{program.name}`", cause=e)
            raise

    def check(self, program: Over) -> None:
        """ProcessLostError where a process of the program's is known to be gone."""
        here = self.presence
        if here.lost or here.left:
            gone = self._gone(program.processes)
            if gone:
                raise losses.lost(f"{program.call} of `{program.name}`", gone)

    def await_word(self, call: str, suspects: Iterable[int] = (), cause: BaseException | None = None) -> None:
        """A connection to another process has ended: wait shortly for the lobby's word on who is gone, and raise it.

        Args:
          call: what is told to have failed.
          suspects: processes whose connection it was; without word from the lobby they are taken for gone.
          cause: jaxlib's error.
        Raises:
          ProcessLostError: somebody is gone. Without a word and a suspect this returns.
        """
        here, until = self.presence, time.monotonic() + _WORD
        with here.changed:
            while not here.lost and not here.left and not here.alone and (left := until - time.monotonic()) > 0:
                here.changed.wait(left)
        gone = self._gone(range(here.count)) or {r: f"process {r} has closed its connection" for r in suspects}
        if gone:
            raise losses.lost(call, gone) from cause

    def _gone(self, processes: Iterable[int]) -> dict[int, str]:
        lost, left = dict(self.presence.lost), dict(self.presence.left)
        return {r: f"{lost[r]} was lost" if r in lost else f"{left[r]} has left" for r in processes if r in lost or r in left}


def _agreed(program: Over) -> None:
    """Nobody is asked."""


def over(devices: Iterable[Any]) -> tuple[Launches | None, tuple[int, ...]]:
    """(where a program on these devices is launched, its processes): None and () where all are of one process."""
    found = owner.current.together
    processes = tuple(sorted({int(d.process_index) for d in devices})) if found is not None else ()
    return (found, processes) if len(processes) > 1 else (None, ())
