"""What every array answers, whichever class it is of: the same expressions are tried on arrays with a runtime and without one.

`checks()` returns functions without arguments that raise AssertionError if an array behaves differently. An alternative
implementation of the runtime is tested with them too.
"""
from __future__ import annotations

import copy
import operator
import pickle
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from lamina_tracing import Array

from . import asarray, zeros

__all__ = ["checks"]

_PLAIN: dict[str, Any] = {
    "x": np.array([[1.5, -2, 3], [0.25, 5, -6]], np.float32), "v": np.array([3, -1, 2, 7], np.float32),
    "i": np.array([2, 0, 1], np.int32), "u": np.array([1, 200], np.uint8), "s": np.float32(2.5),
    "b": np.array([[True, False, True], [False, True, True]]), "z": np.array([1 + 2j, -3j], np.complex64),
    "n": np.int32(2), "e": np.zeros((0, 3), np.float32), "t": np.arange(24, dtype=np.float32).reshape(2, 3, 4), "w": 1.5}

# What NumPy's arrays give for the same expression: in an array of ours where NumPy's is one, else the same Python object.
_AS_NUMPY = """
x + x; x - 1; 2 * x; x / 2; x // 2; x % 2; -x; +x; abs(x); x ** 2; 2 ** x; x @ x.T; v @ v; x + v[:3]; divmod(x, 2)[0]
divmod(x, 2)[1]; 1 + x; 1 - x; 1 / x; 7 // x; 7 % x; i + i; i * 2; i // 2; i % 2; -i; i ** 2; ~i; i & 1; i | 4; i ^ 3
i << 1; i >> 1; 1 << i; ~b; b & b; b | b; b ^ b; x < 1; x <= 1; x > 1; x >= 1; x == 1.5; x != 1.5; 1 < x; i == i
b == b; z == z; z * 2; z.conj(); z.real; z.imag; x.real; x.imag; abs(z); x * w; w * x; s * w; x + s; x * n; i * n
x[0]; x[-1]; x[1, 2]; x[:, 1]; x[:, ::-1]; x[::-1]; x[None]; x[..., 0]; x[..., None]; x[0:1]; x[1:0]; x[5:]; x[:, :-1]
x[()]; s[()]; s[...]; t[0, :, 1]; x[i[:2] % 2]; x[:, i]; x[np.array([0, 1]), np.array([2, 0])]; x[b]; v[v > 2]
x[n - 1]; x[n - 1, n]; v[n]; x[np.int32(1)]; t[:, 0]; x[True]; e[b[:0]]; t[0][i]; t[:, i, 0]; t[..., n]; v[i]; v[-1]
x[np.bool_(True)]; x.sum(); x.sum(0); x.sum(axis=1, keepdims=True); x.prod(1); x.max(); x.min(0); x.mean()
x.mean(axis=0); x.var(); x.std(1); x.max() - x.min(); x.all(); x.any(1); b.all(); b.any(0); b.sum(); x.argmax()
x.argmin(1); x.cumsum(); x.cumsum(1); x.cumprod(0); x.round(); x.round(1); x.clip(-1, 2); x.clip(0); i.sum(); i.mean()
u.sum(); x.T; x.mT; t.T; x.transpose(); t.transpose(2, 0, 1); t.transpose((1, 0, 2)); x.swapaxes(0, 1)
x.reshape(3, 2); x.reshape((6,)); x.reshape(-1); x.reshape(2, -1); x.ravel(); x.flatten(); x[None].squeeze()
x[:, None].squeeze(1); x.repeat(2); x.repeat(2, axis=1); x.take(i); x.take(i, axis=1); x.diagonal(); x.trace()
x.dot(x.T); v.dot(v); v.argsort(); x.astype('int32'); x.copy(); x.astype('float16'); x.astype(bool)
i.astype('float32'); v.take(i); x[:1]; x.nonzero()[0]; x.nonzero()[1]; x.view('int32'); i; x.shape; x.ndim; x.size
x.dtype; x.itemsize; x.nbytes; s.shape; e.shape; e.size; len(x); len(e); x.tolist(); s.tolist(); i.tolist()
b.tolist(); z.tolist(); e.tolist(); x.item(4); s.item(); n.item(); x.item(1, 2); x.tobytes(); float(s); int(n)
complex(s); bool(s); bool(x[0, 0] > 1); operator.index(n); [10, 20, 30][n]; list(range(n)); float(x[0, 0]); int(v[0])
int(s); [float(r.sum()) for r in x]; [float(a) for a in v]; [len(r) for r in t]; list(e)
(lambda p, q: float((p * q).sum()))(*x); sum(v); max(v); min(v); sorted(v.tolist()); dict(enumerate(i.tolist()))
3.0 in x; 9.0 in x; 2 in i; True in b; float('nan') in x; (x == x).all(); hasattr(x, '__len__')
isinstance(x.tolist(), list); np.asarray(x); np.asarray(x, dtype='float64'); np.array(x); np.asarray(x)[0]; np.sin(x)
np.sum(x); np.concatenate([x, x]); np.where(b, x, 0); np.zeros_like(x); np.stack([v, v]); np.add(x, 1); np.dot(v, v)
np.shape(x); f'{s:.2f}'; '%d' % n; '%.1f' % s; str(x); str(s); str(i); str(b); format(s, '5.1f')
""".replace("\n", ";")

# What arrays give that NumPy's do not, or do otherwise.
_AS_WRITTEN: list[tuple[str, Any]] = [
    ("repr(v)", "Array([ 3., -1.,  2.,  7.], dtype=float32)"), ("repr(s)", "Array(2.5, dtype=float32)"),
    ("repr(b[0])", "Array([ True, False,  True], dtype=bool)"), ("repr(i)", "Array([2, 0, 1], dtype=int32)"),
    ("repr(asarray(2.0))", "Array(2., dtype=float32, weak_type=True)"),
    ("repr(asarray(2.0) + s)", "Array(4.5, dtype=float32)"), ("repr(e)", "Array([], shape=(0, 3), dtype=float32)"),
    ("asarray(1).weak_type", True), ("x.weak_type", False), ("asarray(1.5)[()].weak_type", True),
    ("asarray([1, 2]).weak_type", False), ("x.named_shape", {}), ("(asarray(1.5) * 2).weak_type", True),
    ("(i * 2).dtype.name", "int32"), ("(i / 2).dtype.name", "float32"), ("(i * 2.5).dtype.name", "float32"),
    ("(u + 1).dtype.name", "uint8"), ("u.sum().dtype.name", "uint32"),
    ("(x.astype('float16') * w).dtype.name", "float16"), ("isinstance(x, Array)", True),
    ("isinstance(x[0], Array)", True), ("isinstance(next(iter(v)), Array)", True),
    ("[type(r) is type(x) for r in x]", [True, True]), ("x[0, 0].shape", ()), ("isinstance(x[0, 0], Array)", True),
    ("isinstance(x.sum(), Array)", True), ("isinstance(x > 1, Array)", True),
    ("isinstance(np.float32([1, 2, 3]) + x, Array)", True), ("isinstance(np.ones(3, 'float32') * v[:3], Array)", True),
    ("isinstance(np.float32(2) * x, Array)", True), ("type(np.sin(x)) is np.ndarray", True),
    ("type(np.add(x, x)) is np.ndarray", True), ("type(np.asarray(x)) is np.ndarray", True),
    ("type(np.zeros_like(x)) is np.ndarray", True), ("np.asarray(x).flags.writeable", False),
    ("np.array(x).flags.writeable", True), ("x.at[0, 1].set(9.).tolist()", [[1.5, 9.0, 3.0], [0.25, 5.0, -6.0]]),
    ("v.at[i].add(1.).tolist()", [4.0, 0.0, 3.0, 7.0]), ("v.sort().tolist()", [-1.0, 2.0, 3.0, 7.0]),
    ("x.ptp()", 11.0), ("x.mT.shape", (3, 2)), ("x.block_until_ready() is x", True),
    ("v.searchsorted(2.5).dtype.name", "int32"), ("i.choose([v[:3], v[1:], v[:3]]).tolist()", [3.0, -1.0, 7.0]),
    ("x.compress(asarray([True, False]), axis=0).tolist()", [[1.5, -2.0, 3.0]]), ("round(s).dtype.name", "int32"),
    ("copy.copy(x).tolist() == x.tolist()", True), ("copy.deepcopy(x).dtype.name", "float32"),
    ("copy.copy(asarray(1)).weak_type", True), ("pickle.loads(pickle.dumps(x)).tolist() == x.tolist()", True),
    ("pickle.loads(pickle.dumps(asarray(1.))).weak_type", True),
    ("pickle.loads(pickle.dumps(x, 5)).dtype.name", "float32"),
    ("type(pickle.loads(pickle.dumps(x))) is type(x)", True), ("v[7].tolist()", 7.0),
    ("v[asarray([0, 9])].tolist()", [3.0, 7.0]), ("x.astype(int).dtype.name", "int32"),
    ("x.astype(float).dtype.name", "float32"), ("hex(n)", "0x2"), ("bytes(u.tobytes())", b"\x01\xc8")]

# What is refused: (expression, class of the error, a pattern of its message).
_REFUSED: list[tuple[str, Any, str]] = [
    ("x.__setitem__(0, 1)", TypeError, r"immutable.*x.at\[i\].set"), ("float(x)", TypeError, "one element"),
    ("int(v)", TypeError, "one element"), ("complex(x)", TypeError, "one element"),
    ("bool(x)", ValueError, "several elements"), ("bool(e)", ValueError, "empty"),
    ("hash(x)", TypeError, "not hashable"), ("{x: 1}", TypeError, "not hashable"),
    ("len(s)", TypeError, r"len\(\) of a rank-0"), ("iter(s)", TypeError, "iteration over a rank-0"),
    ("list(n)", TypeError, "rank-0"), ("operator.index(s)", TypeError, "rank-0 integer"),
    ("operator.index(i)", TypeError, "rank-0 integer"), ("[1, 2][s]", TypeError, "rank-0 integer"),
    ("range(s)", TypeError, "rank-0 integer"), ("x[0, 0, 0]", IndexError, "[Tt]oo many"),
    ("x[[0, 1]]", TypeError, "list"), ("x['a']", TypeError, "a|index"), ("x[1.5]", TypeError, "index|integer"),
    ("x + [1, 2, 3]", TypeError, "list"), ("[1, 2] * n", TypeError, "list|sequence"),
    ("x @ x", (TypeError, ValueError), "matmul"), ("x + v", (TypeError, ValueError), "broadcast|shapes"),
    ("x + 'a'", TypeError, "unsupported|str"), ("x.reshape(4)", (TypeError, ValueError), "reshape"),
    ("x.flat", NotImplementedError, "flat"), ("x.sum(7)", ValueError, "axis 7"),
    ("x.sum(out=x)", NotImplementedError, "out"),
    ("setattr(x, 'shape', (6,))", (TypeError, AttributeError), "shape|setter"),
    ("setattr(x, 'weak_type', True)", (TypeError, AttributeError), "weak_type|setter"),
    ("x.fill(1)", (TypeError, AttributeError), "fill"), ("x.put([0], 1)", (TypeError, AttributeError), "put"),
    ("x.resize((6,))", (TypeError, AttributeError), "resize"), ("np.add.at(x, 0, 1)", (TypeError, AttributeError), ""),
    ("x.nothing", AttributeError, "nothing"), ("np.asarray(x).__setitem__(0, 1)", ValueError, "read-only"),
    ("np.copyto(x, 1)", (TypeError, ValueError), "read-only|ndarray|immutable"),
    ("np.sin(x, out=x)", TypeError, "immutable|ArrayType|array"), ("next(iter([]))", StopIteration, ""),
    ("v.item()", ValueError, "size 1"), ("x.__delitem__(0)", (TypeError, AttributeError), "delet|delitem|immutable")]

_TIMES = 3  # a repeated number may be cached
_IN_PLACE = "+ - * / // % **".split()


def _make_arrays() -> dict[str, Any]:
    made = {name: asarray(value) if name != "w" else value for name, value in _PLAIN.items()}
    return {**made, "np": np, "operator": operator, "copy": copy, "pickle": pickle, "asarray": asarray, "Array": Array}


def _check_same(got: Any, want: Any, text: str) -> None:
    if isinstance(want, (np.ndarray, np.generic)):
        assert isinstance(got, (Array, np.ndarray, np.generic)), f"{text}: expected an array; got {type(got).__name__}"
        assert np.shape(got) == want.shape, f"{text}: expected shape {want.shape}; got {np.shape(got)}"
        kind = np.asarray(got).dtype.kind
        assert kind == want.dtype.kind, f"{text}: expected dtype {want.dtype}; got {np.asarray(got).dtype}"
        rtol = 1e-3 if want.dtype == np.float16 else 2e-6
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=rtol, atol=1e-6, err_msg=text)
    elif isinstance(want, (list, tuple)):
        assert type(got) is type(want) and len(got) == len(want), f"{text}: expected {want!r}; got {got!r}"
        for g, w in zip(got, want):
            _check_same(g, w, text)
    else:
        assert type(got) is type(want) and got == want, f"{text}: expected {want!r}; got {got!r}"


def _check_against_numpy(text: str) -> None:
    names = {"np": np, "operator": operator}
    with np.errstate(all="ignore"):
        want = eval(text, {**_PLAIN, **names})
        if text.startswith("np.asarray") and isinstance(want, np.ndarray):
            want = np.array(want)
        for _ in range(_TIMES):
            _check_same(eval(text, _make_arrays()), want, text)


def _check_value(text: str, want: Any) -> None:
    for _ in range(_TIMES):
        got = eval(text, _make_arrays())
        if isinstance(got, Array) and not isinstance(want, Array):
            got = got.tolist()
        assert got == want and type(got) is type(want), f"{text}: expected {want!r}; got {got!r}"


def _check_refused(text: str, error: Any, words: str) -> None:
    names = _make_arrays()
    try:
        got = eval(text, names)
    except error as raised:
        assert re.search(words, str(raised), re.DOTALL), f"{text}: the message lacks {words!r}: {raised}"
    else:
        raise AssertionError(f"{text}: expected {error}; got {got!r}")
    for name, value in _PLAIN.items():
        if name != "w":
            np.testing.assert_array_equal(np.asarray(names[name]), value, f"{text} changed {name}")
            assert names[name].shape == np.shape(value), f"{text} changed the shape of {name}"


def _check_in_place(symbol: str) -> None:
    names = _make_arrays()
    exec(f"y = x\ny {symbol}= 2.0", names)
    np.testing.assert_array_equal(np.asarray(names["x"]), _PLAIN["x"], f"{symbol}= changed an alias")
    assert isinstance(names["y"], Array) and names["y"] is not names["x"]
    _check_same(names["y"], eval(f"x {symbol} 2.0", dict(_PLAIN)), f"x {symbol}= 2.0")


def _check_caller_memory() -> None:
    for make in (asarray, lambda u: asarray(u) + 0, lambda u: asarray(u)[:2], lambda u: asarray(u).reshape(3, 1),
                 lambda u: asarray(u).T):
        u = np.array([1, 2, 3], np.float32)
        out = make(u)
        before = np.array(out)
        u[:] = 9
        np.testing.assert_array_equal(np.asarray(out), before)
        assert u.flags.writeable


def _check_momentum() -> None:
    """Training as it is written with NumPy: two sums that begin as one array."""
    m = v = zeros(3)
    g = asarray(np.array([1, 2, 3], np.float32))
    for _ in range(2):
        m *= 0.5
        m += g
        v += g * g
    _check_same(m, np.array([1.5, 3, 4.5], np.float32), "m")
    _check_same(v, np.array([2, 8, 18], np.float32), "v")


def _check_decimals() -> None:
    """Rounding gives the nearest number with so many decimals, not an adjacent one."""
    x = np.linspace(-200, 200, 999, dtype=np.float32)
    for decimals in (-2, -1, 1, 2, 3):
        np.testing.assert_array_equal(np.asarray(asarray(x).round(decimals)), x.round(decimals))


def checks() -> dict[str, Callable[[], None]]:
    """What arrays answer, one check for each expression.

    Returns:
      Name -> a function that raises AssertionError where an array answers otherwise.

    >>> checks()["x[:, ::-1]"]()
    >>> len(checks()) > 250
    True
    """
    found: dict[str, Callable[[], None]] = {}
    for text in filter(None, map(str.strip, _AS_NUMPY.split(";"))):
        found[text] = partial(_check_against_numpy, text)
    for text, want in _AS_WRITTEN:
        found[text] = partial(_check_value, text, want)
    for text, error, words in _REFUSED:
        found[f"{text} is refused"] = partial(_check_refused, text, error, words)
    found |= {f"x {symbol}= 2.0": partial(_check_in_place, symbol) for symbol in _IN_PLACE}
    return {**found, "memory of callers": _check_caller_memory, "m = v = zeros(3)": _check_momentum,
            "decimals": _check_decimals}
