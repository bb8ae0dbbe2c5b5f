"""Name, signature and attributes of functions that transformations return."""
import functools
import inspect

import lamina as jax
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import dlpack
from lamina.custom_batching import custom_vmap


def scale(x, y=2.0, *, z=3.0):
    """Multiply."""
    return x * y * z


scale.units = "m"

WRAPPERS = {
    "jit": jax.jit, "static": lambda f: jax.jit(f, static_argnames="y"), "donating": lambda f: jax.jit(f, donate_argnums=0),
    "jit of jit": lambda f: jax.jit(jax.jit(f)), "pmap": jax.pmap, "vmap": jax.vmap, "checkpoint": jax.checkpoint,
    "grad": jax.grad, "value_and_grad": jax.value_and_grad, "jacfwd": jax.jacfwd, "jacrev": jax.jacrev,
    "hessian": jax.hessian, "custom_jvp": jax.custom_jvp, "custom_vjp": jax.custom_vjp, "custom_vmap": custom_vmap,
    "named_call": jax.named_call, "vectorize": jnp.vectorize}
CALLS = ["jit", "static", "donating", "jit of jit", "checkpoint", "grad", "named_call"]


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrappers_have_the_metadata_of_their_function(name):
    wrapped = WRAPPERS[name](scale)
    assert wrapped.__name__ == "scale" and wrapped.__qualname__ == "scale"
    assert wrapped.__doc__.endswith("Multiply.") and wrapped.__module__ == scale.__module__
    assert inspect.unwrap(wrapped) is scale
    assert inspect.signature(wrapped) == inspect.signature(scale)
    assert name == "jit of jit" or wrapped.units == "m"


@pytest.mark.parametrize("name", ["jit", "static", "donating", "checkpoint", "pmap"])
def test_wrappers_of_partials_have_their_signature_and_the_name_of_the_function(name):
    part = functools.partial(scale, z=4.0)
    wrapped = WRAPPERS[name](part)
    assert wrapped.__name__ == "scale"
    assert inspect.signature(wrapped) == inspect.signature(part)
    assert wrapped.__wrapped__ is part


@pytest.mark.parametrize("name", CALLS)
def test_wrappers_are_functions_of_partials(name):
    wrapped = WRAPPERS[name](scale)
    part = functools.partial(wrapped, 5.0, z=1.0)
    assert part.func is wrapped and part.args == (5.0,) and part.keywords == {"z": 1.0}
    assert part() == (2 if name == "grad" else 10)
    assert jax.jit(functools.partial(wrapped, z=1.0))(5.0) == part()
    assert jax.jit(lambda f: f())(jax.tree_util.Partial(wrapped, 5.0, z=1.0)) == part()


def test_attributes_of_the_function_do_not_replace_those_of_the_wrapper():
    def f(x):
        return x

    f.lower, f.jvp = "mine", "mine"
    assert jax.jit(f).lower(1.0).as_text()
    g = jax.custom_jvp(f)
    g.defjvp(lambda p, t: (p[0], 3 * t[0]))
    assert jax.grad(g)(1.0) == 3
    assert not hasattr(jax.vmap(jax.jit(f)), "spec")


def test_dtypes_of_dlpack_have_names():
    assert {"float32", "bfloat16", "int8"} <= {d.__name__ for d in dlpack.SUPPORTED_DTYPES}
    assert jnp.float32 in dlpack.SUPPORTED_DTYPES and np.int8 in dlpack.SUPPORTED_DTYPES
    assert dlpack.is_supported_dtype("float32") and not dlpack.is_supported_dtype("int4")


@pytest.mark.parametrize("name", ["enable_x64", "debug_nans", "numpy_dtype_promotion", "default_matmul_precision",
                                  "default_prng_impl"])
def test_update_takes_what_the_setting_returns(name):
    before = getattr(jax.config, "jax_" + name)
    jax.config.update("jax_" + name, getattr(jax.config, name))
    jax.config.update("jax_" + name, getattr(jax.config, "jax_" + name))
    assert getattr(jax.config, "jax_" + name) == before


def test_array_of_nested_lists_of_traced_values():
    def f(x):
        return jnp.array([[x, 1.0], (2, x * 2)])

    np.testing.assert_array_equal(jax.jit(f)(3.0), [[3, 1], [2, 6]])
    np.testing.assert_array_equal(jax.vmap(f)(jnp.arange(2.0))[1], [[1, 1], [2, 2]])
    assert jax.grad(lambda x: f(x).sum())(3.0) == 3
    assert jax.jit(lambda x: jnp.array([[[x], [1]], [[True], [x]]]))(3).shape == (2, 2, 1)
    assert jax.jit(lambda x: jnp.array([[x, 1], [2, 3.5]], dtype="int32"))(3.0).dtype == "int32"
    with pytest.raises(ValueError, match="the arrays in a list must have one shape"):
        jax.jit(lambda x: jnp.array([[x, 1], [2]]))(3.0)
