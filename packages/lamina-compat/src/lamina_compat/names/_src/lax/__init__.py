"""`jax._src.lax`: the modules of `jax.lax`."""
