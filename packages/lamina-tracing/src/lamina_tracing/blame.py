"""Which call and argument an error is about; looked up only once something has gone wrong."""
from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

from lamina_ir import Primitive

__all__ = ["ill_formed", "no_array"]

_TRACING = os.path.dirname(__file__) + os.sep
_LAX = _TRACING + "lax" + os.sep


def ill_formed(prim: Primitive, avals: Iterable[Any], params: dict[str, Any]) -> Exception | None:
    """The error of an op that is ill-formed as it was called, or None. The types are looked up here, one by one.

    A transformation's row may have tripped over it first, in other ops and with batched shapes.
    """
    try:
        prim.infer(*avals, **params)
    except (TypeError, ValueError) as error:
        return error
    except Exception:  # not about the types: what was raised first stands
        return None
    return None


def no_array(x: Any, error: Exception) -> Exception:
    """`error` about the value `x`, with the `lax` function it was given to and the argument's name in front."""
    frame: FrameType | None = sys._getframe(2)
    call = None
    while frame is not None and frame.f_code.co_filename.startswith(_TRACING):
        if frame.f_code.co_filename.startswith(_LAX):
            call = frame
        frame = frame.f_back
    if call is None:
        return error
    names = call.f_locals
    name = names["prim"].name if "prim" in names else call.f_code.co_name
    argument = next((f"{n}: " for n, v in names.items() if v is x), "")
    return type(error)(f"{name}: {argument}{error}")
