"""The exact calculus of collectives: each, under `vmap` and `pmap` in any order, is the matrix that the page says, and so is
its transpose. Quick: a sample. `LAMINA_LAWS=20` and more: all of it, on NumPy."""
from __future__ import annotations

import os
import zlib

import lamina_runtime  # noqa: F401  (compiles, where the other law does not)
import pytest
from collective_cases import CASES, check, mappings
from lamina_tracing import hooks

FULL = int(os.environ.get("LAMINA_LAWS", "3")) >= 20
DEVICES = 8


def sample(case, one_in, devices=None):
    """Every so-many-th mapping, other ones for each case; all under `LAMINA_LAWS=20`."""
    found = [m for m in mappings(case) if devices is None or m.devices() <= devices]
    seed = zlib.crc32(case.name.encode())
    return [m for i, m in enumerate(found) if (i * 2654435761 + seed) % one_in == 0]


@pytest.fixture
def no_runtime():
    evaluator, dispatcher = hooks.evaluator, hooks.dispatcher
    hooks.use_numpy()
    yield
    hooks.set_evaluator(evaluator)
    hooks.set_dispatcher(dispatcher)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_exact_calculus_on_numpy(case, no_runtime):
    for where in sample(case, 1 if FULL else 97):
        check(case, where)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_exact_calculus_compiled(case):
    for where in sample(case, 10 if FULL else 2999, DEVICES):
        check(case, where)
