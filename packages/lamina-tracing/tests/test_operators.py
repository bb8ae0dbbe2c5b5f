"""Operators, methods and indices of arrays and traced values where no library above brought its own: as NumPy's."""
import re
import sys

import numpy as np
import pytest
from lamina_ir import errors
from lamina_tracing import jit, lax, hooks
from lamina_tracing.extend import HostArray, Tracer

PLAIN = {"x": np.float32([[1.5, -2, 3], [0.25, 5, -6]]), "v": np.float32([3, -1, 2, 7]), "i": np.int32([2, 0, 1]),
         "b": np.array([[True, False, True], [False, True, True]]), "z": np.complex64([1 + 2j, -3j]), "n": np.int32(1),
         "t": np.arange(24, dtype=np.float32).reshape(2, 3, 4)}
EVERYWHERE = """
x + x; x - 1; 2 * x; x / 2; x // 2; x % 2; x // -0.7; x % -0.7; -x; abs(x); x ** 2; x ** -1; 2 ** x; x @ x.T; v @ v
t @ v; divmod(x, 2)[0]; divmod(x, 2)[1]; 7 // x; 7 % x; divmod(7, x)[1]; i // 2; i % 2; -7 // (i + 1); -7 % (i + 1)
i ** 2; 2 ** i; i / 2; ~i; i & 1; i | 4; i ^ 3; i << 1; i >> 1; 1 >> i; x < 1; 1 < x; x == 1.5; x != x; b & b; b | b
~b; z * 2; z.conj(); z.real; z.imag; x.real; x.imag; x[0]; x[-1, 2]; x[:, 1]; x[::-1]; x[:, ::-2]; x[None]; x[..., 0]
x[..., None, :]; x[1:0]; x[:, -2:]; x[5:]; x[()]; t[0, :, 1]; t[:, None, 1]; t[:, 1:, ::3]; x[I]; x[:, I3]; x[I, I]
x[I, 0]; t[I, :, I]; t[:, I, I]; t[0, I3]; t[I[:, None], I3]; x[B]; v[V]; x[:, M]; x[None, I]; x[True]; t[..., I3]
t[I3 % 2, ..., 0]; x.sum(); x.sum(0); x.sum(axis=(0, 1), keepdims=True); x.prod(1); x.max(); x.min(0); x.mean()
x.var(axis=1, ddof=1); x.std(); x.all(); b.any(1); x.argmax(); x.argmin(1); x.cumsum(); x.cumprod(1); x.round(1)
x.clip(-1, 2); x.clip(max=1); x.T; x.mT; t.transpose(2, 0, 1); t.transpose((1, 0, 2)); t.transpose(); x.swapaxes(0, 1)
x.reshape(3, 2); x.reshape((-1,)); x.reshape(2, -1, order='F'); x.ravel(); x.flatten(); x[None].squeeze(0)
x.repeat(2, axis=1); x.take(I); x.diagonal(); x.trace(); x.dot(x.T); v.argsort(); x.copy(); x.astype('float16')
x.view('int32'); i.choose([v[:3], v[1:], v[:3]]); x.compress([True, False], axis=0); x.conjugate(); n + 1; v[n]
x[n, n]; x[:, n]; x[n]; v[i]; t[:, i]; x[n, i]; t[n, :, i]; v[i[:2]]; x[-n]; t[..., i, n]; t[None, n]
v.take(i, mode='clip'); x.take(i, axis=1)
""".replace("\n", ";")
EXPRESSIONS = [t for t in map(str.strip, EVERYWHERE.split(";")) if t]
# Methods that traced values have with lamina_numpy only; those of concrete arrays are computed by NumPy without it.
LIBRARY = re.compile(r"\.(argsort|choose|compress|cumprod|cumsum|diagonal|repeat|std|take|trace|var)\(")
CONSTANTS = {"I": np.array([1, 0]), "I3": np.array([2, 0, 1]), "B": PLAIN["b"], "V": PLAIN["v"] > 2,
             "M": np.array([True, False, True])}


@pytest.fixture(autouse=True)
def without_lamina_numpy(monkeypatch):
    monkeypatch.setattr(hooks.operators, "find_numpy_function", lambda name: None)


def ours(text, **names):
    return eval(text, {**CONSTANTS, **names})


def check(got, text):
    want = eval(text, {**CONSTANTS, **PLAIN})
    assert np.shape(got) == np.shape(want), (np.shape(got), np.shape(want))
    assert np.asarray(got).dtype.kind == np.asarray(want).dtype.kind
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-3 if np.asarray(want).dtype == np.float16 else 2e-6, atol=1e-6)


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_concrete_arrays_as_numpys(text):
    made = {name: lax.convert_element_type(x, x.dtype) for name, x in PLAIN.items()}
    if not all(isinstance(a, HostArray) for a in made.values()):
        pytest.skip("a runtime has its own arrays")
    got = ours(text, **made)
    assert isinstance(got, HostArray) and not got.flags.writeable
    check(got, text)


@pytest.mark.parametrize("text", [text for text in EXPRESSIONS if not LIBRARY.search(text)])
def test_traced_values_as_numpys(text):
    def f(given):
        got = ours(text, **given)
        assert isinstance(got, Tracer)
        return got
    check(jit(f)(PLAIN), text)


def test_what_depends_on_numbers_is_refused_by_name():
    def refused(use, words):
        with pytest.raises((errors.TracerArrayError, errors.ConcretizationError), match=words):
            jit(use)(PLAIN["v"])
    refused(lambda v: v[v > 2], r"x\[mask\].*numpy.where\(mask, x, 0\)")
    refused(lambda v: v.nonzero(), "numpy.nonzero of a traced float32")
    refused(lambda v: v.sum(out=np.zeros((), np.float32)), "out=")


@pytest.mark.parametrize("use, error, words", [
    (lambda x: x[0, 0, 0], IndexError, "too many indices"), (lambda x: x[7], IndexError, "out of bounds"),
    (lambda x: x["a"], (IndexError, TypeError), "index|indices"), (lambda x: x[1.5], (IndexError, TypeError), "index|indices"),
    (lambda x: x[np.array([0, 9])], IndexError, "out of bounds"), (lambda x: x @ x, ValueError, "matmul.*do not fit"),
    (lambda x: x.reshape(5), ValueError, "no shape"), (lambda x: x + [1], TypeError, "list"),
    (lambda x: x.sum(7), ValueError, "axis 7"),
    (lambda x: x.squeeze(0), ValueError, "length 1"), (lambda x: x.transpose(0), ValueError, "axes"),
    (lambda x: x.view("float16"), NotImplementedError, "bitcast_convert_type"),
    (lambda x: x.clip(nonsense=1), NotImplementedError, "nonsense"),
    (lambda x: x ** x[0, 0, None, None] @ x, ValueError, "do not fit")])
def test_misuse_is_explained(use, error, words):
    x = lax.neg(PLAIN["x"])
    for call in (use, jit(use)):
        with pytest.raises(error, match=words):
            call(x)


def test_at_property_error_names_lamina_numpy():
    x = lax.neg(PLAIN["x"])
    if "lamina_numpy" in sys.modules:
        pytest.skip("lamina_numpy is in this process")
    assert not hasattr(x, "at")
    with pytest.raises(AttributeError, match="lamina_numpy"):
        x.at[0].set(1)
