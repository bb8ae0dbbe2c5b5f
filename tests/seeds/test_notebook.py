"""The notebook, cell by cell at a small size, and its printed programs to the letter."""
import re
import textwrap

import lamina as jax
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import random
from lamina.lib import xla_bridge


def dot(v: jax.Array, u: jax.Array):
    return jnp.vdot(v, u)


def printed(fun, *args):
    return re.sub(r"<axis 0x[0-9a-f]+>", "<axis 0x0>", str(jax.make_jaxpr(fun)(*args)))


V = random.normal(random.PRNGKey(42), shape=(16, 3))[:8, :]
U = random.normal(random.PRNGKey(42), shape=(16, 3))[8:, :]
NUMBERS = [0.51048726, -0.7174605, -0.20105815, -0.26437205, -1.3696793, 2.744793, 1.7936493, -1.1743435]


def test_platform_and_devices():
    assert xla_bridge.get_backend().platform == jax.default_backend()
    assert len(jax.local_devices()) == jax.local_device_count() == 8
    assert repr(dot(jnp.ones(shape=(3,)), jnp.ones(shape=(3,)))) == "Array(3., dtype=float32)"


@pytest.mark.parametrize("f", [jax.vmap(dot), jax.pmap(dot), jax.jit(jax.vmap(dot)), jax.jit(jax.pmap(dot)),
                               jax.pmap(jax.jit(dot))])
def test_numbers(f):
    np.testing.assert_allclose(np.asarray(f(V, U)), NUMBERS, rtol=3e-5)  # the notebook ran on a TPU


def test_too_many_slices():
    v = jnp.ones((1000, 3))
    with pytest.raises(ValueError, match="requires 1000 logical devices, but only 8 XLA devices are available"):
        jax.pmap(dot)(v, v)


def test_shapes():
    v = jnp.ones((8, 50, 3))
    assert jax.pmap(dot)(v, v).shape == (8,)
    assert jax.pmap(jax.vmap(dot))(v, v).shape == (8, 50)


def test_make_jaxpr_of_pmap_of_matrices():
    v = jnp.ones((8, 50, 3))
    assert printed(jax.pmap(dot), v, v) == textwrap.dedent("""\
        { lambda ; a:f32[8,50,3] b:f32[8,50,3]. let
            c:f32[8] = xla_pmap[
              axis_name=<axis 0x0>
              axis_size=8
              backend=None
              call_jaxpr={ lambda ; d:f32[50,3] e:f32[50,3]. let
                  f:f32[150] = reshape[dimensions=None new_sizes=(150,)] d
                  g:f32[150] = reshape[dimensions=None new_sizes=(150,)] e
                  h:f32[] = dot_general[
                    dimension_numbers=(((0,), (0,)), ((), ()))
                    precision=None
                    preferred_element_type=None
                  ] f g
                in (h,) }
              devices=None
              donated_invars=(False, False)
              global_arg_shapes=(None, None)
              global_axis_size=None
              in_axes=(0, 0)
              name=dot
              out_axes=(0,)
            ] a b
          in (c,) }""")


def test_make_jaxpr_of_jit_of_vmap():
    assert printed(jax.jit(jax.vmap(dot)), V, U) == textwrap.dedent("""\
        { lambda ; a:f32[8,3] b:f32[8,3]. let
            c:f32[8] = xla_call[
              call_jaxpr={ lambda ; d:f32[8,3] e:f32[8,3]. let
                  f:f32[8] = dot_general[
                    dimension_numbers=(((1,), (1,)), ((0,), (0,)))
                    precision=None
                    preferred_element_type=None
                  ] d e
                in (f,) }
              name=dot
            ] a b
          in (c,) }""")


def test_make_jaxpr_of_jit_of_pmap():
    assert printed(jax.jit(jax.pmap(dot)), V, U) == textwrap.dedent("""\
        { lambda ; a:f32[8,3] b:f32[8,3]. let
            c:f32[8] = xla_call[
              call_jaxpr={ lambda ; d:f32[8,3] e:f32[8,3]. let
                  f:f32[8] = xla_pmap[
                    axis_name=<axis 0x0>
                    axis_size=8
                    backend=None
                    call_jaxpr={ lambda ; g:f32[3] h:f32[3]. let
                        i:f32[] = dot_general[
                          dimension_numbers=(((0,), (0,)), ((), ()))
                          precision=None
                          preferred_element_type=None
                        ] g h
                      in (i,) }
                    devices=None
                    donated_invars=(False, False)
                    global_arg_shapes=(None, None)
                    global_axis_size=None
                    in_axes=(0, 0)
                    name=dot
                    out_axes=(0,)
                  ] d e
                in (f,) }
              name=dot
            ] a b
          in (c,) }""")


def test_make_jaxpr_of_pmap_of_jit():
    assert printed(jax.pmap(jax.jit(dot)), V, U) == textwrap.dedent("""\
        { lambda ; a:f32[8,3] b:f32[8,3]. let
            c:f32[8] = xla_pmap[
              axis_name=<axis 0x0>
              axis_size=8
              backend=None
              call_jaxpr={ lambda ; d:f32[3] e:f32[3]. let
                  f:f32[] = xla_call[
                    call_jaxpr={ lambda ; g:f32[3] h:f32[3]. let
                        i:f32[] = dot_general[
                          dimension_numbers=(((0,), (0,)), ((), ()))
                          precision=None
                          preferred_element_type=None
                        ] g h
                      in (i,) }
                    name=dot
                  ] d e
                in (f,) }
              devices=None
              donated_invars=(False, False)
              global_arg_shapes=(None, None)
              global_axis_size=None
              in_axes=(0, 0)
              name=dot
              out_axes=(0,)
            ] a b
          in (c,) }""")


def test_make_jaxpr_of_pmap():
    assert printed(jax.pmap(dot), V, U) == textwrap.dedent("""\
        { lambda ; a:f32[8,3] b:f32[8,3]. let
            c:f32[8] = xla_pmap[
              axis_name=<axis 0x0>
              axis_size=8
              backend=None
              call_jaxpr={ lambda ; d:f32[3] e:f32[3]. let
                  f:f32[] = dot_general[
                    dimension_numbers=(((0,), (0,)), ((), ()))
                    precision=None
                    preferred_element_type=None
                  ] d e
                in (f,) }
              devices=None
              donated_invars=(False, False)
              global_arg_shapes=(None, None)
              global_axis_size=None
              in_axes=(0, 0)
              name=dot
              out_axes=(0,)
            ] a b
          in (c,) }""")
