"""Methods, operators and properties of arrays and traced values equal the functions."""
from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from lamina_ir.testing import assert_close
from lamina_tracing import jit

import lamina_numpy as lnp

RNG = np.random.default_rng(5)
F, G = RNG.normal(size=(3, 4)).astype(np.float32), (RNG.uniform(0.5, 2, size=(3, 4))).astype(np.float32)
I, J = RNG.integers(1, 9, (3, 4)).astype(np.int32), RNG.integers(1, 5, (3, 4)).astype(np.int32)

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


def both(f: Any, *args: Any) -> list[Any]:
    """Return the results on arrays and on traced values."""
    arrays = [lnp.asarray(a) for a in args]
    return [f(*arrays), jit(f)(*arrays)]


@pytest.mark.parametrize("op", [*ARITHMETIC, *COMPARISONS, operator.pow], ids=lambda op: op.__name__)
def test_operators_of_floats(op: Any) -> None:
    for got in both(op, G, G[::-1].copy()):
        assert_close(got, op(G, G[::-1]), slack=4)
    for number in (2, 1.5):
        for a, b in zip(both(lambda x, n=number: op(x, n), G), [op(G, np.float32(number))] * 2):
            assert_close(a, b, slack=4)
        for a, b in zip(both(lambda x, n=number: op(n, x), G), [op(np.float32(number), G)] * 2):
            assert_close(a, b, slack=4)
    for got in both(lambda x: op(x, G), I):  # with a NumPy array on either side
        assert np.asarray(got).shape == (3, 4)
    for got in both(lambda x: op(G, x), G):
        assert_close(got, op(G, G), slack=4)


@pytest.mark.parametrize("op", [*BITS, *ARITHMETIC], ids=lambda op: op.__name__)
def test_operators_of_integers(op: Any) -> None:
    for got in both(op, I, J):
        want = op(I, J)
        assert_close(got, want.astype(np.float32) if want.dtype == np.float64 else want, slack=4)
    for got in both(lambda x: op(7, x), J):
        want = op(np.int32(7), J)
        assert_close(got, want.astype(np.float32) if want.dtype == np.float64 else want, slack=4)


def test_unary_operators_and_products() -> None:
    for op, x in ((operator.neg, F), (operator.pos, F), (abs, F), (operator.invert, I)):
        for got in both(op, x):
            assert_close(got, op(x))
    for got in both(operator.matmul, F, G.T.copy()):
        assert_close(got, F @ G.T, slack=4)
    for got in both(lambda x: divmod(x, 3), I):
        for a, b in zip(got, divmod(I, 3), strict=True):
            assert_close(a, b)


METHODS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("sum", (), {}), ("sum", (1,), {}), ("mean", (), {"axis": 0}), ("max", (1,), {}), ("min", (), {"keepdims": True}),
    ("prod", (0,), {}), ("std", (), {}), ("var", (1,), {}), ("argmax", (), {}), ("argmin", (1,), {}), ("any", (), {}),
    ("all", (0,), {}), ("cumsum", (1,), {}), ("cumprod", (0,), {}), ("reshape", (4, 3), {}), ("reshape", ((2, -1),), {}),
    ("ravel", (), {}), ("flatten", (), {}), ("transpose", (), {}), ("transpose", (1, 0), {}), ("swapaxes", (0, 1), {}),
    ("squeeze", (), {}), ("astype", (np.int32,), {}), ("round", (1,), {}), ("clip", (-0.5, 0.5), {}), ("repeat", (2, 1), {}),
    ("take", (np.array([2, 0]),), {"axis": 0}), ("diagonal", (), {}), ("trace", (), {}), ("argsort", (), {"axis": 0}),
    ("dot", (G.T.copy(),), {}), ("conj", (), {}), ("ptp", (), {}), ("copy", (), {})]


@pytest.mark.parametrize("name, args, options", METHODS, ids=[f"{n}{len(a)}{sorted(o)}" for n, a, o in METHODS])
def test_methods_equal_numpy(name: str, args: Any, options: Any) -> None:
    want = np.asarray(np.ptp(F) if name == "ptp" else getattr(F, name)(*args, **options))
    for got in both(lambda x: getattr(x, name)(*args, **options), F):
        assert isinstance(got, lnp.ndarray)
        assert_close(got, want.astype(np.int32) if want.dtype == np.int64 else want, slack=4)


def test_sort_returns_sorted_copy() -> None:
    for got in both(lambda x: x.sort(axis=1), F):
        assert_close(got, np.sort(F, 1))


def test_properties_equal_numpy() -> None:
    for got, want in ((lambda x: x.T, F.T), (lambda x: x.mT, F.T), (lambda x: x.real, F), (lambda x: x.imag, 0 * F)):
        for found in both(got, F):
            assert_close(found, want)
    shapes = []
    jit(lambda x: shapes.append((x.shape, x.ndim, x.size, x.dtype, len(x))) or x)(F)
    x = lnp.asarray(F)
    assert shapes == [((3, 4), 2, 12, F.dtype, 3)] == [(x.shape, x.ndim, x.size, x.dtype, len(x))]


def test_iteration_and_unpacking() -> None:
    for got in both(lambda x: [row * 2 for row in x], F):
        assert_close(np.stack([np.asarray(r) for r in got]), 2 * F)
    a, b, c = lnp.asarray(F)
    assert_close(b, F[1])
    assert F[1, 2] in lnp.asarray(F)


def test_operators_defer_to_other_classes() -> None:
    class Other:
        def __radd__(self, x: Any) -> str:
            return "mine"

        def __mul__(self, x: Any) -> str:
            return "mine too"

    assert lnp.ones(3) + Other() == "mine" and Other() * lnp.ones(3) == "mine too"  # type: ignore[operator]
    for bad in ("text", None, [1, 2, 3]):
        with pytest.raises(TypeError):
            lnp.ones(3) + bad
