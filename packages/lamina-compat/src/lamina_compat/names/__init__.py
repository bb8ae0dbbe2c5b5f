"""Names of JAX that lamina does not show under the same path: one module for each module of JAX.

`jax.a.b` reads `lamina_compat.names.a.b` first, then `lamina.a.b`.
"""
