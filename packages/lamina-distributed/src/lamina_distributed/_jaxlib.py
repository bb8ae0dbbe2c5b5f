"""jaxlib's coordination service and Gloo. The only module of the package that imports jaxlib."""
from __future__ import annotations

import os

from ._typing import CoordinationClient, CoordinationService

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # read once, when the shared library is loaded

from jaxlib import _jax

__all__ = ["gloo_collectives", "new_distributed_client", "new_service"]

_NO_TIMEOUT = 10**7  # seconds, four months: jaxlib converts it to nanoseconds


def new_service(address: str, processes: int, limit: int, leaving: int) -> CoordinationService:
    """Start the coordination service that processes connect to; `limit` and `leaving` are timeouts in seconds.

    `recoverable=True`: otherwise the failure of one process aborts all others. The heartbeat timeout is disabled: a
    process that was suspended past it would be aborted when it resumes. The coordinator detects failures instead.
    """
    return _jax.get_distributed_runtime_service(address, processes, heartbeat_timeout=_NO_TIMEOUT,
                                                cluster_register_timeout=limit, shutdown_timeout=leaving,
                                                recoverable=True)


def new_distributed_client(address: str, rank: int, limit: int, leaving: int) -> CoordinationClient:
    """Make a client of the coordination service; `limit` and `leaving` are the timeouts of connect and shutdown.

    The callback has no effect but this: if `connect` fails, it raises a RuntimeError. By default the process is aborted.
    """
    return _jax.get_distributed_runtime_client(address, rank, init_timeout=limit, shutdown_timeout=leaving,
                                               heartbeat_timeout=_NO_TIMEOUT, shutdown_on_destruction=False,
                                               missed_heartbeat_callback=_ignore, use_compression=True)


def _ignore(status: object) -> None:
    """Do nothing. jaxlib cannot pass the status, so it raises `std::bad_cast` in the thread that calls this."""


def gloo_collectives(client: CoordinationClient, host: str) -> object:
    """Make Gloo collectives between the CPU devices of several processes; this process listens at `host`."""
    return _jax.make_gloo_tcp_collectives(distributed_client=client, hostname=host)
