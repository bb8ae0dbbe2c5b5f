"""Default implementation of this package: the names that `lamina_tracing` re-exports.

A plugin that replaces only a few of them starts with `from lamina_tracing._default import *`.
"""
from importlib import import_module
from typing import TYPE_CHECKING

from lamina_ir.layers import deprecated_getattr as _deprecated_getattr
from . import debug, extend, lax, operators
from ._jit import hooks
from ._version import __version__
from .api import disable_jit, ensure_compile_time_eval, eval_shape, make_jaxpr, named_call, named_scope, typeof
from ._core.array import Array, ArrayLike, AxisLike, DTypeLike, ShapeLike
from ._jit.jit import jit
from .lax.callbacks import io_callback, pure_callback
from .settings import (check_tracer_leaks, checking_leaks, debug_bounds, debug_infs, debug_key_reuse,
                       debug_nans, default_matmul_precision, default_prng_impl, disable_x64, enable_checks,
                       enable_custom_prng, enable_x64, explain_cache_misses, legacy_prng_key, log_compiles,
                       numpy_dtype_promotion, numpy_rank_promotion, threefry_partitionable)

__all__ = ["Array", "ArrayLike", "AxisLike", "DTypeLike", "ShapeLike", "__version__", "check_tracer_leaks",
           "checking_leaks", "debug", "debug_bounds", "debug_infs", "debug_key_reuse", "debug_nans",
           "default_matmul_precision", "default_prng_impl", "disable_jit", "disable_x64", "enable_checks",
           "enable_custom_prng", "enable_x64", "ensure_compile_time_eval", "eval_shape", "explain_cache_misses", "extend",
           "hooks", "interfaces", "io_callback", "jit", "lax", "legacy_prng_key", "linear_util", "log_compiles", "make_jaxpr",
           "named_call", "named_scope", "numpy_dtype_promotion", "numpy_rank_promotion", "primitives", "pure_callback",
           "threefry_partitionable", "typeof"]

if TYPE_CHECKING:
    from . import primitives, interfaces, linear_util

operators.install_operators()


_deprecated = _deprecated_getattr(__package__ or "")


def __getattr__(name: str) -> object:
    if name in ("interfaces", "linear_util", "primitives"):
        return import_module(f"{__package__}.{name}")  # imported on first use: only program analysis tools need them
    return _deprecated(name)
