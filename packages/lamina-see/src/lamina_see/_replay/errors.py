"""The error of shadow mode."""
from __future__ import annotations

from typing import ClassVar

from lamina_ir import ExecutionError

__all__ = ["DifferenceError"]


class DifferenceError(ExecutionError):
    """A compiled program gave other results than its NumPy evaluation, with `shadow_every`.

    Fix: run the file that the message names with `python -m lamina replay FILE --shrink`. If a lowering rule of your own
    is involved, correct it; otherwise report the shrunk file.
    """

    code: ClassVar[str] = "LAM1511"
