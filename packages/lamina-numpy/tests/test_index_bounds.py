"""With `debug_bounds`, indices of the user that leave their axis are named where no mode says what becomes of them."""
import lamina_numpy as jnp
import numpy as np
import pytest
from lamina_ir import CheckError, OutOfBoundsError, config
from lamina_tracing import debug, jit, lax

X = np.arange(12, dtype=np.float32).reshape(3, 4)
DIMS = lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0, 1), start_index_map=(0, 1))
INTO = lax.ScatterDimensionNumbers((), inserted_window_dims=(0, 1), scatter_dims_to_operand_dims=(0, 1))


@pytest.mark.parametrize("f, good, bad, says", [
    (lambda x, i: x[i], [0, 2, -3], [3, -4], "axis 0 of size 3"),
    (lambda x, i: x[:, i], [3, -4], [4, -5], "axis 1 of size 4"),
    (lambda x, i: x[..., None, i], [3], [4], "axis 1 of size 4"),
    (lambda x, i: x[np.array([True, False, True]), i], [3], [4], "axis 1 of size 4"),
    (lambda x, i: x.at[i].add(1), [0, -3], [3], "axis 0 of size 3"),
    (lambda x, i: x.at[i, 1].apply(lambda v: v * 2), [0], [3], "axis 0 of size 3"),
    (lambda x, i: x.at[i].divide(2), [2], [3], "axis 0 of size 3"),
    (lambda x, i: x.at[i].get(), [2], [3], "axis 0 of size 3"),
    (lambda x, i: jnp.take(x, i), [11, -12], [12], "axis 0 of size 12"),
    (lambda x, i: jnp.take_along_axis(x, jnp.full((3, 1), i), 1), [3], [4], "axis 1 of size 4"),
    (lambda x, i: jnp.put_along_axis(x, jnp.full((3, 1), i), 0, 1, inplace=False), [3], [4], "axis 1 of size 4"),
    (lambda x, i: lax.dynamic_slice(x, (i, 0), (2, 4)), [1, -2], [2, -1, -4], "axis 0 of size 3"),
    (lambda x, i: lax.dynamic_update_index_in_dim(x, x[0], i, 0), [2], [3], "axis 0 of size 3"),
    (lambda x, i: lax.gather(x, jnp.stack([i, i])[None], DIMS, (1, 1)), [2], [3, -1], "axis 0"),
    (lambda x, i: lax.scatter_add(x, jnp.stack([i, i])[None], jnp.ones(1), INTO), [2], [3, -1], "axis 0"),
])
def test_an_index_outside_is_named(f, good, bad, says):
    x = jnp.asarray(X)
    for how in (f, jit(f)):
        free = [np.asarray(how(x, jnp.int32(i))) for i in [*good, *bad]]
        with config.debug_bounds(True):
            for i, want in zip(good, free):
                np.testing.assert_array_equal(np.asarray(how(x, jnp.int32(i))), want)
            for i in bad:
                with pytest.raises(OutOfBoundsError, match=rf"{says}.*; at .*test_index_bounds.py:\d+ \(<lambda>\)"):
                    np.asarray(how(x, jnp.int32(i)))


def test_known_indices_too():
    x = jnp.asarray(X)
    with config.debug_bounds(True):
        for f in (lambda: x[3], lambda: x[0, -5], lambda: x[np.array([0, 7])], lambda: x.at[3].set(0)):
            for how in (f, jit(f)):
                with pytest.raises(IndexError, match="out of bounds"):
                    np.asarray(how())
        assert float(jit(lambda p: lax.cond(p, lambda: x[3, 0], lambda: x[2, 0]))(False)) == 8  # of a branch that does not run


def test_a_mode_says_what_is_meant():
    x = jnp.asarray(X)
    with config.debug_bounds(True):
        for mode in ("clip", "fill", "wrap"):
            x.at[7].get(mode=mode)
            jnp.take(x, 77, mode=mode)
        x.at[7].set(0, mode="drop")
        jnp.median(x), jnp.sort(x), jnp.quantile(x, 0.3), jnp.roll(x, 2), x[:, 2:], x[::-1]


def test_lines_are_those_of_this_call():
    x = jnp.asarray(X)
    with config.debug_bounds(True):
        said = []
        for f in (lambda: jnp.take(x, 12),
                  lambda: jnp.take(x, 13)):
            with pytest.raises(OutOfBoundsError) as e:
                f()
            said.append(int(str(e.value).partition("test_index_bounds.py:")[2].split()[0]))
        assert said[1] == said[0] + 1


def test_check_errors_contain_the_given_message():
    def f(x):
        debug.check(x > 0, "x is {x:.1f}, not {}", "positive", x=x)
        return x

    for how in (f, jit(f)):
        assert float(how(2.0)) == 2
        with pytest.raises(CheckError, match=r"debug.check: x is -1.5, not positive; at .*\(f\)"):
            np.asarray(how(jnp.float32(-1.5)))
    for bad in (lambda: debug.check(X > 0, ""), lambda: debug.check(1, ""), lambda: debug.check(True, 3)):
        with pytest.raises(TypeError, match="debug.check: "):
            bad()
    with pytest.raises(ValueError, match="does not fit"):
        debug.check(True, "{} {}", 1)
