"""The loss of another process, or of its part in a launch: how what waits for it is freed, and what is raised.

Gloo waits for ever for a process that is gone where several devices of this one take part, and jaxlib waits half a minute for
one that never came to a group of devices. So when the lobby tells of a loss, the connections that Gloo has are shut, which ends
the first wait, and if need be the client of jaxlib's service is let go, which ends the second. Where Gloo, as a group comes
together, awaits a connection that nobody will make any more, this process makes it itself, and ends it. So what is pending over
several processes fails at once, here and, as the others do the same, everywhere. From then on nothing over them is launched.
The devices of one process are connected in the same way; those connections are spared. Where a launch that all had agreed on
fails in one process alone, the others wait for its data in the same way, and are freed in the same way.
"""
from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from . import presence
from .gone import LaunchFailedError, ProcessLostError

__all__ = ["Watch", "listening"]

_WORD = 2.0  # seconds from a broken connection to the lobby's word of a loss, at the most
_AGAIN, _LONGEST, _CUTS = 0.05, 4.0, 8.0  # seconds between cuts, at first and at the most; for how long: one may be on its way
_NUMBERS = 4096  # of awaited connections, and half of the descriptors, that are tried at the most, in all
_PATIENCE = 0.5  # seconds to wait for devices of this process that are being connected
_KNOCK, _KNOCKS = 5.0, 4  # seconds for an answer at a door, and how often it is asked for
_LOOK = 0.5  # seconds between two looks at the connections, where no coordinator tells of losses
_FREED = 3.0  # seconds after a loss in which what waits may be freed
Place = tuple[str, int]  # host and port
_LISTED = 8  # processes named in a message
_TEXT = 2000  # characters of an error that are told
_T = TypeVar("_T")
away: dict[threading.Thread, Watch] = {}  # those that make a launch in which devices come together


@atexit.register
def _end_all() -> None:
    """A thread that came back from jaxlib while Python ends would end the process, whatever its code."""
    for thread, watch in list(away.items()):
        watch.free(thread)


class Watch:
    """What becomes of the other processes of a session.

    Args:
      here: the presence that tells.
      let_go: gives up jaxlib's service.
    """

    def __init__(self, here: presence.Presence, let_go: Callable[[], None]) -> None:
        self.presence = here
        self._doors: dict[int, list[Place]] = {}
        self._coming: dict[Place, Iterator[int]] = {}  # at each of this process's: the numbers that nobody has come under
        self._places: frozenset[Place] = frozenset()
        self._meeting = 0  # launches that may wait for a group of devices to come together
        self._counting, self._sparing = threading.Lock(), threading.Lock()
        self._spared: set[int] = set()
        self._let_go = let_go
        self._over, self._joining = threading.Event(), threading.Event()
        self._threads: list[threading.Thread] = []
        self._again = False
        self._since: float | None = None  # when the first loss, or failure, was heard of
        here.listen(self._hear)

    def know(self, doors: dict[int, list[Place]]) -> None:
        """The hosts and ports at which each process's Gloo listens, once the client is made."""
        self._places = frozenset([place for places in doors.values() for place in places])
        self._doors = doors
        own = doors.get(self.presence.rank, ())
        for place in own:
            self._coming[place] = iter(range(min(_NUMBERS, os.sysconf("SC_OPEN_MAX") // 2 // len(own))))

    def check(self, program: Any) -> None:
        """ProcessLostError or LaunchFailedError where a program over several processes cannot be launched any more."""
        here = self.presence
        if here.lost or here.left or here.failed:
            gone = [] if here.lost else [r for r in program.processes if r in here.left]
            if here.lost or gone or here.failed:
                raise self._error(f"{program.call} of `{program.name}`", gone)

    @contextlib.contextmanager
    def joining(self) -> Iterator[None]:
        """A block in which the client is made, for which every process has to say what devices it has. Who is gone may have
        said it before, so the others are given a moment to hear it.

        Raises:
          ProcessLostError: it failed, and a process is gone.
        """
        self._joining.set()
        if self.presence.lost or self.presence.left:
            self._start(self._join_no_longer)
        try:
            yield
        except Exception as e:
            if not (self.presence.lost or self.presence.left):
                raise
            left = () if self.presence.lost else self.presence.left
            raise self._error("making the devices of all processes known", left, "Until shutdown() there are no devices") from e
        finally:
            self._joining.clear()

    def _join_no_longer(self) -> None:
        if not self._over.wait(_WORD) and self._joining.is_set():
            self._let_go()

    @contextlib.contextmanager
    def meeting(self) -> Iterator[None]:
        """A block in which groups of devices may come together that are not of this process alone."""
        with self._counting:
            self._meeting += 1
            if self.presence.lost or self.presence.failed:
                self._let_go()
        try:
            yield
        finally:
            with self._counting:
                self._meeting -= 1

    def aside(self, call: str, act: Callable[[], _T]) -> _T:
        """What `act()` gives, a launch in which groups of devices may come together. Another thread makes it: it may wait in
        jaxlib for who is lost, longer than a loss is to be told in; then it is left to itself, and ends by and by.

        Args:
          call: what is told to have failed.
        Raises:
          ProcessLostError, LaunchFailedError: a process was lost, or a launch has failed, and it has not ended.
        """
        found: list[_T] = []
        failed: list[BaseException] = []

        def run() -> None:
            try:
                with self.meeting():
                    found.append(act())
            except BaseException as e:
                failed.append(e)
            finally:
                del away[threading.current_thread()]

        thread = threading.Thread(target=run, name="lamina-launch", daemon=True)
        away[thread] = self
        thread.start()
        while thread.is_alive():
            thread.join(_PATIENCE / 5)
            if self._since is not None and time.monotonic() > self._since + _FREED and thread.is_alive():
                raise self.error(call)
        if failed:
            raise failed[0]
        return found[0]

    def free(self, thread: threading.Thread) -> None:
        """Wait for the end of a launch that one thread makes, and nobody waits for any more. NCCL's may have none."""
        while self._places and thread.is_alive():
            self._come_for_others()
            self._cut_others()
            thread.join(_AGAIN)

    @contextlib.contextmanager
    def sparing(self) -> Iterator[None]:
        """A block in which devices of this process alone are connected: their connections stay when others are cut."""
        held = self._sparing.acquire(timeout=_PATIENCE)  # a callback of one may wait for another
        try:
            before = _inside(self._places)
            yield
            self._spared.update(_inside(self._places) - before)
        finally:
            if held:
                self._sparing.release()

    def told(self, suspects: Iterable[int] = ()) -> bool:
        """A connection to another process has ended: wait shortly for the lobby's word on who is gone, or has failed. Whether
        somebody has.

        Args:
          suspects: whose connection it was; without a word they count as gone.
        """
        here, until = self.presence, time.monotonic() + _WORD
        with here.changed:
            while (not (here.lost or here.failed or here.alone or self._over.is_set())
                   and (left := until - time.monotonic()) > 0):
                if here.left and left < _WORD * 3 / 4:  # the end of one who took leave is the likely reason
                    break
                here.changed.wait(min(left, _WORD / 4))
        for r in suspects:
            if r not in here.left and r not in here.lost:
                here.note_lost(r, f"process {r}, which closed its connection,")
        while here.alone and not here.lost and not here.failed and not self._over.is_set():
            self._knock()  # a process that is just being ended may still have an open door
            if here.lost or time.monotonic() > until or self._over.wait(_PATIENCE):
                break
        return bool(here.lost or here.left or here.failed)

    def failed(self, call: str, launch: str, of: int, error: BaseException) -> None:
        """A launch that all had agreed on has failed in this process: the others are told, unless it has in all of them.

        Args:
          launch: its name, the same in all; of: how many processes it has.
        """
        here = self.presence
        if here.lost or here.failed or self._over.is_set() or here.tell_failure(
                launch, of, f"{call}: {type(error).__name__}: {error}"[:_TEXT]):
            return
        if hasattr(error, "add_note"):
            error.add_note(f"{call}: the other processes were about to launch this too, and are told that it failed here; "
                           "lamina.distributed.shutdown() and initialize(...) in all of them are the way on")

    def error(self, call: str) -> ProcessLostError | LaunchFailedError:
        """Of a call that failed: those that are gone, or in which a launch failed."""
        return self._error(call, self.presence.left if not self.presence.lost else ())

    def end(self) -> None:
        """The session is over."""
        self._over.set()
        self._let_go = _nothing
        for t in self._threads:
            if t is not threading.current_thread() and t.ident is not None and not self._meeting:
                t.join()  # one that begins now finds that it is over

    def _error(self, call: str, left: Iterable[int],
               then: str = "What needs no other process works on") -> ProcessLostError | LaunchFailedError:
        here = self.presence
        failed = dict(here.failed)
        if failed and not here.lost:
            said = "; ".join([failed[r] for r in sorted(failed)[:_LISTED]])
            return LaunchFailedError(
                f"{call}: a launch that all had agreed on failed in process_indices {tuple(sorted(failed))} and not in all: "
                f"{said}. Nothing over several processes is launched any more. What needs no other process works on; "
                "lamina.distributed.shutdown() and initialize(...) in all of them are the way on", failed)
        names = {r: f"{here.left[r]} has left" for r in left} | {r: f"{name} was lost" for r, name in dict(here.lost).items()}
        ranks = tuple(sorted(names))
        said = "; ".join([names[r] for r in ranks[:_LISTED]])
        more = f"; and {len(ranks) - _LISTED} more" if len(ranks) > _LISTED else ""
        return ProcessLostError(
            f"{call}: process_indices {ranks} are gone: {said}{more}. {then}; "
            "lamina.distributed.shutdown() and initialize(...) make a system of those who are left", ranks)

    def _hear(self, event: presence.Event) -> None:
        if self._over.is_set():
            return
        if event[0] in ("lost", "failed") and self._since is None:
            self._since = time.monotonic()
        if event[0] != "coordinator" and self._joining.is_set():
            self._start(self._join_no_longer)
        if event[0] == "coordinator" and not self.presence.lost:
            self._start(self._look_out)
        elif event[0] in ("lost", "failed"):
            self._cut_others()
            if not self._again:
                self._again = True
                self._start(self._cut_again)
            with self._counting:
                if self._meeting:
                    self._let_go()

    def _start(self, act: Callable[[], None]) -> None:
        thread = threading.Thread(target=act, name="lamina-losses", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _cut_again(self) -> None:
        """While a group comes together Gloo may await one connection behind the other, and lose each to a cut of its own."""
        pause, until = _AGAIN, time.monotonic() + _CUTS
        while self._meeting or time.monotonic() < until and not self._over.is_set():
            self._come_for_others()
            if self._meeting:
                time.sleep(pause := _AGAIN)
            else:
                self._over.wait(pause := min(2 * pause, _LONGEST))
            self._cut_others()

    def _cut_others(self) -> None:
        """Shut Gloo's connections but those of devices of this process alone. One between two such devices that a group over
        processes made, maybe after the loss, is shut too: one would await there what the other, which failed, sends no more.
        What `sparing` connects is waited for, shortly: it may itself wait for what is to be freed."""
        held = self._sparing.acquire(timeout=_PATIENCE)
        try:
            _cut(self._places, self._spared)
        finally:
            if held:
                self._sparing.release()

    def _come_for_others(self) -> None:
        """Come to Gloo in place of those whose connections it awaits, and go again. Who comes says a number of 8 bytes: each
        device of a group has one for each, from 0 on. What comes under one that is not awaited is kept until Gloo ends, with a
        descriptor, and is there when it is; so each number comes once."""
        for place, numbers in self._coming.items():
            while self._meeting and (some := [*itertools.islice(numbers, 64)]):
                for number in some:
                    with contextlib.suppress(OSError), socket.create_connection(place, _KNOCK) as s:
                        s.sendall(number.to_bytes(8, sys.byteorder))
                time.sleep(0.005)

    # --- without a coordinator
    def _look_out(self) -> None:
        """Nobody tells of losses any more: where a connection to another process ends, see who does not answer."""
        known = knocks = 0
        while not self.presence.lost and not self._over.wait(_LOOK):
            now = _outside(self._places)
            if now < known:
                knocks = _KNOCKS
            if knocks:
                knocks -= 1
                self._knock()
            known = now

    def _knock(self) -> None:
        """Count those for lost at whose door nobody listens."""
        here = self.presence
        for r, places in self._doors.items():
            if r != here.rank and r not in here.lost and r not in here.left:
                try:
                    for place in places:
                        socket.create_connection(place, min(here.heartbeat, _KNOCK)).close()
                except OSError:
                    here.note_lost(r, f"process {r}, which does not answer,")


def _nothing() -> None:
    """Nothing is held any more."""


# --- sockets ------------------------------------------------------------------------------------------------------
def listening(host: str) -> set[Place]:
    """Host and port of this process's sockets that listen at `host`."""
    found = set()
    for s in _sockets():
        if s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            place = _place(s.getsockname())
            if place[0] == _place((host, 0))[0]:
                found.add(place)
    return found


def _cut(places: frozenset[Place], spared: set[int]) -> None:
    """Shut this process's connections from and to these places but for some."""
    for s in _sockets():
        if not places.isdisjoint(_ends(s)) and _number(s) not in spared:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)


def _inside(places: frozenset[Place]) -> set[int]:
    """This process's connections with itself by way of these places: the numbers of both ends."""
    ends = {_number(s): _ends(s) for s in _sockets()}
    near = {e[0] for e in ends.values() if e}
    return {n for n, e in ends.items() if e and e[1] in near and not places.isdisjoint(e)}


def _outside(places: frozenset[Place]) -> int:
    """How many connections with other processes by way of these places are open at both ends."""
    inside, found = _inside(places), 0
    for s in _sockets():
        if not places.isdisjoint(_ends(s)) and _number(s) not in inside:
            try:
                found += bool(s.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
            except BlockingIOError:
                found += 1
            except OSError:
                pass
    return found


def _ends(s: socket.socket) -> tuple[Place, ...]:
    """The near and the far end of a connection; () for what only listens."""
    try:
        return _place(s.getsockname()), _place(s.getpeername())
    except OSError:
        return ()


def _number(s: socket.socket) -> int:
    return os.fstat(s.fileno()).st_ino


def _place(address: Any) -> Place:
    return str(address[0]).removeprefix("::ffff:").partition("%")[0], int(address[1])


def _sockets() -> Iterable[socket.socket]:
    """This process's TCP sockets, whoever made them; each is ours to look at until the next."""
    for name in os.listdir("/dev/fd"):
        try:
            number = os.dup(int(name))
        except (OSError, ValueError):
            continue  # closed meanwhile
        try:
            s = socket.socket(fileno=number)
        except OSError:
            os.close(number)
            continue
        with s:
            if s.family in (socket.AF_INET, socket.AF_INET6) and s.type == socket.SOCK_STREAM:
                yield s
