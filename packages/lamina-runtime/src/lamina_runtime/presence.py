"""A member's side of the lobby: it comes, waits for the others, and stays connected.

The open connection is its presence. The coordinator tells over it who has left and who was lost; a thread keeps the record and
calls whoever listens. The connection's own end means that the coordinator is gone, and with it jaxlib's service. Its client
would end the process if it saw that, but for the `relay`: so the first thing done then is to let go of the client.
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
from typing import Any

from . import lobby
from .lobby import CALL

__all__ = ["Event", "Presence", "join"]

_KINDS: dict[str, type[Exception]] = {"value": ValueError, "timeout": TimeoutError, "permission": PermissionError}
_GREETING = 10.0  # seconds for the first line of a coordinator, which may be starting on a busy machine
_KNOCK = 0.05
_VERDICT = 3.0  # seconds for the coordinator to say what becomes of a launch that failed
_SILENCE = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN)
Event = tuple[str, int]  # ("lost", "left" or "failed", process index); ("coordinator", -1): nothing more will be told


class Presence:
    """A connection to the coordinator, made by `join`.

    Attributes:
      rank, count: of this process.
      service: host and port of jaxlib's service; limit: seconds its client may take to connect.
      heartbeat: seconds of silence after which one counts as lost.
      here: this machine's number as the coordinator's machine sees it; other processes find this one there.
      lost, left: process index -> name, of those that died or were silent and those that said goodbye. With this process's own
        index: it was silent to the coordinator, or that to it, and the others go on without it.
      failed: process index -> words, of those in which a launch has failed alone; alike: names of launches that have in all.
      alone: whether the coordinator is gone.
    """

    def __init__(self, lines: lobby.Lines, rank: int, count: int, service: tuple[str, int], limit: int,
                 heartbeat: int) -> None:
        self.rank, self.count, self.service, self.limit, self.heartbeat = rank, count, service, limit, heartbeat
        self.here = str(lines.socket.getsockname()[0])
        self.lost: dict[int, str] = {}
        self.left: dict[int, str] = {}
        self.failed: dict[int, str] = {}
        self.alike: set[str] = set()
        self.alone = False
        self.changed = threading.Condition()
        self._lines = lines
        self._leaving = False
        self._listeners: list[Callable[[Event], None]] = []
        self._let_go: Callable[[], None] = lambda: None
        self._thread: threading.Thread | None = None

    def confirm(self, timeout: float) -> None:
        """Say that jaxlib's client is connected, and wait until everyone has said so.

        Raises:
          ConnectionError: somebody ended meanwhile, or the coordinator did.
        """
        self._lines.say(connected=True)
        try:
            words = self._lines.wait(timeout)
        except (TimeoutError, ValueError):
            words = None
        _check(words, "while the processes were connecting")

    def watch(self, let_go: Callable[[], None]) -> None:
        """Start the thread. `let_go()` is called before anything else when the coordinator is gone or about to go."""
        self._let_go = let_go
        self._lines.socket.settimeout(self.heartbeat)
        self._thread = threading.Thread(target=self._listen, name="lamina-presence", daemon=True)
        self._thread.start()

    def listen(self, act: Callable[[Event], None]) -> None:
        """Call `act(event)` for each loss, leave and failure, those already known included; in the thread: be quick."""
        with self.changed:
            known: list[Event] = [(kind, r) for kind, those in (("lost", self.lost), ("left", self.left),
                                                                ("failed", self.failed)) for r in those]
            self._listeners.append(act)
        for event in known + [("coordinator", -1)] * self.alone:
            act(event)

    def goodbye(self, timeout: float = 5.0) -> None:
        """Leave: the others are told, and the thread ends."""
        self._leaving = True
        self._lines.say(bye=True)
        try:
            self._lines.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
        self._lines.socket.close()

    def in_child(self) -> None:
        """In a forked child: what it holds of the connection would hide the end of its parent."""
        number = self._lines.socket.fileno()
        if number >= 0:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number)  # not closed: the number would be used again, and closed once more
            os.close(null)

    def _listen(self) -> None:
        why, heard, woke = "", time.monotonic(), -math.inf
        while True:
            try:
                words = self._next()
            except TimeoutError:
                why, words = "the coordinator gives no sign of life", None
            now = time.monotonic()
            if now - heard > self.heartbeat:
                woke = now
            heard = now
            if words is None:
                # After a sleep the coordinator's last words may have been lost with its connection, older ones may not.
                if not why and now - woke < self.heartbeat:
                    why = f"it gave no sign of life for {self.heartbeat:g} s"
                break
            if "closing" in words:
                break
            if "beat" in words:
                self._lines.say(beat=True)
            if "alike" in words:
                with self.changed:
                    self.alike.add(str(words["alike"]))
                    self.changed.notify_all()
            for kind, known in (("lost", self.lost), ("left", self.left), ("failed", self.failed)):
                rank = words.get(kind)
                if isinstance(rank, int):
                    self._note(known, rank, str(words.get("name")))
                    self._call((kind, rank))
        if not self._leaving:
            self._let_go()
            if why:  # the coordinator's machine is off, this one is cut off or slept: the others may count it for lost
                self.note_lost(self.rank, f"process {self.rank} (this one: {why})")
            with self.changed:
                self.alone = True
                self.changed.notify_all()
            try:
                self._lines.socket.shutdown(socket.SHUT_RDWR)  # a coordinator that was told to end waits for this
            except OSError:
                pass
            self._lines.socket.close()
            self._call(("coordinator", -1))

    def tell_failure(self, launch: str, of: int, text: str) -> bool:
        """This process's part of a launch has failed. Whether it did in all others as well, so that nobody waits for them;
        else the others, and this one, are told.

        Args:
          launch: its name, the same in all; of: how many processes it has.
          text: what happened.
        """
        self._lines.say(failed=text, launch=launch, of=of)
        with self.changed:
            self.changed.wait_for(lambda: self.alone or self.failed or self.lost or launch in self.alike, _VERDICT)
            heard = launch in self.alike or self.failed or self.lost
        if not heard:
            self._note(self.failed, self.rank, f"process {self.rank}: {text}")
            self._call(("failed", self.rank))
        return launch in self.alike

    def note_lost(self, rank: int, name: str) -> None:
        """Somebody is lost, by other signs than the coordinator's word."""
        self._note(self.lost, rank, name)
        self._call(("lost", rank))

    def _note(self, known: dict[int, str], rank: int, name: str) -> None:
        with self.changed:
            known[rank] = name
            self.changed.notify_all()

    def _call(self, event: Event) -> None:
        with self.changed:
            listeners = list(self._listeners)
        for act in listeners:
            act(event)

    def _next(self) -> dict[str, Any] | None:
        """The coordinator's next words; None at its end. TimeoutError: it is silent."""
        try:
            while (found := self._lines.next()) is None:
                if not self._lines.arrived():
                    return None
            return found
        except (OSError, ValueError) as e:
            if isinstance(e, OSError) and (isinstance(e, TimeoutError) or e.errno in _SILENCE):
                raise TimeoutError("nothing was heard") from e
            return None


def join(address: str, rank: int, count: int, about: dict[str, Any], key: bytes, timeout: float,
         nobody: Callable[[], str] | None = None, names_may_come: bool = False) -> Presence:
    """Come to the coordinator at an address and wait until all are there.

    Args:
      about: what else the coordinator is told: `fits` (must be the same in all), `heartbeat`, `leaving` (seconds).
      timeout: seconds to wait; the coordinator tells everyone when they are over for the first.
      nobody: called once when nobody listens there, to start a coordinator; returns what is to be said if none is found later.
      names_may_come: whether an unknown host is waited for, as where names are given to machines when they start.
    Raises:
      ValueError: the host is unknown; the number is taken; counts or versions differ.
      PermissionError: the coordinator has another token.
      TimeoutError: nobody was at the address, or others did not come in time; names them.
      ConnectionError: another program listens there, or the coordinator ended.
    """
    host, port = lobby.place(address)
    until = time.monotonic() + timeout
    why: object = "nobody listened there"
    advice = "Process 0 starts it there once it has called initialize; check the address, or raise initialization_timeout"
    while True:
        unknown = False
        try:
            s = socket.create_connection((host, port), min(max(until - time.monotonic(), 0.1), _GREETING))
        except OSError as e:
            unknown = isinstance(e, socket.gaierror)
            if unknown and not names_may_come:
                raise ValueError(f"{CALL}: coordinator_address {address}: the host is unknown: {e.strerror or e}") from e
            why = e.strerror or e
        else:
            try:
                found = _meet(s, rank, count, about, key, until, address)
            except BaseException:
                s.close()
                raise
            if found is not None:
                return found
            s.close()
            why = "who listened there went away"
        if nobody is not None and not unknown:
            advice = nobody()
            nobody = None
        elif time.monotonic() >= until:
            raise TimeoutError(f"{CALL}: process {rank} found no coordinator at {address} within {timeout:g} s ({why}). "
                               f"{advice}")
        time.sleep(_KNOCK)


def _meet(s: socket.socket, rank: int, count: int, about: dict[str, Any], key: bytes, until: float,
          address: str) -> Presence | None:
    """None: the coordinator that listened has ended, and another may come."""
    lines = lobby.Lines(s)
    if s.getsockname() == s.getpeername():
        return None  # TCP connected the port with itself, as it may where nobody listens
    lines.say(lamina=lobby.PROTOCOL)
    strange = f"{CALL}: what listens at {address} is no coordinator of lamina's: another program has this port. Give another"
    try:
        greeting = lines.wait(min(_GREETING, max(until - time.monotonic(), 1.0)))
    except (TimeoutError, ValueError) as e:
        raise ConnectionError(strange) from e
    if greeting is None:
        return None
    challenge = greeting.get("challenge")
    if "lamina" not in greeting or not isinstance(challenge, str):
        raise ConnectionError(strange)
    if greeting["lamina"] != lobby.PROTOCOL:
        raise ValueError(f"{CALL}: the coordinator at {address} speaks protocol {greeting['lamina']!r} and process {rank} "
                         f"{lobby.PROTOCOL}: install the same version of lamina-runtime everywhere")
    nonce, left = os.urandom(16).hex(), max(until - time.monotonic(), 0.1)
    hello = json.dumps({**about, "rank": rank, "count": count, "nonce": nonce, "timeout": left, "pid": os.getpid(),
                        "host": socket.gethostname()})
    lines.say(hello=hello, mac=lobby.mac(key, "guest", challenge, hello))
    try:
        words = _check(lines.wait(_GREETING), f"at {address}")
        if words.get("proof") != lobby.mac(key, "coordinator", challenge, nonce):
            raise PermissionError(f"{CALL}: the coordinator at {address} did not show that it has this process's token")
        lobby.keep_alive(s, about["heartbeat"])
        words = _check(lines.wait(left + _GREETING), f"at {address}")  # it says itself who is missing
        service = str(s.getpeername()[0]), int(words["begin"])
        return Presence(lines, rank, count, service, int(words["limit"]), int(words["heartbeat"]))
    except TimeoutError as e:
        if str(e).startswith(CALL):
            raise
        raise TimeoutError(f"{CALL}: the coordinator at {address} did not answer process {rank} in time") from e
    except (KeyError, TypeError) as e:
        raise ConnectionError(strange) from e
    except ValueError as e:
        raise e if str(e).startswith(CALL) else ConnectionError(strange) from e


def _check(words: dict[str, Any] | None, where: str) -> dict[str, Any]:
    if words is None:
        raise ConnectionError(f"{CALL}: the coordinator {where} went away. LAMINA_COORDINATOR_LOG=file keeps what it says")
    if "error" in words:
        raise _KINDS.get(str(words.get("kind")), ConnectionError)(words["error"])
    return words
