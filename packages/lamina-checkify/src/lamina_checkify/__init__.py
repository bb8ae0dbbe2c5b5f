"""Checks whose errors are values: `checkify(f)` returns an `Error` in addition to the results of `f`."""
from . import _version as _version  # first: it checks the versions of sibling packages
from lamina_tracing.extend import hide_frames_of as _hide_frames_of

from ._check import JaxRuntimeError, check, check_p, debug_check
from ._checkify import checkify
from ._conditions import (ErrorCategory, all_checks, automatic_checks, checkify_rules, div_checks, float_checks,
                          index_checks, nan_checks, user_checks)
from ._error import Error, check_error, init_error
from ._version import __version__

__all__ = ["Error", "ErrorCategory", "JaxRuntimeError", "__version__", "all_checks", "automatic_checks", "check",
           "check_error", "check_p", "checkify", "checkify_rules", "debug_check", "div_checks", "float_checks",
           "index_checks", "init_error", "nan_checks", "user_checks"]

_hide_frames_of(__file__.rsplit("/", 1)[0])
