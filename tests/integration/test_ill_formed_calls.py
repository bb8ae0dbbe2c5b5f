"""An invalid primitive call raises the same error in every transformation, for one member and the called primitive."""
import lamina
import lamina.numpy as jnp
import pytest
from lamina import lax

X = jnp.ones(3)
BAD = {"shapes": (lambda x: lax.mul(x, jnp.ones((2, 3))), r"^mul: operands need one shape.*float32\[3\], float32\[2,3\]"),
       "dtypes": (lambda x: lax.bitwise_and(x, x), r"^bitwise_and: expected integers or truth values; got float32\[3\]"),
       "without a derivative": (lambda x: lax.nextafter(x, jnp.ones(2)), r"^nextafter: operands need one shape"),
       "axes": (lambda x: lax.broadcast_in_dim(x, (3, 3), (5,)),
                r"^broadcast_in_dim: axis 5 is out of range; expected 0 <= axis < 2")}


@pytest.mark.parametrize("name", BAD)
def test_same_error_in_every_transformation(name):
    f, message = BAD[name]
    runs = {"eager": lambda: f(X), "jit": lambda: lamina.jit(f)(X), "vmap": lambda: lamina.vmap(f)(jnp.ones((4, 3))),
            "jvp": lambda: lamina.jvp(f, (X,), (X,)), "vjp": lambda: lamina.vjp(f, X),
            "vmap of jvp": lambda: lamina.vmap(lambda x: lamina.jvp(f, (x,), (x,)))(jnp.ones((4, 3)))}
    for run in runs.values():
        with pytest.raises((TypeError, ValueError), match=message):
            run()


def test_clamp_of_booleans():
    assert lax.clamp(False, jnp.array([True, False]), jnp.array([False, True])).tolist() == [False, False]


def test_ensure_compile_time_eval():
    @lamina.jit
    def f(x):
        with lamina.ensure_compile_time_eval():
            n = int(jnp.sum(jnp.arange(3)) + lamina.jit(jnp.sin)(0.))
        return x * n
    assert f(2.) == 6 and lamina.vmap(f)(jnp.ones(2)).tolist() == [3, 3]


def test_int_tangent_of_a_float_is_refused():
    with pytest.raises(TypeError, match="same dtype"):
        lamina.jvp(jnp.sin, (1.,), (1,))
