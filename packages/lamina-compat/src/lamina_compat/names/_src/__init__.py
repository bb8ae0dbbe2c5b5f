"""`jax._src`: the private modules of JAX that libraries import. `lamina_compat._private_modules` lists them."""
