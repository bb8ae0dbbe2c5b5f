"""These tests see eight virtual CPU devices."""
from __future__ import annotations

import gc
from collections.abc import Iterator

import lamina
import pytest

lamina.config.update("num_cpu_devices", 8)


@pytest.fixture
def small_heap() -> Iterator[None]:
    """Keep the objects that exist already out of garbage collection. It is faster then; checks for leaks collect often."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
