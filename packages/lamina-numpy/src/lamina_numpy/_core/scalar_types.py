"""Scalar types and what one asks about element types.

`float32` and its siblings are callable (`float32(3)` is an array), stand for their dtype wherever one is expected, and
equal NumPy's scalar type of the same name.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from typing_extensions import override
from lamina_ir import ShapeDtypeStruct, config, dtypes
from lamina_tracing import Array
from lamina_tracing.extend import rename_errors, typeof

from .conversion import asarray

__all__ = ["bfloat16", "bool_", "can_cast", "cdouble", "character", "complex128", "complex64", "complex_",
           "complexfloating", "csingle", "double", "dtype", "finfo", "flexible", "float16", "float32", "float64",
           "float_", "floating", "generic", "iinfo", "inexact", "int16", "int32", "int64", "int8", "int_", "integer",
           "isdtype", "issubdtype", "number", "object_", "promote_types", "result_type", "signedinteger", "single",
           "uint", "uint16", "uint32", "uint64", "uint8", "unsignedinteger", "dtype_name", "scalar_types"]

scalar_types: dict[str, Any] = {}


class ScalarType(type):
    """The kind of `float32`: a class whose call makes an array and whose `dtype` is what it stands for."""

    dtype: np.dtype

    @override
    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    @override
    def __eq__(cls, other: object) -> bool:
        return cls is other or other is cls.dtype.type or isinstance(other, np.dtype) and other == cls.dtype

    @override
    def __ne__(cls, other: object) -> bool:
        return not cls == other

    @override
    def __call__(cls, x: Any = 0) -> Array:
        return asarray(x, dtype=cls.dtype)

    @override
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, cls.dtype.type)

    @override
    def __repr__(cls) -> str:
        return f"<class 'lamina.numpy.{cls.__name__}'>"


def _make_scalar_type(name: str, of: Any) -> ScalarType:
    kind = ScalarType(name, (), {"dtype": np.dtype(of), "__module__": "lamina_numpy",
                                  "__doc__": f"Element type {name}; `{name}(x)` is an array of it."})
    scalar_types[name] = kind
    return kind


bool_ = _make_scalar_type("bool_", bool)
int8, int16, int32, int64 = (_make_scalar_type(n, n) for n in ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = (_make_scalar_type(n, n) for n in ("uint8", "uint16", "uint32", "uint64"))
float16, float32, float64 = (_make_scalar_type(n, n) for n in ("float16", "float32", "float64"))
bfloat16 = _make_scalar_type("bfloat16", ml_dtypes.bfloat16)
complex64, complex128 = (_make_scalar_type(n, n) for n in ("complex64", "complex128"))
SMALL = ("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
         "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "int2", "int4",
         "uint2", "uint4")
if TYPE_CHECKING:  # made by the loop below, where ml_dtypes has them
    float8_e3m4 = float8_e4m3 = float8_e4m3b11fnuz = float8_e4m3fn = float8_e4m3fnuz = _make_scalar_type("", None)
    float8_e5m2 = float8_e5m2fnuz = float8_e8m0fnu = float4_e2m1fn = float6_e2m3fn = _make_scalar_type("", None)
    float6_e3m2fn = int2 = int4 = uint2 = uint4 = _make_scalar_type("", None)
for _name in SMALL:
    if hasattr(ml_dtypes, _name):
        globals()[_name] = _make_scalar_type(_name, getattr(ml_dtypes, _name))
        __all__.append(_name)

single, double, csingle, cdouble = float32, float64, complex64, complex128
float_, int_, uint, complex_ = float64, int64, uint64, complex128
character, flexible, object_ = np.character, np.flexible, np.object_
generic, number, inexact, integer = np.generic, np.number, np.inexact, np.integer
floating, complexfloating = np.floating, np.complexfloating
signedinteger, unsignedinteger = np.signedinteger, np.unsignedinteger
dtype = np.dtype
finfo, iinfo, issubdtype = rename_errors(dtypes.finfo), rename_errors(dtypes.iinfo), rename_errors(dtypes.issubdtype)
_PYTHON = {bool: False, int: 0, float: 0.0, complex: 0j}


def dtype_name(x: Any) -> str:
    """The name of the dtype that `x` stands for.

    >>> dtype_name(bfloat16)
    'bfloat16'
    """
    return dtypes.as_dtype(x).name


def _get_type(x: Any) -> tuple[np.dtype, bool]:
    if isinstance(x, type) and x in _PYTHON:
        x = _PYTHON[x]
    elif isinstance(x, (type, np.dtype, str)):
        return dtypes.canonicalize(x), False
    a = x if isinstance(x, ShapeDtypeStruct) else typeof(x)
    return a.dtype, a.weak_type


def result_type(*args: Any) -> np.dtype:
    """The dtype that operands of these values or dtypes meet in, Python numbers being weak.

    Args:
      *args: arrays, types of arrays, numbers, dtypes or names of them; `int`, `float`, `complex` stand for Python numbers.
    Returns:
      A dtype; of 32 bits where it would have 64, unless `enable_x64` is set.
    Raises:
      ValueError: there are no arguments.
      TypeError: one of them is neither an array, a number nor a dtype.

    Source: meaning of `numpy.result_type`, on the lattice of `lamina_ir.dtypes`: int32 and float16 meet in float16.

    >>> result_type(float32, 3, "int8")
    dtype('float32')
    """
    if not args:
        raise ValueError("result_type: at least one array or dtype is required")
    return dtypes.promote(*map(_get_type, args))[0]


def promote_types(a: Any, b: Any) -> np.dtype:
    """The dtype that two dtypes meet in.

    Args:
      a, b: dtypes or names of them; `int`, `float`, `complex` stand for Python numbers.
    Returns:
      A dtype; of 32 bits where it would have 64, unless `enable_x64` is set.
    Raises:
      DTypeError: one of them is no dtype, or they do not meet, as small floats do not with other dtypes.

    Source: meaning of `numpy.promote_types`, on the lattice of `lamina_ir.dtypes`: int32 and float16 meet in float16.

    >>> promote_types("int8", "bfloat16")
    dtype(bfloat16)
    """
    with config.numpy_dtype_promotion("standard"):
        return dtypes.promote(_get_declared_type(a), _get_declared_type(b))[0]


def _get_declared_type(x: Any) -> tuple[np.dtype, bool]:
    if isinstance(x, type) and x in _PYTHON and x is not bool:
        return _get_type(x)
    return dtypes.as_dtype(x), False


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Whether values of `from_` convert to `to` under NumPy's rule `casting`.

    Args:
      from_: a dtype or its name, or an array or a number, which stands for its dtype.
      to: a dtype or its name.
      casting: "no", "equiv", "safe", "same_kind" or "unsafe".
    Returns:
      A Python bool.
    Raises:
      ValueError: `casting` is another rule.
      DTypeError: a name is no dtype.
      TypeError: `from_` is neither a dtype, an array nor a number.

    Source: meaning of `numpy.can_cast`.

    >>> can_cast("int8", "float32"), can_cast("int32", "float32")
    (True, False)
    """
    source = from_ if isinstance(from_, (type, np.dtype, str)) else typeof(from_).dtype
    return bool(np.can_cast(dtypes.as_dtype(source), dtypes.as_dtype(to), casting=casting))  # type: ignore[arg-type]


_KINDS = {"bool": dtypes.is_bool, "integral": dtypes.is_integer, "real floating": dtypes.is_float,
          "complex floating": dtypes.is_complex, "numeric": dtypes.is_number,
          "signed integer": lambda d: dtypes.is_integer(d) and issubdtype(d, np.signedinteger),
          "unsigned integer": lambda d: dtypes.is_integer(d) and issubdtype(d, np.unsignedinteger)}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind.

    Args:
      dtype: a dtype or its name.
      kind: "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating" or "numeric", a
        dtype or an abstract one as `numpy.floating`, or a tuple of these, any of which will do.
    Returns:
      A Python bool.
    Raises:
      ValueError: `kind` is another name.
      DTypeError: `dtype` is no dtype.

    Source: meaning of `numpy.isdtype`; the array API standard 2023.12.

    >>> isdtype(float32, ("integral", "real floating"))
    True
    """
    d = dtypes.as_dtype(dtype)
    for k in kind if isinstance(kind, tuple) else (kind,):
        if isinstance(k, str) and k in _KINDS:
            if _KINDS[k](d):
                return True
        elif isinstance(k, str) and not hasattr(np, k) and k not in scalar_types:
            raise ValueError(f"isdtype: kind {k!r} is neither one of {', '.join(_KINDS)} nor a dtype")
        elif isinstance(k, type) and k in (np.generic, *np.generic.__subclasses__()) or issubdtype(d, k):
            if issubdtype(d, k):
                return True
    return False
