"""Programs of named axes have the same losses and results for all axis resources."""
from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

import lamina

HERE = Path(__file__).resolve().parents[2] / "examples"
WIDE = os.environ.get("LAMINA_WIDE")


def load(name):
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def select(module, sample):
    return {name: module.WAYS[name] for name in (module.WAYS if WIDE else sample)}


def train_all(module, sample, steps):
    """Train with several axis resources, compare the losses, and return them with the parameters of each."""
    first, *others = [module.train(way, steps=steps) for way in select(module, sample).values()]
    for losses, params in others:
        assert losses == pytest.approx(first[0], rel=1e-4)
        for a, b in zip(lamina.tree.leaves(params), lamina.tree.leaves(first[1])):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-3, atol=2e-4)
    return first[0], [params for _, params in (first, *others)]


def test_named_mlp_does_not_depend_on_resources():
    pytest.importorskip("sklearn")
    losses, params = train_all(load("named_mlp"), ["pure vmap", "data and model", "serial and model"], 9)
    assert losses[8] < 1.4 < 2.2 < losses[0]
    assert [p["w"].addressable_shards[0].data.shape for p in params[::len(params) - 1]] == [(64, 64), (64, 8)]


def test_named_transformer_does_not_depend_on_resources():
    losses, _ = train_all(load("named_transformer"), ["pure vmap", "data and model"], 17)
    assert losses[16] < 1.0 < 2.5 < losses[0]


def test_nearest_neighbours_do_not_depend_on_resources():
    pytest.importorskip("sklearn")
    module = load("neighbours")
    found = [np.asarray(module.main(way)[0]) for way in select(module, ["pure vmap", "rows and queries over devices"]).values()]
    right = module.main({})[1]
    assert (found[0] == right).mean() > 0.95
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
