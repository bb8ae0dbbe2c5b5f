"""Client side of the rendezvous: connect to the coordinator, wait for the other processes, and stay connected.

As long as the connection is open, the process counts as alive. The coordinator reports over it which processes have
left, were lost or failed a launch. A thread receives the reports and calls the listeners.

If the connection ends, the coordinator is lost, and with it jaxlib's coordination service. jaxlib's client would abort
the process as soon as it noticed, if `service_proxy` did not keep its connection open. So the client is shut down
before anything else.

The end of the coordinator is not the end of a process. Only a process that was silent itself is lost for the others;
its peers know, see `CoordinatorConnection.is_counted_out`.
"""
from __future__ import annotations

import errno
import json
import math
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from lamina_runtime.extend.processes import ProcessLostError

from . import beat_answers, rendezvous_protocol
from .rendezvous_protocol import CALL
from .._typing import Message

__all__ = ["CoordinatorConnection", "Event", "Meeting", "join"]

_ERROR_CLASSES: dict[str, type[Exception]] = {"value": ValueError, "timeout": TimeoutError,
                                              "permission": PermissionError}
_GREETING_TIMEOUT = 10.0  # seconds for the first line of a coordinator, which may be starting on a busy machine
_RETRY_PAUSE = 0.05  # seconds between two attempts to connect
_START_PAUSE = 1.0  # seconds from the start of a coordinator that ended at once until the next one, then twice as many, ...
_MEMBERSHIP_GRACE = 5.0  # seconds beyond the heartbeat timeout for the coordinator to report who is lost
_BLAME_TIMEOUT = 10.0  # seconds for the coordinator to report which process did not connect
_VERDICT_TIMEOUT = 3.0  # seconds for the coordinator to report whether a launch failed in all processes
_SILENCE_ERRORS = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN)
# ("lost", "left" or "failed", process index), or ("coordinator", -1): there will be no more reports
Event = tuple[str, int]


class _SilentCoordinatorError(Exception):
    """The coordinator that this process has met before accepts connections and does not answer: it is stopped."""


class Meeting(NamedTuple):
    """What a process remembers of a system that it was in, for the next `join`.

    Attributes:
      address: of the coordinator; pid, host: of its process.
      job: id of the job, which the coordinator reported; system: id of the system.
      rank: index of this process in it; lost: processes that it knows to be lost.
    """

    address: str
    pid: int
    host: str
    job: str
    system: str
    rank: int
    lost: tuple[int, ...] = ()


class CoordinatorConnection:
    """A connection to the coordinator, made by `join`.

    Attributes:
      rank, count: index of this process, and number of processes.
      service: host and port of jaxlib's coordination service; limit: seconds its client may take to connect.
      heartbeat: seconds of silence after which a process counts as lost.
      local_address: address of this machine as the coordinator's machine sees it; other processes reach this one there.
      lost, left: process index -> description, of processes that died or were silent, and of those that left in order.
        Its own index in `lost`: it was silent to the coordinator, or the coordinator to it, and the others continue
        without it.
      failed: process index -> error text, of processes in which a launch failed, but not in all.
      failed_everywhere: identifiers of launches that failed in all their processes.
      named: the lost processes that an error of this process has named.
      agreed: the lost processes that the coordinator has reported to all members alike; None until then.
      coordinator_lost: whether the coordinator is lost.
      is_awaited: whether a process waits to join this system.
      meeting: what to remember of this system; peers: process index -> address of its peer sockets.
      is_counted_out: called if the coordinator or, with the argument True, this process was silent; returns whether
        the other processes continue without this one.
      changed: condition that is notified when one of these changes.
    """

    def __init__(self, lines: rendezvous_protocol.LineStream, rank: int, count: int, service: tuple[str, int],
                 limit: int, heartbeat: int, meeting: Meeting) -> None:
        self.meeting = meeting
        self.peers: dict[int, str] = {}
        self.agreed: frozenset[int] | None = None
        self.named: tuple[int, ...] = ()
        self.is_counted_out: Callable[[bool], bool] = lambda has_slept: has_slept and count > 1
        self.rank, self.count, self.service, self.limit, self.heartbeat = rank, count, service, limit, heartbeat
        self.local_address = str(lines.socket.getsockname()[0])
        self.lost: dict[int, str] = {}
        self.left: dict[int, str] = {}
        self.failed: dict[int, str] = {}
        self.failed_everywhere: set[str] = set()
        self.coordinator_lost = self.is_awaited = False
        self.changed = threading.Condition()
        self._lines = lines
        self._leaving = False
        self._listeners: list[Callable[[Event], None]] = []
        self._disconnect: Callable[[], None] = lambda: None
        self._thread: threading.Thread | None = None

    def confirm(self, timeout: float, peer: str = "") -> None:
        """Report that jaxlib's client is connected, and wait until all processes have done so.

        Args:
          peer: address of this process's peer sockets. Afterwards `peers` has those of all processes.
        Raises:
          ConnectionError: a process, or the coordinator, ended meanwhile.
        """
        self._lines.send(connected=True, peer=peer)
        self._await_ready(timeout)

    def raise_if_closed(self) -> None:
        """Raise ConnectionError if the coordinator has given up this process, because it was stopped."""
        if self._lines.is_closed():
            self._await_ready(_BLAME_TIMEOUT)

    def connect_service(self, connect: Callable[[], None], errors: tuple[type[Exception], ...]) -> None:
        """Call `connect`, which connects jaxlib's client, and answer heartbeats meanwhile.

        Raises:
          ConnectionError: it raised one of `errors`, or a process gave no sign of life; names that process.
        """
        self.raise_if_closed()
        try:
            with beat_answers.BeatAnswers(self._lines):
                connect()
        except errors as e:
            self._lines.send(unconnected=True)
            self._await_ready(_BLAME_TIMEOUT)
            raise ConnectionError(f"{CALL}: jaxlib's client could not connect to its service: {e}") from e
        self.raise_if_closed()

    def _await_ready(self, timeout: float) -> None:
        """Wait for the coordinator to report that all processes are connected. Raise its error."""
        until = time.monotonic() + timeout
        while True:
            try:
                message = self._lines.read(until - time.monotonic())
            except (TimeoutError, ValueError):
                message = None
            message = _raise_if_error(message, "while the processes were connecting")
            if "lost" in message:
                raise ConnectionError(f"{CALL}: the others have given up {message.get('name')} while the processes were "
                                      "connecting. Call initialize(...) again in all of them")
            if "ready" in message:
                return
            if "beat" in message:
                self._lines.send(beat=message["beat"])
            self.peers.update({int(r): text for r, text in message.get("peers", {}).items()})

    def start(self, disconnect: Callable[[], None]) -> None:
        """Start the thread. `disconnect()` is called first if the coordinator is lost or about to end."""
        self._disconnect = disconnect
        # Beats come several times per timeout. So a silence of that length means that the coordinator or the network
        # is gone.
        self._lines.socket.settimeout(self.heartbeat)
        self._thread = threading.Thread(target=self._listen, name="lamina-coordinator-connection", daemon=True)
        self._thread.start()

    def add_listener(self, act: Callable[[Event], None]) -> None:
        """Call `act(event)`, which must be fast, for each loss, leave and failure, including those known already."""
        with self.changed:
            # Under the lock, so that no event is missed between the list of known ones and the registration.
            known: list[Event] = [(kind, r) for kind, those in (("lost", self.lost), ("left", self.left),
                                                                ("failed", self.failed)) for r in those]
            self._listeners.append(act)
        for event in known + [("coordinator", -1)] * self.coordinator_lost:
            act(event)

    def leave(self, timeout: float = 5.0) -> None:
        """Leave in order, so that the others get a "left" and no "lost". Ends the thread."""
        self._leaving = True
        self._lines.send(bye=True)
        try:
            self._lines.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
        self._lines.socket.close()

    def close_in_child(self) -> None:
        """Release the socket in a forked child. A copy there would hide the end of the parent."""
        number = self._lines.socket.fileno()
        if number >= 0:
            null = os.open(os.devnull, os.O_RDWR)
            # Not closed: the number would be reused, and then closed again by the socket object.
            os.dup2(null, number)
            os.close(null)

    def _listen(self) -> None:
        reason, heard, woke, has_slept = "", time.monotonic(), -math.inf, False
        while True:
            try:
                message = self._read()
            except TimeoutError:
                reason, message = "the coordinator gives no sign of life", None
            now = time.monotonic()
            # Beats come several times per timeout. After a longer pause, if `recv` did not time out, this process
            # slept.
            if now - heard > self.heartbeat:
                woke = now
            heard = now
            if message is None:
                # If this process was suspended longer than the heartbeat timeout, the coordinator considers it lost.
                # Its last message may have been dropped with the connection, while older ones are still received.
                if not reason and now - woke < self.heartbeat:
                    reason, has_slept = f"it gave no sign of life for {self.heartbeat:g} s", True
                break
            if "closing" in message:
                break
            if "beat" in message:
                self._lines.send(beat=message["beat"])
            if "awaited" in message:
                self.is_awaited = bool(message["awaited"])
            if "agreed" in message:
                with self.changed:
                    self.agreed = frozenset(message["agreed"])
                    self.changed.notify_all()
            if "alike" in message:
                with self.changed:
                    self.failed_everywhere.add(str(message["alike"]))
                    self.changed.notify_all()
            for kind, known in (("lost", self.lost), ("left", self.left), ("failed", self.failed)):
                rank = message.get(kind)
                if isinstance(rank, int):
                    self._record(known, rank, str(message.get("name")))
                    self._notify((kind, rank))
        if not self._leaving:
            # First: jaxlib's client waits for a service that has ended. The service of a process that was counted out
            # lives, and its own devices may still be connected.
            if self.rank not in self.lost:
                self._disconnect()
            self._lines.send(abandon=True)  # the coordinator may resume: then it releases the other members too
            # A machine is off, the network is cut, the coordinator is stopped or this process was. Its peers know
            # whether they continue without it.
            if reason and self.rank not in self.lost and self.is_counted_out(has_slept):
                self.mark_lost(self.rank, f"process {self.rank} (this one: {reason})")
            with self.changed:
                self.coordinator_lost = True
                self.changed.notify_all()
            try:
                self._lines.socket.shutdown(socket.SHUT_RDWR)  # a coordinator that is shutting down waits for this
            except OSError:
                pass
            self._lines.socket.close()
            self._notify(("coordinator", -1))

    def report_failure(self, launch: str, processes: int, text: str) -> bool:
        """Report that a launch failed in this process. Return whether it failed in all its processes.

        If so, no process waits for the data of another, and all may continue. Otherwise all processes are notified.

        Args:
          launch: identifier of the launch, the same in all its processes.
          processes: number of its processes.
          text: the error.
        """
        self._lines.send(failed=text, launch=launch, of=processes)
        with self.changed:
            self.changed.wait_for(lambda: self.coordinator_lost or self.failed or self.lost
                                  or launch in self.failed_everywhere, _VERDICT_TIMEOUT)
            answered = launch in self.failed_everywhere or self.failed or self.lost
        if not answered:  # no coordinator: cut own connections, which unblocks peers with one device each
            self._record(self.failed, self.rank, f"process {self.rank}: {text}")
            self._notify(("failed", self.rank))
        return launch in self.failed_everywhere

    def await_membership(self) -> tuple[int, ...]:
        """Return the lost processes, once the coordinator has reported them to all members alike.

        That takes milliseconds if all other processes live, and the heartbeat timeout if another one is silent. Without
        the coordinator, or in a process that is lost itself, return what is known.
        """
        with self.changed:
            self.changed.wait_for(lambda: self.coordinator_lost or self._leaving or self.rank in self.lost
                                  or set(self.lost) <= (self.agreed or frozenset()),
                                  self.heartbeat + _MEMBERSHIP_GRACE)
            return tuple(sorted(self.lost))

    def mark_left(self, rank: int, name: str) -> None:
        """Record that a process has left, as it said itself."""
        self._record(self.left, rank, name)
        self._notify(("left", rank))

    def mark_lost(self, rank: int, name: str) -> None:
        """Record that a process is lost, as found out without the coordinator."""
        self._record(self.lost, rank, name)
        self._notify(("lost", rank))

    def _record(self, known: dict[int, str], rank: int, name: str) -> None:
        with self.changed:
            known[rank] = name
            self.changed.notify_all()

    def _notify(self, event: Event) -> None:
        with self.changed:
            listeners = list(self._listeners)
        # Outside of the lock: a listener may wait for a thread that needs it.
        for act in listeners:
            act(event)

    def _read(self) -> Message | None:
        """Return the coordinator's next message, None if the connection was closed. TimeoutError if it is silent."""
        try:
            while (message := self._lines.pop()) is None:
                if not self._lines.receive():
                    return None
            return message
        except (OSError, ValueError) as e:
            # These errors mean silence of the network. Any other one means that the connection was closed.
            if isinstance(e, OSError) and (isinstance(e, TimeoutError) or e.errno in _SILENCE_ERRORS):
                raise TimeoutError("there was no response") from e
            return None


def join(address: str, rank: int, count: int, about: Message, key: bytes, timeout: float,
         start_coordinator: Callable[[], str] | None = None, names_may_come: bool = False,
         previous: Meeting | None = None,
         end_silent: Callable[[Meeting], None] = lambda meeting: None) -> CoordinatorConnection:
    """Connect to the coordinator at an address, and wait until all processes have done so.

    Args:
      rank, count: index of this process, and number of processes.
      about: `fits`: values that must be equal in all processes; `heartbeat`, `leaving`: seconds; `job`: id of the
        job, if known; `drawn`: its id if no process knows one. `min`: the number of processes that is enough after
        the timeout, or None.
      key: the token.
      timeout: seconds to wait. When they are over for the first process, the coordinator sends an error to all, or
        forms a smaller system: `rank` and `count` of the connection.
      start_coordinator: called if nothing listens at the address, and again if the coordinator that it started has
        ended. Returns advice for the error if none is found later.
      names_may_come: whether to wait for an unknown host: some platforms register names when machines start.
      previous: the system that this process was in before.
      end_silent: called with it if its coordinator is still at the address and does not answer.
    Raises:
      ValueError: the host is unknown; the process index is taken; counts or versions differ; the coordinator serves
        another job.
      ProcessLostError: processes of the previous system were lost that this process does not know of.
      PermissionError: the coordinator has another token.
      TimeoutError: nothing listened at the address, or other processes did not come in time; names them.
      ConnectionError: another program listens there, or the coordinator ended.
    """
    host, port = rendezvous_protocol.parse_address(address)
    until = time.monotonic() + timeout
    reason: object = "nothing listened there"
    advice = ("Process 0 starts it there once it has called initialize; check the address, or raise "
              "initialization_timeout")
    next_start, start_pause = time.monotonic(), _START_PAUSE
    while True:
        is_unknown = False
        try:
            s = socket.create_connection((host, port), min(max(until - time.monotonic(), 0.1), _GREETING_TIMEOUT))
        except OSError as e:
            is_unknown = isinstance(e, socket.gaierror)
            if is_unknown and not names_may_come:
                raise ValueError(f"{CALL}: coordinator_address {address}: the host is unknown: "
                                 f"{e.strerror or e}") from e
            reason = e.strerror or e
        else:
            try:
                connection = _handshake(s, rank, count, about, key, until, address, previous)
                reason = "the connection was closed"
            except _SilentCoordinatorError:
                connection = None
                assert previous is not None
                reason = f"the coordinator of job {previous.job!r} is silent"
                advice = f"It is process {previous.pid} on {previous.host}: end it (kill -9), or give another address"
                end_silent(previous)
            except BaseException:
                s.close()
                raise
            if connection is not None:
                return connection
            s.close()
        if start_coordinator is not None and not is_unknown and time.monotonic() >= next_start:
            advice = start_coordinator()
            next_start, start_pause = time.monotonic() + start_pause, 2 * start_pause
        elif time.monotonic() >= until:
            raise TimeoutError(f"{CALL}: process {rank} found no coordinator at {address} within {timeout:g} s "
                               f"({reason}). {advice}")
        # Processes start in any order, so that nothing listens yet is normal.
        time.sleep(_RETRY_PAUSE)


def _handshake(s: socket.socket, rank: int, count: int, about: Message, key: bytes, until: float,
               address: str, previous: Meeting | None) -> CoordinatorConnection | None:
    """Authenticate and wait for the other processes. None if the coordinator has just ended: another one may follow."""
    lines = rendezvous_protocol.LineStream(s)
    if s.getsockname() == s.getpeername():
        return None  # TCP has connected the port with itself, as may happen if nothing listens at an ephemeral port
    lines.send(lamina=rendezvous_protocol.PROTOCOL)
    foreign = f"{CALL}: no lamina coordinator listens at {address}: another program has this port. Give another port"
    was_met = previous is not None and previous.address == address
    try:
        greeting = lines.read(min(_GREETING_TIMEOUT, max(until - time.monotonic(), 1.0)))
    except (TimeoutError, ValueError) as e:
        if was_met and isinstance(e, TimeoutError):
            raise _SilentCoordinatorError from e
        raise ConnectionError(foreign) from e
    if greeting is None:
        return None
    challenge = greeting.get("challenge")
    if "lamina" not in greeting or not isinstance(challenge, str):
        raise ConnectionError(foreign)
    if greeting["lamina"] != rendezvous_protocol.PROTOCOL:
        raise ValueError(f"{CALL}: the coordinator at {address} uses protocol {greeting['lamina']!r} and process "
                         f"{rank} {rendezvous_protocol.PROTOCOL}: install the same version of lamina-runtime "
                         "everywhere")
    # The nonce is this side's challenge: the coordinator's proof contains it, so an old proof cannot be replayed.
    nonce, left = os.urandom(16).hex(), max(until - time.monotonic(), 0.1)
    hello = json.dumps({**about, "rank": rank, "count": count, "nonce": nonce, "timeout": left, "pid": os.getpid(),
                        "host": socket.gethostname(), "previous": None if previous is None else {
                            "system": previous.system, "rank": previous.rank, "lost": previous.lost}})
    lines.send(hello=hello, mac=rendezvous_protocol.mac(key, "guest", challenge, hello))
    try:
        answer = lines.read(_GREETING_TIMEOUT)
        if answer is None:
            return None  # its last member has just left, or it dropped this connection for lack of space
        message = _raise_if_error(answer, f"at {address}")
        if message.get("proof") != rendezvous_protocol.mac(key, "coordinator", challenge, nonce):
            raise PermissionError(f"{CALL}: the coordinator at {address} did not prove that it has this process's "
                                  "token")
        rendezvous_protocol.set_keepalive(s, about["heartbeat"])
        # The coordinator reports the timeout itself, with the missing processes. This one is a fallback.
        while "begin" not in (message := _raise_if_error(lines.read(left + _GREETING_TIMEOUT), f"at {address}")):
            left = float(message["wait"])  # the others are at work
        service = str(s.getpeername()[0]), int(message["begin"])
        rank, count = int(message["rank"]), int(message["count"])
        meeting = Meeting(address, int(message["pid"]), str(message["host"]), str(message["job"]),
                          str(message["system"]), rank)
        return CoordinatorConnection(lines, rank, count, service, int(message["limit"]), int(message["heartbeat"]),
                                     meeting)
    except TimeoutError as e:
        if str(e).startswith(CALL):
            raise
        raise TimeoutError(f"{CALL}: the coordinator at {address} did not answer process {rank} in time") from e
    except (KeyError, TypeError) as e:
        raise ConnectionError(foreign) from e
    except ValueError as e:
        raise e if str(e).startswith(CALL) else ConnectionError(foreign) from e


def _raise_if_error(message: Message | None, where: str) -> Message:
    """Return the message. Raise the error that it contains, or ConnectionError for a closed connection (None)."""
    if message is None:
        raise ConnectionError(f"{CALL}: the coordinator {where} ended. Set LAMINA_COORDINATOR_LOG=file to see its "
                              "output")
    if message.get("kind") == "lost":
        ranks = [int(r) for r in message["ranks"]]
        raise ProcessLostError(f"{message['error']}. Call initialize(...) with the number of remaining processes", ranks)
    if "error" in message:
        raise _ERROR_CLASSES.get(str(message.get("kind")), ConnectionError)(message["error"])
    return message
