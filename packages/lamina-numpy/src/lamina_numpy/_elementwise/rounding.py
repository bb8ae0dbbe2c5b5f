"""Rounding to whole numbers or decimals. Integers are round already and come back as they are."""
from __future__ import annotations

from typing import Any

from lamina_ir import DTypeError, dtypes
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import typeof

from .._ground.promotion import aval, convert, literal, no_out, to_inexact
from .._ground.publishing import public
from .ufuncs import positive

__all__ = ["around", "ceil", "fix", "floor", "modf", "rint", "round", "trunc"]


def _rounding(name: str, on: Any, doc: str) -> Any:
    """One equation on floats; integers are round already."""
    def op(x: ArrayLike, /) -> Array:
        d = aval(name, x).dtype
        if dtypes.is_complex(d):
            raise DTypeError(f"{name}: complex numbers have no order to round in; got {typeof(x).long()}. Take real "
                             "and imag first")
        if not dtypes.is_float(d):
            return positive(x)
        return on(x)
    return public(name=name, doc=doc)(op)


floor = _rounding("floor", lax.floor, "Largest whole number that is not above each element.")
ceil = _rounding("ceil", lax.ceil, "Smallest whole number that is not below each element.")


@public()
def rint(x: ArrayLike, /) -> Array:
    """Nearest whole number, in float; halves go to even."""
    a = aval("rint", x)
    if not dtypes.is_inexact(a.dtype):
        return convert(x, dtypes.canonical(float), False)
    return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)


@public("decimals", "out")
def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """Nearest number with `decimals` digits after the point; halves go to even.

    >>> round(2.5)
    Array(2., dtype=float32, weak_type=True)
    """
    no_out("round", out)
    d = aval("round", a).dtype
    if not dtypes.is_inexact(d):
        if decimals < 0:
            raise NotImplementedError(f"round: integers cannot be rounded to {decimals} decimals; convert to float "
                                      "first")
        return positive(a)
    if dtypes.is_complex(d):
        return lax.complex(round(lax.real(a), decimals), round(lax.imag(a), decimals))
    if not decimals:
        return lax.round(a, lax.RoundingMethod.TO_NEAREST_EVEN)
    scale = literal(10.0 ** decimals, d)
    return lax.div(lax.round(lax.mul(a, scale), lax.RoundingMethod.TO_NEAREST_EVEN), scale)


around = round


@public()
def trunc(x: ArrayLike, /) -> Array:
    """Whole part of each element."""
    d = aval("trunc", x).dtype
    if not dtypes.is_inexact(d):
        return positive(x)
    return lax.select(lax.lt(x, literal(0, d)), lax.ceil(x), lax.floor(x))


@public("out")
def fix(x: ArrayLike, out: None = None) -> Array:
    """Whole part of each element (towards zero)."""
    no_out("fix", out)
    return trunc(x)


@public()
def modf(x: ArrayLike, /) -> tuple[Any, Any]:
    """(fractional part, whole part), both with the sign of `x`."""
    x = to_inexact("modf", x)
    whole = trunc(x)
    return lax.sub(x, whole), whole
