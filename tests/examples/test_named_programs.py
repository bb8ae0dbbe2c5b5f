"""Programs of named axes: the losses and answers are the same wherever the axes go."""
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


def picked(module, sample):
    return {name: module.WAYS[name] for name in (module.WAYS if WIDE else sample)}


def in_all_ways(module, sample, steps):
    """The losses, which are the same in all ways, and the parameters of each way."""
    first, *others = [module.train(way, steps=steps) for way in picked(module, sample).values()]
    for losses, params in others:
        assert losses == pytest.approx(first[0], rel=1e-4)
        for a, b in zip(lamina.tree.leaves(params), lamina.tree.leaves(first[1])):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-3, atol=2e-4)
    return first[0], [params for _, params in (first, *others)]


def test_named_mlp():
    pytest.importorskip("sklearn")
    losses, params = in_all_ways(load("named_mlp"), ["pure vmap", "data and model", "serial and model"], 9)
    assert losses[8] < 1.4 < 2.2 < losses[0]
    assert [p["w"].addressable_shards[0].data.shape for p in params[::len(params) - 1]] == [(64, 64), (64, 8)]


def test_named_transformer():
    losses, _ = in_all_ways(load("named_transformer"), ["pure vmap", "data and model"], 17)
    assert losses[16] < 1.0 < 2.5 < losses[0]


def test_neighbours():
    pytest.importorskip("sklearn")
    module = load("neighbours")
    found = [np.asarray(module.main(way)[0]) for way in picked(module, ["pure vmap", "rows and queries over devices"]).values()]
    right = module.main({})[1]
    assert (found[0] == right).mean() > 0.95
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
