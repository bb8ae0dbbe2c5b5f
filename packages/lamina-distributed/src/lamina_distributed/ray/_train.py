"""Join the workers of Ray Train: `initialize_from_ray_train`."""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .. import _session
from .._rendezvous import rendezvous_protocol, spawn_coordinator
from ._failures import import_ray

__all__ = ["initialize_from_ray_train"]

_CALL = "ray.initialize_from_ray_train"


def initialize_from_ray_train(*, across_nodes: bool = False, initialization_timeout: float = 300, **options: Any) -> None:
    """Join the workers of Ray Train into one system. Call this in the training function, before the first array.

    The worker with world rank 0 starts a coordinator. Its address and a token reach the other workers by
    `ray.train.collective.broadcast_from_rank_zero`. If a worker is lost, Ray Train starts all workers again, as its
    FailureConfig says; each start makes a new system.

    Args:
      across_nodes: whether the workers may be on several nodes. If so, they listen at the addresses that Ray uses for the
        nodes, else only at the loopback.
      initialization_timeout: seconds to wait for the other workers.
      **options: further arguments of `lamina.distributed.initialize`, except the address and the numbers.
    Raises:
      RuntimeError: this process is no worker of Ray Train, or has joined a system before.
      ValueError: the workers are on several nodes, and `across_nodes` is False.
      ImportError: Ray Train of version 2 is not installed.
      Exception: as `initialize` raises.
    Source: lamina; `ray.train.get_context`, `ray.train.collective` (docs.ray.io).
    """
    ray = import_ray(_CALL)
    try:
        from ray.train import collective, get_context  # noqa: PLC0415 (late: an optional dependency)
    except ImportError as e:
        raise ImportError(f"{_CALL}: Ray Train (version 2) cannot be imported: {e}. Install it: pip install 'ray[train]', and "
                          "for Ray before 2.51 set RAY_TRAIN_V2_ENABLED=1", name="ray") from e
    context = _check_context(get_context)
    rank, count = context.get_world_rank(), context.get_world_size()
    if not across_nodes and context.get_local_world_size() != count:
        raise ValueError(f"{_CALL}: the {count} workers must be on one node; got {context.get_local_world_size()} on this one. "
                         "Pass across_nodes=True: they then listen at the addresses that Ray uses for the nodes")
    made = _start_coordinator(ray, across_nodes, initialization_timeout) if rank == 0 else None
    address, token, job = collective.broadcast_from_rank_zero(made)
    os.environ["LAMINA_TOKEN"] = token
    _session.initialize(address, count, rank, job_id=job, initialization_timeout=initialization_timeout, **options)


def _check_context(get_context: Callable[[], Any]) -> Any:
    """Return the context of this worker. RuntimeError outside of a worker of Ray Train."""
    try:
        context = get_context()
        context.get_world_size()
        return context
    except Exception as e:  # Ray has no public class for it
        raise RuntimeError(f"{_CALL}: this process must be a worker of Ray Train. Call it in the training function of a "
                           "trainer, or use lamina.distributed.ray.run") from e


def _start_coordinator(ray: Any, across_nodes: bool, timeout: float) -> tuple[str, str, str]:
    """Start a coordinator on this node; return its address, the token and the job id."""
    token = os.urandom(32).hex()
    host = ray.util.get_node_ip_address() if across_nodes else "127.0.0.1"
    address, _ = spawn_coordinator.start_coordinator(rendezvous_protocol.format_address(host, 0), token.encode(), timeout + 30)
    return address, token, f"ray-train-{os.urandom(8).hex()}"
