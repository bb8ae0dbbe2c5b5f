"""The coordinator, a process of its own: `python -m lamina_distributed.coordinator [host:port]`.

It is the server of the rendezvous and hosts jaxlib's coordination service for the processes that met. It reports to
each of them at once which process died (its connection ended) or left (it said so before). It computes nothing and
needs no device, so no error of a user's program ends it. It ends itself after the last process has left, or if none
came.

Process 0, or `lamina.launch`, starts a coordinator if none is running. One coordinator may serve several systems:
processes that have left one may form the next while others still work in the first.
"""
from __future__ import annotations

import argparse
import errno
import hmac
import json
import os
import resource
import selectors
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from typing_extensions import override

from ._elastic import gathering
from ._group import membership
from ._rendezvous import rendezvous_protocol
from ._typing import CoordinationService, Message

__all__ = ["Coordinator", "listen", "main"]

_HELLO_TIMEOUT = 10.0    # seconds for a new connection to authenticate
_CONNECT_TIMEOUT = 40.0  # seconds for all clients of a system to connect
_MIN_SILENCE, _MAX_SILENCE = 5.0, 20.0  # seconds without a heartbeat meanwhile, unless the heartbeat timeout is shorter
_BLAME_TIME = 2.0        # seconds for the other clients to connect after one could not
_MAX_UNAUTHENTICATED = 128  # connections that have not authenticated yet
_MAX_HELLO_BYTES = 1 << 16  # bytes of such a connection
_MIN_TOKEN_BYTES = 16    # of a token, unless only this machine can reach the coordinator
_DESCRIPTOR_PAUSE = 0.05  # seconds until the next attempt to accept if no descriptor is left
_STOP_TIMEOUT = 5.0      # seconds for the processes to disconnect from the service when the coordinator is stopped
_BEATS_PER_TIMEOUT = 6   # heartbeats requested per heartbeat timeout
_MAX_BEAT_PAUSE = 4.0    # seconds between two requests, at most
_FAILURE_WINDOW = 1.0    # seconds in which a launch that failed in one process may fail in all of them
_MAX_TEXT = 4000         # characters of the report of such a failure
_MAX_LISTED = 16         # process indices listed in a message
_SETTLE_TIME = 1.0       # seconds from the first process in which another job without an id may show itself
_REJOIN_TIME = 3.0       # seconds for the remaining processes of a system with losses to come again
_PEERS_PER_LINE = 128    # addresses of processes in one line of at most `MAX_LINE_BYTES`


def _format_ranks(ranks: Iterable[int]) -> str:
    found = sorted(ranks)
    more = f" and {len(found) - _MAX_LISTED} more" if len(found) > _MAX_LISTED else ""
    return f"{found[:_MAX_LISTED]}{more}"


def _remote_host(s: socket.socket) -> str:
    try:
        return str(s.getpeername()[0])
    except OSError:
        return "an unknown address"


class _Connection:
    """One connection: unauthenticated at first, then a member of a system.

    Attributes:
      until: when an unauthenticated connection is closed, or a member of a gathering system no longer waits; host: its
        remote address.
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
        self.system: _System | None = None
        self.service_connected = self.service_failed = False
        self.last_heard = time.monotonic()

    @property
    def rank(self) -> int:
        return int(self.hello["rank"])

    @override
    def __str__(self) -> str:
        return f"process {self.rank} ({self.hello.get('host')}, pid {self.hello.get('pid')})"


class _System:
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

    def __init__(self, first: _Connection) -> None:
        self.count = int(first.hello["count"])
        self.record = membership.Record(self.count)
        self.begins = time.monotonic() + _SETTLE_TIME
        self.members: dict[int, _Connection] = {}
        self.until = float("inf")
        self.phase = "gathering"
        self.heartbeat, self.next_beat = 0.0, float("inf")
        self.service: CoordinationService | None = None
        self.may_be_suspended = self.is_awaited = False
        self.port = 0
        self.error: str | None = None
        self.failures: dict[str, tuple[float, dict[int, str]]] = {}


def _beat_pause(s: _System) -> float:
    """Return the seconds between two requests for heartbeats."""
    return min(s.heartbeat / _BEATS_PER_TIMEOUT, _MAX_BEAT_PAUSE)


class Coordinator:
    """The server of the rendezvous on a listening socket, and the services of the systems that were formed.

    All of it runs in one thread, as an event loop, so it needs no locks.

    Args:
      listener: the listening socket.
      key: the token.
      startup_timeout: seconds after which it ends if no process has come.
      load_jaxlib: returns the module that creates services. Called when a service is first needed.
      is_kept: whether it runs until `stop` is called, also after the last process has left.
    """

    def __init__(self, listener: socket.socket, key: bytes, startup_timeout: float,
                 load_jaxlib: Callable[[], ModuleType], is_kept: bool = False) -> None:
        self._listener, self._key, self._load_jaxlib = listener, key, load_jaxlib
        self._host = listener.getsockname()[0]
        self._is_kept = is_kept
        self._unauthenticated: list[_Connection] = []
        self._systems: list[_System] = []
        self._job: membership.Job = membership.Job()
        self._records = membership.Records()
        self._end = time.monotonic() + startup_timeout
        self._stopping = False
        self._last_rejected = (float("-inf"), "")  # time and host of the last connection with another token
        self._leaked_services: list[CoordinationService] = []  # they end with this process, see `_stop_service`
        self._selector = selectors.DefaultSelector()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)
        self._wake, self._alarm = socket.socketpair()  # a byte on `_alarm` wakes the loop
        for s in (self._wake, self._alarm):
            s.setblocking(False)
        self._selector.register(self._wake, selectors.EVENT_READ)

    # --- the loop -------------------------------------------------------------------------------------------------
    def run(self) -> None:
        """Serve until the last process has disconnected."""
        try:
            while self._systems or time.monotonic() < self._end:
                for key, _ in self._selector.select(self._select_timeout()):
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.fileobj is self._wake:
                        self._wake.recv(64)
                    # Events of connections that were dropped in this round are skipped.
                    elif key.data in self._unauthenticated or (key.data.system and self._is_member(key.data)):
                        self._read(key.data)
                self._handle_timeouts()
        finally:
            self._listener.close()  # first, so that a process that connects now is refused
            for c in list(self._unauthenticated):
                self._drop(c)
            for s in self._systems:
                self._drop_all(s)
                self._stop_service(s)
            self._selector.close()
            self._wake.close()
            self._alarm.close()

    def stop(self) -> None:
        """Have the processes disconnect from the service, then end. For signal handlers and other threads."""
        self._stopping = True
        try:
            self._alarm.send(b"!")
        except OSError:
            pass

    def _select_timeout(self) -> float:
        times = [c.until for c in self._unauthenticated] + [min(s.until, s.next_beat) for s in self._systems]
        times += [until for s in self._systems for until, _ in s.failures.values()]
        times += [s.begins for s in self._systems if self._is_complete(s)]
        if not self._systems:
            times.append(self._end)
        return min(max(min(times, default=60.0) - time.monotonic(), 0.0), 60.0)

    def _handle_timeouts(self) -> None:
        now = time.monotonic()
        for c in [c for c in self._unauthenticated if c.until <= now]:
            self._drop(c)
        for s in [s for s in self._systems if self._is_complete(s) and s.begins <= now]:
            self._start_service(s)
        for s in [s for s in self._systems if s.until <= now]:
            if s.phase == "gathering":
                self._handle_gathering_timeout(s)
            elif s.phase == "connecting":
                self._fail_connecting(s)
        for s in [s for s in self._systems if s.next_beat <= now]:
            self._request_heartbeats(s, now)
        for s in self._systems:
            for launch in [n for n, (until, _) in s.failures.items() if until <= now]:
                for r, text in s.failures.pop(launch)[1].items():
                    for c in list(s.members.values()):
                        c.lines.send(failed=r, name=text)
        if self._stopping and self._end != float("-inf"):
            self._end = float("-inf")
            for s in list(self._systems):
                if s.phase == "gathering":
                    self._fail(s, "the coordinator was stopped", "connection")
                for c in s.members.values():
                    c.lines.send(closing=True)
                s.until = now + _STOP_TIMEOUT
        elif self._stopping:
            for s in [s for s in self._systems if s.until <= now]:
                self._drop_all(s)
                self._systems.remove(s)
                self._stop_service(s)

    def _handle_gathering_timeout(self, s: _System) -> None:
        """Form a smaller system if its members allow that, else send them the error."""
        if all(gathering.is_elastic(c.hello) for c in s.members.values()):
            if any(gathering.is_complete(o) for o in self._systems):
                for c in s.members.values():
                    c.until = time.monotonic() + gathering.WAIT_PAUSE
                    c.lines.send(wait=gathering.WAIT_PAUSE)
                return self._update_timeout(s)
            if gathering.is_enough(s, bool(self._records)):
                gathering.renumber(s)
                return self._start_service(s)
        self._fail_gathering(s)

    @staticmethod
    def _update_timeout(s: _System) -> None:
        s.until = min((c.until for c in s.members.values()), default=float("inf"))

    def _update_waiting(self, has_changed: bool = False) -> None:
        """Notify the members of systems at work whether a process waits for them.

        Args:
          has_changed: whether a system is not complete any more. Then those that wait for it wait for its members, and
            their time begins again.
        """
        those = [s for s in self._systems if s.phase == "gathering"]
        for s in those:
            for c in s.members.values():
                if has_changed and gathering.is_elastic(c.hello):
                    c.until = time.monotonic() + c.hello["timeout"]
            self._update_timeout(s)
        for s in [s for s in self._systems if s.phase == "running"]:
            is_awaited = gathering.find_awaited(s, those)
            if is_awaited != s.is_awaited:
                s.is_awaited = is_awaited
                for c in list(s.members.values()):
                    c.lines.send(awaited=is_awaited)

    def _fail_gathering(self, s: _System) -> None:
        """Send the error of processes that did not come to those that did."""
        absent = _format_ranks(set(range(s.count)) - set(s.members))
        others = sum(len(o.members) for o in self._systems if o is not s)
        busy = f" ({others} that met here before are at work)" if others else ""
        late = f"of {s.count} processes {absent} did not come to the coordinator in time{busy}. "
        (when, host), timeout = self._last_rejected, max(c.hello["timeout"] for c in s.members.values())
        if when > s.until - 2 * timeout:  # while they gathered, or just before
            self._fail(s, f"{late}A process at {host} was rejected because it has another token: set LAMINA_TOKEN (or "
                          "LAMINA_TOKEN_FILE) to the same secret in all processes", "permission")
        else:
            self._fail(s, f"{late}Start them, give them this address and the same num_processes, or raise "
                          "initialization_timeout", "timeout")

    def _fail_connecting(self, s: _System) -> None:
        """Send the error of processes that did not connect to jaxlib's service in time."""
        late = [c for c in s.members.values() if not c.service_connected and not c.service_failed]
        if any(c.service_failed for c in s.members.values()):  # no client waits any more for those that are late
            names = ", ".join(str(c) for c in late[:_MAX_LISTED]) or "processes"
            return self._fail(s, s.error or f"{names} did not connect to jaxlib's service in time", "connection")
        for c in late:
            self._handle_end(c, "did not connect to jaxlib's service in time")

    def _request_heartbeats(self, s: _System, now: float) -> None:
        """Request heartbeats. A process silent for the timeout is lost, unless this coordinator was suspended."""
        pause = _beat_pause(s)
        was_suspended = now - s.next_beat > pause
        s.next_beat = now + pause
        for c in list(s.members.values()):
            if was_suspended:  # processes answer requests, and none was sent meanwhile: their silence means nothing
                c.last_heard = now
            if now - c.last_heard > s.heartbeat:
                c.lines.send(lost=c.rank,
                             name=f"process {c.rank} (this one: it gave no sign of life for {s.heartbeat:g} s)")
                s.may_be_suspended = True
                self._handle_end(c, f"gave no sign of life for {s.heartbeat:g} s")
            else:
                c.lines.send(beat=s.record.number)

    # --- unauthenticated connections ------------------------------------------------------------------------------
    def _accept(self) -> None:
        try:
            s, _ = self._listener.accept()
        except OSError as e:
            if e.errno in (errno.EMFILE, errno.ENFILE):  # the listener stays readable, so this would be repeated at once
                self._drop_unauthenticated()
                time.sleep(_DESCRIPTOR_PAUSE)
            return  # or closed again
        s.setblocking(False)
        if len(self._unauthenticated) >= _MAX_UNAUTHENTICATED:
            self._drop_unauthenticated()
        c = _Connection(s)
        self._unauthenticated.append(c)
        self._selector.register(s, selectors.EVENT_READ, c)
        c.lines.send(lamina=rendezvous_protocol.PROTOCOL, challenge=c.challenge)

    def _drop_unauthenticated(self) -> None:
        """Drop one connection: of the address with most of them, the oldest that has sent nothing, else the oldest."""
        if self._unauthenticated:
            counts = Counter(c.host for c in self._unauthenticated)
            most = [c for c in self._unauthenticated if c.host == max(counts, key=lambda h: counts[h])]
            # A process of lamina sends its first line before it has received one.
            self._drop(next((c for c in most if not c.lines.received), most[0]))

    def _read(self, c: _Connection) -> None:
        try:
            is_open = c.lines.receive()
        except BlockingIOError:
            return
        except OSError:
            is_open = False
        try:
            while (message := c.lines.pop()) is not None:
                if c.system is None:
                    if "hello" in message:
                        self._authenticate(c, message)
                    elif "lamina" not in message:
                        raise ValueError("no hello")
                elif "connected" in message and c.system.phase == "connecting":
                    c.service_connected, c.peer = True, str(message.get("peer", ""))
                    self._start_if_connected(c.system)
                elif "unconnected" in message and c.system.phase == "connecting":
                    c.service_failed = True
                    c.system.until = min(c.system.until, time.monotonic() + _BLAME_TIME)
                elif "failed" in message and c.system.phase == "running":
                    self._handle_failed_launch(c.system, c, message)
                elif "beat" in message and c.system.phase == "running":
                    self._handle_beat(c.system, c, message["beat"])
                elif "abandon" in message:
                    return self._handle_abandon(c)
                elif "bye" in message:
                    return self._handle_leave(c)
                if c not in self._unauthenticated and not self._is_member(c):
                    return  # rejected
            if c.system is None and c.lines.received > _MAX_HELLO_BYTES:
                raise ValueError("no hello")
        except ValueError:
            is_open = False  # not a process of lamina
        if is_open:
            c.last_heard = time.monotonic()
        else:
            self._handle_end(c)

    def _is_member(self, c: _Connection) -> bool:
        return c.system is not None and c.system.members.get(c.rank) is c

    def _authenticate(self, c: _Connection, message: Message) -> None:
        """Check the MAC and the form of a hello. ValueError if the form is wrong."""
        text, digest = message.get("hello"), message.get("mac")
        if not isinstance(text, str) or not isinstance(digest, str):
            raise ValueError("no hello")
        expected = rendezvous_protocol.mac(self._key, "guest", c.challenge, text)
        if not hmac.compare_digest(digest.encode(), expected.encode()):  # in constant time
            text = ("the coordinator has another token. Set LAMINA_TOKEN (or LAMINA_TOKEN_FILE) to the same secret in "
                    "all processes; without it each user's own is taken, which machines without a common home do not "
                    "share")
            self._last_rejected = time.monotonic(), c.host
            return self._reject(c, text, "permission")
        try:
            hello = json.loads(text)
        except RecursionError as e:
            raise ValueError("nested too deep") from e
        if not isinstance(hello, dict) or any(type(hello.get(n)) is not int for n in ("rank", "count")):
            raise ValueError("no hello")
        numbers: list[Any] = [hello.get(n) for n in ("timeout", "heartbeat", "leaving")]
        if any(type(n) not in (int, float) or not 0 <= n < 1e9 for n in numbers):
            raise ValueError("no hello")
        if not membership.is_valid_hello(hello) or not gathering.is_valid_hello(hello):
            return self._reject(c, "the job id, the system that the process was in before, or the least number of processes, "
                                "has a wrong form", "connection")
        c.hello = hello
        if self._stopping:
            return self._reject(c, "the coordinator was stopped", "connection")
        self._add_member(c)

    def _add_member(self, c: _Connection) -> None:
        system = next((s for s in self._systems if s.phase == "gathering"), None)
        foreign = self._find_other_job(c, system)
        if foreign:  # those that wait belong to the job of this coordinator, and are not concerned
            return self._reject(c, foreign, "value")
        lost = self._records.find_unknown_losses(c.hello.get("previous"))
        if lost is not None and not gathering.is_elastic(c.hello):
            return self._reject_after_loss(c, lost)
        if system is not None and c.rank in system.members and gathering.is_elastic(c.hello):
            # The former one may have ended without a message of the network. It must not end the others.
            self._reject(system.members[c.rank], f"process_id {c.rank} was taken by {c}, which came later", "value")
        mismatch = self._find_mismatch(c, system)
        if mismatch:
            text = (f"{mismatch}. Each process needs a number of its own, the same num_processes and the same versions. "
                    "If two jobs meet here, give each an address of its own, or a job_id")
            self._reject(c, text, "value")
            if system is not None:  # it can never be complete, so those that wait get the error now
                self._fail(system, text, "value")
            return
        if system is None:
            system = _System(c)
            self._systems.append(system)
        self._unauthenticated.remove(c)
        c.system = system
        system.members[c.rank] = c
        rendezvous_protocol.set_keepalive(c.socket, c.hello["heartbeat"])
        c.lines.send(proof=rendezvous_protocol.mac(self._key, "coordinator", c.challenge, str(c.hello.get("nonce"))))
        c.until = time.monotonic() + c.hello["timeout"]
        self._update_waiting()
        self._job.learn(c.hello.get("job"), str(c))
        # Processes that were given the id of their job cannot be those of another one.
        if self._job.name or system.count == 1:
            system.begins = time.monotonic()

    @staticmethod
    def _is_complete(s: _System) -> bool:
        return s.phase == "gathering" and len(s.members) == s.count

    def _find_other_job(self, c: _Connection, system: _System | None) -> str | None:
        """Return why a process is of another job than this coordinator, or None."""
        advice = "Give each job an address of its own"
        if not self._systems:
            self._job = membership.Job()
        job = c.hello.get("job")
        if job and self._job.name and job != self._job.name:
            return (f"the coordinator serves job {self._job.name!r} of {self._job.known_from}; {c} is of job {job!r}. "
                    f"{advice}")
        busy = next((s for s in self._systems if s.phase != "gathering" and len(s.members) == s.count), None)
        is_expected = system is not None and any(m.hello.get("job") for m in system.members.values())
        if not job and busy is not None and not is_expected:
            return (f"job {self._job.name!r} with {busy.count} processes is at work here, among them "
                    f"{busy.members[0]}; {c} has no job id, and is none of them. {advice}; or give the processes that "
                    "belong together the same job_id, or LAMINA_JOB_ID")
        return None

    def _reject_after_loss(self, c: _Connection, record: membership.Record) -> None:
        """Reject a process that does not know which processes of its previous system are lost."""
        names = "; ".join([record.lost[r] for r in sorted(record.lost)[:_MAX_LISTED]])
        text = f"of the system before, process_indices {tuple(sorted(record.lost))} are lost: {names}"
        self._reject(c, text, "lost", ranks=sorted(record.lost))

    def _record_loss(self, record: membership.Record, rank: int, name: str) -> None:
        """Record a loss. Processes that gather again without knowing it get an error instead of a timeout."""
        record.add(rank, name)
        for s in [s for s in self._systems if s.phase == "gathering"]:
            for c in [c for c in s.members.values() if self._records.find(c.hello.get("previous")) is record]:
                if not gathering.is_elastic(c.hello):
                    self._reject_after_loss(c, record)
            self._close_if_empty(s)

    def _find_mismatch(self, c: _Connection, system: _System | None) -> str | None:
        """Return why a process cannot be a member, or None."""
        count = c.hello["count"]
        if count < 1 or not 0 <= c.rank < count:
            return f"process_id must be in [0, num_processes); {c} has {count}"
        if system is None:
            return None
        other = system.members[min(system.members)]
        if count != system.count:
            return f"num_processes is {count} in {c} and {system.count} in {other}"
        if c.rank in system.members:
            return f"process_id {c.rank} is taken: {c} and {system.members[c.rank]} came with it"
        mine, theirs = c.hello.get("fits"), other.hello.get("fits")
        if mine != theirs:
            return f"processes must agree; {c} has {mine}, {other} has {theirs}"
        if c.hello.get("min") != other.hello.get("min"):
            return f"min_processes is {c.hello.get('min')} in {c} and {other.hello.get('min')} in {other}"
        return None

    def _reject(self, c: _Connection, text: str, kind: str, **fields: object) -> None:
        c.lines.send(error=f"{rendezvous_protocol.CALL}: {text}", kind=kind, **fields)
        self._drop(c)

    # --- systems --------------------------------------------------------------------------------------------------
    def _start_service(self, s: _System) -> None:
        """Start jaxlib's service for a complete system, and have the processes connect to it."""
        first, now = s.members[0].hello, time.monotonic()
        self._job.learn(first.get("drawn"), str(s.members[0]))
        # A process that is silent while they connect is reported before `initialization_timeout` has passed.
        s.heartbeat = min(first["heartbeat"], max(s.until - now, _MIN_SILENCE), _MAX_SILENCE)
        for c in s.members.values():
            c.last_heard = now
        s.next_beat = now + _beat_pause(s)
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            # jaxlib's service would silently share a port that another service has (SO_REUSEPORT). So reserve a free
            # one, with the same option, until the service has bound it.
            with socket.socket(family, socket.SOCK_STREAM) as reserved:
                if hasattr(socket, "SO_REUSEPORT"):
                    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                reserved.bind((self._host, 0))
                s.port = reserved.getsockname()[1]
                address = rendezvous_protocol.format_address(self._host, s.port)
                s.service = self._load_jaxlib().new_service(address, s.count, int(_CONNECT_TIMEOUT) * 3,
                                                            first["leaving"])
        except Exception as e:  # of any kind: the waiting processes must get an error
            return self._fail(s, f"the coordinator cannot host jaxlib's service: {type(e).__name__}: {e}", "connection")
        s.phase, s.until = "connecting", time.monotonic() + 1.25 * _CONNECT_TIMEOUT
        for c in list(s.members.values()):
            c.lines.send(begin=s.port, rank=c.rank, count=s.count, limit=int(_CONNECT_TIMEOUT), heartbeat=first["heartbeat"], job=self._job.name,
                         system=s.record.id, pid=os.getpid(), host=socket.gethostname())

    def _start_if_connected(self, s: _System) -> None:
        if not all(c.service_connected for c in s.members.values()):
            return
        if s.error:
            return self._fail(s, s.error, "connection")
        now, s.heartbeat = time.monotonic(), s.members[0].hello["heartbeat"]
        s.phase, s.until, s.next_beat = "running", float("inf"), now + _beat_pause(s)
        self._records.add(s.record)
        ranks = sorted(s.members)
        parts = [{r: s.members[r].peer for r in ranks[i:i + _PEERS_PER_LINE]}
                 for i in range(0, len(ranks), _PEERS_PER_LINE)]
        for c in s.members.values():
            c.last_heard = now
            for part in parts:
                c.lines.send(peers=part)
            c.lines.send(ready=True)
        self._update_waiting()

    def _fail(self, s: _System, text: str, kind: str) -> None:
        """Send an error to all members of a system, and close it."""
        self._systems.remove(s)
        for c in list(s.members.values()):
            self._reject(c, text, kind)
        self._close(s)
        self._update_waiting()

    def _handle_end(self, c: _Connection, reason: str = "ended") -> None:
        """Handle a connection that ended without a goodbye, or a silent one: its process is lost."""
        s = c.system
        was_member = self._is_member(c)
        self._drop(c)
        if s is None or not was_member:
            return
        if s.phase == "running":
            self._record_loss(s.record, c.rank, str(c))
            for other in list(s.members.values()):
                other.lines.send(lost=c.rank, name=str(c))
            self._request_membership(s)
        elif s.phase == "gathering":
            record = self._records.find(c.hello.get("previous"))
            if record is not None and not gathering.is_elastic(c.hello):
                self._record_loss(record, c.hello["previous"]["rank"], str(c))
        elif s.phase == "connecting":
            # jaxlib aborts the processes that wait for this one. So this coordinator connects in its place: then all
            # return from `connect`, and get the error over their coordinator connection.
            s.error = f"{c} {reason} while the processes were connecting"
            if not c.service_connected and s.members:
                threading.Thread(target=self._connect_for_lost, args=(s, c.rank, c.hello), daemon=True).start()
            self._start_if_connected(s)
        self._close_if_empty(s)
        self._update_waiting(s.phase == "running")

    def _connect_for_lost(self, s: _System, rank: int, hello: Message) -> None:
        address = rendezvous_protocol.format_address(self._local_host(), s.port)
        client = self._load_jaxlib().new_distributed_client(address, rank, int(_CONNECT_TIMEOUT), hello["leaving"])
        try:
            client.connect()
            client.shutdown()
        except Exception:
            pass  # the service has ended, so no process waits any more

    def _local_host(self) -> str:
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host)

    def _handle_leave(self, c: _Connection) -> None:
        s = c.system
        assert s is not None
        self._drop(c)
        for other in list(s.members.values()):
            if s.phase == "running":
                other.lines.send(left=c.rank, name=str(c))
        if s.phase == "running":
            self._handle_beat(s, c, s.record.number)  # no answer is awaited from a process that has left
        self._close_if_empty(s)
        self._update_waiting(s.phase == "running")

    def _handle_abandon(self, c: _Connection) -> None:
        """Release all members: this coordinator was silent for so long that a member continues without it.

        Otherwise some members would rely on its reports, and others would not.
        """
        s = c.system
        assert s is not None
        for other in s.members.values():
            other.lines.send(closing=True)
        self._drop_all(s)
        self._close_if_empty(s)
        self._update_waiting(has_changed=True)

    @staticmethod
    def _request_membership(s: _System) -> None:
        """Ask all members of a system for a heartbeat after a loss: its membership is agreed once all have answered.

        A process that is lost at the same time does not answer. It is reported before the membership, at the latest
        after the heartbeat timeout, so that all members raise an error with the same processes.
        """
        s.record.awaited = set(s.members)
        for c in list(s.members.values()):
            c.lines.send(beat=s.record.number)

    @staticmethod
    def _handle_beat(s: _System, c: _Connection, number: object) -> None:
        if s.record.take_beat(c.rank, number):
            for other in list(s.members.values()):
                other.lines.send(agreed=sorted(s.record.lost))

    @staticmethod
    def _handle_failed_launch(s: _System, c: _Connection, message: Message) -> None:
        """Record that a launch failed in a process.

        If it fails in all its processes within `_FAILURE_WINDOW`, no process waits for the data of another, and all
        continue. Otherwise `_handle_timeouts` reports it to all members.
        """
        launch = str(message.get("launch"))
        _, those = s.failures.setdefault(launch, (time.monotonic() + _FAILURE_WINDOW, {}))
        those[c.rank] = f"{c}: {str(message['failed'])[:_MAX_TEXT]}"
        if len(those) == message.get("of"):
            del s.failures[launch]
            for r in those:
                if r in s.members:
                    s.members[r].lines.send(alike=launch)

    def _close_if_empty(self, s: _System) -> None:
        if not s.members and s in self._systems:
            self._systems.remove(s)
            self._close(s)

    def _close(self, s: _System) -> None:
        self._stop_service(s)
        if not self._systems and not self._is_kept:
            # The remaining processes come again soon, and only this coordinator knows whom they have lost.
            self._end = min(self._end, time.monotonic()) if not s.record.lost else time.monotonic() + _REJOIN_TIME

    def _drop_all(self, s: _System) -> None:
        s.may_be_suspended = s.may_be_suspended or bool(s.members)
        for c in list(s.members.values()):
            self._drop(c)

    def _stop_service(self, s: _System) -> None:
        service, s.service = s.service, None
        # The shutdown message of a service aborts a client that is still connected. A suspended process would receive
        # it when it resumes. The end of the connection does not abort it, because of its `ServiceProxy`.
        if s.may_be_suspended:
            self._leaked_services.append(service)
        elif service is not None:
            try:
                service.shutdown()
            except Exception:
                pass  # it ends with this process

    def _drop(self, c: _Connection) -> None:
        """Close a connection and remove it from all tables."""
        if c in self._unauthenticated:
            self._unauthenticated.remove(c)
        if self._is_member(c):
            assert c.system is not None
            del c.system.members[c.rank]
        try:
            self._selector.unregister(c.socket)
        except (KeyError, ValueError):
            pass
        c.socket.close()


# --- as a program -------------------------------------------------------------------------------------------------
def listen(address: str) -> socket.socket:
    """Return a socket that listens at `host:port`; port 0 picks a free one. OSError as from `bind`."""
    host, _, port = address.rpartition(":")
    number = rendezvous_protocol.resolve(host.strip("[]"))[0]
    family = socket.AF_INET6 if ":" in number else socket.AF_INET
    return socket.create_server((number, int(port)), family=family, backlog=512)


def _check_token(address: str, key: bytes) -> None:
    """Raise ValueError for a short token if other machines can reach the coordinator.

    An attacker who records the messages of a process that joins can try short tokens offline.
    """
    host = address.rpartition(":")[0].strip("[]")
    if len(key) < _MIN_TOKEN_BYTES and not rendezvous_protocol.is_loopback(host):
        raise ValueError(f"the token has {len(key)} bytes; at {host}, which other machines reach, it must have at least "
                         f"{_MIN_TOKEN_BYTES}: LAMINA_TOKEN=$(openssl rand -hex 32)")


def _report(**fields: object) -> None:
    """Print one line of JSON for the process that started this one, which reads no more than that."""
    try:
        print(json.dumps(fields), flush=True)
    except OSError:
        pass


def main(argv: list[str] | None = None) -> int:
    """Run the coordinator until the last process disconnects. Exit status 1 if the port cannot be bound."""
    parser = argparse.ArgumentParser(
        prog="python -m lamina_distributed.coordinator",
        description="Run the coordinator, to which the processes of a program connect. It ends when the last process "
        "disconnects. It prints one line of JSON when it listens: its address and process id.")
    parser.add_argument("address", nargs="?", default="127.0.0.1:0", help="host:port to listen at; port 0: a free one")
    parser.add_argument("--startup-timeout", type=float, default=600, metavar="S",
                        help="end if no process has connected within S seconds")
    parser.add_argument("--patience", dest="startup_timeout", type=float, default=argparse.SUPPRESS,
                        help=argparse.SUPPRESS)  # deprecated name of --startup-timeout
    parser.add_argument("--detach", action="store_true", help="run in the background")
    parser.add_argument("--exit-on-stdin-close", action="store_true",
                        help="end when standard input is closed, not when the last process disconnects")
    parser.add_argument("--leash", dest="exit_on_stdin_close", action="store_true", default=argparse.SUPPRESS,
                        help=argparse.SUPPRESS)  # deprecated name of --exit-on-stdin-close
    parser.add_argument("--json", action="store_true", help="no effect: the output is always JSON")
    options = parser.parse_args(argv)
    # The child is adopted by init: no process has to wait for it, and a signal to the group does not reach it.
    if options.detach and os.fork():
        os._exit(0)
    try:
        key = rendezvous_protocol.load_token()
        _check_token(options.address, key)
        listener = listen(options.address)
    except (OSError, ValueError, RuntimeError) as e:
        _report(error=str(getattr(e, "strerror", None) or e), errno=getattr(e, "errno", None))
        return 1
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))  # each process needs a descriptor
    coordinator = Coordinator(listener, key, options.startup_timeout, _import_jaxlib, options.exit_on_stdin_close)
    # The import takes a third of a second. It runs while the processes connect.
    threading.Thread(target=_import_jaxlib, daemon=True).start()
    for s in (signal.SIGTERM, signal.SIGINT):
        signal.signal(s, lambda *_: coordinator.stop())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if options.exit_on_stdin_close:
        threading.Thread(target=_stop_on_stdin_close, args=(coordinator,), daemon=True).start()
    _report(address=rendezvous_protocol.format_address(*listener.getsockname()[:2]), pid=os.getpid())
    if options.detach:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    coordinator.run()
    os._exit(0)  # at once: jaxlib's threads have nothing left to do


def _stop_on_stdin_close(coordinator: Coordinator) -> None:
    sys.stdin.buffer.read()
    coordinator.stop()


def _import_jaxlib() -> ModuleType:
    from . import _jaxlib as module  # noqa: PLC0415 (late: processes can connect while this is imported)
    return module


if __name__ == "__main__":
    sys.exit(main())
