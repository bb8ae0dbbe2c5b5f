"""Run a program in several processes of this machine: `python -m lamina.launch -n 4 program.py ...`.

The processes get their indices from variables, and meet at a coordinator started here. Each line of their output is
prefixed with the process index. If a process fails, the others are terminated, and the traceback of the root failure is
shown again. With `--max-restarts` all of them are then started again. If this process ends, for whatever reason, all of
them end.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from ._rendezvous import cluster_env, spawn_coordinator
from ._launcher.attempt import Attempt, Signals, print_message
from ._launcher.members import Log, Member

__all__ = ["main"]

_N = TypeVar("_N", int, float)


def _run_attempt(options: argparse.Namespace, signals: Signals, until: float, number: int) -> Attempt:
    """Run all processes once, with a coordinator and a token of their own. Return the attempt after the last has ended.

    A process that remained from an earlier attempt cannot join this one, because it has another token.
    """
    token = os.urandom(32).hex()
    address, coordinator = spawn_coordinator.start_coordinator("127.0.0.1:0", token.encode(), 1e8, detach=False)
    # The job id is not the token: the coordinator shows it to processes of another job.
    shared = {"LAMINA_TOKEN": token, "LAMINA_COORDINATOR_ADDRESS": address,
              "LAMINA_JOB_ID": f"launch-{os.urandom(8).hex()}"}
    members: list[Member] = []
    try:
        for rank in range(options.processes):
            members.append(_start_member(options, rank, number, shared))
        signals.attempt = Attempt(members, signals, until, options.min_processes or options.processes,
                                  lambda rank, count: _start_member(options, rank, count, shared),
                                  options.max_restarts if options.replace else 0)
        if signals.received is not None:  # it came before the signals were passed on to these processes
            signals.attempt.end_all(signals.received)
        signals.attempt.run()
        return signals.attempt
    finally:
        for m in members:
            m.close()
        with coordinator:
            coordinator.terminate()


def _start_member(options: argparse.Namespace, rank: int, attempt: int, shared: dict[str, str]) -> Member:
    """Start one process, with variables that all have in common and those of its rank."""
    count = options.processes
    command = [sys.executable, *["-m"] * options.module, options.program, *options.arguments]
    env = {**os.environ, **shared, "LAMINA_NUM_PROCESSES": str(count), "LAMINA_PROCESS_ID": str(rank),
           "LAMINA_RESTART_COUNT": str(attempt), "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}
    if options.devices is not None:
        env["LAMINA_NUM_CPU_DEVICES"] = str(options.devices)
    gpus = cluster_env.share_gpus(rank, count)
    if gpus is not None:
        env["LAMINA_LOCAL_DEVICE_IDS"] = ",".join(map(str, gpus))
    member = Member(rank, command, env, len(str(count - 1)))
    if options.log_dir is not None:
        try:
            member.log = Log(_log_path(options, rank), f"lamina.launch: attempt {attempt}, process {rank} of {count}, pid "
                             f"{member.process.pid}, {time.strftime('%Y-%m-%d %H:%M:%S %z')}")
        except OSError as e:
            print_message(f"{_log_path(options, rank)} cannot be written to, so there is no such log: {e.strerror or e}")
    return member


def _log_path(options: argparse.Namespace, rank: int) -> str:
    return os.path.join(options.log_dir, f"process-{rank}.log")


def _print_json(attempt: Attempt, status: int, received: int | None, restarts: int) -> None:
    """Print the result as one line of JSON; a negative status of a process is the signal that ended it."""
    first = None if attempt.root is None else attempt.root.rank
    with contextlib.suppress(OSError):
        print(json.dumps({"status": status, "timed_out": attempt.timed_out, "signal": received, "first_failed": first,
                          "restarts": restarts,
                          "processes": [{"process": m.rank, "status": m.status} for m in attempt.members]}),
              file=sys.stderr, flush=True)


def _positive(kind: Callable[[str], _N], minimum: int = 1) -> Callable[[str], _N]:
    """Return a converter of numbers above 0, or from 0 on if `minimum` is 0."""
    def convert(text: str) -> _N:
        value = kind(text)
        if not (0 < value < 1e8 or value == minimum == 0):
            raise argparse.ArgumentTypeError(f"must be {'above' if minimum else 'at least'} 0; got {text}")
        return value
    convert.__name__ = kind.__name__
    return convert


def _parse(argv: list[str] | None) -> argparse.Namespace:
    """Return the options. Exit with status 2 if they are wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m lamina.launch", description="Run a Python program in several processes of this machine; "
        "lamina.distributed.initialize() in it needs no arguments.")
    parser.add_argument("-n", "--processes", type=_positive(int), required=True, metavar="N",
                        help="number of processes")
    parser.add_argument("--devices", type=_positive(int), metavar="K", help="CPU devices of each process")
    parser.add_argument("--timeout", type=_positive(float), metavar="S",
                        help="end all processes after S seconds (status 124)")
    parser.add_argument("--max-restarts", type=_positive(int, 0), default=0, metavar="R",
                        help="after a failure, start all processes again, at most R times")
    parser.add_argument("--replace", action="store_true",
                        help="with --max-restarts: start only the failed process again, while the others live on")
    parser.add_argument("--min-processes", type=_positive(int), metavar="M",
                        help="after a failure, the others go on as long as M of them have not failed; default: N")
    parser.add_argument("--log-dir", metavar="DIR",
                        help="append the output of each process to DIR/process-RANK.log too")
    parser.add_argument("-m", dest="module", action="store_true", help="the program is the name of a module")
    parser.add_argument("--json", action="store_true",
                        help="print one line of JSON at the end, on standard error: the exit status of each process")
    parser.add_argument("program", help="the file or module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    options = parser.parse_args(argv)
    if not options.module and not os.path.exists(options.program):
        parser.error(f"no such program: {options.program}")
    if options.min_processes is not None and options.min_processes > options.processes:
        parser.error(f"argument --min-processes: must be at most the number of processes, {options.processes}; got "
                     f"{options.min_processes}")
    if options.replace and not options.max_restarts:
        parser.error("argument --replace: needs --max-restarts, the number of processes to start again")
    if options.log_dir is not None:
        try:
            os.makedirs(options.log_dir, exist_ok=True)
        except OSError as e:
            parser.error(f"argument --log-dir: the folder cannot be made: {e.strerror or e}: {options.log_dir}")
    return options


def main(argv: list[str] | None = None) -> int:
    """Run a program in several processes.

    Returns:
      0 if no process failed, or if `--min-processes` did not; else the exit status of the process with the root failure.
      124 after a timeout; 128 plus the signal number if a signal ended this process.
    """
    options = _parse(argv)
    until = float("inf") if options.timeout is None else time.monotonic() + options.timeout
    with Signals() as signals:
        for restarts in range(1 if options.replace else options.max_restarts + 1):
            attempt = _run_attempt(options, signals, until, restarts)
            status = attempt.exit_status()
            attempt.print_root()
            if attempt.root is None or attempt.timed_out or signals.received is not None or restarts == options.max_restarts \
                    or options.replace:
                break
            print_message(f"starting all processes again, restart {restarts + 1} of {options.max_restarts}")
    if options.json:
        _print_json(attempt, status, signals.received, restarts + attempt.replacements)
    return status


if __name__ == "__main__":
    sys.exit(main())
