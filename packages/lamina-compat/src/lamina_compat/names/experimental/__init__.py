"""`jax.experimental`."""
