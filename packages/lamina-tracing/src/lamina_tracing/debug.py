"""Looking into a running program: `callback` calls Python with its values, `print` prints them, `check` raises where they are
not as they should be, `breakpoint` stops at a prompt. `DebugEffect` is what programs that hold these say of themselves."""
from lamina_ir import DebugEffect

from .breakpoints import breakpoint
from .lax.callbacks import debug_callback as callback
from .lax.callbacks import debug_check as check
from .lax.callbacks import debug_print as print

__all__ = ["DebugEffect", "breakpoint", "callback", "check", "print"]
