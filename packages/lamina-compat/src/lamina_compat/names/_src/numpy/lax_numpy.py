"""`jax._src.numpy.lax_numpy`: the names of `jax.numpy`, and the class of its scalar types."""
from lamina_numpy import float32 as _float32

__all__: list[str] = []

_ScalarMeta = type(_float32)  # for isinstance: the class of jax.numpy.float32
