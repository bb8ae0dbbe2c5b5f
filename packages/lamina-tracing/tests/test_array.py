"""Arrays of this floor alone: immutable, with memory of their own, and taken apart as any sequence is."""
import copy
import operator
import pickle

import numpy as np
import pytest
from lamina_tracing import jit, lax
from lamina_tracing.extend import HostArray


def array():
    x = lax.add(np.float32([1, 2, 3]), np.float32([0, 0, 0]))
    if type(x) is not HostArray:
        pytest.skip("a runtime has its own arrays")
    return x


@pytest.mark.parametrize("op", [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.imod, operator.imatmul,
                                operator.ipow])
def test_operators_in_place_give_a_new_array_under_the_old_name(op):
    x = y = array()
    x = op(x, 2 if op is operator.ipow else np.float32([2, 2, 2]))
    assert x is not y and y.tolist() == [1, 2, 3] and isinstance(x, HostArray)


def test_momentum_from_one_array_of_zeros():
    m = v = lax.full((3,), 0.0)
    g = array()
    if not isinstance(m, HostArray):
        pytest.skip("a runtime has its own arrays")
    m *= 0.5
    m += g
    v += 2.0
    assert m.tolist() == [1, 2, 3] and v.tolist() == [2, 2, 2]


@pytest.mark.parametrize("write", [
    lambda x: x.fill(9), lambda x: x.put([0], 9), lambda x: x.byteswap(True), lambda x: x.setflags(write=True),
    lambda x: np.copyto(x, 9), lambda x: np.add(x, 1, out=x), lambda x: np.asarray(x).fill(9), lambda x: x.resize((2,)),
    lambda x: x.view(np.ndarray).fill(9), lambda x: x.flat.__setitem__(0, 9), lambda x: x.setfield(5, np.float32),
    lambda x: setattr(x, "shape", (3, 1)), lambda x: setattr(x, "dtype", np.int32), lambda x: x.__setitem__(0, 1)])
def test_nothing_writes_into_an_array(write):
    x = array()
    with pytest.raises((TypeError, ValueError), match="immutable|read-only"):
        write(x)
    assert x.tolist() == [1, 2, 3] and x.shape == (3,)


@pytest.mark.parametrize("call", [
    lambda u: lax.reshape(u, (3, 1)), lambda u: lax.rev(u, (0,)), lambda u: lax.slice(u, (0,), (2,)),
    lambda u: jit(lambda x: x)(u), lambda u: jit(lambda x: (x, x))(u)[0], lambda u: lax.expand_dims(u, (0,)),
    lambda u: lax.convert_element_type(u, "float32"), lambda u: lax.bitcast_convert_type(u, "int32"),
    lambda u: lax.cond(True, lambda x: x, lambda x: -x, u), lambda u: lax.scan(lambda c, x: (c, x), u, u)[0],
    lambda u: jit(lambda x: u)(1.0), lambda u: lax.reshape(u[1:], (2, 1))])
def test_results_share_no_memory_with_what_their_caller_may_write_to(call):
    array()
    u = np.float32([1, 2, 3])
    out = call(u)
    before = np.array(out)
    u[:] = 9
    np.testing.assert_array_equal(np.asarray(out), before)
    assert u.flags.writeable


def test_an_array_is_taken_apart_and_ends():
    x = array()
    a, b, c = x
    assert [float(v) for v in (a, b, c)] == [1, 2, 3] == [float(v) for v in list(x)] and isinstance(a, HostArray)
    with pytest.raises(TypeError, match="0-d"):
        iter(a)
    for again in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert np.asarray(again).tolist() == [1, 2, 3]


def test_arrays_without_elements_stay_their_callers():
    nothing = np.zeros(0, np.float32)
    out = lax.optimization_barrier((nothing,))[0]
    assert nothing.flags.writeable and out is not nothing
