"""`fwd_and_bwd`, and zero tangents of values."""
import numpy as np
import pytest
from lamina_autodiff import SymbolicZero, fwd_and_bwd, vjp, zero_from_primal
from lamina_ir import dtypes, trees
from lamina_tracing import jit, lax

X, Y = np.float32([1, 2, 3]), {"k": np.float32([0.5, 1.5, 2.5])}


def product(x, y, scale=1.0):
    return {"out": lax.mul(lax.mul(x, lax.sin(y["k"])), scale)}


@pytest.mark.parametrize("jitted", [True, False])
@pytest.mark.parametrize("argnums", [0, 1, -1, (0, 1), [1, 0]])
def test_both_passes_agree_with_vjp(argnums, jitted):
    fwd, bwd = fwd_and_bwd(product, argnums, jitted=jitted)
    out, residuals = fwd(X, Y, scale=2.0)
    expected, pull = vjp(lambda x, y: product(x, y, 2.0), X, Y)
    each = pull({"out": X})
    ct = bwd(residuals, {"out": X})
    wanted = each[argnums] if isinstance(argnums, int) else tuple([each[i] for i in argnums])
    assert trees.tree_structure(ct) == trees.tree_structure(wanted)
    for a, b in zip(trees.tree_leaves((out, ct)), trees.tree_leaves((expected, wanted)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_auxiliary_data_comes_last():
    fwd, bwd = fwd_and_bwd(lambda x: (lax.mul(x, x), {"twice": lax.add(x, x)}), 0, has_aux=True)
    out, residuals, aux = fwd(X)
    np.testing.assert_array_equal(aux["twice"], 2 * X)
    np.testing.assert_array_equal(bwd(residuals, X), 2 * X * X)


def test_function_is_traced_once():
    calls = []

    def f(x):
        calls.append(x)
        return lax.sin(x)

    fwd, bwd = fwd_and_bwd(f, 0)
    for _ in range(3):
        bwd(fwd(X)[1], X)
    assert len(calls) == 1


def test_residuals_pass_through_other_programs():
    fwd, bwd = fwd_and_bwd(lax.sin, 0)
    np.testing.assert_allclose(jit(lambda r, ct: bwd(r, ct))(jit(lambda x: fwd(x))(X)[1], X), np.cos(X) * X, rtol=1e-6)


@pytest.mark.parametrize("call, error, message", [
    (lambda: fwd_and_bwd(3, 0), TypeError, "fwd_and_bwd: expected a function; got int"),
    (lambda: fwd_and_bwd(product, "x")[0](X, Y), TypeError, "fwd_and_bwd: argnums expects an int or a sequence of ints"),
    (lambda: fwd_and_bwd(product, 2)[0](X, Y), ValueError, "fwd_and_bwd: argnums 2 is out of range"),
    (lambda: fwd_and_bwd(product, 0)[1](X, Y), TypeError, "bwd: residuals must be the second result of fwd; got "),
    (lambda: zero_from_primal("x"), TypeError, "zero_from_primal: val: expected an array or a number; got str")])
def test_mistakes_are_explained(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_zero_tangents_of_trees():
    zeros = zero_from_primal({"a": X, "b": (1, 2.0)}, symbolic_zeros=True)
    assert trees.tree_structure(zeros) == trees.tree_structure({"a": 0, "b": (0, 0)})
    assert zeros["a"].shape == (3,) and [z.dtype for z in zeros["b"]] == [dtypes.float0, np.float32]


def test_zero_tangents_of_values():
    zero = zero_from_primal(X)
    assert zero.dtype == np.float32 and not np.any(zero) and zero.shape == (3,)
    assert zero_from_primal(np.int32([1, 2])).dtype == dtypes.float0 and zero_from_primal(True).shape == ()
    symbolic = zero_from_primal(X, symbolic_zeros=True)
    assert isinstance(symbolic, SymbolicZero) and symbolic.shape == (3,) and symbolic.dtype == np.float32
    np.testing.assert_array_equal(jit(lambda x: zero_from_primal(x))(X), np.zeros(3))
