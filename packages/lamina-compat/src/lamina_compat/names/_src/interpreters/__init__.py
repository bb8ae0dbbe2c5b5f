"""`jax._src.interpreters`: the names of `jax.interpreters`."""
