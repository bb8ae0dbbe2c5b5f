"""Narrowing of 64-bit NumPy data without a runtime: one warning, at the user's line."""
import subprocess
import sys
import warnings

import numpy as np
import pytest
from lamina_ir import aval_of
from lamina_tracing import enable_x64, eval_shape, jit, lax, make_jaxpr, hooks
from lamina_tracing._diagnostics.x64_warning import reset_narrowing_warnings, enable_x64_narrowing_warning

MESSAGE = "computed with in 32 bits, as {}.*enable_x64.*astype.*shown once"


@pytest.fixture(autouse=True)
def fresh_warnings():
    """Reset the narrowing warnings and enable them during the test."""
    reset_narrowing_warnings()
    enable_x64_narrowing_warning(True)
    yield
    enable_x64_narrowing_warning(isinstance(hooks.evaluator, hooks.NumPyEvaluator))


@pytest.mark.parametrize("call", [
    lambda x: jit(lambda v: v)(x), lambda x: make_jaxpr(lambda v: v)(x), lambda x: eval_shape(lambda v: v, x), lax.neg,
    lambda x: lax.neg(np.float32([1, 2])) * x, lambda x: jit(lambda v: v * x)(np.float32(1)),
    lambda x: jit(lambda v: np.add(v, x))(np.float32(1))])
@pytest.mark.parametrize("wide, narrow", [("float64", "float32"), ("complex128", "complex64")])
def test_narrowing_warns_once_at_line_of_user(call, wide, narrow):
    x = np.array([1, 2], wide)
    with pytest.warns(UserWarning, match=f"{wide} data of NumPy's are " + MESSAGE.format(narrow)) as seen:
        call(x)
    assert len(seen) == 1 and seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(x)


def test_numpy_scalar_warns_as_argument_but_not_with_an_array():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = lax.neg(np.float32([1, 2])) * np.float64(2)
    assert out.dtype == np.float32
    with pytest.warns(UserWarning, match="float64 numbers of NumPy's"):
        jit(lambda x: x)(np.float64(2))


def test_integers_warn_only_if_they_wrap_around():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jit(lambda x: x)(np.array([1, -2**31, 2**31 - 1]))
        jit(lambda x: x)(np.zeros(0, np.int64))
    with pytest.warns(UserWarning, match="int64 data of NumPy's do not all fit into int32, and wrap around"):
        jit(lambda x: x)(np.array([1, 2**31]))
    with pytest.warns(UserWarning, match="uint64 data"):
        jit(lambda x: x)(np.array([2**40], np.uint64))


@pytest.mark.parametrize("x", [2.0, 3, 1j, [1.0, 2.0][0], np.float32([1]), np.ones(2, np.int32), np.arange(3), True])
def test_lossless_conversions_do_not_warn(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jit(lambda v: (v, lax.neg(np.float32(2)) * 2.5))(x)


def test_enable_x64_keeps_64_bits_without_warning():
    with enable_x64(), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jit(lambda x: x / 3)(np.array([1.0])).dtype == np.float64


def test_other_evaluator_disables_warning():
    before = hooks.evaluator
    try:
        hooks.set_evaluator(OtherEvaluator())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert aval_of(np.zeros(2)).dtype == np.float32
    finally:
        hooks.set_evaluator(before)


class OtherEvaluator:
    def primitive(self, prim, args, params): ...
    def program(self, closed, args): ...
    def array(self, value, aval): ...


def test_new_process_warns_once():
    if not isinstance(hooks.evaluator, hooks.NumPyEvaluator):
        pytest.skip("a runtime is in this process")
    text = "import numpy as np\nfrom lamina_tracing import jit\nf = jit(lambda x: x)\nfor _ in range(3): f(np.ones(2))"
    stderr = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stderr
    assert stderr.count("UserWarning") == 1 and "enable_x64" in stderr


def test_arrays_of_other_byte_order_are_not_narrowed():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lax.neg(np.array([1, 2], np.dtype("float32").newbyteorder())).tolist() == [-1, -2]
