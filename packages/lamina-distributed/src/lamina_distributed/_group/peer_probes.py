"""Which processes live, without the coordinator's reports: they ask one another over their peer sockets.

If the coordinator is gone, no process is lost: launches over connected devices continue. A later loss is found here.
"""
from __future__ import annotations

import threading
import time
from collections.abc import Callable

from . import peer_sockets
from .._rendezvous import rendezvous_client
from .._typing import Message

__all__ = ["REPORT_TIMEOUT", "WATCH_INTERVAL", "PeerProbes"]

REPORT_TIMEOUT = 2.0  # seconds from a broken connection to the coordinator's report, at most
WATCH_INTERVAL = 0.5  # seconds between two looks at the connections, if no coordinator reports failures
_PROBES = 4  # how often all processes are probed after a connection ended
_MAX_PROBING_THREADS = 16


class PeerProbes:
    """Asks the other processes of a session whether they live, and answers them.

    Args:
      connection: the coordinator connection, in which losses are marked.
      sockets: connections to the other processes; None if there is none.
      closed: set when the session is over.
    """

    def __init__(self, connection: rendezvous_client.CoordinatorConnection, sockets: peer_sockets.PeerSockets | None,
                 closed: threading.Event) -> None:
        self._connection, self.sockets, self._closed = connection, sockets, closed
        self._silent_since: dict[int, float] = {}  # process that does not answer -> since when
        connection.is_counted_out = self._is_counted_out
        if sockets is not None:
            sockets.answer_status = self.answer_status

    def judge_suspect(self, rank: int) -> None:
        """Mark a process as lost that has closed its connection, unless it lives. If it is silent, await the report."""
        here = self._connection
        until = time.monotonic() + here.heartbeat + REPORT_TIMEOUT
        while rank not in here.left and rank not in here.lost and not self._closed.is_set():
            state = "gone" if self.sockets is None else self.sockets.probe(rank)[0]
            if state == "gone" or (state == "silent" and time.monotonic() > until):
                here.mark_lost(rank, f"process {rank}, which closed its connection,")
            elif state == "alive" or self._closed.wait(WATCH_INTERVAL):
                return

    def watch(self, count_connections: Callable[[], int]) -> None:
        """Detect losses after the coordinator is lost: when a connection to a process ends, probe all processes.

        Args:
          count_connections: returns the number of Gloo's connections to other processes.
        """
        known = probes = 0
        while not self._connection.lost and not self._closed.wait(WATCH_INTERVAL):
            now = count_connections()
            if now < known:
                probes = _PROBES
            if probes or self._silent_since:
                probes -= bool(probes)
                self.probe_processes()
            known = now

    def probe_processes(self) -> None:
        """Mark the processes as lost that have ended, and those that were silent for the heartbeat timeout.

        What the others know is taken over, so that all remaining processes find the same losses.
        """
        here, now = self._connection, time.monotonic()
        found = self._ask_all()
        for r, (state, status) in found.items():
            if state == "silent":
                state = "gone" if now - self._silent_since.setdefault(r, now) > here.heartbeat else state
            else:
                self._silent_since.pop(r, None)
            for lost in [r] if state == "gone" else status["lost"] if status else ():
                if lost not in here.lost and lost not in here.left and found.get(lost, ("gone",))[0] != "alive":
                    here.mark_lost(lost, f"process {lost}, which does not answer,")

    def _ask_all(self, **news: object) -> dict[int, tuple[str, Message | None]]:
        """Return (state, status) of each process that is not known to be gone, see `PeerSockets.probe`."""
        here, sockets = self._connection, self.sockets
        ranks = [r for r in range(here.count) if r != here.rank and r not in here.lost and r not in here.left]
        if sockets is None or not ranks:
            return {}
        found: dict[int, tuple[str, Message | None]] = {}
        todo = iter(ranks)

        def ask() -> None:
            for r in todo:
                found[r] = sockets.probe(r, **news)

        # Plain threads: one that waits for a silent process must not keep the interpreter from ending.
        threads = [threading.Thread(target=ask, name="lamina-failure-monitor", daemon=True)
                   for _ in range(min(len(ranks), _MAX_PROBING_THREADS))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return found

    def answer_status(self, question: Message) -> Message:
        """Answer another process, which asks whom this one considers lost, or says that it leaves."""
        here = self._connection
        rank = question["status"]
        if "leaves" in question and isinstance(rank, int) and here.coordinator_lost:
            for r in question["leaves"]:
                if r != here.rank and r not in here.lost:
                    here.mark_lost(r, f"process {r}, which process {rank} considers lost,")
            here.mark_left(rank, f"process {rank}")
        return {"lost": sorted(here.lost), "coordinator_lost": here.coordinator_lost}

    def announce_leave(self) -> None:
        """Say goodbye to the other processes if the coordinator is gone, so that they do not count this one as lost.

        They also learn which processes this one considers lost.
        """
        if self._connection.coordinator_lost and self._connection.rank not in self._connection.lost:
            self._ask_all(leaves=sorted(self._connection.lost))

    def _is_counted_out(self, has_slept: bool) -> bool:
        """Return whether the other processes continue without this one, after a silence between it and the coordinator.

        Args:
          has_slept: whether this process was suspended for longer than the heartbeat timeout.
        """
        found = [*self._ask_all().values()]
        alive = [status for _, status in found if status is not None]
        if alive:
            return any(self._connection.rank in status["lost"] for status in alive)
        # No process answers: this one was removed while it slept and the others have gone on, or its network is cut.
        return has_slept or any(state == "silent" for state, _ in found)
