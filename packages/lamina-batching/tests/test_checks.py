"""Checks in branches and loops about which each example decides ask the examples that take part."""
import numpy as np
import pytest
from lamina_batching import vmap
from lamina_ir import CheckError, MissingRuleError, OutOfBoundsError, config
from lamina_tracing import debug, jit, lax

X = np.arange(3, dtype=np.float32)


def at(i):
    return lax.dynamic_index_in_dim(X, i, 0, False)


def total(n):
    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + at(c[0])), (0, np.float32(0)))[1]


def guarded(i):
    return lax.cond(i < 3, at, lambda i: np.float32(-1), i)


def switched(i):
    return lax.switch(i, [lambda i: np.float32(0), at, at], i)


def looped(i):
    return lax.cond(i < 3, lambda i: lax.fori_loop(0, 2, lambda _, c: c + lax.scan(lambda d, _: (d + at(i), None), c, None,
                                                                                  length=2)[0], np.float32(0)),
                    lambda i: np.float32(0), i)


@pytest.mark.parametrize("f, good, bad, first", [
    (guarded, [0, 9, 2], None, None), (total, [3, 0, 1], [1, 3, 4], 2), (looped, [2, 3, 7], None, None),
    (switched, [0, 2, 1], [0, 1, 7], 2)])
def test_examples_that_take_no_part_are_not_asked(f, good, bad, first):
    want = [f(np.int32(i)) for i in good]
    with config.debug_bounds(True):
        for how in (vmap(f, axis_name="b"), jit(vmap(f, axis_name="b"))):
            np.testing.assert_allclose(how(np.int32(good)), want)
            if bad is not None:
                with pytest.raises(OutOfBoundsError, match=f"at index {first} of axis 'b' of 3"):
                    np.asarray(how(np.int32(bad)))


def test_batches_of_batches():
    f = vmap(vmap(guarded, axis_name="in"), axis_name="out")
    with config.debug_bounds(True):
        np.testing.assert_allclose(f(np.int32([[0, 5], [7, 2]])), [[0, -1], [-1, 2]])
        g = vmap(vmap(at, in_axes=None, axis_size=2), axis_name="out")
        with pytest.raises(OutOfBoundsError, match="at index 1 of axis 'out' of 2"):
            g(np.int32([0, 5]))


def test_a_check_of_its_own_operands():
    f = vmap(lambda x, y: lax.cond(x > 0, lambda: (debug.check(y > 0, "y"), x)[1], lambda: x), in_axes=(0, None))
    assert f(np.float32([-1, -2]), np.float32(-1)).tolist() == [-1, -2]  # nobody asks, though y is everybody's
    with pytest.raises(CheckError, match="debug.check: y"):
        f(np.float32([-1, 2]), np.float32(-1))


def test_rules_cannot_be_guarded():
    f = pytest.importorskip("lamina_autodiff").custom_jvp(at)
    f.defjvp(lambda xs, ts: (f(*xs), np.float32(0)))
    with config.debug_bounds(True), pytest.raises(MissingRuleError, match="rules of its own"):
        vmap(lambda i: lax.cond(i < 3, f, lambda i: np.float32(0), i))(np.int32([1, 4]))


def test_other_effects_are_refused_as_before():
    with pytest.raises(MissingRuleError, match="has effects"):
        vmap(lambda i: lax.cond(i < 3, lambda i: (debug.callback(print, i), i)[1], lambda i: i, i))(np.int32([1, 4]))
