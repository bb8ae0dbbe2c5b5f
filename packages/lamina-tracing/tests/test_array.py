"""Arrays of lamina-tracing without a runtime: immutable, own their memory, and unpack like sequences."""
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
def test_in_place_operators_create_new_arrays(op):
    x = y = array()
    x = op(x, 2 if op is operator.ipow else np.float32([2, 2, 2]))
    assert x is not y and y.tolist() == [1, 2, 3] and isinstance(x, HostArray)


def test_in_place_operators_do_not_change_aliases():
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
    lambda x: np.ndarray.view(x, np.ndarray).fill(9), lambda x: x.flat.__setitem__(0, 9), lambda x: x.setfield(5, np.float32),
    lambda x: setattr(x, "shape", (3, 1)), lambda x: setattr(x, "dtype", np.int32), lambda x: x.__setitem__(0, 1),
    lambda x: np.add.at(x, [0], 5), lambda x: np.cumsum(x, out=x), lambda x: np.put(x, [0], 9),
    lambda x: np.place(x, [True], [9]),
    lambda x: np.putmask(x, [True, False, False], [9]), lambda x: np.put_along_axis(x, np.array([0]), 9, 0),
    lambda x: np.ndarray.sort(x), lambda x: np.ndarray.partition(x, 1), lambda x: np.ndarray.fill(x, 9),
    lambda x: np.random.default_rng(0).shuffle(x), lambda x: memoryview(x).__setitem__(0, 9.0),
    lambda x: x.data.__setitem__(0, 9.0),
    lambda x: np.frombuffer(x, np.float32).fill(9), lambda x: x.__setstate__(np.ones(3).__reduce__()[2]),
    lambda x: setattr(x, "weak_type", True), lambda x: x.__delitem__(0), lambda x: np.nan_to_num(x, copy=False),
    lambda x: np.lib.stride_tricks.as_strided(np.asarray(x), writeable=True).fill(9), lambda x: np.from_dlpack(x).fill(9),
    lambda x: np.concatenate([[1.0], [2.0, 3.0]], out=x), lambda x: np.add.reduce(np.ones((2, 3), np.float32), out=x),
    lambda x: np.reshape(x, (3, 1)).fill(9), lambda x: np.broadcast_to(x, (2, 3)).fill(9), lambda x: np.split(x, 3)[0].fill(9),
    lambda x: x.transpose().fill(9), lambda x: np.real(x).fill(9), lambda x: x.view().fill(9),
    lambda x: [at.__setitem__(..., 9) for at in np.nditer(x, op_flags=["readwrite"])]])
def test_arrays_cannot_be_written(write):
    x = array()
    with pytest.raises((TypeError, ValueError, BufferError), match="immutable|read-only|readonly|no elements of one"):
        write(x)
    assert x.tolist() == [1, 2, 3] and x.shape == (3,) and not x.weak_type


@pytest.mark.parametrize("unlock", [
    lambda x: setattr(x.flags, "writeable", True), lambda x: setattr(np.asarray(x).flags, "writeable", True),
    lambda x: setattr(np.ndarray.view(x, np.ndarray).flags, "writeable", True),
    lambda x: setattr(x.T.flags, "writeable", True),
    lambda x: np.ndarray.setflags(x, write=True), lambda x: np.asarray(x).setflags(write=True)])
def test_memory_of_arrays_cannot_be_made_writable(unlock):
    x = array()
    with pytest.raises((TypeError, ValueError), match="immutable|cannot set WRITEABLE"):
        unlock(x)
    assert not x.flags.writeable and not np.asarray(x).flags.writeable and x.base is None


@pytest.mark.parametrize("call", [np.sin, np.sum, np.zeros_like, np.copy, np.transpose, np.squeeze, np.add.reduce, np.array,
                                  lambda x: np.add(1, x), lambda x: np.concatenate([x, x]), lambda x: np.add.outer(x, x),
                                  lambda x: np.where(x > 1, x, 0), lambda x: np.array([x, x]), np.asarray])
def test_numpy_functions_return_plain_arrays(call):
    x = array()
    out, want = call(x), call(np.float32([1, 2, 3]))
    assert type(out) is type(want)
    np.testing.assert_array_equal(out, want)


def test_arrays_of_one_element_convert_to_numbers():
    one, three = lax.full((1,), np.int32(2)), array()
    assert (int(one), float(one), complex(one), bool(one)) == (2, 2.0, 2, True) and [4, 5][one[0] - 1] == 5
    for use, words in ((float, "float.*float32"), (int, "int.*float32"), (operator.index, "rank-0 integer"),
                       (bool, "several elements"), (lambda x: len(x[0]), "rank-0"), (hash, "not hashable")):
        with pytest.raises((TypeError, ValueError), match=words):
            use(three)
    assert 2.0 in three and 5.0 not in three and len(three) == 3


@pytest.mark.parametrize("call", [
    lambda u: lax.reshape(u, (3, 1)), lambda u: lax.rev(u, (0,)), lambda u: lax.slice(u, (0,), (2,)),
    lambda u: jit(lambda x: x)(u), lambda u: jit(lambda x: (x, x))(u)[0], lambda u: lax.expand_dims(u, (0,)),
    lambda u: lax.convert_element_type(u, "float32"), lambda u: lax.bitcast_convert_type(u, "int32"),
    lambda u: lax.cond(True, lambda x: x, lambda x: -x, u), lambda u: lax.scan(lambda c, x: (c, x), u, u)[0],
    lambda u: jit(lambda x: u)(1.0), lambda u: lax.reshape(u[1:], (2, 1))])
def test_results_do_not_share_memory_with_writable_arrays(call):
    array()
    u = np.float32([1, 2, 3])
    out = call(u)
    before = np.array(out)
    u[:] = 9
    np.testing.assert_array_equal(np.asarray(out), before)
    assert u.flags.writeable


def test_arrays_unpack_copy_and_pickle():
    x = array()
    a, b, c = x
    assert [float(v) for v in (a, b, c)] == [1, 2, 3] == [float(v) for v in list(x)] and isinstance(a, HostArray)
    with pytest.raises(TypeError, match="rank-0"):
        iter(a)
    for again in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert np.asarray(again).tolist() == [1, 2, 3]


def test_empty_arguments_are_copied():
    nothing = np.zeros(0, np.float32)
    out = lax.optimization_barrier((nothing,))[0]
    assert nothing.flags.writeable and out is not nothing
