"""NumPy's functions on traced values: every name is done as NumPy does it, or refused by name with what to write instead."""
import warnings

import numpy as np
import pytest
from lamina_ir import dtypes, errors
from lamina_tracing import enable_x64, jit, make_jaxpr
from lamina_tracing.extend import Tracer
from lamina_tracing.numpy_dispatch import name_of, refusals, rows
from lamina_tracing.testing import numpy_calls, numpy_function

CALLS = numpy_calls()
IDS = [f"{c.name}-{i}" for i, c in enumerate(CALLS)]
NOT_A_SAMPLE = {"partition", "argpartition", "empty_like", "result_type", "can_cast", "common_type", "array_repr", "array_str",
                "array2string"}
INTEGERS = {"bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "invert", "bitwise_count"}


def public_functions():
    found = {}
    for module in (np, np.linalg, np.fft):
        for name in dir(module):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # older names, which go one after the other
                f = getattr(module, name)
            if isinstance(f, (type(np.sum), np.ufunc)):
                found[name_of(f)] = f
    return found


def flat(out):
    return [v for x in out for v in flat(x)] if isinstance(out, (list, tuple)) else [out]


@pytest.mark.filterwarnings("ignore:.*(trapz|in1d|numpy.fix).*:DeprecationWarning")
@pytest.mark.parametrize("call", CALLS, ids=IDS)
def test_it_gives_what_numpy_gives(call):
    with enable_x64():
        f, arrays = call.function(), call.traced()
        want, got = flat(f(*arrays)), flat(jit(f)(*arrays))
    assert len(want) == len(got)
    for w, g in zip(want, got):
        w = np.asarray(w)
        assert np.shape(g) == w.shape
        if w.dtype.kind in "fc":
            assert np.asarray(g).dtype == w.dtype
        name = call.name.rpartition(".")[2]
        if name in ("eig", "eigh", "svd", "qr") and w.ndim > 1:
            w, g = np.abs(w), np.abs(np.asarray(g))
        np.testing.assert_allclose(np.asarray(g), w, rtol=2e-7 if w.dtype == np.float32 else 1e-9, atol=1e-12)


def test_every_function_of_numpys_is_done_or_refused():
    found = public_functions()
    tried = {c.name for c in CALLS} | NOT_A_SAMPLE | INTEGERS
    aliases = {name_of(numpy_function(name)) for name in tried if name in rows}
    for name in found:
        assert (name in rows) != (name in refusals), name
        assert name in aliases or name in refusals, f"{name} has a row and no sample"
    stray = {name for name in refusals if name not in found}
    assert not stray, stray


# How many arguments of which kinds, where one array does not do.
FORMS = {"put_along_axis": lambda f, x: f(x, np.array([0]), 1.0, 0), "save": lambda f, x: f("nowhere", x),
         "savetxt": lambda f, x: f("nowhere", x), "savez": lambda f, x: f("nowhere", x), "place": lambda f, x: f(x, [True], x),
         "savez_compressed": lambda f, x: f("nowhere", x), "put": lambda f, x: f(x, [0], 1.0)}


@pytest.mark.parametrize("name", sorted(refusals))
def test_a_refusal_names_the_function_and_what_to_write(name):
    func, words = public_functions()[name], rf"numpy\.{name} of a traced float32\[3\]: .{{20}}"
    x = np.float32([1, 2, 3])
    if name in FORMS:
        forms = [FORMS[name]]
    else:
        forms = [lambda f, x: f(x), lambda f, x: f(x, x), lambda f, x: f(x, x, x)]
    for form in forms:
        try:
            with pytest.raises(errors.TracerArrayError, match=words):
                jit(lambda v: form(func, v))(x)
            return
        except TypeError as error:  # NumPy counts the arguments before it asks
            assert "argument" in str(error), error
    pytest.fail(f"{name} was not refused")


def test_integers():
    a, b = np.array([5, 12, 7], np.int32), np.array([3, 2, 0], np.int32)
    for name in (*sorted(INTEGERS - {"invert", "bitwise_count"}), "floor_divide", "remainder", "fmod", "power", "divmod"):
        with np.errstate(divide="ignore"):
            want, got = numpy_function(name)(a, b), jit(numpy_function(name))(a, b)
        for w, g in zip(flat(want), flat(got)):
            np.testing.assert_array_equal(g, w, name)
    for name in ("invert", "bitwise_count", "negative", "absolute", "sign", "square", "floor", "rint", "conjugate"):
        np.testing.assert_array_equal(jit(numpy_function(name))(a), numpy_function(name)(a), name)
    assert jit(np.sum)(np.array([True, True])).tolist() == 2 and jit(np.mean)(a).dtype == np.float32
    assert jit(lambda x: np.sum(x))(np.int8([100, 100])).tolist() == 200


def test_questions_about_traced_values():
    def f(x):
        assert np.result_type(x, np.float32) == np.float32 and np.can_cast(x, "float64") and np.common_type(x) is np.float32
        assert "float32[3]" in np.array2string(x) and np.iscomplexobj(x) is False and np.empty_like(x).shape == (3,)
        np.testing.assert_array_equal(np.argpartition(np.float32([3, 1]), 0), [1, 0])
        return np.partition(x, 1)
    np.testing.assert_array_equal(jit(f)(np.float32([3, 1, 2])), [1, 2, 3])


@pytest.mark.parametrize("f", [
    lambda x: np.add(x, 2), lambda x: np.where(x > 1, x, 0), lambda x: np.maximum(0.5, x), lambda x: np.clip(x, 0, 2.5),
    lambda x: np.power(x, 2), lambda x: 2 * np.sin(x), lambda x: np.mean(x), lambda x: np.linspace(x, 2, 3), np.round,
    lambda x: np.fft.fftshift(x), lambda x: np.pad(x, 1, constant_values=3), lambda x: np.quantile(x, 0.3), np.var, np.sinc])
def test_numbers_beside_arrays_take_their_dtype(f):
    assert jit(f)(np.float16([1, 2])).dtype == np.float16


@pytest.mark.parametrize("call, words", [
    (lambda x: np.sin(x, out=np.zeros(3, np.float32)), "out="), (lambda x: np.sum(x, out=np.zeros((), np.float32)), "out="),
    (lambda x: np.add(x, x, where=x > 1), "where="), (lambda x: np.add.at(np.zeros(3), [0], x[0]), "add.at.*in place"),
    (lambda x: np.add.reduceat(x, [0, 1]), "reduceat"), (lambda x: np.hypot.reduce(x), "hypot.reduce.*lax.reduce"),
    (lambda x: np.copyto(np.zeros(3), x), "copyto.*in place"), (lambda x: np.asarray([x[0], x[1]]), "numpy.stack"),
    (lambda x: np.frompyfunc(lambda v: v, 1, 1)(x), "none of NumPy's own"), (lambda x: np.asarray(x), "NumPy array")])
def test_what_is_not_done_is_said(call, words):
    with pytest.raises(errors.TracerArrayError, match=words):
        jit(call)(np.float32([1, 2, 3]))


@pytest.mark.parametrize("call, words", [
    (lambda x: np.where(x > 1), "three arguments"), (lambda x: np.quantile(x, 0.5, weights=[1, 2, 3]), "weights="),
    (lambda x: np.pad(x, 1, mode="mean"), "mode must be"), (lambda x: np.interp(x, x, x, period=2.0), "period="),
    (lambda x: np.linalg.qr(x[:, None], mode="raw"), "mode must be"), (lambda x: np.unwrap(x, nonsense=1), "nonsense")])
def test_arguments_that_are_not_done_are_named(call, words):
    with pytest.raises((TypeError, NotImplementedError), match=words):
        jit(call)(np.float32([1, 2, 3]))


def test_adding_to_an_array_of_numpys_gives_its_name_the_sum():
    def total(x):
        acc = np.zeros(3, np.float32)
        for _ in range(2):
            acc += x
        acc *= 2
        return acc
    np.testing.assert_array_equal(jit(total)(np.float32([1, 2, 3])), [4, 8, 12])

    def into_a_row(x):
        acc = np.zeros((2, 3), np.float32)
        row = acc[0]
        row += x
        return acc
    with pytest.raises(errors.TracerArrayError, match="out="):
        jit(into_a_row)(np.float32([1, 2, 3]))

    def out_is_named(x):
        acc = np.zeros(3, np.float32)
        np.add(acc, x, out=acc)
        return acc
    with pytest.raises(errors.TracerArrayError, match="out="):
        jit(out_is_named)(np.float32([1, 2, 3]))


def test_arrays_of_numpys_meet_traced_ones_in_operators():
    n = np.float32([1, 2, 3])
    program = make_jaxpr(lambda x: (n + x, np.float32(2) * x, np.float64(2) * x))(n)
    assert [eqn.primitive.name for eqn in program.eqns if eqn.primitive.name != "convert_element_type"] == ["add", "mul", "mul"]
    outs = jit(lambda x: (n - x, n @ x, n < x, n ** x, n // x, n % x))(np.float32([3, 2, 1]))
    for got, want in zip(outs, ([-2, 0, 2], 10, [True, False, False], [1, 4, 3], [0, 1, 3], [1, 0, 0])):
        np.testing.assert_array_equal(got, want)


class Other:
    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return "other"

    def __array_function__(self, func, types, args, kwargs):
        return "other"


def test_other_libraries_get_their_turn():
    def f(x):
        assert isinstance(x, Tracer)
        assert np.add(x, Other()) == "other" and np.concatenate([x, Other()]) == "other"
        return x
    jit(f)(np.float32([1]))


def test_lists_hold_traced_values():
    def f(x):
        return np.stack([x[0], 2.0]), np.concatenate([[x[0]], x]), np.add(x, [x[0], x[1]]), np.where([True, False], x, 0)
    for got, want in zip(jit(f)(np.float32([1, 2])), ([1, 2], [1, 1, 2], [2, 4], [1, 0])):
        assert got.tolist() == want


def test_small_floats():
    bf16 = dtypes.from_short_name("bf16")
    assert jit(lambda x: np.sum(np.exp(x)))(np.ones(4, bf16)).dtype == bf16
