"""The event loop over the processes of one attempt of `lamina.launch`: output, ends, signals, times."""
from __future__ import annotations

import contextlib
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType

from . import failure_report
from .members import Member

__all__ = ["TIMEOUT_STATUS", "Attempt", "Signals", "print_message"]

_GRACE = 5.0  # seconds from the first signal until a process is killed
_ROOT_GRACE = 3.0  # seconds for the process with the root failure to end, if another one is noticed first
_MAX_READS = 4  # reads of up to 64 kB from each process, before the failure of one is examined
TIMEOUT_STATUS = 124  # as of coreutils' `timeout`


def print_message(text: str) -> None:
    """Print a line on standard error. A closed output is ignored."""
    with contextlib.suppress(OSError):
        print(f"lamina.launch: {text}", file=sys.stderr, flush=True)


def format_ranks(ranks: list[int]) -> str:
    return f"process{'es' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


class Signals:
    """Passes the signals of the launcher on to the processes of the current attempt; a context.

    SIGINT, SIGTERM and SIGHUP end the processes, a second one kills them. SIGUSR1 and SIGUSR2 are only passed on: batch
    systems announce the time limit with them.

    Attributes:
      received: the last signal that ends the processes, or None.
      attempt: the current attempt.
      wake: the socket that becomes readable with each signal, also with the end of a process.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.attempt: Attempt | None = None
        self.wake, self._alarm = socket.socketpair()
        for end in (self.wake, self._alarm):
            end.setblocking(False)

    def __enter__(self) -> Signals:
        self._old = {n: signal.signal(n, self._end_all) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        self._old |= {n: signal.signal(n, self._pass_on) for n in (signal.SIGUSR1, signal.SIGUSR2)}
        self._old[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)  # the wakeup fd needs a handler
        self._before = signal.set_wakeup_fd(self._alarm.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._before)
        for n, handler in self._old.items():
            signal.signal(n, handler)
        self.wake.close()
        self._alarm.close()

    def _end_all(self, number: int, frame: FrameType | None) -> None:
        is_second, self.received = self.received is not None, number
        if self.attempt is not None:
            self.attempt.end_all(signal.SIGKILL if is_second else number)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        for m in self.attempt.members if self.attempt is not None else ():
            m.send(number, ends=False)


class Attempt:
    """The event loop over all processes, until the last has ended.

    Args:
      members: the processes.
      signals: of the launcher.
      until: the time at which all of them are ended.
      min_processes: the others go on after a failure as long as so many have not failed.
      replace: starts another process under the number of one that has failed; it also gets the number of replacements
        so far, with its own.
      max_replacements: how many times it is called at most.

    Attributes:
      replacements: the number of processes that were started in place of others.
      root: the process that failed first, once it is known.
      timed_out: whether they were ended at `until`.
    """

    def __init__(self, members: list[Member], signals: Signals, until: float, min_processes: int,
                 replace: Callable[[int, int], Member], max_replacements: int) -> None:
        self.members = members
        self.replacements = 0
        self._replace, self._max_replacements = replace, max_replacements
        self._replaced: list[Member] = []
        self.root: failure_report.Ending | None = None
        self.timed_out = False
        self._signals, self._until, self._min_processes = signals, until, min_processes
        self._kill_at = self._decide_at = float("inf")
        self._has_failed = False

    def end_all(self, number: int) -> None:
        """Send a signal to all processes, and SIGKILL after a while."""
        self._kill_at = min(self._kill_at, time.monotonic() + _GRACE)
        for m in self.members:
            m.send(number)

    def run(self) -> None:
        """Copy output until all processes have ended. If too few are left after a failure, end the others."""
        with self._selector() as selector:
            while any(m.status is None for m in self.members):
                until = min(self._until, self._kill_at, self._decide_at)
                self._read(selector, until - time.monotonic())
                for m in list(self.members):
                    if m.check_ended() and m.status and not self._is_ending():
                        for _ in range(_MAX_READS):  # what it has written at its end
                            self._read(selector, 0)
                        if not self._replace_member(m, selector):
                            self._handle_failure(m)
                self._handle_times()
            end = time.monotonic() + 1
            while len(selector.get_map()) > 1 and time.monotonic() < end:  # the rest of the output
                self._read(selector, 0.1)
        if self._has_failed and self.root is None:  # the last one ended before the decision
            self.root = self._find_root()

    @contextlib.contextmanager
    def _selector(self) -> Iterator[selectors.DefaultSelector]:
        with selectors.DefaultSelector() as selector:
            for m in self.members:
                _register(m, selector)
            selector.register(self._signals.wake, selectors.EVENT_READ)
            yield selector

    def _is_ending(self) -> bool:
        return self.root is not None or self.timed_out or self._signals.received is not None

    def _replace_member(self, m: Member, selector: selectors.DefaultSelector) -> bool:
        """Start another process in place of one that has failed. Return False if that is not allowed."""
        # If others are done, they have left the group, and no process is needed in it.
        if self._has_failed or self.replacements == self._max_replacements or any(o.status == 0 for o in self.members):
            return False
        self.replacements += 1
        print_message(f"process {m.rank} failed, with {format_status(m.status)}; starting it again, replacement "
                      f"{self.replacements} of {self._max_replacements}")
        for s in m.streams:
            if s.pipe.fileno() in selector.get_map():
                selector.unregister(s.pipe)
        m.close()
        self._replaced.append(m)
        self.members[self.members.index(m)] = new = self._replace(m.rank, self.replacements)
        _register(new, selector)
        return True

    def _handle_failure(self, m: Member) -> None:
        """Handle a failure: decide whether the others go on, or whose failure is the root."""
        remaining = [o for o in self.members if not o.status]
        if len(remaining) >= self._min_processes:
            m.is_tolerated = True
            print_message(f"process {m.rank} failed, with {format_status(m.status)}; {len(remaining)} of "
                          f"{len(self.members)} go on")
            return
        now = time.monotonic()
        if not self._has_failed:
            self._has_failed, self._decide_at = True, now + _ROOT_GRACE
        # The root may not be known yet: its process may print or run exit handlers while others end already.
        if not failure_report.is_secondary(m.ending().lines) and not any(o.has_open_traceback() for o in self.members):
            self._decide_at = now

    def _handle_times(self) -> None:
        now = time.monotonic()
        if now >= self._decide_at:
            self._decide_at = float("inf")
            if not self._is_ending():
                self.root = self._find_root()
                self.end_all(signal.SIGTERM)
        if now >= self._until:
            self.timed_out, self._until = True, float("inf")
            print_message(f"not done in time; ending {format_ranks([m.rank for m in self.members if m.status is None])}")
            self.end_all(signal.SIGABRT)  # on which faulthandler prints the stack of each thread
        if now >= self._kill_at:
            self._kill_at = float("inf")
            for m in self.members:
                m.send(signal.SIGKILL)

    def _find_root(self) -> failure_report.Ending | None:
        """Return the process with the root failure.

        One that was tolerated, or whose process was replaced, is the root only if an error names it.
        """
        last = failure_report.find_root([m.ending() for m in self.members if not m.is_tolerated])
        if last is None or not failure_report.is_secondary(last.lines):
            return last
        return failure_report.find_root([m.ending() for m in [*self._replaced, *self.members]])

    def _read(self, selector: selectors.DefaultSelector, timeout: float) -> None:
        for key, _ in selector.select(min(max(timeout, 0.0), 60.0)):
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    self._signals.wake.recv(1024)
            elif not key.data.read():
                selector.unregister(key.fileobj)

    def exit_status(self) -> int:
        """Return the exit status of the attempt."""
        if self._signals.received is not None:
            return 128 + self._signals.received
        if self.timed_out:
            return TIMEOUT_STATUS
        if self.root is None:
            return 0
        return next(128 - s if s < 0 else s for s in self._failed_statuses())

    def _failed_statuses(self) -> Iterator[int]:
        """Yield the statuses of failed processes: first that of the root, then those of processes that failed themselves."""
        endings = [m.ending() for m in self.members]
        assert self.root is not None
        yield from [e.status for e in endings if e.rank == self.root.rank and e.status and not e.was_signalled]
        yield from [e.status for e in endings if e.status]

    def print_root(self) -> None:
        """Print which process failed first, and its last traceback."""
        if self.root is None or self.timed_out or self._signals.received is not None:
            return
        e = self.root
        root = next(m for m in [*self.members, *self._replaced] if m.process.pid == e.pid)
        lines = failure_report.failure_lines(root.ending().lines)
        how = f"failed first, with {format_status(e.status)}"
        if e.status == 0:
            how = "ended first, with exit status 0, while others still needed it"
        elif e.status is None or e.was_signalled:
            how = "was lost first, while it was still running"
        print_message(f"process {e.rank} {how}" + (". Its last lines:" if lines else ""))
        with contextlib.suppress(OSError):
            sys.stderr.buffer.write(b"".join(line + b"\n" for line in lines))
            sys.stderr.buffer.flush()


def _register(m: Member, selector: selectors.DefaultSelector) -> None:
    for s in m.streams:
        selector.register(s.pipe, selectors.EVENT_READ, s)


def format_status(status: int | None) -> str:
    """Return the text of an exit status."""
    if status is None or status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:  # a real-time signal
        return f"signal {-status}"
