"""Extension API for dispatchers, which make fast calls from staged functions.

It covers jit options, errors about arguments, tracebacks and logs.

`logger` is the `logging.Logger` named `lamina`, to which the settings `log_compiles` and `explain_cache_misses` write.
`RENAMED_ERRORS` are the error classes whose messages `rename_errors` changes to start with the called function's name.
"""
from typing import TYPE_CHECKING

from lamina_ir.layers import deprecated_getattr

from .._core.args import argument_path, get_duck_typed_avals, flatten_args, flatten_results, get_arg_avals, result_path
from .._core.signature import argument_name, parameter_names
from .._diagnostics.cache_misses import Staging, logger, log_cache_miss, watching_staging
from .._jit.call_types import Jitted
from .._jit.jit_spec import JitSpec, contains_tracer
from .._jit.signature_cache import SignatureCache, StagedProgram, clear_programs
from .._core.source_lines import hide_frames_of, find_user_source, warn_user
from .._jit.call_spec import CallSpec
from .._diagnostics.argument_errors import RENAMED_ERRORS, rename_errors, rename_error, translate_error
from .._diagnostics.tracebacks import api_boundary, filter_traceback

__all__ = ["CallSpec", "JitSpec", "Jitted", "RENAMED_ERRORS", "SignatureCache", "StagedProgram", "Staging", "api_boundary",
           "argument_name", "argument_path", "clear_programs", "contains_tracer", "filter_traceback", "find_user_source",
           "flatten_args", "flatten_results", "get_arg_avals", "get_duck_typed_avals", "hide_frames_of", "log_cache_miss",
           "logger", "parameter_names", "rename_error", "rename_errors", "result_path", "translate_error", "warn_user",
           "watching_staging"]

if TYPE_CHECKING:
    from .._deprecated import *
else:
    __getattr__ = deprecated_getattr(__name__)
