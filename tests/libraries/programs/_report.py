"""Helpers of the programs: time a step, and print named numbers as one line of JSON."""
from __future__ import annotations

import json
import os
import time
from typing import Any, Callable

import jax
import numpy as np

_times: dict[str, float] = {}


def run_steps(step: Callable[[Any], Any], state: Any, count: int) -> Any:
    """Apply `step` to `state` `count` times; record the time to the end of the first step, and the fastest later step."""
    later = []
    for i in range(count):
        start = time.perf_counter()
        state = jax.block_until_ready(step(state))
        if i == 0:
            _times.setdefault("first_step", time.time() - float(os.environ.get("LIBRARIES_START", time.time())))
        else:
            later.append(time.perf_counter() - start)
    if later:
        _times.setdefault("step", min(later))
    return state


def show(**numbers: Any) -> None:
    """Print the numbers (arrays: their first 16 values) and the recorded times."""
    values = {name: np.asarray(value).astype(float).ravel()[:16].tolist() for name, value in numbers.items()}
    print(json.dumps({"numbers": values, "times": _times}))
