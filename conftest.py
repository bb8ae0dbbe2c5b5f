"""For every test in the house: examples in docstrings may use `np`."""
from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def numpy_for_examples(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace["np"] = np
