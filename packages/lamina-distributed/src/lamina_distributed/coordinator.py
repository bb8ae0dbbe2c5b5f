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
import json
import os
import resource
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType

from ._coordinator.connections import Connections
from ._coordinator.services import Services
from ._coordinator.system import Connection
from ._coordinator.systems import Systems
from ._rendezvous import rendezvous_protocol
from ._typing import Message

__all__ = ["Coordinator", "listen", "main"]

_MIN_TOKEN_BYTES = 16  # of a token, unless only this machine can reach the coordinator


class Coordinator:
    """The server of the rendezvous on a listening socket, and the services of the systems that were formed.

    All of it runs in one thread, as an event loop, so it needs no locks.

    Args:
      listener: the listening socket.
      key: the token.
      startup_timeout: seconds after which it ends if no process has come.
      load_jaxlib: returns the module that creates services. Called when a service is first needed.

    Attributes:
      systems: the systems that gather or work here.
    """

    def __init__(self, listener: socket.socket, key: bytes, startup_timeout: float,
                 load_jaxlib: Callable[[], ModuleType]) -> None:
        self._selector = selectors.DefaultSelector()
        self._listener = listener
        self._connections = Connections(listener, key, self._selector)
        self.systems = Systems(self._connections, Services(listener.getsockname()[0], load_jaxlib),
                               time.monotonic() + startup_timeout)
        self._stop_requested = self._is_stopping = False
        self._wake, self._alarm = socket.socketpair()  # a byte on `_alarm` wakes the loop
        for s in (self._wake, self._alarm):
            s.setblocking(False)
        self._selector.register(self._wake, selectors.EVENT_READ)

    def run(self) -> None:
        """Serve until the last process has disconnected."""
        try:
            while self.systems.all or time.monotonic() < self.systems.end:
                for key, _ in self._selector.select(self._select_timeout()):
                    if key.fileobj is self._listener:
                        self._connections.accept()
                    elif key.fileobj is self._wake:
                        self._wake.recv(64)
                    # Events of connections that were dropped in this round are skipped.
                    elif key.data in self._connections.unauthenticated or key.data.is_member:
                        self._read(key.data)
                self._handle_timeouts()
        finally:
            self._connections.close()
            for s in self.systems.all:
                self.systems.close(s)
            self._selector.close()
            self._wake.close()
            self._alarm.close()

    def stop(self) -> None:
        """Have the processes disconnect from the service, then end. For signal handlers and other threads."""
        self._stop_requested = True
        try:
            self._alarm.send(b"!")
        except OSError:
            pass

    def _select_timeout(self) -> float:
        times = [c.until for c in self._connections.unauthenticated] + [s.next_time() for s in self.systems.all]
        if not self.systems.all:
            times.append(self.systems.end)
        return min(max(min(times, default=60.0) - time.monotonic(), 0.0), 60.0)

    def _handle_timeouts(self) -> None:
        now = time.monotonic()
        self._connections.handle_timeouts(now)
        self.systems.handle_timeouts(now)
        if self._is_stopping:
            self.systems.close_late(now)
        elif self._stop_requested:
            self._is_stopping = True
            self.systems.request_end(now)

    def _read(self, c: Connection) -> None:
        try:
            is_open = c.lines.receive()
        except BlockingIOError:
            return
        except OSError:
            is_open = False
        try:
            while (message := c.lines.pop()) is not None:
                self._handle(c, message)
                if c not in self._connections.unauthenticated and not c.is_member:
                    return  # rejected, or it has left
            self._connections.check_size(c)
        except ValueError:
            is_open = False  # not a process of lamina
        if is_open:
            c.last_heard = time.monotonic()
        else:
            self.systems.handle_end(c)

    def _handle(self, c: Connection, message: Message) -> None:
        """Handle one message. ValueError if it is not one of a process of lamina."""
        s = c.system
        if s is None:
            if "hello" in message:
                if self._connections.authenticate(c, message):
                    self._join(c)
            elif "lamina" not in message:
                raise ValueError("no hello")
        elif "connected" in message and s.phase == "connecting":
            self.systems.handle_connected(s, c, message)
        elif "unconnected" in message and s.phase == "connecting":
            self.systems.handle_unconnected(s, c)
        elif "failed" in message and s.phase == "running":
            s.handle_failed_launch(c, message)
        elif "beat" in message and s.phase == "running":
            s.handle_beat(c, message["beat"])
        elif "abandon" in message:
            self.systems.handle_abandon(s)
        elif "bye" in message:
            self.systems.handle_leave(s, c)

    def _join(self, c: Connection) -> None:
        if self._stop_requested:
            self._connections.reject(c, "the coordinator was stopped", "connection")
        else:
            self.systems.join(c)


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
    coordinator = Coordinator(listener, key, options.startup_timeout, _import_jaxlib)
    # The import takes a third of a second. It runs while the processes connect.
    threading.Thread(target=_import_jaxlib, daemon=True).start()
    for s in (signal.SIGTERM, signal.SIGINT):
        signal.signal(s, lambda *_: coordinator.stop())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if options.exit_on_stdin_close:
        coordinator.systems.is_kept = True
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
