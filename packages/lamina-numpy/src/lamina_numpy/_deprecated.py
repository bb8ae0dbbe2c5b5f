"""Former public names of this package. Each works for one minor version and warns when it is used."""
from __future__ import annotations

from typing import Any

from typing_extensions import deprecated

from ._core.promotion import ignore_strict_promotion
from ._core.public_api import public_api

__all__ = ["own_terms", "public"]


@deprecated("use ignore_strict_promotion")
def own_terms(*args: Any, **kwargs: Any) -> Any: return ignore_strict_promotion(*args, **kwargs)

@deprecated("use public_api")
def public(*args: Any, **kwargs: Any) -> Any: return public_api(*args, **kwargs)
