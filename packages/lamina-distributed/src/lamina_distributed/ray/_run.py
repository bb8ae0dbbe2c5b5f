"""Run a function in several workers of a Ray cluster: `run`."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from . import _arguments, _placement
from ._failures import import_ray
from ._group import Group

__all__ = ["run"]

_R = TypeVar("_R")


def run(train: Callable[[], _R], *, num_workers: int, resources: Mapping[str, float] | None = None, max_failures: int = 0,
        across_nodes: bool = False, start_timeout_seconds: float = 120) -> list[_R]:
    """Call a function in several workers of a Ray cluster, and replace workers that are lost.

    Each worker is an actor of a placement group. `lamina.distributed.initialize()` in `train` needs no arguments: address,
    number of processes and index are set as by `lamina.launch`. Each line that a worker prints is printed here, with its
    index in front.

    A worker whose process or node ends is started again under its index, and calls `train` from the beginning. The other
    workers get a ProcessLostError from what they compute together. They may call `shutdown()` and `initialize()` again and
    continue. If they raise the error instead, or have returned, `train` is called again in them. So `train` starts from
    the last checkpoint, or from the state of another worker.

    Args:
      train: a function without arguments. It and its results must be picklable.
      num_workers: number of workers.
      resources: Ray's resources of each worker, such as `{"CPU": 4, "GPU": 1}`. Default: one CPU.
      max_failures: number of losses, of all workers together, after which a worker is started again.
      across_nodes: whether the workers may be on several nodes. If so, they listen at the addresses that Ray uses for the
        nodes, else only at the loopback, and one node must hold all workers.
      start_timeout_seconds: seconds to wait for the resources, and for each worker to start.
    Returns:
      The result of each worker, by its index.
    Raises:
      WorkerFailedError: `train` raised an exception in a worker, its result cannot be pickled, or there were more losses
        than `max_failures`. The other workers are ended.
      TimeoutError: the cluster does not have the resources, or a worker does not start; names it.
      TypeError: `train` cannot be pickled, or an argument has another type.
      ValueError: an argument is out of range.
      ImportError: Ray is not installed.
    Source: lamina; Ray's actors and placement groups (docs.ray.io).
    """
    options = _arguments.check(num_workers, resources, max_failures, across_nodes, start_timeout_seconds)
    ray = import_ray(_arguments.CALL)
    pickled = _arguments.pickle_train(ray.cloudpickle, train)
    if not ray.is_initialized():
        ray.init()
    placement = _placement.reserve(options)
    try:
        with Group(options, placement, ray.put(pickled)) as group:
            return [ray.cloudpickle.loads(result) for result in group.run()]
    finally:
        ray.util.remove_placement_group(placement)
