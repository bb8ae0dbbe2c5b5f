"""`lamina.scipy`: what SciPy has beyond NumPy, from `lamina_scipy`, module by module as they are asked for."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from importlib import import_module as _import_module
from typing import Any as _Any

from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_scipy import __all__ as _listed

__all__ = [name for name in _listed if name != "__version__"]


def __getattr__(name: str) -> _Any:
    if name in __all__:
        return _import_module(f"{__name__}.{name}")  # loaded when first asked for: they are many
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_explain_absent_names(globals())
