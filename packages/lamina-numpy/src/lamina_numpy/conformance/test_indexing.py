"""Indexing equals NumPy's; `at` returns changed copies; out-of-bounds indices."""
from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from lamina_ir.testing import assert_close
from lamina_tracing import jit

import lamina_numpy as lnp

HOST = np.arange(60, dtype=np.float32).reshape(3, 4, 5) / 4
ATOMS = {"0": 0, "-1": -1, "np": np.int64(1), ":": slice(None), "1:3": slice(1, 3), "::-1": slice(None, None, -1),
         "3:0:-2": slice(3, 0, -2), "0:0": slice(0, 0), "9:": slice(9, None), "None": None, "...": Ellipsis,
         "ints": np.array([0, 2]), "pairs": np.array([[2], [0]]), "rows": np.array([True, False, True]), "True": True}


def indices() -> dict[str, Any]:
    """Return every single index, every pair and some triples that NumPy accepts."""
    rng, found = np.random.default_rng(11), {}
    chosen = [(n,) for n in ATOMS] + list(itertools.product(ATOMS, repeat=2))
    chosen += [tuple(rng.choice(list(ATOMS), 3)) for _ in range(60)]
    for names in chosen:
        index = tuple(ATOMS[n] for n in names)
        try:
            HOST[index]
        except (IndexError, ValueError):
            continue
        found[",".join(names)] = index if len(index) > 1 else index[0]
    return found


INDICES = indices()
FEW = dict(list(INDICES.items())[::5])


def test_indexing_equals_numpy() -> None:
    x = lnp.asarray(HOST)
    for name, index in INDICES.items():
        assert_close(x[index], HOST[index], what=name)


def test_traced_indexing_equals_numpy() -> None:
    for name, index in FEW.items():
        assert_close(jit(lambda x, index=index: x[index])(HOST), HOST[index], what=name)
    k = jit(lambda x, k: x[k, ::2, k + 1])
    assert_close(k(HOST, 1), HOST[1, ::2, 2])


IN_PLACE = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "min": np.minimum,
            "max": np.maximum, "power": np.power}


@pytest.mark.parametrize("op", ["set", *IN_PLACE])
def test_at_returns_changed_copy(op: str) -> None:
    rng, x = np.random.default_rng(4), lnp.asarray(HOST)
    for name, index in FEW.items():
        for values in (rng.uniform(0.5, 1.5, size=HOST[index].shape).astype(np.float32), np.float32(1.25)):
            want = HOST.copy()
            if op == "set":
                want[index] = values
            else:
                IN_PLACE[op].at(want, index, values)
            assert_close(getattr(x.at[index], op)(values), want, what=name)
    assert_close(x, HOST)


def test_duplicate_indices_accumulate() -> None:
    twice = np.array([0, 0, 2])
    for f in (lambda x: x.at[twice].add(1.0), jit(lambda x: x.at[twice].add(1.0))):
        assert f(lnp.zeros(3)).tolist() == [2, 0, 1]
    assert lnp.ones(3).at[twice].multiply(3.0).tolist() == [9, 1, 3]
    assert lnp.arange(3.0).at[1:].apply(lnp.square).tolist() == [0, 1, 4]


def test_out_of_bounds_indices() -> None:
    x = lnp.arange(4.0)
    far = np.array([1, 9])
    for read in (lambda x: x[far], jit(lambda x: x[far])):
        assert read(x).tolist() == [1, 3]
    assert jit(lambda x, k: x[k])(x, 100) == 3
    for write in (lambda x: x.at[far].set(7.0), jit(lambda x: x.at[far].add(6.0))):
        assert write(x).tolist() == [0, 7, 2, 3]
    assert x.at[far].get(mode="fill", fill_value=-1).tolist() == [1, -1]
    assert x.at[far].set(7.0, mode="clip").tolist() == [0, 7, 2, 7]
    assert x[np.array([-1, -4])].tolist() == [3, 0]


def test_boolean_masks_eager_and_traced() -> None:
    x = lnp.asarray(HOST[0])
    assert_close(x[HOST[0] > 2], HOST[0][HOST[0] > 2])
    assert_close(jit(lambda x: x.at[x > 2].set(0.0))(x), np.where(HOST[0] > 2, 0, HOST[0]))
    with pytest.raises((TypeError, IndexError)):
        jit(lambda x: x[x > 2])(x)


@pytest.mark.parametrize("index, kind", [
    ("a", (TypeError, IndexError)), (1.5, (TypeError, IndexError)), ((0, 0, 0, 0), IndexError),
    ((Ellipsis, Ellipsis), IndexError), (np.ones(2, bool), IndexError)], ids=str)
def test_invalid_indices_are_rejected(index: Any, kind: Any) -> None:
    with pytest.raises(kind):
        lnp.asarray(HOST)[index]


def test_item_assignment_is_rejected() -> None:
    with pytest.raises(TypeError, match="at"):
        lnp.zeros(3)[0] = 1.0
