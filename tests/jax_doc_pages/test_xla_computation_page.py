"""The examples of `xla_computation` on the public API page."""
import types

import lamina as jax
import numpy as np
from lamina import lax, xla_computation


def test_hlo_of_a_scalar_function():
    def f(x):
        return jax.numpy.sin(jax.numpy.cos(x))

    c = jax.xla_computation(f)(3.)
    text = c.as_hlo_text()
    assert text.startswith("HloModule xla_computation_f")
    assert text.index("f32[] parameter(0)") < text.index("cosine(") < text.index("sine(cosine")
    assert "(f32[]) tuple(" in text
    scalar = types.SimpleNamespace(shape=(), dtype=np.dtype(np.float32))
    assert jax.xla_computation(f)(scalar).as_hlo_text() == text


def test_hlo_of_a_collective():
    def f(x):
        return x - jax.lax.psum(x, "i")

    text = jax.xla_computation(f, axis_env=[("i", 4)])(2).as_hlo_text()
    assert "s32[] all-reduce(" in text and "replica_groups={{0,1,2,3}}" in text and "subtract(" in text


def test_replica_groups_of_several_axes():
    def g(x):
        rowsum = lax.psum(x, "i")
        colsum = lax.psum(x, "j")
        allsum = lax.psum(x, ("i", "j"))
        return rowsum, colsum, allsum

    c = xla_computation(g, axis_env=[("i", 4), ("j", 2)])(5.)
    groups = [line.split("replica_groups=")[1].split(", to_apply")[0]
              for line in c.as_hlo_text().splitlines() if "all-reduce(" in line]
    assert groups == ["{{0,2,4,6},{1,3,5,7}}", "{{0,1},{2,3},{4,5},{6,7}}", "{{0,1,2,3,4,5,6,7}}"]
    assert "(f32[], f32[], f32[]) tuple(" in c.as_hlo_text()


def test_return_shape():
    shapes = jax.xla_computation(lambda x: {"y": x + 1}, return_shape=True)(np.ones((2, 3), np.float32))[1]
    assert shapes["y"].shape == (2, 3) and shapes["y"].dtype == np.float32 and shapes["y"].named_shape == {}
