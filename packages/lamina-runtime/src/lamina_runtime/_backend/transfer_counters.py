"""Count the transfers between host and devices, so that a test can check that a program makes none."""
from __future__ import annotations

import threading
from typing import NamedTuple

__all__ = ["TransferCounts", "count_to_device", "count_to_host", "replace_lock", "transfer_counts"]

_lock = threading.Lock()
_counts = [0, 0, 0, 0]  # the fields of TransferCounts


class TransferCounts(NamedTuple):
    """Numbers of arrays and bytes moved in each direction. The difference of two counts the transfers between them."""

    to_host_arrays: int = 0
    to_host_bytes: int = 0
    to_device_arrays: int = 0
    to_device_bytes: int = 0

    def __sub__(self, earlier: TransferCounts) -> TransferCounts:
        return TransferCounts(*(a - b for a, b in zip(self, earlier)))


def transfer_counts() -> TransferCounts:
    """Return the counts of transfers between host and devices since the process began.

    Transfers that Python makes are counted. These are each host array that is put on a device, once per device, and
    each array that is read on the host. Reads on CPU devices count too, although they copy nothing. Not counted are
    host arguments on jaxlib's fast path (the first such call is counted), and values that callbacks exchange with their
    program.

    >>> from lamina_runtime import device_put
    >>> before = transfer_counts()
    >>> x = device_put([1.0, 2.0])
    >>> transfer_counts() - before
    TransferCounts(to_host_arrays=0, to_host_bytes=0, to_device_arrays=2, to_device_bytes=8)
    """
    with _lock:
        return TransferCounts(*_counts)


def replace_lock() -> None:
    """Make a new lock, in a forked child: another thread of the parent may have held the old one."""
    global _lock
    _lock = threading.Lock()


def count_to_host(arrays: int, size: int) -> None:
    """Count arrays read on the host, and their bytes in total."""
    with _lock:
        _counts[0] += arrays
        _counts[1] += size


def count_to_device(arrays: int, size: int) -> None:
    """Count arrays put on devices, and their bytes in total."""
    with _lock:
        _counts[2] += arrays
        _counts[3] += size
