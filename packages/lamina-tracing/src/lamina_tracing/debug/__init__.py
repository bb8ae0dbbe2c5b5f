"""Debug a running program.

`callback` calls Python with its values, `print` prints them, `check` raises if a condition is false, and `breakpoint`
stops at a prompt. Programs that contain such calls have the effect `DebugEffect`.
"""
from lamina_ir import DebugEffect

from ._breakpoint import breakpoint
from ..lax.callbacks import debug_callback as callback
from ..lax.callbacks import debug_check as check
from ..lax.callbacks import debug_print as print

__all__ = ["DebugEffect", "breakpoint", "callback", "check", "print"]
