"""jaxlib's coordination services, one for each system."""
from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from types import ModuleType

from .system import Connection, System
from .._rendezvous import rendezvous_protocol
from .._typing import CoordinationService

__all__ = ["CONNECT_TIMEOUT", "Services"]

CONNECT_TIMEOUT = 40.0  # seconds for all clients of a system to connect


class Services:
    """Starts and stops the services of a coordinator.

    Args:
      host: the address at which the coordinator listens.
      load_jaxlib: returns the module that creates services. Called when a service is first needed.
    """

    def __init__(self, host: str, load_jaxlib: Callable[[], ModuleType]) -> None:
        self._host, self._load_jaxlib = host, load_jaxlib
        self._leaked: list[CoordinationService] = []  # they end with this process, see `stop`

    def start(self, s: System, leaving: float) -> None:
        """Start the service of a system at a free port.

        Args:
          s: the system, which gets the service and its port.
          leaving: seconds for its processes to leave together.
        Raises:
          Exception: of any kind, as from jaxlib.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        # jaxlib's service would silently share a port that another service has (SO_REUSEPORT). So reserve a free one,
        # with the same option, until the service has bound it.
        with socket.socket(family, socket.SOCK_STREAM) as reserved:
            if hasattr(socket, "SO_REUSEPORT"):
                reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            reserved.bind((self._host, 0))
            s.port = reserved.getsockname()[1]
            address = rendezvous_protocol.format_address(self._host, s.port)
            s.service = self._load_jaxlib().new_service(address, s.count, int(CONNECT_TIMEOUT) * 3, leaving)

    def connect_for_lost(self, s: System, c: Connection) -> None:
        """Connect to the service in place of a lost process, in a thread.

        jaxlib aborts the processes that wait for a lost one. With this, all return from `connect`, and get the error
        over their coordinator connection.
        """
        threading.Thread(target=self._connect, args=(s.port, c), daemon=True).start()

    def _connect(self, port: int, c: Connection) -> None:
        local = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host)
        client = self._load_jaxlib().new_distributed_client(rendezvous_protocol.format_address(local, port), c.rank,
                                                            int(CONNECT_TIMEOUT), c.hello["leaving"])
        try:
            client.connect()
            client.shutdown()
        except Exception:
            pass  # the service has ended, so no process waits any more

    def stop(self, s: System) -> None:
        """Stop the service of a system."""
        service, s.service = s.service, None
        # The shutdown message of a service aborts a client that is still connected. A suspended process would receive
        # it when it resumes. The end of the connection does not abort it, because of its `ServiceProxy`.
        if s.may_be_suspended:
            self._leaked.append(service)
        elif service is not None:
            try:
                service.shutdown()
            except Exception:
                pass  # it ends with this process
