"""Keep connections of other programs to Gloo's port from using up the descriptors of this process.

Gloo keeps the descriptor of each connection that it accepts, also of one that is closed at once, as by a port scan or a
health check. At the limit of descriptors its `accept` fails, and the process is aborted. So

1. the soft limit is raised to the hard one;
2. a thread wakes with each new connection, and warns when many descriptors are in use;
3. before the limit is reached, the kernel drops further connections to the port, by a filter on the listening socket.

The listening socket cannot be closed or shut down instead, because Gloo aborts the process then too. Existing connections
are unaffected. Groups of devices that are connected already keep working; new ones get an error.
"""
from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
import struct
import sys
import threading
from collections.abc import Iterable

from lamina_tracing.extend import logger

from . import gloo_sockets

__all__ = ["DescriptorGuard"]

_SO_ATTACH_FILTER = 26  # of Linux; Python has no name for it
_DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)  # the program of the filter: BPF_RET | BPF_K, 0 bytes of each packet
_MAX_LIMIT = 1 << 20  # descriptors
_MAX_MARGIN = 512  # descriptors that may remain free when the port is closed; more if the limit is high


class DescriptorGuard:
    """Watches the connections to Gloo's listening sockets, from its creation until `close`. Does nothing but on Linux.

    Args:
      addresses: of Gloo in this process.

    Attributes:
      problem: why no new group of devices can be connected; "" as long as it can.
    """

    def __init__(self, addresses: Iterable[gloo_sockets.Address]) -> None:
        self.problem = ""
        self._thread: threading.Thread | None = None
        if not sys.platform.startswith("linux"):
            return
        self._limit = _raise_limit()
        self._has_warned = False
        self._listeners = gloo_sockets.listening_sockets(frozenset(addresses))
        self._wake, self._alarm = socket.socketpair()
        self._poll = select.epoll()
        self._poll.register(self._wake, select.EPOLLIN)
        for s in self._listeners:
            self._poll.register(s, select.EPOLLIN | select.EPOLLET)  # only new connections wake the thread
        self._thread = threading.Thread(target=self._run, name="lamina-descriptor-guard", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread. The filter remains on the sockets."""
        if self._thread is None:
            return
        self._alarm.close()
        self._thread.join()
        self._thread = None
        self._poll.close()
        for s in (*self._listeners, self._wake):
            s.close()

    def raise_if_closed(self, call: str) -> None:
        """Raise RuntimeError if no new group of devices can be connected."""
        if self.problem:
            raise RuntimeError(f"{call}: {self.problem}")

    def _run(self) -> None:
        # Few descriptors may be left before Python's interpreter runs this thread, so the margin is wide.
        close_at = self._limit - max(self._limit // 4, min(_MAX_MARGIN, self._limit // 2))
        while True:
            ready = [number for number, _ in self._poll.poll()]
            if self._wake.fileno() in ready:
                return
            used = _lowest_free_descriptor()
            if used >= close_at:
                self._close_port(used)
                return
            if used >= close_at // 2 and not self._has_warned:
                self._has_warned = True
                logger.warning("%s of at most %s file descriptors are in use, and Gloo keeps one for each connection to "
                               "its port %s, also of a port scan or a health check", used, self._limit, self._ports())

    def _ports(self) -> str:
        return ", ".join(str(s.getsockname()[1]) for s in self._listeners)

    def _close_port(self, used: int) -> None:
        self.problem = (f"{used} of at most {self._limit} file descriptors are in use, so this process accepts no more "
                        f"connections at Gloo's port {self._ports()}, and no new group of devices can be connected. Find "
                        "the program that connects to this port, such as a port scanner; raise the limit (ulimit -n)")
        logger.warning("%s", self.problem)
        program = ctypes.create_string_buffer(_DROP_ALL, len(_DROP_ALL))
        for s in self._listeners:
            # struct sock_fprog: the number of instructions, and a pointer to them
            s.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(program)))


def _raise_limit() -> int:
    """Raise the soft limit of descriptors to the hard one. Return it."""
    import resource  # noqa: PLC0415 (late: absent on Windows)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_LIMIT if hard == resource.RLIM_INFINITY else min(hard, _MAX_LIMIT)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return wanted if soft == resource.RLIM_INFINITY else soft


def _lowest_free_descriptor() -> int:
    """Return the number that the next descriptor gets: all below are in use."""
    try:
        number = os.dup(0)
    except OSError:  # none is left, or standard input is closed
        try:
            number = os.open(os.devnull, os.O_RDONLY)
        except OSError:
            return _MAX_LIMIT
    os.close(number)
    return number
