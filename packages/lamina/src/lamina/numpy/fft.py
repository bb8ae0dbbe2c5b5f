"""`lamina.numpy.fft`: Fourier transforms, from `lamina_numpy.fft`."""
import typing as _typing

import lamina_numpy.fft as _home
from lamina_numpy.fft import __all__ as __all__

if _typing.TYPE_CHECKING:
    from lamina_numpy.fft import *


def __getattr__(name: str) -> _typing.Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(_home, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
