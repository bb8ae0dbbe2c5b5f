"""Place workers in a Ray cluster, and describe what it has if that fails."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._arguments import CALL, Options
from ._failures import import_ray
from ._worker import Worker

__all__ = ["format_resources", "make_actor", "reserve"]


def reserve(options: Options) -> Any:
    """Return a placement group with the resources of all workers.

    Raises:
      TimeoutError: the cluster has not had them in time.
    """
    ray = import_ray(CALL)
    group = ray.util.placement_group([options.resources] * options.num_workers,
                                     strategy="PACK" if options.across_nodes else "STRICT_PACK")
    try:
        if group.wait(options.start_timeout_seconds):
            return group
        raise TimeoutError(_describe_shortage(ray, options))
    except BaseException:
        ray.util.remove_placement_group(group)
        raise


def _describe_shortage(ray: Any, options: Options) -> str:
    asked = format_resources(options.resources)
    names = [name for name in options.resources if name != "CPU"]
    nodes = [f"{node['NodeManagerAddress']} has {_select(node['Resources'], names)}" for node in ray.nodes() if node["Alive"]]
    free = _select(ray.available_resources(), names)
    fix = ("Ask for less, or add nodes" if options.across_nodes else
           "Ask for less, or pass across_nodes=True: without it, one node must hold all workers")
    return (f"{CALL}: num_workers={options.num_workers} with {asked} each could not be placed within "
            f"{options.start_timeout_seconds:g} s. {'; '.join(nodes) or 'The cluster has no nodes'}; free in all: {free}. "
            f"{fix}")


def _select(found: Mapping[str, float], names: list[str]) -> str:
    return format_resources({name: found.get(name, 0) for name in ("CPU", *names)})


def format_resources(resources: Mapping[str, float]) -> str:
    """Return resources as `2 CPU, 1 GPU`."""
    return ", ".join(f"{amount:g} {name}" for name, amount in resources.items())


def make_actor(options: Options, group: Any, rank: int) -> Any:
    """Create the actor of a worker in its place of the placement group. It starts in the background."""
    ray = import_ray(CALL)
    # A group of one thread for the output: it is read while the other thread calls the user's function.
    worker = ray.remote(concurrency_groups={"output": 1})(Worker)
    other = {name: amount for name, amount in options.resources.items() if name not in ("CPU", "GPU", "memory")}
    return worker.options(
        num_cpus=options.resources.get("CPU", 0), num_gpus=options.resources.get("GPU", 0),
        memory=options.resources.get("memory"), resources=other, max_restarts=0, max_task_retries=0,
        scheduling_strategy=ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
            placement_group=group, placement_group_bundle_index=rank)).remote(rank)
