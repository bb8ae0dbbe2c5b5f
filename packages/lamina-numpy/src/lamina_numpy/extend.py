"""Extension API for the library packages: publish functions and read their arguments.

- `public_api` marks a plain function as public; `publish` exports the jitted version of each marked function of a module.
- `to_inexact` converts integers and booleans to floats; `alike` converts arrays to one dtype and shape.
- `work_dtype` returns the dtype for accumulation.
- `axes_of` reads axis arguments, including names of mapped axes; `fitted` reads masks.
- `ignore_strict_promotion` marks a function whose internal operations may promote even if the user's settings forbid it.
"""
from typing import TYPE_CHECKING

from lamina_ir.layers import deprecated_getattr

from ._core.named_axes import axes_of
from ._core.promotion import alike, ignore_strict_promotion, to_inexact, work_dtype
from ._core.public_api import public_api, publish
from ._reductions.reductions import fitted

__all__ = ["alike", "axes_of", "fitted", "ignore_strict_promotion", "public_api", "publish", "to_inexact", "work_dtype"]

if TYPE_CHECKING:
    from ._deprecated import *
else:
    __getattr__ = deprecated_getattr(__name__)
