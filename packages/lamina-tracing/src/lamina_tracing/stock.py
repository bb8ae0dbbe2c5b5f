"""Default implementation of this package: the names that `lamina_tracing` re-exports.

A plugin that replaces only a few of them starts with `from lamina_tracing._default import *`.
"""
from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import debug, extend, lax, operators, slots
from ._version import __version__
from .api import disable_jit, ensure_compile_time_eval, eval_shape, make_jaxpr, named_call, named_scope
from .array import Array, ArrayLike, AxisLike, DTypeLike, ShapeLike
from .jitting import jit
from .lax.callbacks import io_callback, pure_callback
from .settings import (check_tracer_leaks, checking_leaks, debug_bounds, debug_infs, debug_key_reuse, debug_nans,
                       default_matmul_precision, default_prng_impl, disable_x64, enable_checks, enable_custom_prng,
                       enable_x64, explain_cache_misses, legacy_prng_key, log_compiles, numpy_dtype_promotion,
                       numpy_rank_promotion, threefry_partitionable)

__all__ = ["Array", "ArrayLike", "AxisLike", "DTypeLike", "ShapeLike", "__version__", "check_tracer_leaks",
           "checking_leaks", "debug", "debug_bounds", "debug_infs", "debug_key_reuse", "debug_nans",
           "default_matmul_precision", "default_prng_impl", "disable_jit", "disable_x64", "enable_checks",
           "enable_custom_prng", "enable_x64", "ensure_compile_time_eval", "eval_shape", "explain_cache_misses", "extend",
           "io_callback", "jit", "lax", "legacy_prng_key", "log_compiles", "make_jaxpr", "named_call", "named_scope",
           "numpy_dtype_promotion", "numpy_rank_promotion", "primitives", "pure_callback", "seams", "slots",
           "threefry_partitionable", "wrapped_functions"]

if TYPE_CHECKING:
    from . import primitives, seams, wrapped_functions

operators.install()


def __getattr__(name: str) -> Any:
    if name in ("primitives", "seams", "wrapped_functions"):
        return import_module(f"{__package__}.{name}")  # imported on first use: only program analysis tools need them
    raise AttributeError(f"module {__package__!r} has no attribute {name!r}")
