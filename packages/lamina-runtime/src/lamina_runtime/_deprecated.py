"""Former public names of this package. Each works for one minor version and warns when it is used."""
from __future__ import annotations

from typing import Any

from typing_extensions import deprecated

from ._array.memory_layout import get_layout
from ._dispatch.stages import STAGE_METHODS, check_call_args
from ._placement.plan import format_bytes

__all__ = [
    "ATTRIBUTES", "checked_arguments", "layout_of_array", "size_words"]

@deprecated("use check_call_args")
def checked_arguments(*args: Any, **kwargs: Any) -> Any: return check_call_args(*args, **kwargs)

@deprecated("use get_layout")
def layout_of_array(*args: Any, **kwargs: Any) -> Any: return get_layout(*args, **kwargs)

@deprecated("use format_bytes")
def size_words(*args: Any, **kwargs: Any) -> Any: return format_bytes(*args, **kwargs)

ATTRIBUTES = STAGE_METHODS
