"""What stands between jaxlib's client and its service, in each member.

jaxlib ends a process as soon as its connection to the service breaks. So the client is connected to this process itself, which
passes on what comes, and holds the client's side open when the service's side has gone, until the client is let go. Keys
and values pass; the data of collectives takes other ways.
"""
from __future__ import annotations

import contextlib
import socket
import threading

__all__ = ["Relay"]


class Relay:
    """`address` leads to `service`, both `(host, port)`."""

    def __init__(self, service: tuple[str, int]) -> None:
        self._service = service
        self._door = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._door.getsockname()[:2]
        self._open = True
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, name="lamina-relay", daemon=True)]
        self._threads[0].start()

    def shut_door(self) -> None:
        """Take no more connections: the client has its own."""
        if self._open:
            self._open = False
            with contextlib.suppress(OSError):
                socket.create_connection(self.address).close()  # wakes the thread
            self._threads[0].join()
            self._door.close()

    def close(self) -> None:
        """End all connections. The client must have been shut down."""
        self.shut_door()
        for s in self._sockets:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
        for t in self._threads:
            t.join()
        for s in self._sockets:
            s.close()

    def _accept(self) -> None:
        while True:
            client, _ = self._door.accept()
            if not self._open:
                return client.close()
            try:
                service = socket.create_connection(self._service)
            except OSError:
                client.close()
                continue
            for s in (client, service):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            service.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # days may pass between two first meetings of devices
            if hasattr(socket, "TCP_KEEPIDLE"):
                service.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
            self._sockets += [client, service]
            for ends in ((client, service, True), (service, client, False)):
                self._threads.append(threading.Thread(target=self._pass_on, args=ends, name="lamina-relay", daemon=True))
                self._threads[-1].start()

    @staticmethod
    def _pass_on(source: socket.socket, goal: socket.socket, from_client: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                goal.sendall(data)
        if from_client:
            with contextlib.suppress(OSError):
                goal.shutdown(socket.SHUT_RDWR)
