"""Every collective, under `vmap` and `pmap` in any order, is the matrix of the documentation, and so is its transpose.
By default a sample of the cases; with `LAMINA_LAWS=20` or more all of them, on NumPy."""
from __future__ import annotations

import os
import zlib

import lamina_runtime  # noqa: F401  (compiles, unlike the test on NumPy)
import pytest
from collective_cases import CASES, check, mappings
from lamina_tracing import hooks

FULL = int(os.environ.get("LAMINA_LAWS", "3")) >= 20
DEVICES = 8


def sample(case, one_in, devices=None):
    """Return every `one_in`-th mapping, different ones for each case; all under `LAMINA_LAWS=20`."""
    found = [m for m in mappings(case) if devices is None or m.devices() <= devices]
    seed = zlib.crc32(case.name.encode())
    return [m for i, m in enumerate(found) if (i * 2654435761 + seed) % one_in == 0]


@pytest.fixture
def without_runtime():
    """Use the NumPy evaluator and dispatcher instead of the runtime."""
    evaluator, dispatcher = hooks.evaluator, hooks.dispatcher
    hooks.use_numpy()
    yield
    hooks.set_evaluator(evaluator)
    hooks.set_dispatcher(dispatcher)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_collective_matrix_on_numpy(case, without_runtime):
    for where in sample(case, 1 if FULL else 97):
        check(case, where)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_collective_matrix_compiled(case):
    for where in sample(case, 10 if FULL else 2999, DEVICES):
        check(case, where)
