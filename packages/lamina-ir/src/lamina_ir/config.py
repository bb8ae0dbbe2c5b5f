"""Settings of this package, and access to the settings of all packages by name.

`option` implements settings. `jax_levels` sets the defaults of a release of JAX. `jax_compat_flags` defines flags of
other systems that have no effect here; it is loaded when one of them is used.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from types import ModuleType

from typing_extensions import override

from ._config.jax_levels import as_jax
from ._config.option import (Generation, Option, UNSET, cache_key, generation, keyed_values, options,
                             restoring_settings, is_unchanged, watch_keyed_options)
from ._typing import OptionValue
from .errors import mark_builtin_error

__all__ = ["Generation", "Option", "UNSET", "as_jax", "cache_key", "check_tracer_leaks", "debug_bounds",
           "debug_infs", "debug_key_reuse", "debug_nans", "default_matmul_precision", "default_prng_impl",
           "disable_jit", "enable_checks", "enable_custom_prng", "enable_x64", "evaluate_max_bytes", "explain_cache_misses",
           "explicit_x64_dtypes", "generation", "high_dynamic_range_gumbel", "is_unchanged", "keyed_values",
           "legacy_prng_key", "log_compiles", "no_tracing", "numpy_dtype_promotion", "numpy_rank_promotion",
           "options", "parse_flags_with_absl", "random_seed_offset", "read", "replicated_counts_once",
           "restoring_settings", "threefry_partitionable", "traceback_filtering", "update", "watch_keyed_options"]


def _check_axis_set(value: OptionValue) -> None:
    if type(value) is not frozenset:
        raise ValueError("config replicated_counts_once: expected True, False, or a frozenset of axis names; got "
                         f"{value!r}")


def _check_explicit_x64(value: OptionValue) -> None:
    if value == "allow":
        raise ValueError("config explicit_x64_dtypes: 'allow' is not supported, because single 64-bit arrays among "
                         "32-bit ones would be narrowed in some call; set enable_x64")


def _check_not_negative(name: str, value: OptionValue) -> None:
    if value < 0:
        raise ValueError(f"config {name}: expected an integer of at least 0; got {value!r}")


enable_x64 = Option("enable_x64", False, keyed=True, help="64-bit integers, floats and complex numbers; otherwise they become "
                    "32-bit ones: a dtype='float64' with a warning at the caller's line; data without a warning, "
                    "or with one warning per process if no runtime is installed")
explicit_x64_dtypes = Option("explicit_x64_dtypes", "warn", choices=("warn", "error", "allow"), keyed=True,
                             check=_check_explicit_x64,
                             help="what a dtype='float64' does without enable_x64: warn, or raise ValueError")
no_tracing = Option("no_tracing", False, help="raise if a user function is traced for new argument types: to check "
                    "that a loop uses only compiled programs")
disable_jit = Option("disable_jit", False, help="run each primitive by itself, loops and branches in Python")
numpy_dtype_promotion = Option("numpy_dtype_promotion", "standard", keyed=True,
                               choices=("standard", "safe_integers", "strict"),
                               help="'strict' raises instead of promoting dtypes implicitly; 'safe_integers' raises if "
                                    "integers would wrap, as uint32 and int8 promoted to int32")
numpy_rank_promotion = Option("numpy_rank_promotion", "allow", choices=("allow", "warn", "raise"), keyed=True,
                              help="what to do when broadcasting adds axes")
debug_key_reuse = Option("debug_key_reuse", False, keyed=True,
                         help="raise if a typed random key is used for a draw or a split a second time")
default_prng_impl = Option("default_prng_impl", "threefry2x32", choices=("threefry2x32", "rbg", "unsafe_rbg"), keyed=True,
                           help="the generator of new random keys, and of keys that are uint32 arrays")
enable_custom_prng = Option("enable_custom_prng", False, keyed=True, help="`PRNGKey` returns typed keys, as `key` does")
legacy_prng_key = Option("legacy_prng_key", "allow", choices=("allow", "warn", "error"), keyed=True,
                         help="what to do if a key is a uint32 array instead of a typed key")
high_dynamic_range_gumbel = Option("high_dynamic_range_gumbel", False, keyed=True,
                                   help="Gumbel draws without `mode` use twice as many bits where precision needs them")
random_seed_offset = Option("random_seed_offset", 0, keyed=True, help="added to the seed of each new key")
default_matmul_precision = Option("default_matmul_precision", None, keyed=True,
                                  help="precision of matrix products without an explicit one: 'default', 'high', "
                                       "'highest', 'bfloat16', 'tensorfloat32', 'float32'")
threefry_partitionable = Option("threefry_partitionable", False, keyed=True,
                                help="random bits from each element's own counter, as in JAX since 0.5 by default; off: "
                                     " the classic stream, the default of JAX 0.4.30")
replicated_counts_once = Option("replicated_counts_once", False, keyed=True, check=_check_axis_set,
                                help="derivatives inside maps treat a replicated value as one value: over all axes, "
                                     "none, or those of a frozenset of axis names")
debug_nans = Option("debug_nans", False, keyed=True, help="raise when a NaN first appears")
debug_bounds = Option("debug_bounds", False, keyed=True, help="raise if an index is out of bounds")
debug_infs = Option("debug_infs", False, keyed=True, help="raise when an infinity first appears")
traceback_filtering = Option("traceback_filtering", True, choices=(True, False, "off", "auto", "remove_frames",
                                                                   "quiet_remove_frames", "tracebackhide"),
                             help="hide lamina's own frames in tracebacks: remove them, or only mark them "
                                  "('tracebackhide') for tools that hide such frames; False or 'off' shows them")
check_tracer_leaks = Option("check_tracer_leaks", False, keyed=True,
                            help="raise if a tracer outlives its trace")
enable_checks = Option("enable_checks", False, help="verify each staged program with `lamina_ir._passes.verify`: slow")
log_compiles = Option("log_compiles", False, help="log each staging and compilation, with times, as a warning")
explain_cache_misses = Option("explain_cache_misses", False,
                              help="log why a jitted function is staged or compiled again")
evaluate_max_bytes = Option("evaluate_max_bytes", 2**32,
                            check=lambda value: _check_not_negative("evaluate_max_bytes", value),
                            help="maximal memory in bytes of a program's values in the NumPy evaluator; 0: no limit")


_load_flags = partial(import_module, "lamina_ir._config.jax_compat_flags")  # on demand: most programs use none of them


def _unknown(call: str, name: str) -> AttributeError:
    from difflib import get_close_matches  # noqa: PLC0415 (takes 5 ms to load)
    short = name.removeprefix("jax_")
    near = get_close_matches(short, options, n=1) or [known for known in options if len(short) > 2 and short.lower() in known]
    hint = f"did you mean {near[0]!r}?" if near else "config.values contains all settings"
    return mark_builtin_error(AttributeError(f"{call} no setting {name!r}; {hint}"))


def _find(name: str) -> Option | None:
    """Return the setting with this name, with or without the prefix `jax_`; None if absent."""
    short = name.removeprefix("jax_")
    found = options.get(short)
    if found is None and not name.startswith("_"):
        _load_flags()
        found = options.get(short)
    return found


def _find_or_raise(call: str, name: str) -> Option:
    option = _find(name) if isinstance(name, str) else None
    if option is None:
        raise _unknown(f"config.{call}:", str(name))
    return option


def update(name: str, value: OptionValue) -> None:
    """Change a setting by name: `config.update("enable_x64", True)`; a `jax_` prefix is accepted.

    Args:
      name: the name of the setting.
      value: its new value, or the option `config.<name>` of a setting, which stands for its value in this thread.

    >>> update("enable_checks", read("enable_checks"))
    """
    _find_or_raise("update", name).set(value.value if isinstance(value, Option) else value)


def read(name: str) -> OptionValue:
    """Return the value of a setting in this thread, by name; a `jax_` prefix is accepted.

    >>> read("jax_numpy_rank_promotion")
    'allow'
    """
    return _find_or_raise("read", name).value


def parse_flags_with_absl() -> None:
    """Set settings from the command line: `--jax_<name>=<value>`, or `--jax_<name>` and `--nojax_<name>` for booleans.

    `sys.argv` is not changed.
    """
    for argument in sys.argv[1:]:
        if argument == "--":
            break
        flag, _, text = argument.lstrip("-").partition("=")
        name = flag.removeprefix("no") if flag.startswith("nojax_") else flag
        if not argument.startswith("-") or not name.startswith("jax_"):
            continue
        option = _find_or_raise("parse_flags_with_absl", name)
        option.set(option.parse(text or ("0" if name != flag else "1"), f"the argument {argument!r}"))


def _values() -> Mapping[str, OptionValue]:
    """Return the values of all settings in this thread, by the names that `update` accepts."""
    _load_flags()
    return {("" if option.env else "jax_") + name: option.value for name, option in sorted(options.items())}


def __getattr__(name: str) -> Option | OptionValue:
    """`config.jax_enable_x64` is the value of `enable_x64`; `config.<name>` finds the settings of other packages."""
    if name.startswith("__"):  # Python looks up `__path__` at every `from .config import ...`
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "config":  # older programs use `from lamina.config import config`
        return sys.modules[__name__]
    if name == "x64_enabled":
        return enable_x64.value
    if name == "values":
        return _values()
    option = _find(name)
    if option is None:
        raise _unknown("config has", name)
    return option.value if name.startswith("jax_") else option


class _Module(ModuleType):
    """`config.enable_x64 = True` is `config.update("enable_x64", True)`."""

    @override
    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return import_module, (self.__name__,)

    @override
    def __setattr__(self, name: str, value: OptionValue) -> None:
        option = _find(name)
        if option is not None:
            option.set(value)
        elif name.startswith("_") or name in vars(self):
            super().__setattr__(name, value)
        else:
            raise _unknown("config has", name)


sys.modules[__name__].__class__ = _Module

if any(name.startswith(("JAX_", "JAX2TF_", "EXPERIMENTAL_XMAP_")) for name in os.environ):
    _load_flags()  # it warns of variables that have no effect
