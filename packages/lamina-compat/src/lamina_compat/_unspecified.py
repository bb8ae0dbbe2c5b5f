"""The value that stands for "no sharding given" in params of JAX's `pjit`."""
from typing import Final

from typing_extensions import override

__all__ = ["UNSPECIFIED", "UnspecifiedValue"]


class UnspecifiedValue:
    """The class of `UNSPECIFIED`."""

    @override
    def __repr__(self) -> str:
        return "UnspecifiedValue"


UNSPECIFIED: Final = UnspecifiedValue()
