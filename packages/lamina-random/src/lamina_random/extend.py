"""`lamina_random.extend`: for those who add a generator."""
from lamina_ir.prims import threefry2x32_p
from ._prng_registry import (PRNGImpl, define_prng_impl, random_seed, rbg_prng_impl, seed_with_impl, threefry_2x32,
                             threefry_prng_impl, unsafe_rbg_prng_impl)

__all__ = ["PRNGImpl", "define_prng_impl", "random_seed", "rbg_prng_impl", "seed_with_impl", "threefry2x32_p", "threefry_2x32",
           "threefry_prng_impl", "unsafe_rbg_prng_impl"]
