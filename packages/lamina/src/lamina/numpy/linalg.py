"""`lamina.numpy.linalg`: linear algebra, from `lamina_numpy.linalg`."""
import typing as _typing

import lamina_numpy.linalg as _home
from lamina_numpy.linalg import __all__ as __all__

if _typing.TYPE_CHECKING:
    from lamina_numpy.linalg import *


def __getattr__(name: str) -> _typing.Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(_home, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
