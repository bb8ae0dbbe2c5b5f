"""Find the `lax` call and the argument that an error is about. Nothing here runs unless an error was raised."""
from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from types import FrameType

from lamina_ir import Primitive, ShapedArray
from lamina_ir.typing import Params

__all__ = ["find_lax_call", "find_type_error", "not_an_array_error", "prefix_lax_function"]

_TRACING = os.path.dirname(sys.modules[__name__.partition(".")[0]].__file__ or "") + os.sep  # folder of this package
_LAX = _TRACING + "lax" + os.sep


def find_type_error(prim: Primitive, avals: Iterable[ShapedArray], params: Params) -> Exception | None:
    """Return the error of a primitive's type rule for these operand types and params, or None.

    A transformation's rule may have failed first, in another primitive or on batched shapes. The error of the type rule
    names the primitive and the operand types that the caller used.
    """
    try:
        prim.infer(*avals, **params)
    except (TypeError, ValueError) as error:
        return error
    except Exception:  # not about the types: the caller keeps its first error
        return None
    return None


def prefix_lax_function(error: Exception, prim: Primitive) -> None:
    """Replace the primitive's name at the start of an error by the name of the `lax` function that the user called."""
    text = error.args[0] if len(error.args) == 1 else None
    if type(text) is str and text.startswith(f"{prim.name}: "):
        call, frame = "", sys._getframe(2)
        while frame is not None and frame.f_code.co_filename.startswith(_LAX):
            call, frame = _name_of(frame) or call, frame.f_back  # type: ignore[assignment]
        if call:
            error.args = (call + text[len(prim.name):],)


def find_lax_call(depth: int = 2) -> tuple[str, FrameType | None]:
    """Return (name, frame) of the outermost running `lax` function; ("", None) if none is running.

    The search ends at the first frame outside this package. `depth` is the frame to start at, relative to this
    function.
    """
    frame: FrameType | None = sys._getframe(depth)
    name, call = "", None
    while frame is not None and frame.f_code.co_filename.startswith(_TRACING):
        if frame.f_code.co_filename.startswith(_LAX):
            name, call = _name_of(frame) or name, frame
        frame = frame.f_back
    return name, call


def _name_of(frame: FrameType) -> str:
    """Return the name of a public `lax` function, "" for nested functions and for helpers in private modules."""
    code = frame.f_code
    module = code.co_filename[len(_LAX):]
    is_private = module[0] == "_" and not module.startswith(("_control_flow", "_util/conversions"))  # with public functions
    is_public = code.co_name[0] not in "_<" and code.co_qualname == code.co_name and not is_private
    return code.co_name if is_public else ""


def not_an_array_error(x: object, error: Exception) -> Exception:
    """Prefix `error`, which is about the value `x`, with the `lax` function and the argument that `x` was passed as."""
    name, call = find_lax_call()
    if call is None:
        return error
    argument = next((f"{n}: " for n, v in call.f_locals.items() if v is x), "")
    return type(error)(f"{name or call.f_code.co_name}: {argument}{error}")
