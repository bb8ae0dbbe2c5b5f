"""Where processes meet before jaxlib lets them: it ends the process over a wrong address, a peer that never comes, a number
that is taken; here each of these is an error that says so.

Process 0 opens the coordinator's port and waits; the others come, say who they are, and wait. When all are there the port
is closed, the word is given, and jaxlib's service takes the port over. Words are lines of JSON.
"""
from __future__ import annotations

import json
import select
import socket
import time
from typing import Any

__all__ = ["host", "join"]

_CALL = "distributed.initialize"
_ERRORS = {"value": ValueError, "timeout": TimeoutError}


def _place(address: str) -> tuple[str, int]:
    name, _, port = address.rpartition(":")
    if not name or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise ValueError(f"{_CALL}: coordinator_address must be 'host:port'; got {address!r}")
    return name.strip("[]"), int(port)


def _say(s: socket.socket, **words: Any) -> None:
    try:
        s.sendall((json.dumps(words) + "\n").encode())
    except OSError:
        pass  # whoever has gone is missed elsewhere


def _heard(s: socket.socket) -> dict[str, Any] | None:
    """What the other side says; None when it has gone, or is none of us."""
    try:
        found = json.loads(s.makefile("rb").readline(1 << 16))
        return found if isinstance(found, dict) else None
    except (OSError, ValueError):
        return None


def host(address: str, count: int, timeout: float) -> None:
    """Process 0: wait until all others have come.

    Raises:
      ConnectionError: the port is taken, or the address is not of this machine.
      TimeoutError: some did not come in time; names them. They are told, if they come later, by finding nobody.
    """
    name, port = _place(address)
    until = time.monotonic() + timeout
    guests: dict[int, socket.socket] = {}
    with _door(name, port, address, count) as door:
        try:
            while len(guests) < count - 1:
                left = until - time.monotonic()
                if left <= 0:
                    absent = sorted({*range(1, count)} - set(guests))
                    raise TimeoutError(f"{_CALL}: of {count} processes {absent} did not come to {address} within {timeout:g} s"
                                       ". Start them, give them this address, or raise initialization_timeout")
                for s in select.select([door, *guests.values()], [], [], min(left, 1.0))[0]:
                    if s is door:
                        _welcome(door.accept()[0], guests, count)
                    else:  # it says nothing more, so it has gone
                        rank = next(r for r, g in guests.items() if g is s)
                        guests.pop(rank).close()
        except BaseException as e:
            for s in guests.values():
                _say(s, error=str(e) or f"{_CALL}: process 0 was interrupted", kind="timeout")
                s.close()
            raise
    for s in guests.values():
        _say(s, begin=True)
        s.close()


def _door(name: str, port: int, address: str, count: int) -> socket.socket:
    try:
        return socket.create_server((name, port), family=socket.AF_INET6 if ":" in name else socket.AF_INET, backlog=count)
    except OSError as e:
        raise ConnectionError(f"{_CALL}: process 0 cannot listen at coordinator_address {address}: {e.strerror or e}. Another "
                              "program has this port, or the address is not of this machine") from e


def _welcome(s: socket.socket, guests: dict[int, socket.socket], count: int) -> None:
    s.settimeout(5)
    words = _heard(s) or {}
    rank, theirs = words.get("rank"), words.get("count")
    if not isinstance(rank, int):
        s.close()
        return
    if theirs != count:
        error = f"num_processes is {theirs} in process {rank} and {count} in process 0"
    elif rank in guests or not 0 < rank < count:
        error = f"process_id {rank} is taken: another process came with it"
    else:
        guests[rank] = s
        return
    _say(s, error=f"{_CALL}: {error}. Each process needs a number of its own and the same num_processes", kind="value")
    s.close()


def join(address: str, rank: int, count: int, timeout: float) -> None:
    """Another process: come to process 0 and wait for its word.

    Raises:
      ValueError: the host is unknown; the number is taken; the counts differ.
      TimeoutError: nobody was at the address, or others did not come in time.
      ConnectionError: process 0 went away.
    """
    name, port = _place(address)
    # Process 0 may come later than this one: knock until it opens.
    until = time.monotonic() + timeout
    while True:
        try:
            s = socket.create_connection((name, port), max(until - time.monotonic(), 0.1))
            break
        except socket.gaierror as e:
            raise ValueError(f"{_CALL}: coordinator_address {address}: the host is unknown: {e.strerror or e}") from e
        except OSError as e:
            if time.monotonic() >= until:
                raise TimeoutError(f"{_CALL}: process {rank} found nobody at coordinator_address {address} within {timeout:g} "
                                   f"s ({e.strerror or e}). Process 0 listens there once it has called initialize; check the "
                                   "address, or raise initialization_timeout") from e
            time.sleep(0.05)
    with s:
        s.settimeout(max(until - time.monotonic(), 0.1) + 5)  # longer than process 0 waits: it will say who is missing
        _say(s, rank=rank, count=count)
        words = _heard(s)
    if words is None:
        raise ConnectionError(f"{_CALL}: process 0 at {address} went away, or another program listens there")
    if "error" in words:
        raise _ERRORS.get(words.get("kind", ""), ConnectionError)(words["error"])
