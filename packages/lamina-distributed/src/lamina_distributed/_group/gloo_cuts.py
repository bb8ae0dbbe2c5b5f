"""Unblock threads that wait in Gloo for a process that is gone: shut down connections, and make those that are awaited.

Both use `gloo_sockets`, which says what they rely on. Connections between devices of one process are made in the same
way as those between processes, and are preserved.
"""
from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from . import gloo_sockets
from .gloo_sockets import Address

__all__ = ["CUT_PAUSE", "GlooCuts"]

CUT_PAUSE, _MAX_CUT_PAUSE = 0.05, 4.0  # seconds between two cuts, at first and at most
_CUT_DURATION = 8.0    # seconds during which cuts are repeated: a new connection may be on its way
_MAX_NUMBERS = 4096    # awaited connections that are tried in total, at most; also at most half of the descriptors
_LOCK_TIMEOUT = 0.5    # seconds to wait for devices of this process that are being connected
_CONNECT_TIMEOUT = 5.0  # seconds for a connection to this process's own Gloo


class GlooCuts:
    """Gloo's connections of this process.

    Args:
      is_connecting: returns whether a launch is in progress that may connect devices of several processes.
      closed: set when the session is over.

    Attributes:
      addresses: at which Gloo of all processes listens.
    """

    def __init__(self, is_connecting: Callable[[], bool], closed: threading.Event) -> None:
        self._is_connecting, self._closed = is_connecting, closed
        self.addresses: frozenset[Address] = frozenset()
        self._unused_numbers: dict[Address, Iterator[int]] = {}  # own address -> connection numbers not yet used there
        self._lock = threading.Lock()
        self._preserved: set[int] = set()  # inodes of sockets

    def set_addresses(self, own: Iterable[Address], all_of_them: Iterable[Address]) -> None:
        """Set the addresses at which Gloo of this process, and of all processes, listens."""
        own = list(own)
        self.addresses = frozenset(all_of_them)
        for address in own:
            # Each number that Gloo does not await costs it a descriptor, see `connect_for_lost`.
            self._unused_numbers[address] = iter(range(min(_MAX_NUMBERS, os.sysconf("SC_OPEN_MAX") // 2 // len(own))))

    @contextlib.contextmanager
    def preserve(self) -> Iterator[None]:
        """Context in which devices of this process are connected. Their connections survive later cuts."""
        held = self._lock.acquire(timeout=_LOCK_TIMEOUT)  # a callback of one launch may wait for another
        try:
            # Connections that appear meanwhile belong to a group of devices of this process alone. Those of a
            # multi-process group must be cut after a loss, even if both of their devices are here.
            before = gloo_sockets.internal_connections(self.addresses)
            yield
            self._preserved.update(gloo_sockets.internal_connections(self.addresses) - before)
        finally:
            if held:
                self._lock.release()

    def cut(self) -> None:
        """Shut down Gloo's sockets except the preserved ones.

        A connection between two devices of this process that belongs to a multi-process group is shut down too: one
        device would wait there for data that the other, which has failed, never sends. Such a connection may be made
        after the loss.

        Wait shortly for `preserve`. Not longer: that may itself wait for what is to be unblocked.
        """
        held = self._lock.acquire(timeout=_LOCK_TIMEOUT)
        try:
            gloo_sockets.shut_connections(self.addresses, self._preserved)
        finally:
            if held:
                self._lock.release()

    def count_external(self) -> int:
        """Return the number of Gloo's connections to other processes."""
        return gloo_sockets.count_external_connections(self.addresses)

    def keep_cutting(self) -> None:
        """Cut connections repeatedly.

        Newer versions of Gloo connect the devices of a group one after the other. Each connection to a lost process
        needs a cut of its own, which can only be made once Gloo waits for it.
        """
        pause, until = CUT_PAUSE, time.monotonic() + _CUT_DURATION
        while self._is_connecting() or time.monotonic() < until and not self._closed.is_set():
            self.connect_for_lost()
            if self._is_connecting():
                time.sleep(pause := CUT_PAUSE)
            else:
                self._closed.wait(pause := min(2 * pause, _MAX_CUT_PAUSE))
            self.cut()

    def connect_for_lost(self) -> None:
        """Connect to this process's own Gloo in place of lost processes, and close the connections.

        Which numbers Gloo awaits is unknown, so all are tried, from 0 on. Each costs a descriptor if Gloo does not await
        it, see `gloo_sockets.connect`. So each is used once, and the total is limited: a process without descriptors
        would be aborted.
        """
        for address, numbers in self._unused_numbers.items():
            while self._is_connecting() and (batch := [*itertools.islice(numbers, 64)]):
                for number in batch:
                    gloo_sockets.connect(address, number, _CONNECT_TIMEOUT)
                time.sleep(0.005)
