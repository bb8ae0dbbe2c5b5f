"""`jax._src.earray`: the class of arrays of extended dtypes in JAX."""
__all__ = ["EArray"]


class EArray:
    """A class without instances, for `isinstance`: lamina's arrays of keys are plain arrays."""

    def __init__(self, aval: object, data: object) -> None:
        raise TypeError("EArray: lamina has no arrays of new extended dtypes; register a pytree with jax.tree_util")
