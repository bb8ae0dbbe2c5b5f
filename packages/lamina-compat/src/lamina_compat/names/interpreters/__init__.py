"""`jax.interpreters`: rules of primitives."""
