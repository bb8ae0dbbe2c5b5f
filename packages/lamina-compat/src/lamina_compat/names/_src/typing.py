"""`jax._src.typing`: types for annotations."""
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

__all__ = ["DType", "DeprecatedArg", "DimSize", "DuckTypedArray", "ExtendedDType", "Shape", "SupportsDType", "SupportsShape"]

from .dtypes import ExtendedDType

DType: TypeAlias = np.dtype
DimSize: TypeAlias = Any  # an int, or a symbolic size
Shape: TypeAlias = Sequence[DimSize]


class SupportsDType(Protocol):
    """An object with a dtype."""

    @property
    def dtype(self) -> DType: ...


class SupportsShape(Protocol):
    """An object with a shape."""

    @property
    def shape(self) -> Shape: ...


class DuckTypedArray(SupportsDType, SupportsShape, Protocol):
    """An object with a dtype and a shape."""


class DeprecatedArg:
    """The default of a parameter that will be removed."""
