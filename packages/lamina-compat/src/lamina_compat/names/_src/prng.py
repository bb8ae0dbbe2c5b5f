"""`jax._src.prng`: generators of random bits, and the class of keys."""
from typing import Any

from lamina_random.extend import threefry_prng_impl
from lamina_tracing import Array as PRNGKeyArray

__all__ = ["PRNGKeyArray", "threefry_fold_in", "threefry_random_bits", "threefry_seed", "threefry_split"]

threefry_seed: Any = threefry_prng_impl.seed
threefry_split: Any = threefry_prng_impl.split
threefry_random_bits: Any = threefry_prng_impl.random_bits
threefry_fold_in: Any = threefry_prng_impl.fold_in
