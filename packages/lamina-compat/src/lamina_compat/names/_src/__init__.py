"""`jax._src`: private modules of JAX that libraries import."""
