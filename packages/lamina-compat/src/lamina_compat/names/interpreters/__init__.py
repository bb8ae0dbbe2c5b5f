"""`jax.interpreters`: rules of transformations and partial evaluation."""
