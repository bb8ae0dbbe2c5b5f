"""Fixtures that several test files use."""
from __future__ import annotations

from collections.abc import Iterator

import pytest
from lamina_ir import config


@pytest.fixture
def x64() -> Iterator[None]:
    """Run the test in 64-bit mode."""
    with config.enable_x64(True):
        yield
