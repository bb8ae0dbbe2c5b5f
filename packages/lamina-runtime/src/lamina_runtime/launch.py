"""`python -m lamina.launch -n 4 program.py ...`: a program in several processes of this machine.

They find each other by variables, and meet at a coordinator started here. Each line they write is shown behind the number of
its process. When one fails the others are ended, and its last words are shown again at the end; when this process ends, for
whatever reason, none of theirs stays.
"""
from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import IO, Any

from . import clusters, starting

__all__ = ["main"]

_GRACE = 5.0  # seconds from asking a process to end until it is ended
_LAST_WORDS = 200  # lines of a process that are kept
_SHOWN = 30  # of which these are shown when there is no traceback among them
_LONGEST = 1 << 16  # bytes of a line, behind which it is broken
_TIMED_OUT = 124
_TRACEBACK = b"Traceback (most recent call last)"


class _Stream:
    """What a process writes, line by line behind its number."""

    def __init__(self, pipe: IO[bytes], out: IO[bytes], prefix: bytes, kept: collections.deque[bytes]) -> None:
        self.pipe, self._out, self._prefix, self._kept, self._held = pipe, out, prefix, kept, b""

    def read(self) -> bool:
        """Pass on what has come; False at the end."""
        more = os.read(self.pipe.fileno(), 1 << 16)
        *lines, self._held = (self._held + more).split(b"\n")
        if self._held and (not more or len(self._held) > _LONGEST):
            lines.append(self._held)
            self._held = b""
        for line in lines:
            self._kept.append(line)
        with contextlib.suppress(OSError):  # nobody reads
            self._out.write(b"".join(self._prefix + line + b"\n" for line in lines))
            self._out.flush()
        return bool(more)


class _Member:
    """One process with all that it starts, as long as that stays in its session."""

    def __init__(self, rank: int, command: list[str], env: dict[str, str], width: int) -> None:
        self.rank = rank
        self.status: int | None = None
        self.last: collections.deque[bytes] = collections.deque(maxlen=_LAST_WORDS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # that others' threads may hold locks: the call asks for none
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, start_new_session=True, preexec_fn=_ends_with_us())
        prefix = f"[{rank:{width}}] ".encode()
        assert self.process.stdout is not None and self.process.stderr is not None
        quiet: collections.deque[bytes] = collections.deque(maxlen=0)
        self.streams = [_Stream(self.process.stdout, sys.stdout.buffer, prefix, quiet),
                        _Stream(self.process.stderr, sys.stderr.buffer, prefix, self.last)]

    def ended(self) -> bool:
        """Whether it has just ended; then what it left behind is ended too."""
        if self.status is not None:
            return False
        if hasattr(os, "waitid"):
            if os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return False
            self.send(signal.SIGKILL)  # while its number is still its own
        self.status = self.process.poll()
        return self.status is not None

    def send(self, number: int) -> None:
        if self.status is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def last_words(self) -> list[bytes]:
        lines = list(self.last)
        starts = [i for i, line in enumerate(lines) if line.startswith(_TRACEBACK)]
        return lines[starts[-1]:] if starts else lines[-_SHOWN:]


def _ends_with_us() -> Callable[[], object] | None:
    """What a child does first, so that it is ended when this process is, by SIGKILL too. Linux alone has it."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(1, int(signal.SIGKILL), 0, 0, 0)  # PR_SET_PDEATHSIG


class _Run:
    """All members, until the last has ended."""

    def __init__(self, members: list[_Member], timeout: float | None) -> None:
        self.members = members
        self.first: _Member | None = None  # to fail
        self.told: int | None = None  # the signal that ends us
        self.timed_out = False
        self._until = float("inf") if timeout is None else time.monotonic() + timeout
        self._kill = float("inf")
        self._selector = selectors.DefaultSelector()
        for m in members:
            for s in m.streams:
                self._selector.register(s.pipe, selectors.EVENT_READ, s)
        self._wake, self._alarm = socket.socketpair()
        for end in (self._wake, self._alarm):
            end.setblocking(False)
        self._selector.register(self._wake, selectors.EVENT_READ)

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """A block in which signals to us are passed on, and the end of a child is noticed at once."""
        old = {n: signal.signal(n, self._pass_on) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        old[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        before = signal.set_wakeup_fd(self._alarm.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            for n, handler in old.items():
                signal.signal(n, handler)
            self._selector.close()
            self._wake.close()
            self._alarm.close()

    def _pass_on(self, number: int, frame: Any) -> None:
        again, self.told = self.told is not None, number
        self._end(signal.SIGKILL if again else number)

    def _end(self, number: int) -> None:
        self._kill = min(self._kill, time.monotonic() + _GRACE)
        for m in self.members:
            m.send(number)

    def until_the_end(self) -> None:
        while any(m.status is None for m in self.members):
            self._read(min(self._until, self._kill) - time.monotonic())
            for m in self.members:
                if m.ended() and m.status and self.first is None and self.told is None and not self.timed_out:
                    self.first = m
                    self._end(signal.SIGTERM)
            now = time.monotonic()
            if now >= self._until:
                self.timed_out, self._until = True, float("inf")
                _say(f"not done in time; ending {_names([m.rank for m in self.members if m.status is None])}")
                self._end(signal.SIGABRT)  # at which Python says where each thread stands
            if now >= self._kill:
                self._kill = float("inf")
                for m in self.members:
                    m.send(signal.SIGKILL)
        end = time.monotonic() + 1
        while len(self._selector.get_map()) > 1 and time.monotonic() < end:  # what is still in the pipes
            self._read(0.1)

    def _read(self, timeout: float) -> None:
        for key, _ in self._selector.select(min(max(timeout, 0.0), 60.0)):
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    self._wake.recv(1024)
            elif not key.data.read():
                self._selector.unregister(key.fileobj)

    def exit_status(self) -> int:
        if self.told is not None:
            return 128 + self.told
        if self.timed_out:
            return _TIMED_OUT
        if self.first is None:
            return 0
        status = self.first.status or 0
        how = f"exit status {status}" if status > 0 else f"signal {signal.Signals(-status).name}"
        words = self.first.last_words()
        _say(f"process {self.first.rank} failed first, with {how}" + (". Its last words:" if words else ""))
        with contextlib.suppress(OSError):
            sys.stderr.buffer.write(b"".join(line + b"\n" for line in words))
            sys.stderr.buffer.flush()
        return status if status > 0 else 128 - status


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"lamina.launch: {text}", file=sys.stderr, flush=True)


def _names(ranks: list[int]) -> str:
    return f"process{'es' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _positive(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        value = kind(text)
        if not 0 < value < 1e8:
            raise argparse.ArgumentTypeError(f"must be above 0; got {text}")
        return value
    convert.__name__ = kind.__name__
    return convert


def main(argv: list[str] | None = None) -> int:
    """Run a program in several processes: the exit status of the first that failed, 0 where none did, 124 when the time was
    over, 128 and the number of the signal where one ended this process."""
    parser = argparse.ArgumentParser(prog="python -m lamina.launch", description="Run a Python program in several processes of "
                                     "this machine; lamina.distributed.initialize() in it needs no arguments.")
    parser.add_argument("-n", "--processes", type=_positive(int), required=True, metavar="N", help="how many")
    parser.add_argument("--devices", type=_positive(int), metavar="K", help="CPU devices of each process")
    parser.add_argument("--timeout", type=_positive(float), metavar="S", help="end everything after S seconds (status 124)")
    parser.add_argument("-m", dest="module", action="store_true", help="the program is the name of a module")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(argv)
    if not options.module and not os.path.exists(options.program):
        parser.error(f"no such program: {options.program}")
    token = os.urandom(32).hex()
    address, coordinator = starting.start("127.0.0.1:0", token.encode(), 1e8, detach=False)
    command = [sys.executable, *["-m"] * options.module, options.program, *options.arguments]
    count = options.processes
    env = {**os.environ, "LAMINA_TOKEN": token, "LAMINA_COORDINATOR_ADDRESS": address, "LAMINA_NUM_PROCESSES": str(count)}
    env.update({"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"})
    if options.devices is not None:
        env["LAMINA_NUM_CPU_DEVICES"] = str(options.devices)
    members: list[_Member] = []
    try:
        for rank in range(count):
            own = {"LAMINA_PROCESS_ID": str(rank)}
            gpus = clusters.own_gpus(rank, count)
            if gpus is not None:
                own["LAMINA_LOCAL_DEVICE_IDS"] = ",".join(map(str, gpus))
            members.append(_Member(rank, command, {**env, **own}, len(str(count - 1))))
        run = _Run(members, options.timeout)
        with run.signals():
            run.until_the_end()
        return run.exit_status()
    finally:
        for m in members:
            m.send(signal.SIGKILL)
            m.process.wait()
            for s in m.streams:
                s.pipe.close()
        with coordinator:
            coordinator.terminate()


if __name__ == "__main__":
    sys.exit(main())
