"""Connections to a coordinator: accepting, authentication, and the limits that keep strangers from exhausting it."""
from __future__ import annotations

import errno
import hmac
import json
import selectors
import socket
import time
from collections import Counter
from typing import Any

from . import membership
from .system import Connection, System
from .._rendezvous import rendezvous_protocol
from .._typing import Message

__all__ = ["Connections"]

_MAX_UNAUTHENTICATED = 128  # connections that have not authenticated yet
_MAX_HELLO_BYTES = 1 << 16  # bytes of such a connection
_DESCRIPTOR_PAUSE = 0.05  # seconds until the next attempt to accept if no descriptor is left


class Connections:
    """All connections of a coordinator.

    Args:
      listener: the listening socket.
      key: the token.
      selector: waits for input of the listener and of all connections; the data of a key is its `Connection`.

    Attributes:
      unauthenticated: connections that belong to no system yet.
      last_rejected: time and remote host of the last connection with another token.
    """

    def __init__(self, listener: socket.socket, key: bytes, selector: selectors.BaseSelector) -> None:
        self._listener, self._key, self._selector = listener, key, selector
        self.unauthenticated: list[Connection] = []
        self.last_rejected = (float("-inf"), "")
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ)

    def accept(self) -> None:
        """Accept a connection. If there are too many, drop another unauthenticated one."""
        try:
            s, _ = self._listener.accept()
        except OSError as e:
            if e.errno in (errno.EMFILE, errno.ENFILE):  # the listener stays readable, so this would be repeated at once
                self._drop_unauthenticated()
                time.sleep(_DESCRIPTOR_PAUSE)
            return  # or closed again
        s.setblocking(False)
        if len(self.unauthenticated) >= _MAX_UNAUTHENTICATED:
            self._drop_unauthenticated()
        c = Connection(s)
        self.unauthenticated.append(c)
        self._selector.register(s, selectors.EVENT_READ, c)
        c.lines.send(lamina=rendezvous_protocol.PROTOCOL, challenge=c.challenge)

    def _drop_unauthenticated(self) -> None:
        """Drop one connection: of the address with most of them, the oldest that has sent nothing, else the oldest."""
        if self.unauthenticated:
            counts = Counter(c.host for c in self.unauthenticated)
            most = [c for c in self.unauthenticated if c.host == max(counts, key=lambda h: counts[h])]
            # A process of lamina sends its first line before it has received one.
            self.drop(next((c for c in most if not c.lines.received), most[0]))

    def handle_timeouts(self, now: float) -> None:
        """Drop connections that did not authenticate in time."""
        for c in [c for c in self.unauthenticated if c.until <= now]:
            self.drop(c)

    @staticmethod
    def check_size(c: Connection) -> None:
        """Raise ValueError if an unauthenticated connection has sent too many bytes."""
        if c.system is None and c.lines.received > _MAX_HELLO_BYTES:
            raise ValueError("no hello")

    def authenticate(self, c: Connection, message: Message) -> bool:
        """Check the MAC and the form of a hello, and keep it. Return False if the connection was rejected.

        Raises:
          ValueError: the form is wrong.
        """
        text, digest = message.get("hello"), message.get("mac")
        if not isinstance(text, str) or not isinstance(digest, str):
            raise ValueError("no hello")
        expected = rendezvous_protocol.mac(self._key, "guest", c.challenge, text)
        if not hmac.compare_digest(digest.encode(), expected.encode()):  # in constant time
            text = ("the coordinator has another token. Set LAMINA_TOKEN (or LAMINA_TOKEN_FILE) to the same secret in "
                    "all processes; without it each user's own is taken, which machines without a common home do not "
                    "share")
            self.last_rejected = time.monotonic(), c.host
            self.reject(c, text, "permission")
            return False
        try:
            hello = json.loads(text)
        except RecursionError as e:
            raise ValueError("nested too deep") from e
        if not isinstance(hello, dict) or any(type(hello.get(n)) is not int for n in ("rank", "count")):
            raise ValueError("no hello")
        numbers: list[Any] = [hello.get(n) for n in ("timeout", "heartbeat", "leaving")]
        if any(type(n) not in (int, float) or not 0 <= n < 1e9 for n in numbers):
            raise ValueError("no hello")
        if not membership.is_valid_hello(hello):
            self.reject(c, "the job id, the least number of processes, or the system that the process was in before, has a "
                        "wrong form", "connection")
            return False
        c.hello = hello
        return True

    def admit(self, c: Connection, system: System) -> None:
        """Make an authenticated connection a member of a system, and prove to the process that the token is known."""
        self.unauthenticated.remove(c)
        c.system = system
        system.members[c.rank] = c
        rendezvous_protocol.set_keepalive(c.socket, c.hello["heartbeat"])
        c.lines.send(proof=rendezvous_protocol.mac(self._key, "coordinator", c.challenge, str(c.hello.get("nonce"))))

    def reject(self, c: Connection, text: str, kind: str, **fields: object) -> None:
        """Send an error to a process, and close its connection."""
        c.lines.send(error=f"{rendezvous_protocol.CALL}: {text}", kind=kind, **fields)
        self.drop(c)

    def drop(self, c: Connection) -> None:
        """Close a connection and remove it from all tables."""
        if c in self.unauthenticated:
            self.unauthenticated.remove(c)
        if c.is_member:
            assert c.system is not None
            del c.system.members[c.rank]
        try:
            self._selector.unregister(c.socket)
        except (KeyError, ValueError):
            pass
        c.socket.close()

    def close(self) -> None:
        """Close the listener and the unauthenticated connections."""
        self._listener.close()  # first, so that a process that connects now is refused
        for c in list(self.unauthenticated):
            self.drop(c)
