"""Fast path of repeated calls without a backend: cached by argument types, trees, settings and rules."""
import numpy as np
import pytest

from lamina_ir import config, prims
from lamina_ir.extend import observing_equations
from lamina_tracing import jit, lax
from lamina_tracing.extend import HostArray, bind
from lamina_tracing._jit.jit_spec import JitSpec
from lamina_tracing._jit.fast_path import FastPathCache

X = np.arange(3, dtype=np.float32)


def counting(f):
    """Return a function that counts its tracings, and the list of them."""
    traced = []

    def counted(*args, **kwargs):
        traced.append(1)
        return f(*args, **kwargs)
    return counted, traced


@pytest.mark.parametrize("first,second", [
    ((X,), (X[:2],)), ((X,), (X.astype(np.int32),)), ((1,), (1.0,)), ((True,), (1,)), (((X, X),), ([X, X],)),
    ((X, (X,)), ((X, X),)), ((((X,), X),), (((X,), (X,)),)), ((np.float32(1),), (1.0,))])
def test_different_types_and_trees_are_different_programs(first, second):
    fun, traced = counting(lambda *args: args)
    f = jit(fun)
    for n, args in ((1, first), (1, first), (2, second), (2, first), (2, second)):
        out = f(*args)
        assert len(traced) == n and len(out) == len(args) and type(out[0]) is (type(args[0]) if type(args[0]) in (list, tuple)
                                                                               else HostArray)


def test_equal_types_share_a_program():
    fun, traced = counting(lambda x: lax.neg(x))
    f = jit(fun)
    for _ in range(3):
        x = HostArray.of(X.copy(), type(bind(prims.neg_p, X).aval)(X.shape, X.dtype))
        np.testing.assert_array_equal(f(x), -X)
    assert len(traced) == 1


def test_static_arguments_are_distinguished_by_value_and_type():
    traced = []

    def fun(x, n, axes=()):
        traced.append(1)
        return lax.mul(x, float(n)), len(axes)

    f = jit(fun, static_argnames=("n", "axes"))
    assert [float(f(X, n)[0][1]) for n in (1, True, 2, 1, 2)] == [1, 1, 2, 1, 2] and len(traced) == 3
    assert [int(f(X, n=1, axes=a)[1]) for a in ((), (1,), (1, 2), (1,))] == [0, 1, 2, 1] and len(traced) == 6


def test_settings_are_part_of_the_key():
    fun, traced = counting(lambda x: lax.add(x, 1))
    f = jit(fun)
    f(1.5), f(1.5)
    with config.enable_x64(True):
        assert f(1.5).dtype == np.float64 and f(1.5).dtype == np.float64
    assert f(1.5).dtype == np.float32 and len(traced) == 2
    with config.disable_jit(True):
        f(1.5)
    assert len(traced) == 3


def test_64_bit_arrays_are_narrowed_without_enable_x64():
    with config.enable_x64(True):
        x = lax.add(np.float64([1, 2]), 1.0)
        y = jit(lambda x: lax.mul(x, 3.0))(x)
    assert x.dtype == y.dtype == np.float64
    assert lax.add(x, 1.0).dtype == np.float32 and jit(lambda x: lax.add(x, 1.0))(x).dtype == np.float32


def test_fast_path_rejects_out_of_range_integers():
    f = jit(lambda x: lax.add(x, 1))
    assert int(f(5)) == 6
    with pytest.raises(OverflowError, match="2147483648"):
        f(2**31)


def test_results_do_not_share_memory_with_arguments():
    f = jit(lambda x: (x, lax.reshape(x, (3, 1)), lax.neg(x)))
    for _ in range(2):
        x = X.copy()
        same, flat, neg = f(x)
        x[0] = 9
        assert float(same[0]) == float(flat[0, 0]) == 0 and x.flags.writeable
        assert not any(np.asarray(a).flags.writeable for a in (same, flat, neg))


def test_traced_arguments_bypass_the_fast_path():
    f = jit(lambda x: lax.neg(x))
    f(X)
    program = jit(lambda x: f(x)).spec.trace_abstract((X,), {})[0].closed
    assert [e.primitive.name for e in program.eqns] == ["xla_call"]


def test_number_of_cached_calls_is_bounded():
    spec = JitSpec(lambda x: x)
    quick, staged = FastPathCache(spec), spec.trace(*spec.split((X,), {}))
    settings, others = config.cache_key(), config.generation.changes_by_other_threads()
    for n in range(600):
        quick.remember((n,), [], staged, settings, others)
    assert len(quick._state[1]) <= 256 and quick.find((599,))([X])[0] == 0 and quick.find((0,)) is None


def test_program_is_simplified_in_first_and_later_calls():
    def f(x, y):
        lax.dot(x, y)  # the result is unused
        return lax.dot(x, lax.broadcast_in_dim(np.float32(1), (3, 4), ()))

    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((3, 4), np.float32)
    jitted, seen = jit(f), []
    with observing_equations(lambda eqn, operands, results: seen.append(eqn.primitive.name)):
        for args in ((x, y), (x, y), (lax.add(x, x), y)):
            assert np.array_equal(jitted(*args), f(*args))
    assert seen == ["reduce_sum", "reshape", "broadcast_in_dim"] * 3
