"""Operations that elementwise primitives lower to; values are checked in test_every_op.py."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import prims, shaped
from lamina_lowering import lower
from lamina_lowering.testing import check_lowering, single_eqn_program, run_lowered

F32 = np.dtype("float32")
V, S = shaped((3,), F32), shaped((), F32)


def text(prim, *avals, **params):
    return lower(single_eqn_program(prim, avals, params)).as_text()


@pytest.mark.parametrize(("y", "products"), [(1, 0), (2, 1), (3, 2), (7, 4), (8, 3), (-2, 1)])
def test_integer_powers_use_repeated_squaring(y, products):
    found = text(prims.integer_pow_p, V, y=y)
    assert found.count("stablehlo.multiply") == products and found.count("stablehlo.divide") == (y < 0)


def test_rank_0_operands_are_broadcast():
    assert text(prims.add_p, V, S).count("stablehlo.broadcast_in_dim") == 1
    assert text(prims.add_p, V, V).count("stablehlo.broadcast_in_dim") == 0


def test_comparison_type_of_floats_and_unsigned_integers():
    assert "FLOAT" in text(prims.lt_p, V, V) and "TOTALORDER" not in text(prims.lt_p, V, V)
    unsigned = shaped((3,), np.dtype("uint32"))
    assert "UNSIGNED" in text(prims.lt_p, unsigned, unsigned)


def test_maximum_of_complex_numbers_is_lexicographic():
    x = np.array([1 + 2j, 1 + 3j, 0 + 9j], np.complex64)
    check_lowering(prims.max_p, (x, x[::-1].copy()), {})
    check_lowering(prims.min_p, (x, x[::-1].copy()), {})


def test_threefry_rounds_are_unrolled():
    u = shaped((8,), np.dtype("uint32"))
    found = text(prims.threefry2x32_p, *[shaped((), np.dtype("uint32"))] * 2, u, u)
    assert found.count("stablehlo.shift_left") == 20 and "while" not in found


def test_scaled_bessel_is_accurate():
    x = np.array([2.0 ** -10, 7.875, 9.5])
    got, = run_lowered(lower(single_eqn_program(prims.bessel_i0e_p, [shaped((3,), x.dtype)], {})), x)
    np.testing.assert_allclose(got, [0.99902415236785197, 0.14460728463168581, 0.13125126081426789], rtol=1e-15)


@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 4e-6), ("float64", 1e-13)])
def test_zeta_of_large_orders_is_its_first_term(dtype, rtol):
    s, q = np.array([200, 300, 3000, 1e5, 1e5, 1e5], dtype), np.array([1.2, 1.2, 1, 1, 0.5, 2], dtype)
    got, = run_lowered(lower(single_eqn_program(prims.zeta_p, [shaped((6,), s.dtype)] * 2, {})), s, q)
    base = float(q[0])
    np.testing.assert_allclose(got, [base ** -200, base ** -300, 1, 1, np.inf, 0], rtol=rtol)
