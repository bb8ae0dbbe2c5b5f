"""Check and pickle the arguments of `run`."""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

__all__ = ["CALL", "Options", "check", "pickle_train"]

CALL = "ray.run"
_MAX_WORKERS = 1 << 20


class Options(NamedTuple):
    """The arguments of `run` except the function, checked."""

    num_workers: int
    resources: dict[str, float]
    max_failures: int
    across_nodes: bool
    start_timeout_seconds: float


def check(num_workers: Any, resources: Any, max_failures: Any, across_nodes: Any, start_timeout_seconds: Any) -> Options:
    """Return the arguments with their types. TypeError or ValueError if one is wrong."""
    for name, value, least in (("num_workers", num_workers, 1), ("max_failures", max_failures, 0)):
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"{CALL}: {name} must be a whole number; got {type(value).__name__}: {value!r}")
        if not least <= value <= _MAX_WORKERS:
            raise ValueError(f"{CALL}: {name} must be in [{least}, {_MAX_WORKERS}]; got {value}")
    if not isinstance(across_nodes, bool):
        raise TypeError(f"{CALL}: across_nodes must be True or False; got {type(across_nodes).__name__}: {across_nodes!r}")
    if isinstance(start_timeout_seconds, bool) or not isinstance(start_timeout_seconds, (int, float)):
        raise TypeError(f"{CALL}: start_timeout_seconds must be a number of seconds; got "
                        f"{type(start_timeout_seconds).__name__}: {start_timeout_seconds!r}")
    if not 0 < start_timeout_seconds < 1e8:
        raise ValueError(f"{CALL}: start_timeout_seconds must be above 0; got {start_timeout_seconds!r}")
    return Options(int(num_workers), _check_resources(resources), int(max_failures), across_nodes,
                   float(start_timeout_seconds))


def _check_resources(resources: Any) -> dict[str, float]:
    if resources is None:
        return {"CPU": 1}
    if not isinstance(resources, Mapping) or not all(isinstance(name, str) for name in resources):
        raise TypeError(f"{CALL}: resources must be a dictionary such as {{'CPU': 1, 'GPU': 1}}; got "
                        f"{type(resources).__name__}: {resources!r}")
    for name, amount in resources.items():
        if isinstance(amount, bool) or not isinstance(amount, (int, float)):
            raise TypeError(f"{CALL}: resources[{name!r}] must be a number; got {type(amount).__name__}: {amount!r}")
        if not (amount >= 0 and math.isfinite(amount)):
            raise ValueError(f"{CALL}: resources[{name!r}] must be at least 0; got {amount!r}")
    needed = {name: amount for name, amount in resources.items() if amount}
    if not needed:
        raise ValueError(f"{CALL}: resources must ask for something, such as {{'CPU': 1}}; got {resources!r}")
    return needed


def pickle_train(cloudpickle: Any, train: Callable[[], object]) -> bytes:
    """Return the pickled function. TypeError if it is not a function or cannot be pickled."""
    if not callable(train):
        raise TypeError(f"{CALL}: train must be a function; got {type(train).__name__}: {train!r:.80}")
    try:
        return bytes(cloudpickle.dumps(train))
    except Exception as e:
        raise TypeError(f"{CALL}: train must be picklable; got {getattr(train, '__qualname__', train)!s:.80}: {e}. "
                        "Make what cannot be pickled inside of it, or in a module that the workers import") from e
