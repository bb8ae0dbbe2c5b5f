"""Context managers for settings: `with debug_nans(True): ...` changes a setting in the current thread.

Each is an option of `lamina_ir.config`. `config.update(name, value)` and the environment variable `LAMINA_<NAME>`
change its default for all threads.
"""
from __future__ import annotations

from contextlib import AbstractContextManager

from lamina_ir import config

__all__ = ["check_tracer_leaks", "checking_leaks", "debug_bounds", "debug_infs", "debug_key_reuse",
           "debug_nans", "default_matmul_precision", "default_prng_impl", "disable_x64", "enable_checks",
           "enable_custom_prng", "enable_x64", "explain_cache_misses", "legacy_prng_key", "log_compiles",
           "numpy_dtype_promotion", "numpy_rank_promotion",
           "threefry_partitionable"]

check_tracer_leaks = checking_leaks = config.check_tracer_leaks
debug_bounds = config.debug_bounds
debug_infs = config.debug_infs
debug_key_reuse = config.debug_key_reuse
debug_nans = config.debug_nans
default_matmul_precision = config.default_matmul_precision
default_prng_impl = config.default_prng_impl
enable_checks = config.enable_checks
enable_custom_prng = config.enable_custom_prng
enable_x64 = config.enable_x64
explain_cache_misses = config.explain_cache_misses
legacy_prng_key = config.legacy_prng_key
log_compiles = config.log_compiles
numpy_dtype_promotion = config.numpy_dtype_promotion
numpy_rank_promotion = config.numpy_rank_promotion
threefry_partitionable = config.threefry_partitionable


def disable_x64() -> AbstractContextManager[None]:
    """Disable 64-bit types inside the block.

    >>> with disable_x64():
    ...     bool(enable_x64)
    False
    """
    return config.enable_x64(False)
