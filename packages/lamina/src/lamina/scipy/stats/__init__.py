"""`lamina.scipy.stats`: probability distributions, from `lamina_scipy.stats`, each as it is asked for."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from importlib import import_module as _import_module
from typing import Any as _Any

from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_scipy.stats import __all__ as __all__
from lamina_scipy.stats import gaussian_kde, mode, rankdata, sem


def __getattr__(name: str) -> _Any:
    if name in __all__:
        return _import_module(f"{__name__}.{name}")  # loaded when first asked for: they are many
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_explain_absent_names(globals())
