"""Extension API for dispatchers, which make fast calls from staged functions.

It covers jit options, errors about arguments, tracebacks and logs.

`logger` is the `logging.Logger` named `lamina`, to which the settings `log_compiles` and `explain_cache_misses` write.
`RENAMED_ERRORS` are the error classes whose messages `rename_errors` changes to start with the called function's name.
"""
from ..arguments import argument_path, duck_types, flat_arguments, flat_results, flat_types, result_path
from ..parameters import argument_name, parameter_names
from ..explain import logger, told
from ..call_types import Jitted
from ..jit_spec import JitSpec, Staged, any_traced
from ..lines import hide_frames_of, user_source, warn_user
from ..slots import CallSpec
from ..call_errors import TOLD_IN_NAME, in_name, in_the_name_of, translated
from ..tracebacks import boundary, filter_traceback

__all__ = ["CallSpec", "JitSpec", "Jitted", "Staged", "TOLD_IN_NAME", "any_traced", "argument_name", "argument_path",
           "boundary", "duck_types", "filter_traceback", "flat_arguments", "flat_results", "flat_types", "hide_frames_of",
           "in_name", "in_the_name_of", "logger", "parameter_names", "result_path", "told", "translated", "user_source",
           "warn_user"]
