"""Run a program in several processes of this machine: `python -m lamina.launch -n 4 program.py ...`.

The processes get their indices from variables, and meet at a coordinator started here. Each line of their output is
prefixed with the process index. If a process fails, the others are terminated, and the end of its standard error is
shown again. If this process ends, for whatever reason, all of them end.
"""
from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import IO, TypeVar
from types import FrameType

from ._group import cluster_env, spawn_coordinator

__all__ = ["main"]

_N = TypeVar("_N", int, float)
_GRACE = 5.0  # seconds from the first signal until a process is killed
_MAX_LINES = 200  # lines of standard error retained of each process
_MAX_SHOWN = 30  # of which so many are shown if they contain no traceback
_MAX_LINE_BYTES = 1 << 16  # longer lines are split
_TIMEOUT_STATUS = 124  # as of coreutils' `timeout`
_TRACEBACK = b"Traceback (most recent call last)"


class _Stream:
    """Copies the output of a process line by line, with a prefix, and retains the last lines."""

    def __init__(self, pipe: IO[bytes], out: IO[bytes], prefix: bytes, retained: collections.deque[bytes]) -> None:
        self.pipe, self._out, self._prefix, self._retained, self._partial = pipe, out, prefix, retained, b""

    def read(self) -> bool:
        """Copy the available output. Return False at its end."""
        more = os.read(self.pipe.fileno(), 1 << 16)
        *lines, self._partial = (self._partial + more).split(b"\n")
        if self._partial and (not more or len(self._partial) > _MAX_LINE_BYTES):
            lines.append(self._partial)
            self._partial = b""
        for line in lines:
            self._retained.append(line)
        with contextlib.suppress(OSError):  # the output may be closed
            self._out.write(b"".join(self._prefix + line + b"\n" for line in lines))
            self._out.flush()
        return bool(more)


class _Member:
    """One process, and the processes that it starts in its session."""

    def __init__(self, rank: int, command: list[str], env: dict[str, str], width: int) -> None:
        self.rank = rank
        self.status: int | None = None
        self.last_lines: collections.deque[bytes] = collections.deque(maxlen=_MAX_LINES)
        with warnings.catch_warnings():
            # Python warns that locks of other threads stay locked in the child. `preexec_fn` acquires none.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, start_new_session=True, preexec_fn=_make_preexec())
        prefix = f"[{rank:{width}}] ".encode()
        assert self.process.stdout is not None and self.process.stderr is not None
        none: collections.deque[bytes] = collections.deque(maxlen=0)
        self.streams = [_Stream(self.process.stdout, sys.stdout.buffer, prefix, none),
                        _Stream(self.process.stderr, sys.stderr.buffer, prefix, self.last_lines)]

    def check_ended(self) -> bool:
        """Return whether it has just ended. If so, kill the processes that it left behind."""
        if self.status is not None:
            return False
        if hasattr(os, "waitid"):
            if os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return False
            self.send(signal.SIGKILL)  # before the process is reaped: afterwards its id may be reused
        self.status = self.process.poll()
        return self.status is not None

    def send(self, number: int) -> None:
        if self.status is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def error_lines(self) -> list[bytes]:
        """Return the last traceback on its standard error, else the last lines."""
        lines = list(self.last_lines)
        starts = [i for i, line in enumerate(lines) if line.startswith(_TRACEBACK)]
        return lines[starts[-1]:] if starts else lines[-_MAX_SHOWN:]


def _make_preexec() -> Callable[[], object] | None:
    """Return a function to call in a new child, so that the system kills it when this process ends, even by SIGKILL.

    None on systems other than Linux, which do not support this.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(1, int(signal.SIGKILL), 0, 0, 0)  # PR_SET_PDEATHSIG


class _Run:
    """The event loop over all processes, until the last has ended."""

    def __init__(self, members: list[_Member], timeout: float | None) -> None:
        self.members = members
        self.first_failed: _Member | None = None
        self.signal: int | None = None  # received by this process
        self.timed_out = False
        self._until = float("inf") if timeout is None else time.monotonic() + timeout
        self._kill_at = float("inf")
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
        """Context in which signals are forwarded to the processes, and the end of a process wakes the loop."""
        old = {n: signal.signal(n, self._forward_signal) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        old[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler is needed for the wakeup fd
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

    def _forward_signal(self, number: int, frame: FrameType | None) -> None:
        is_second, self.signal = self.signal is not None, number
        self._send_all(signal.SIGKILL if is_second else number)

    def _send_all(self, number: int) -> None:
        self._kill_at = min(self._kill_at, time.monotonic() + _GRACE)
        for m in self.members:
            m.send(number)

    def run(self) -> None:
        """Copy output until all processes have ended. If one fails, terminate the others."""
        while any(m.status is None for m in self.members):
            self._read(min(self._until, self._kill_at) - time.monotonic())
            for m in self.members:
                has_failed = m.check_ended() and m.status
                if has_failed and self.first_failed is None and self.signal is None and not self.timed_out:
                    self.first_failed = m
                    self._send_all(signal.SIGTERM)
            now = time.monotonic()
            if now >= self._until:
                self.timed_out, self._until = True, float("inf")
                _print(f"not done in time; ending {_format_ranks([m.rank for m in self.members if m.status is None])}")
                self._send_all(signal.SIGABRT)  # on which faulthandler prints the stack of each thread
            if now >= self._kill_at:
                self._kill_at = float("inf")
                for m in self.members:
                    m.send(signal.SIGKILL)
        end = time.monotonic() + 1
        while len(self._selector.get_map()) > 1 and time.monotonic() < end:  # the rest of the output
            self._read(0.1)

    def _read(self, timeout: float) -> None:
        for key, _ in self._selector.select(min(max(timeout, 0.0), 60.0)):
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    self._wake.recv(1024)
            elif not key.data.read():
                self._selector.unregister(key.fileobj)

    def exit_status(self) -> int:
        if self.signal is not None:
            return 128 + self.signal
        if self.timed_out:
            return _TIMEOUT_STATUS
        if self.first_failed is None:
            return 0
        status = self.first_failed.status or 0
        how = f"exit status {status}" if status > 0 else f"signal {signal.Signals(-status).name}"
        lines = self.first_failed.error_lines()
        _print(f"process {self.first_failed.rank} failed first, with {how}" + (". Its last lines:" if lines else ""))
        with contextlib.suppress(OSError):
            sys.stderr.buffer.write(b"".join(line + b"\n" for line in lines))
            sys.stderr.buffer.flush()
        return status if status > 0 else 128 - status


    def print_json(self, status: int) -> None:
        """Print the result as one line of JSON; a negative status of a process is the signal that ended it."""
        first = None if self.first_failed is None else self.first_failed.rank
        with contextlib.suppress(OSError):
            print(json.dumps({"status": status, "timed_out": self.timed_out, "signal": self.signal, "first_failed": first,
                              "processes": [{"process": m.rank, "status": m.status} for m in self.members]}),
                  file=sys.stderr, flush=True)


def _print(text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"lamina.launch: {text}", file=sys.stderr, flush=True)


def _format_ranks(ranks: list[int]) -> str:
    return f"process{'es' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _positive(kind: Callable[[str], _N]) -> Callable[[str], _N]:
    def convert(text: str) -> _N:
        value = kind(text)
        if not 0 < value < 1e8:
            raise argparse.ArgumentTypeError(f"must be above 0; got {text}")
        return value
    convert.__name__ = kind.__name__
    return convert


def main(argv: list[str] | None = None) -> int:
    """Run a program in several processes.

    Returns:
      The exit status of the first process that failed; 0 if none did; 124 after a timeout; 128 plus the signal number
      if a signal ended this process.
    """
    parser = argparse.ArgumentParser(
        prog="python -m lamina.launch", description="Run a Python program in several processes of this machine; "
        "lamina.distributed.initialize() in it needs no arguments.")
    parser.add_argument("-n", "--processes", type=_positive(int), required=True, metavar="N",
                        help="number of processes")
    parser.add_argument("--devices", type=_positive(int), metavar="K", help="CPU devices of each process")
    parser.add_argument("--timeout", type=_positive(float), metavar="S",
                        help="end all processes after S seconds (status 124)")
    parser.add_argument("-m", dest="module", action="store_true", help="the program is the name of a module")
    parser.add_argument("--json", action="store_true",
                        help="print one line of JSON at the end, on standard error: the exit status of each process")
    parser.add_argument("program", help="the file or module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    options = parser.parse_args(argv)
    if not options.module and not os.path.exists(options.program):
        parser.error(f"no such program: {options.program}")
    token = os.urandom(32).hex()
    address, coordinator = spawn_coordinator.start_coordinator("127.0.0.1:0", token.encode(), 1e8, detach=False)
    command = [sys.executable, *["-m"] * options.module, options.program, *options.arguments]
    count = options.processes
    # Not the token: the coordinator shows the id of a job to processes of another one.
    env = {**os.environ, "LAMINA_TOKEN": token, "LAMINA_COORDINATOR_ADDRESS": address,
           "LAMINA_NUM_PROCESSES": str(count), "LAMINA_JOB_ID": f"launch-{os.urandom(8).hex()}"}
    env.update({"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"})
    if options.devices is not None:
        env["LAMINA_NUM_CPU_DEVICES"] = str(options.devices)
    members: list[_Member] = []
    try:
        for rank in range(count):
            own = {"LAMINA_PROCESS_ID": str(rank)}
            gpus = cluster_env.share_gpus(rank, count)
            if gpus is not None:
                own["LAMINA_LOCAL_DEVICE_IDS"] = ",".join(map(str, gpus))
            members.append(_Member(rank, command, {**env, **own}, len(str(count - 1))))
        run = _Run(members, options.timeout)
        with run.signals():
            run.run()
        status = run.exit_status()
        if options.json:
            run.print_json(status)
        return status
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
