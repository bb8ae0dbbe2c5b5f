"""The indices of the user, looked at while `config.debug_bounds` is on (see `lamina_tracing.lax`): where no `mode` says what is
to become of positions outside."""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import lamina_tracing
import numpy as np
from lamina_ir import config
from lamina_tracing import hooks
from lamina_tracing.extend import check_index, should_check_bounds

from .parse import index_parts

__all__ = ["check_bounds", "is_check_enabled"]

_PACKAGE = Path(__file__).parent.parent
_LIBRARY_PATHS = (f"{Path(__file__).parent}/", f"{_PACKAGE}/_core/", f"{_PACKAGE}/_operators.py",
          f"{Path(lamina_tracing.__file__).parent}/")


def is_check_enabled() -> bool:
    """Return whether the indices come from user code and are to be checked."""
    return bool(config.debug_bounds.value) and should_check_bounds(*_LIBRARY_PATHS, *_get_runtime_folder())


def _get_runtime_folder() -> tuple[str, ...]:
    """The folder of who fills the slots of `lamina_tracing`."""
    file = sys.modules[type(hooks.evaluator).__module__.partition(".")[0]].__file__
    return (f"{Path(file).parent}/",) if file else ()


def check_bounds(call: str, index: Any, shape: tuple[int, ...], wrap: bool = True) -> None:
    """`check_index` for each part of an index of an array of this shape."""
    axis = 0
    for part in index_parts(index, shape):
        if part is None or type(part) is bool:
            continue
        mask = isinstance(part, np.ndarray) and part.dtype == bool
        if type(part) is not slice and not mask:
            check_index(call, part, shape[axis], axis, wrap)
        axis += part.ndim if mask else 1
