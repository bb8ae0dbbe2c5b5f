"""NumPy functions on traced values that lamina_tracing implements, and the errors for all others."""
import sys
import types

import numpy as np
import pytest
from lamina_ir import dtypes, errors, trees
from lamina_tracing import enable_x64, hooks, jit, lax, make_jaxpr
from lamina_tracing.extend import Tracer
from lamina_tracing.numpy_dispatch import implementations, name_of, refusals
from lamina_tracing.testing import numpy_calls, numpy_function, numpy_functions

CALLS = numpy_calls(core_only=True)
IDS = [f"{c.name}-{i}" for i, c in enumerate(CALLS)]
NOT_A_SAMPLE = {"result_type", "can_cast", "common_type", "array_repr", "array_str", "array2string"}
INTEGERS = {"bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "invert", "bitwise_count"}
INSTALL = r'traced values need lamina-numpy. pip install "lamina-autodiff\[numpy\]"'


@pytest.fixture(autouse=True)
def without_lamina_numpy(monkeypatch):
    monkeypatch.setattr(hooks.operators, "find_numpy_function", lambda name: None)


FUNCTIONS = numpy_functions()


@pytest.mark.filterwarnings("ignore:.*numpy.fix.*:DeprecationWarning")
@pytest.mark.parametrize("call", CALLS, ids=IDS)
def test_result_is_that_of_numpy(call):
    with enable_x64():
        f, arrays = call.function(), call.traced()
        want, got = trees.tree_leaves(f(*arrays)), trees.tree_leaves(jit(f)(*arrays))
    assert len(want) == len(got)
    for w, g in zip(want, got):
        w = np.asarray(w)
        assert np.shape(g) == w.shape
        if w.dtype.kind in "fc":
            assert np.asarray(g).dtype == w.dtype
        np.testing.assert_allclose(np.asarray(g), w, rtol=2e-7 if w.dtype == np.float32 else 1e-9, atol=1e-12)


def test_every_implementation_has_a_sample():
    tried = {c.name for c in CALLS} | NOT_A_SAMPLE | INTEGERS
    tried |= {name_of(numpy_function(name)) for name in tried if name in FUNCTIONS}
    missing = [name for name in implementations if name not in tried and (name in FUNCTIONS or "." in name)]
    assert not missing
    assert not set(implementations) & set(refusals)
    assert set(refusals) <= set(FUNCTIONS)


# Functions that need arguments of different kinds.
FORMS = {"put_along_axis": lambda f, x: f(x, np.array([0]), 1.0, 0), "save": lambda f, x: f("nowhere", x),
         "savetxt": lambda f, x: f("nowhere", x), "savez": lambda f, x: f("nowhere", x), "place": lambda f, x: f(x, [True], x),
         "savez_compressed": lambda f, x: f("nowhere", x), "put": lambda f, x: f(x, [0], 1.0),
         "apply_along_axis": lambda f, x: f(np.sum, 0, x), "apply_over_axes": lambda f, x: f(np.sum, x, 0),
         "rollaxis": lambda f, x: f(x, 0), "where": lambda f, x: f(x, x, x)}


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - set(implementations)))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_error_names_the_function_and_the_remedy(name):
    func, remedy = FUNCTIONS[name], INSTALL
    if refusals.get(name):
        remedy = r".{10}"
    x = np.float32([1, 2, 3])
    forms = [FORMS[name]] if name in FORMS else [
        lambda f, x: f(x), lambda f, x: f(x, x), lambda f, x: f(x, x, x), lambda f, x: f([x, x]), lambda f, x: f("i->", x)]
    for form in forms:
        try:
            with pytest.raises(errors.TracerArrayError, match=rf"^numpy\.{name} of a traced float32\[3\]: {remedy}"):
                jit(lambda v: form(func, v))(x)
            return
        except TypeError as error:  # NumPy checks the number of arguments first
            assert "argument" in str(error), error
    pytest.fail(f"{name} was not refused")


@pytest.mark.parametrize("use", [lambda x: x.cumsum(), lambda x: x.sort(), lambda x: x.take(np.array([0])), lambda x: x.std(),
                                 lambda x: np.add.accumulate(x), lambda x: np.add.reduceat(x, [0, 1])])
def test_methods_that_need_lamina_numpy_say_so(use):
    with pytest.raises(errors.TracerArrayError, match=rf"^numpy\.[\w.]+ of a traced float32\[3\]: {INSTALL}"):
        jit(use)(np.float32([1, 2, 3]))


def test_methods_of_concrete_arrays_need_no_lamina_numpy():
    x = lax.neg(np.float32([3, 1, 2]))
    assert type(x.sort()) is type(x) and x.sort().tolist() == [-3, -2, -1]
    assert x.cumsum().dtype == np.float32 and x.std(ddof=1).tolist() == 1
    assert x.argsort().dtype == np.int32 and x.compress([True, False, True]).tolist() == [-3, -2]


def test_default_hook_imports_lamina_numpy_if_it_is_installed(monkeypatch):
    monkeypatch.setattr(hooks.operators, "find_numpy_function", type(hooks.operators).find_numpy_function)
    monkeypatch.setitem(sys.modules, "lamina_numpy", None)  # imports fail as if it were not installed
    with pytest.raises(errors.TracerArrayError, match=INSTALL):
        jit(np.linalg.inv)(np.eye(2, dtype=np.float32))
    library = types.ModuleType("lamina_numpy")  # one that sets no hook
    monkeypatch.setitem(sys.modules, "lamina_numpy", library)
    with pytest.raises(errors.TracerArrayError, match=INSTALL):
        jit(np.linalg.inv)(np.eye(2, dtype=np.float32))


def test_integers():
    a, b = np.array([5, 12, 7], np.int32), np.array([3, 2, 0], np.int32)
    for name in (*sorted(INTEGERS - {"invert", "bitwise_count"}), "floor_divide", "remainder", "fmod", "power", "divmod"):
        with np.errstate(divide="ignore"):
            want, got = numpy_function(name)(a, b), jit(numpy_function(name))(a, b)
        for w, g in zip(trees.tree_leaves(want), trees.tree_leaves(got)):
            np.testing.assert_array_equal(g, w, name)
    for name in ("invert", "bitwise_count", "negative", "absolute", "sign", "square", "floor", "rint", "conjugate"):
        np.testing.assert_array_equal(jit(numpy_function(name))(a), numpy_function(name)(a), name)
    assert jit(np.sum)(np.array([True, True])).tolist() == 2 and jit(np.mean)(a).dtype == np.float32
    assert jit(lambda x: np.sum(x))(np.int8([100, 100])).tolist() == 200


def test_properties_of_traced_values():
    def f(x):
        assert np.result_type(x, np.float32) == np.float32 and np.can_cast(x, "float64") and np.common_type(x) is np.float32
        assert "float32[3]" in np.array2string(x) and np.iscomplexobj(x) is False
        return np.copy(x)
    np.testing.assert_array_equal(jit(f)(np.float32([3, 1, 2])), [3, 1, 2])


@pytest.mark.parametrize("f", [
    lambda x: np.add(x, 2), lambda x: np.where(x > 1, x, 0), lambda x: np.maximum(0.5, x), lambda x: np.clip(x, 0, 2.5),
    lambda x: np.power(x, 2), lambda x: 2 * np.sin(x), lambda x: np.mean(x), np.round])
def test_python_numbers_take_the_dtype_of_the_array(f):
    assert jit(f)(np.float16([1, 2])).dtype == np.float16


@pytest.mark.parametrize("call, words", [
    (lambda x: np.sin(x, out=np.zeros(3, np.float32)), "out="), (lambda x: np.sum(x, out=np.zeros((), np.float32)), "out="),
    (lambda x: np.sum(x, 0, None, np.zeros((), np.float32)), "out="),
    (lambda x: np.add(x, x, where=x > 1), "where="), (lambda x: np.add.at(np.zeros(3), [0], x[0]), "add.at.*in place"),
    (lambda x: np.copyto(np.zeros(3), x), "copyto.*in place"), (lambda x: np.asarray([x, x]), "numpy.stack"),
    (lambda x: np.frompyfunc(lambda v: v, 1, 1)(x), "none of NumPy's own"), (lambda x: np.asarray(x), "NumPy array")])
def test_refused_arguments_are_explained(call, words):
    with pytest.raises(errors.TracerArrayError, match=words):
        jit(call)(np.float32([1, 2, 3]))


def test_unknown_arguments_are_named():
    for call, words in ((lambda x: np.where(x > 1), "three arguments"), (lambda x: x.clip(nonsense=1), "nonsense")):
        with pytest.raises((TypeError, NotImplementedError), match=words):
            jit(call)(np.float32([1, 2, 3]))


def test_in_place_addition_rebinds_a_whole_numpy_array():
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


def test_operators_of_numpy_arrays_and_traced_values():
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


def test_other_libraries_handle_their_operands():
    def f(x):
        assert isinstance(x, Tracer)
        assert np.add(x, Other()) == "other" and np.concatenate([x, Other()]) == "other"
        return x
    jit(f)(np.float32([1]))


def test_lists_may_hold_traced_values():
    def f(x):
        return np.add(x, [x[0], x[1]]), np.where([True, False], x, 0), np.dot(x, [x[0], 2.0])
    for got, want in zip(jit(f)(np.float32([1, 2])), ([2, 4], [1, 0], 5)):
        assert got.tolist() == want


def test_small_floats():
    bf16 = dtypes.from_short_name("bf16")
    assert jit(lambda x: np.sum(np.exp(x)))(np.ones(4, bf16)).dtype == bf16
