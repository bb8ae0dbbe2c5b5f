"""TCP proxy between jaxlib's coordination client and its service, in each process.

jaxlib aborts a process as soon as its connection to the service breaks. So the client connects to this proxy, in the
same process. If the connection to the service breaks, the proxy keeps the client's side open until the client is shut
down. Only small data passes here (keys and values); the data of collectives does not.
"""
from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

__all__ = ["ServiceProxy"]


class ServiceProxy:
    """Forwards connections from `address` to `service`. Both are `(host, port)`.

    Attributes:
      on_service_end: called in a thread when the service ends, so that the client does not wait for it.
    """

    def __init__(self, service: tuple[str, int]) -> None:
        self._service = service
        self.on_service_end: Callable[[], None] = lambda: None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._is_accepting = True
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, name="lamina-service-proxy", daemon=True)]
        self._threads[0].start()

    def stop_accepting(self) -> None:
        """Accept no more connections: the client is connected."""
        if self._is_accepting:
            self._is_accepting = False
            with contextlib.suppress(OSError):
                socket.create_connection(self.address).close()  # wakes the thread, which blocks in `accept`
            self._threads[0].join()
            self._listener.close()

    def close(self) -> None:
        """Close all connections. The client must have been shut down before, else it aborts the process."""
        self.stop_accepting()
        self.on_service_end = lambda: None
        for s in self._sockets:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
        for t in self._threads:
            t.join()
        # Closed only after the threads have ended: a closed number could be reused while a thread still reads from
        # it.
        for s in self._sockets:
            s.close()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            if not self._is_accepting:
                return client.close()
            try:
                service = socket.create_connection(self._service)
            except OSError:
                client.close()
                continue
            # Requests are small, so waiting for more data to fill a packet would only add latency.
            for s in (client, service):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Days may pass between two connections of device groups; routers drop idle connections.
            service.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_KEEPIDLE"):
                service.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
            self._sockets += [client, service]
            for args in ((client, service, True), (service, client, False)):
                self._threads.append(threading.Thread(target=self._forward, args=args, name="lamina-service-proxy",
                                                      daemon=True))
                self._threads[-1].start()

    def _forward(self, source: socket.socket, target: socket.socket, from_client: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        if not from_client:
            threading.Thread(target=self.on_service_end, name="lamina-service-proxy", daemon=True).start()
        else:  # the end of the service's side is not forwarded: the client would abort the process
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_RDWR)
