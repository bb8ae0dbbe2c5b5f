"""Answer the coordinator's heartbeats while a process is blocked in jaxlib, before its session exists."""
from __future__ import annotations

import select
import socket
import threading
from types import TracebackType

from .._typing import Message
from .rendezvous_protocol import LineStream

__all__ = ["BeatAnswers"]


class BeatAnswers:
    """A context in which a thread answers heartbeats. The other messages are put back at its end.

    jaxlib's client waits in `connect` until all processes have connected. So without answers the coordinator could not
    distinguish a stopped process from those that wait for it.
    """

    def __init__(self, lines: LineStream) -> None:
        self._lines = lines
        self._kept: list[Message] = []
        self._wake, self._alarm = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="lamina-beat-answers", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._alarm.close()  # which makes `_wake` readable
        self._thread.join()
        self._wake.close()
        self._lines.put_back(self._kept)

    def _run(self) -> None:
        s, poll = self._lines.socket, select.poll()  # not `select.select`, which fails above 1,024 descriptors
        for watched in (s, self._wake):
            poll.register(watched, select.POLLIN)
        while True:
            ready = [number for number, _ in poll.poll()]
            if self._wake.fileno() in ready:
                return
            try:
                is_open = self._lines.receive()
                while (message := self._lines.pop()) is not None:
                    if "beat" in message:
                        self._lines.send(beat=message["beat"])
                    else:
                        self._kept.append(message)
            except (OSError, ValueError):
                return  # the next read finds the same
            if not is_open:
                return
