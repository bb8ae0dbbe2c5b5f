"""`lamina.numpy`: the functions of `lamina_numpy`, and `fft` and `linalg`. Each is fetched when it is first asked for."""
# The runtime comes first: it installs the hooks through which the other packages dispatch.
import lamina_runtime as _runtime
import lamina_numpy as _home  # gives arrays and traced values their operators and methods
import typing as _typing
from importlib import import_module as _import_module

from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_numpy import __all__ as __all__

if _typing.TYPE_CHECKING:
    from lamina_numpy import *

    from . import fft as fft  # type: ignore[no-redef]  # the star brought another module of this name
    from . import linalg as linalg  # type: ignore[no-redef]


if not _typing.TYPE_CHECKING:  # to checkers a name that is not listed is a mistake
    def __getattr__(name: str) -> _typing.Any:
        if name in ("fft", "linalg"):  # also modules of `lamina_numpy`, but here the attribute is the module `lamina.numpy.fft`
            return _import_module(f"{__name__}.{name}")  # loaded when first asked for
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value = getattr(_home, name)
        return value


_explain_absent_names(globals())
