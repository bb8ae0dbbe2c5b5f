"""Switch several processes from a quickly compiled executable to the optimised one at the same launch.

Each process compiles the optimised executable in its own background thread. Then it posts that in the key-value store of
the coordinator. The first process of the program, the leader, reads the posts before each launch. When all are there, it
chooses the launch after the next one, and posts its number before this launch starts. The processes of a program compare
each launch before it starts. So at the next launch, all processes find the number in the store, and run the optimised
executable from the same launch on. If a compilation failed, the leader posts that all keep the executable.

Launches are counted for each program after the comparison, so the counts are equal in all processes.
"""
from __future__ import annotations

from typing import Any, Protocol

from .._backend.peer_errors import CoordinatorLostError
from .._launch.process_group import KeyValueStore

__all__ = ["TierSwitch"]


class Loaded(Protocol):
    """The part of a `LoadedExecutable` that is used here."""

    def finish(self, optimized: Any, error: str) -> None: ...
    def is_final(self, name: str) -> bool: ...


class TierSwitch:
    """The switch of one program over several processes. It outlives an executable that is evicted and compiled again.

    Attributes:
      is_optimized: whether the processes have switched: a new executable must be the optimised one.
      error: why the processes keep the executable of the first tier; "" if they do not.
    """

    __slots__ = ("is_optimized", "error", "_at", "_launches", "_prefix", "_outcome", "_is_posted", "_ready")

    def __init__(self) -> None:
        self.is_optimized, self.error = False, ""
        self._at = 0  # the launch with which the switch takes place; 0: not known yet
        self._launches = 0
        self._prefix = ""
        self._outcome: tuple[Loaded | None, str] | None = None
        self._is_posted = False
        self._ready = 0  # in the leader, so many processes are known to have compiled

    def note_compiled(self, made: Loaded | None, error: str) -> None:
        """Note the result of the compilation in the background: an executable, or why there is none."""
        if not (self.is_optimized or self.error):
            self._outcome = made, error

    def before_launch(self, program: Any, store: KeyValueStore, rank: int) -> None:
        """Switch if it is time. Called in all processes when they have agreed on a launch, before it starts.

        Args:
          program: the `CompiledProgram`.
          store: texts that all processes share.
          rank: index of this process.
        """
        self._launches += 1
        if self._launches == 1:
            group = ".".join(map(str, program.processes))
            self._prefix = f"lamina/tiers/{group}/{store.next_number(program.processes)}/"
        if self.is_optimized or self.error:
            if self._launches == self._at + 1 and rank == min(program.processes) and not self.error:
                store.delete(self._prefix)  # all processes have read it
            return
        if not self._at and self._outcome is not None:
            self._exchange(program.processes, store, rank)
        if self.error or self._at and self._launches >= self._at:
            self._switch(program)
        elif self._at:
            # The optimised executable may connect other groups of devices, as a first launch does.
            program.first_launch_done = False

    def _exchange(self, processes: tuple[int, ...], store: KeyValueStore, rank: int) -> None:
        """Post what this process has compiled, and read or choose the launch of the switch."""
        leader = min(processes)
        assert self._outcome is not None
        try:
            if not self._is_posted:
                store.set(f"{self._prefix}{rank}", f"error={self._outcome[1]}")
                self._is_posted = True
            text = self._choose(processes, store) if rank == leader else store.get(f"{self._prefix}at")
        except CoordinatorLostError:
            if self._is_posted and rank != leader:
                raise  # the leader may have chosen a launch, which this process cannot know
            return  # no process switches: the leader has not read the posts of all, or has chosen no launch
        if text is not None:
            number, _, self.error = text.partition(" ")
            self._at = int(number)

    def _choose(self, processes: tuple[int, ...], store: KeyValueStore) -> str | None:
        """Return the launch of the switch, and an error, once all processes have posted; None before. For the leader."""
        failed, r = "", 0
        while self._ready < len(processes) and not failed:
            r = processes[self._ready]
            posted = store.get(f"{self._prefix}{r}")
            if posted is None:
                return None
            failed, self._ready = posted.removeprefix("error="), self._ready + 1
        text = f"{self._launches + 2} " + (failed and f"process {r}: {failed}")
        store.set(f"{self._prefix}at", text)
        return text

    def _switch(self, program: Any) -> None:
        assert self._outcome is not None
        loaded: Loaded = program.loaded
        made, self._outcome = self._outcome[0], None
        self.is_optimized = not self.error
        loaded.finish(None if self.error else made, self.error)
        loaded.is_final(program.name)  # warns of an error
