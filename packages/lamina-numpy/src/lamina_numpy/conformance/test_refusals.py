"""Wrong values raise ValueError, wrong types raise TypeError, and both name the function."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lamina_tracing import jit

import lamina_numpy as lnp

X = np.ones((2, 3), np.float32)

VALUES: dict[str, Any] = {
    "add": lambda: lnp.add(X, np.ones(4, np.float32)), "reshape": lambda: lnp.reshape(X, (4,)),
    "sum": lambda: lnp.sum(X, axis=2),
    "concatenate": lambda: lnp.concatenate([X, X[:, :2]]), "stack": lambda: lnp.stack([X, X[0]]),
    "matmul": lambda: lnp.matmul(X, X),
    "dot": lambda: lnp.dot(X, X), "transpose": lambda: lnp.transpose(X, (0, 0)), "squeeze": lambda: lnp.squeeze(X, 0),
    "broadcast_to": lambda: lnp.broadcast_to(X, (3, 3)), "split": lambda: lnp.split(X, 2, axis=1),
    "einsum": lambda: lnp.einsum("ij,jk", X, X),
    "max": lambda: lnp.max(np.zeros((0,), np.float32)), "expand_dims": lambda: lnp.expand_dims(X, 9),
    "swapaxes": lambda: lnp.swapaxes(X, 0, 5), "pad": lambda: lnp.pad(X, 1, mode="nothing"),
    "moveaxis": lambda: lnp.moveaxis(X, 0, 4),
}
KINDS: dict[str, Any] = {
    "sin": lambda: lnp.sin("a"), "add": lambda: lnp.add(X, "a"), "sum": lambda: lnp.sum([1, 2]),
    "zeros": lambda: lnp.zeros("a"),
    "bitwise_and": lambda: lnp.bitwise_and(X, X), "left_shift": lambda: lnp.left_shift(X, 1),
    "array": lambda: lnp.array(["a"]),
    "concatenate": lambda: lnp.concatenate(3), "where": lambda: lnp.where(X > 0, "a", X), "arange": lambda: lnp.arange("a"),
    "astype": lambda: lnp.asarray(X).astype("nothing"), "mean": lambda: lnp.mean("a"),
}


@pytest.mark.parametrize("name", VALUES)
def test_wrong_values_raise_value_error(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        VALUES[name]()


@pytest.mark.parametrize("name", KINDS)
def test_wrong_types_raise_type_error(name: str) -> None:
    with pytest.raises(TypeError):
        KINDS[name]()


@pytest.mark.parametrize("use", [
    lambda x: bool(x > 0), lambda x: float(x), lambda x: np.asarray(x), lambda x: range(x.astype(int)),
    lambda x: lnp.arange(x)],
    ids=["bool", "float", "numpy", "index", "arange"])
def test_traced_value_cannot_convert_to_number(use: Any) -> None:
    with pytest.raises(TypeError):
        jit(use)(np.float32(2))
