"""Answers to probes of an orchestrator, and metrics, over HTTP on a port of the loopback. Off unless asked for.

- `/livez`: 200 as long as this process runs Python and the others have not given it up, else 503.
- `/readyz`: 200 once all processes are connected, and as long as none is lost, has left or failed, else 503.
- `/metrics`: the counters of `metrics`, as OpenMetrics text.

Requests are handled one at a time, each within a few seconds, so slow clients use up neither threads nor memory.
"""
from __future__ import annotations

import contextlib
import os
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from typing_extensions import override

from . import metrics
from .._rendezvous.rendezvous_protocol import CALL

__all__ = ["HealthServer", "check_port"]

_REQUEST_TIMEOUT = 2.0  # seconds for a client to send its request and take the answer
_OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def check_port(port: object) -> int | None:
    """Return the argument `health_port`, or LAMINA_HEALTH_PORT if it is None.

    Raises:
      TypeError: it is not a whole number.
      ValueError: it is not the number of a port.
    """
    name = "health_port"
    if port is None:
        text, name = os.environ.get("LAMINA_HEALTH_PORT", ""), "LAMINA_HEALTH_PORT"
        if not text:
            return None
        port = int(text) if text.isascii() and text.isdigit() else text
    if isinstance(port, bool) or not hasattr(port, "__index__"):
        kind = ValueError if name == "LAMINA_HEALTH_PORT" else TypeError
        raise kind(f"{CALL}: {name} must be a port number; got {type(port).__name__}: {port!r:.60}")
    if not 0 < int(port) < 1 << 16:
        raise ValueError(f"{CALL}: {name} must be in [1, 65535]; got {port}")
    return int(port)


class _Handler(BaseHTTPRequestHandler):
    """Handles one request."""

    timeout = _REQUEST_TIMEOUT
    server: _Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        health, kind = self.server.health, "text/plain; charset=utf-8"
        if path in ("/livez", "/healthz"):
            problem = health.find_death()
        elif path == "/readyz":
            problem = health.find_problem()
        elif path == "/metrics":
            return self._answer(HTTPStatus.OK, health.format_metrics(), _OPENMETRICS)
        else:
            return self._answer(HTTPStatus.NOT_FOUND, "use /livez, /readyz or /metrics\n", kind)
        self._answer(HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK, f"{problem or 'ok'}\n", kind)

    def _answer(self, status: HTTPStatus, text: str, kind: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    @override
    def log_message(self, *_: Any) -> None:
        """Log nothing: probes come every few seconds."""


def _shut(s: socket.socket) -> None:
    with contextlib.suppress(OSError):
        s.shutdown(socket.SHUT_RDWR)


class _Server(HTTPServer):
    """The server of `HealthServer`."""

    health: HealthServer
    allow_reuse_address = True

    @override
    def finish_request(self, request: Any, client_address: Any) -> None:
        """Handle a request, and end its connection after a time, also if the client sends a byte now and then."""
        timer = threading.Timer(_REQUEST_TIMEOUT, _shut, (request,))
        timer.start()
        try:
            super().finish_request(request, client_address)
        finally:
            timer.cancel()

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that sends no request in time, or is gone."""


class HealthServer:
    """The server, from its creation until `close`.

    Args:
      port: of the loopback.
    Raises:
      ConnectionError: the port is taken.

    Attributes:
      metrics: the counters of the session.
      connection: to the coordinator; None until all processes are connected.
    """

    def __init__(self, port: int) -> None:
        self.metrics = metrics.Metrics()
        self.connection: Any = None
        try:
            self._server = _Server(("127.0.0.1", port), _Handler)
        except OSError as e:
            raise ConnectionError(f"{CALL}: health_port {port} cannot be used: {e.strerror or e}. Each process of a machine "
                                  "needs a port of its own") from e
        self._server.health = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), name="lamina-health", daemon=True)
        self._thread.start()

    def find_death(self) -> str:
        """Return why this process cannot work with the others any more, or ""."""
        here = self.connection
        if here is not None and here.rank in here.lost:
            return f"lost: {here.lost[here.rank]}"
        return ""

    def find_problem(self) -> str:
        """Return why this process is not ready, or ""."""
        here = self.connection
        if here is None:
            return "not all processes are connected yet"
        for state, those in (("lost", here.lost), ("left", here.left), ("failed", here.failed)):
            if those:
                return f"{state}: {'; '.join([those[r] for r in sorted(those)[:8]])}"
        return "the coordinator is lost" if here.coordinator_lost else ""

    def format_metrics(self) -> str:
        """Return the metrics as OpenMetrics text."""
        here = self.connection
        return self.metrics.format(*((0, 0, 0) if here is None else (here.count, len(here.lost), len(here.left))))

    def close(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def close_in_child(self) -> None:
        """Release the socket in a forked child, which has no such thread."""
        with contextlib.suppress(OSError):
            self._server.socket.close()
