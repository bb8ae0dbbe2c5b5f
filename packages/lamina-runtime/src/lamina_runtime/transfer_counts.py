"""How many arrays have passed between host and devices, so that a test can hold a program to none."""
from __future__ import annotations

import threading
from typing import NamedTuple

__all__ = ["TransferCounts", "got", "put", "transfer_counts"]

_lock = threading.Lock()
_counts = [0, 0, 0, 0]


class TransferCounts(NamedTuple):
    """Arrays and bytes that went each way; the difference of two is what happened between."""

    to_host_arrays: int = 0
    to_host_bytes: int = 0
    to_device_arrays: int = 0
    to_device_bytes: int = 0

    def __sub__(self, earlier: TransferCounts) -> TransferCounts:
        return TransferCounts(*(a - b for a, b in zip(self, earlier)))


def transfer_counts() -> TransferCounts:
    """Transfers between host and devices since the process began.

    Counted is what Python moves: each host array put on a device, once per device, and each array read on the host, also on CPU
    devices where reading copies nothing. Not counted are host arguments of a call that jaxlib repeats by itself, which it moves
    without asking (the first such call is counted), and numbers that callbacks exchange with their program.

    >>> from lamina_runtime import device_put
    >>> before = transfer_counts()
    >>> x = device_put([1.0, 2.0])
    >>> transfer_counts() - before
    TransferCounts(to_host_arrays=0, to_host_bytes=0, to_device_arrays=2, to_device_bytes=8)
    """
    with _lock:
        return TransferCounts(*_counts)


def got(arrays: int, size: int) -> None:
    """Arrays were read, of so many bytes together."""
    with _lock:
        _counts[0] += arrays
        _counts[1] += size


def put(arrays: int, size: int) -> None:
    """Arrays were put on devices, of so many bytes together."""
    with _lock:
        _counts[2] += arrays
        _counts[3] += size
