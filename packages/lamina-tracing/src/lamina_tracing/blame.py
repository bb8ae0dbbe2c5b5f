"""Which call and argument an error is about; looked up only once something has gone wrong."""
from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

from lamina_ir import Primitive

__all__ = ["calling", "ill_formed", "in_its_call", "no_array"]

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


def in_its_call(error: Exception, prim: Primitive) -> None:
    """Have the error of an op begin with the `lax` function that was called, where the op goes by another name."""
    text = error.args[0] if len(error.args) == 1 else None
    if type(text) is str and text.startswith(f"{prim.name}: "):
        call, frame = "", sys._getframe(2)
        while frame is not None and frame.f_code.co_filename.startswith(_LAX):
            call, frame = _name_of(frame) or call, frame.f_back  # type: ignore[assignment]
        if call:
            error.args = (call + text[len(prim.name):],)


def calling(depth: int = 2) -> tuple[str, FrameType | None]:
    """(the name of the outermost of the `lax` functions that are running, "" where none is; its frame)."""
    frame: FrameType | None = sys._getframe(depth)
    name, call = "", None
    while frame is not None and frame.f_code.co_filename.startswith(_TRACING):
        if frame.f_code.co_filename.startswith(_LAX):
            name, call = _name_of(frame) or name, frame
        frame = frame.f_back
    return name, call


def _name_of(frame: FrameType) -> str:
    """The function's name, if it is one of `lax` that has a public name: none that is inside of another, no helper."""
    code = frame.f_code
    public = code.co_name[0] not in "_<" and code.co_qualname == code.co_name and code.co_filename[len(_LAX)] != "_"
    return code.co_name if public else ""


def no_array(x: Any, error: Exception) -> Exception:
    """`error` about the value `x`, with the `lax` function it was given to and the argument's name in front."""
    name, call = calling()
    if call is None:
        return error
    argument = next((f"{n}: " for n, v in call.f_locals.items() if v is x), "")
    return type(error)(f"{name or call.f_code.co_name}: {argument}{error}")
