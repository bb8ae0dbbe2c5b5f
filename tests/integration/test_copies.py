"""A copy has separate memory: donating or deleting it does not affect the original."""
import lamina
import lamina.numpy as jnp
import numpy as np
import pytest

COPIES = {
    "array": jnp.array, "asarray": lambda x: jnp.asarray(x, copy=True), "copy": jnp.copy, "method": lambda x: x.copy(),
    "under jit": lamina.jit(jnp.array), "identity under jit": lamina.jit(lambda x: x),
    "second result": lambda x: lamina.jit(lambda v: (v, jnp.array(v)))(x)[1],
    "under jvp": lambda x: lamina.jvp(jnp.array, (x,), (x,))[0], "under vmap": lamina.vmap(jnp.array),
}
donate = lamina.jit(lambda x: x + 1, donate_argnums=0)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("how", COPIES)
def test_copy_is_donated_or_deleted(how, split):
    x = lamina.pmap(lambda r: r)(np.ones((8, 40))) if split else jnp.ones((8, 40))
    for use in (donate, lambda z: z.delete()):
        z = COPIES[how](x)
        use(z)
        assert z.is_deleted() and float((x + 1).sum()) == 640


def test_asarray_without_copy_is_the_array():
    x = jnp.ones(3)
    assert jnp.asarray(x) is x and jnp.array(x, copy=False) is x and jnp.array(x) is not x
    assert "copy" in str(lamina.make_jaxpr(jnp.array)(x))
    assert lamina.grad(lambda v: jnp.array(v).sum())(x).tolist() == [1, 1, 1]
