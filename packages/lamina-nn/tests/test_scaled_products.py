"""Products of arrays in blocks with a common scale."""
import lamina_nn as nn
import ml_dtypes
import numpy as np
import pytest
from lamina_autodiff import grad
from lamina_batching import vmap
from lamina_ir import ShapeError
from lamina_tracing import jit

RNG = np.random.default_rng(0)
NUMBERS = (((2,), (2,)), ((0,), (0,)))
CONFIGS = {"mxfp8": [nn.get_scaled_dot_general_config("mxfp8")] * 3, "nvfp4": [nn.get_scaled_dot_general_config("nvfp4")] * 3,
           "nvfp4 with a factor": [nn.get_scaled_dot_general_config("nvfp4", np.float32([0.5]))] * 3}
ERRORS = {"mxfp8": 0.04, "nvfp4": 0.12, "nvfp4 with a factor": 0.12}  # of an element, relative to the largest of its block


def floats(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def test_products_of_scaled_blocks():
    x, y, s, t = floats(2, 3, 8), floats(2, 5, 8), np.abs(floats(2, 3, 2)), np.abs(floats(2, 5, 4))
    want = (x * np.repeat(s, 4, 2)) @ np.swapaxes(y * np.repeat(t, 2, 2), 1, 2)
    np.testing.assert_allclose(nn.scaled_matmul(x, y, s, t), want, 1e-5, 1e-5)
    narrow = nn.scaled_matmul(x.astype(ml_dtypes.float8_e4m3fn), y.astype(ml_dtypes.float8_e4m3fn),
                              np.ones((2, 3, 1), ml_dtypes.float8_e8m0fnu), np.ones((2, 5, 1), ml_dtypes.float8_e8m0fnu))
    np.testing.assert_allclose(narrow, x @ np.swapaxes(y, 1, 2), 0.3, 0.6)
    assert nn.scaled_matmul(x, y, s, t, ml_dtypes.bfloat16).dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("name", CONFIGS)
def test_rounded_products_are_close(name):
    x, y = floats(2, 8, 64), floats(2, 16, 64)
    got = np.asarray(nn.scaled_dot_general(x, y, NUMBERS, configs=CONFIGS[name]))
    want = x @ np.swapaxes(y, 1, 2)
    assert got.dtype == np.float32 and 0 < np.abs(got - want).mean() < ERRORS[name] * np.sqrt(64)
    np.testing.assert_allclose(jit(lambda x: nn.scaled_dot_general(x, y, NUMBERS, configs=CONFIGS[name]))(x), got, 1e-5, 1e-5)
    mapped = vmap(lambda x, y: nn.scaled_dot_general(x, y, (((1,), (1,)), ((), ())), configs=CONFIGS[name]))(x, y)
    np.testing.assert_allclose(mapped, got, 1e-5, 1e-5)


@pytest.mark.parametrize("name", CONFIGS)
def test_derivatives_of_rounded_products_are_close(name):
    x, y, ct = floats(2, 8, 64), floats(2, 16, 64), floats(2, 8, 16)
    got = grad(lambda x, y: (nn.scaled_dot_general(x, y, NUMBERS, configs=CONFIGS[name]) * ct).sum(), (0, 1))(x, y)
    for a, b in zip(got, (ct @ y, np.swapaxes(ct, 1, 2) @ x)):
        assert np.abs(np.asarray(a) - b).mean() < 2 * ERRORS[name] * np.abs(b).mean()


def test_numbers_of_the_format_are_exact():
    """Multiples of a power of 2 with few bits, in any arrangement of the axes."""
    x = RNG.integers(-3, 4, (32, 4, 2)).astype(np.float32) * 2.0 ** -20
    y = RNG.integers(-3, 4, (5, 2, 32)).astype(np.float32)
    got = nn.scaled_dot_general(x, y, (((0,), (2,)), ((2,), (1,))), configs=CONFIGS["mxfp8"])
    np.testing.assert_array_equal(got, np.einsum("kmb,nbk->bmn", x, y))
    np.testing.assert_array_equal(nn.scaled_dot_general(x, y, (((0,), (2,)), ((2,), (1,)))), got)


def test_blocks_of_zeros_and_short_blocks():
    for configs in CONFIGS.values():
        zero = nn.scaled_dot_general(np.zeros((1, 2, 64)), np.zeros((1, 2, 64)), NUMBERS, configs=configs)
        np.testing.assert_array_equal(zero, np.zeros((1, 2, 2)))
        one = nn.scaled_dot_general(np.ones((1, 2, 33)), np.ones((1, 2, 33)), NUMBERS, configs=configs)
        np.testing.assert_allclose(one, np.full((1, 2, 2), 33), 0.1)


@pytest.mark.parametrize("call, error, words", [
    (lambda: nn.get_scaled_dot_general_config("int8"), ValueError, 'mode must be "mxfp8" or "nvfp4"; got .int8.'),
    (lambda: nn.get_scaled_dot_general_config("mxfp8", 1.0), ValueError, "global_scale must be None"),
    (lambda: nn.scaled_dot_general(floats(1, 2, 3), floats(1, 2, 3), NUMBERS, configs=[1]), TypeError, "three configurations"),
    (lambda: nn.scaled_dot_general(floats(1, 2, 3), floats(1, 2, 4), NUMBERS, configs=CONFIGS["mxfp8"]), ShapeError,
     "contracted axes must have equal length"),
    (lambda: nn.scaled_matmul(floats(1, 2, 4), floats(1, 2, 4), floats(1, 2, 3), floats(1, 2, 1)), ShapeError,
     "scaled_matmul: expected lhs")])
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call()
