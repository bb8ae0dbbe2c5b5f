"""Check shapes and dtypes of arguments at run time, also of traced arrays."""
import jax
import jax.numpy as jnp
from _report import show
from jaxtyping import Array, Float, Int, PyTree, Shaped, jaxtyped
from beartype import beartype


@jaxtyped(typechecker=beartype)
def product(x: Float[Array, "rows inner"], y: Float[Array, "inner columns"]) -> Float[Array, "rows columns"]:
    return x @ y


@jax.jit
def traced(x, y):
    return product(x, y)


failures = 0
for x, y in ((jnp.ones((2, 3)), jnp.ones((4, 2))), (jnp.ones((2, 3), jnp.int32), jnp.ones((3, 2)))):
    for call in (product, traced):
        try:
            call(x, y)
        except Exception:
            failures += 1
tests = [isinstance(jnp.ones(3), Float[Array, "3"]), isinstance(jnp.ones(3), Int[Array, "3"]),
         isinstance({"a": jnp.ones(2)}, PyTree[Shaped[Array, "_"]])]
show(out=traced(jnp.ones((2, 3)), jnp.full((3, 2), 0.5)), failures=failures, tests=tests)
