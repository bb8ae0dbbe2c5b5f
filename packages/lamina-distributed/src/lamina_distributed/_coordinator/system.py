"""A connection to the coordinator, and a system: its members, its timeouts, and the reports to its members."""
from __future__ import annotations

import os
import socket
import time

from typing_extensions import override

from . import membership
from .._rendezvous import rendezvous_protocol
from .._typing import CoordinationService, Message

__all__ = ["Connection", "System"]

_HELLO_TIMEOUT = 10.0    # seconds for a new connection to authenticate
_SETTLE_TIME = 1.0       # seconds from the first process in which another job without an id may show itself
_BEATS_PER_TIMEOUT = 6   # heartbeats requested per heartbeat timeout
_MAX_BEAT_PAUSE = 4.0    # seconds between two requests, at most
_FAILURE_WINDOW = 1.0    # seconds in which a launch that failed in one process may fail in all of them
_MAX_TEXT = 4000         # characters of the report of such a failure
_PEERS_PER_LINE = 128    # addresses of processes in one line of at most `MAX_LINE_BYTES`


def _remote_host(s: socket.socket) -> str:
    try:
        return str(s.getpeername()[0])
    except OSError:
        return "an unknown address"


class Connection:
    """One connection: unauthenticated at first, then a member of a system.

    Attributes:
      until: when an unauthenticated connection is closed, or a process no longer waits for the others; host: its remote
        address.
      hello: the description that the process sent of itself; peer: the address at which its peers reach it.
      service_connected, service_failed: whether its client is connected to jaxlib's service, or could not be.
      last_heard: when it last sent something.
    """

    def __init__(self, s: socket.socket) -> None:
        self.socket, self.lines = s, rendezvous_protocol.LineStream(s)
        self.challenge, self.host = os.urandom(16).hex(), _remote_host(s)
        self.until = time.monotonic() + _HELLO_TIMEOUT
        self.hello: Message = {}
        self.peer = ""
        self.system: System | None = None
        self.service_connected = self.service_failed = False
        self.last_heard = time.monotonic()

    @property
    def rank(self) -> int:
        """Process index."""
        return int(self.hello["rank"])

    @property
    def is_member(self) -> bool:
        """Whether it is a member of a system now."""
        return self.system is not None and self.system.members.get(self.rank) is self

    @override
    def __str__(self) -> str:
        return f"process {self.rank} ({self.hello.get('host')}, pid {self.hello.get('pid')})"


class System:
    """Processes that meet and then work together.

    Attributes:
      phase: "gathering", "connecting" (to jaxlib's service) or "running".
      record: its id, and the processes that it has lost.
      until: when the phase fails; begins: when a complete system without a given job id may begin.
      heartbeat: heartbeat timeout in seconds, which may be shorter while the clients connect; next_beat: when to
        request heartbeats next.
      may_be_suspended: whether a suspended member may still be connected to the service.
      error: why the system cannot be formed, in phase "connecting".
      failures: launch -> (until when other processes may fail too, process index -> error).
      is_awaited: whether its members know that a process waits for them.
    """

    def __init__(self, first: Connection) -> None:
        self.count = int(first.hello["count"])
        self.record = membership.Record(self.count)
        self.begins = time.monotonic() + _SETTLE_TIME
        self.members: dict[int, Connection] = {}
        self.until = float("inf")
        self.phase = "gathering"
        self.heartbeat, self.next_beat = 0.0, float("inf")
        self.service: CoordinationService | None = None
        self.may_be_suspended = self.is_awaited = False
        self.port = 0
        self.error: str | None = None
        self.failures: dict[str, tuple[float, dict[int, str]]] = {}

    @property
    def is_complete(self) -> bool:
        """Whether all processes have come, and the system has not begun."""
        return self.phase == "gathering" and len(self.members) == self.count

    def next_time(self) -> float:
        """Return when the next timeout of this system is due."""
        return min(self.until, self.next_beat, self.begins if self.is_complete else float("inf"),
                   *[until for until, _ in self.failures.values()])

    def send(self, **message: object) -> None:
        """Send a message to all members."""
        for c in list(self.members.values()):
            c.lines.send(**message)

    # --- heartbeats -----------------------------------------------------------------------------------------------
    def await_heartbeats(self, timeout: float) -> None:
        """Count silence from now on. A member is lost after `timeout` seconds of it."""
        now, self.heartbeat = time.monotonic(), timeout
        self.next_beat = now + self._beat_pause()
        for c in self.members.values():
            c.last_heard = now

    def _beat_pause(self) -> float:
        """Return the seconds between two requests for heartbeats."""
        return min(self.heartbeat / _BEATS_PER_TIMEOUT, _MAX_BEAT_PAUSE)

    def request_heartbeats(self, now: float) -> list[Connection]:
        """Request heartbeats, and return the members that were silent for the timeout.

        None was, if the coordinator itself was suspended.
        """
        pause = self._beat_pause()
        was_suspended = now - self.next_beat > pause
        self.next_beat = now + pause
        silent = []
        for c in list(self.members.values()):
            if was_suspended:  # processes answer requests, and none was sent meanwhile: their silence means nothing
                c.last_heard = now
            if now - c.last_heard > self.heartbeat:
                silent.append(c)
            else:
                c.lines.send(beat=self.record.number)
        return silent

    # --- losses ---------------------------------------------------------------------------------------------------
    def report_loss(self, c: Connection) -> None:
        """Report a lost process to all members, and ask them for a heartbeat.

        The membership is agreed once all have answered. A process that is lost at the same time does not answer. It is
        reported before the membership, at the latest after the heartbeat timeout, so that all members raise an error
        with the same processes.
        """
        self.send(lost=c.rank, name=str(c))
        self.record.awaited = set(self.members)
        self.send(beat=self.record.number)

    def handle_beat(self, c: Connection, number: object) -> None:
        """Handle a heartbeat: with the last one after a loss, the membership is agreed."""
        if self.record.take_beat(c.rank, number):
            self.send(agreed=sorted(self.record.lost))

    # --- failed launches ------------------------------------------------------------------------------------------
    def handle_failed_launch(self, c: Connection, message: Message) -> None:
        """Record that a launch failed in a process.

        If it fails in all its processes within `_FAILURE_WINDOW`, no process waits for the data of another, and all
        continue. Otherwise `report_failed_launches` reports it to all members.
        """
        launch = str(message.get("launch"))
        _, those = self.failures.setdefault(launch, (time.monotonic() + _FAILURE_WINDOW, {}))
        those[c.rank] = f"{c}: {str(message['failed'])[:_MAX_TEXT]}"
        if len(those) == message.get("of"):
            del self.failures[launch]
            for r in those:
                if r in self.members:
                    self.members[r].lines.send(alike=launch)

    def report_failed_launches(self, now: float) -> None:
        """Report launches that failed in some of their processes only."""
        for launch in [n for n, (until, _) in self.failures.items() if until <= now]:
            for r, text in self.failures.pop(launch)[1].items():
                self.send(failed=r, name=text)

    def send_peers(self) -> None:
        """Send the addresses of all members to each of them."""
        ranks = sorted(self.members)
        for i in range(0, len(ranks), _PEERS_PER_LINE):
            self.send(peers={r: self.members[r].peer for r in ranks[i:i + _PEERS_PER_LINE]})
