"""Settings for all tests: examples in docstrings may use `np`; `--one-of N` runs a sample.

A sample contains all tests marked `oldest_jaxlib`, which the run of all tests on the newest jaxlib skips.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--one-of", type=int, default=1, metavar="N", help="run only every N-th test")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    every = config.getoption("--one-of")
    if every > 1:
        kept = [not i % every or item.get_closest_marker("oldest_jaxlib") is not None for i, item in enumerate(items)]
        config.hook.pytest_deselected(items=[item for item, k in zip(items, kept) if not k])
        items[:] = [item for item, k in zip(items, kept) if k]


@pytest.fixture(autouse=True)
def numpy_for_examples(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace["np"] = np
