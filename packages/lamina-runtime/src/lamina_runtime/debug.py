"""`config.debug_nans`: every result of a compiled call is read, and a NaN raises where it first appears."""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_ir import config, dtypes, trees

from . import _jaxlib, arrays
from ._jaxlib import ArrayImpl

__all__ = ["check_nans", "install"]


def check_nans(name: str, out: Any) -> None:
    """FloatingPointError when an array in `out` holds a NaN."""
    for x in trees.tree_leaves(out):
        if type(x) is ArrayImpl and dtypes.is_inexact(x.aval.dtype) and not x.is_deleted():
            if np.isnan(arrays.host_value(x)).any():
                raise FloatingPointError(f"`{name}` produced a NaN in a result {x.aval.long()} (config.debug_nans is "
                                         "on). Run under lamina.disable_jit() to find the operation")


def _after_call(call: Any, args: Any, kwargs: Any, out: Any) -> None:
    check_nans(getattr(call, "__name__", "program"), out)


def _watch(value: Any, is_local: bool) -> None:
    hook = _after_call if value else None
    if is_local:
        _jaxlib.post_hook_state.set_local(_jaxlib.UNSET if value is None else hook)
    else:
        _jaxlib.post_hook_state.set_global(hook)


def install() -> None:
    """Follow the setting."""
    config.debug_nans.watch(_watch)
