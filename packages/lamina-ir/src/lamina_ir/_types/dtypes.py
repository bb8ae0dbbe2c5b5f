"""Dtypes: names, canonical widths, weak types and the promotion lattice.

Python scalars have the weak types `i*` (int), `f*` (float) and `c*` (complex), which are below the concrete types of
their kind in the lattice, so `float32_array * 2.0` is float32. Source: the promotion table of jax-style systems.
"""
from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import ml_dtypes
import numpy as np

from .. import config
from ..errors import DTypeError
from .key_dtypes import KEY_TYPES, extended, is_key, key_type, new_key_type, prng_key, key_tag, key_size
from .._typing import DTypeSpec

__all__ = ["BOOL", "KEY_TYPES", "SHORT_NAMES", "TypePromotionError", "as_dtype", "bfloat16", "canonical_complex",
           "canonical_float", "canonical_int", "canonicalize", "canonicalize_dtype", "complex_dtype",
           "define_key_type", "dtype_of_int", "extended", "finfo", "float0", "from_short_name", "iinfo",
           "inexact_dtype_for", "is_bool", "is_complex", "is_float", "is_inexact", "is_integer", "is_key",
           "is_number", "issubdtype", "itemsize_bits", "key_size", "key_tag", "key_type", "long_name",
           "portable_name", "prng_key", "promote", "real_dtype", "short_name", "tangent_dtype"]

TypePromotionError = DTypeError  # the name that JAX has
BOOL = np.dtype(bool)
bfloat16 = np.dtype(ml_dtypes.bfloat16)
float0 = np.dtype([("float0", np.void, 0)])  # dtype of tangents of integers: the zero-dimensional vector space

_EXTRA_FLOATS = {name: np.dtype(getattr(ml_dtypes, name)) for name in (
    "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "bfloat16")
    if hasattr(ml_dtypes, name)}
_EXTRA_INTS = {name: np.dtype(getattr(ml_dtypes, name)) for name in ("int2", "int4", "uint2", "uint4")
               if hasattr(ml_dtypes, name)}
_FLOATS = frozenset([np.dtype("float16"), np.dtype("float32"), np.dtype("float64"), *_EXTRA_FLOATS.values()])
_SIGNED = frozenset([np.dtype(f"int{b}") for b in (8, 16, 32, 64)] + [d for n, d in _EXTRA_INTS.items() if n[0] == "i"])
_UNSIGNED = frozenset([np.dtype(f"uint{b}") for b in (8, 16, 32, 64)]
                      + [d for n, d in _EXTRA_INTS.items() if n[0] == "u"])
_COMPLEX = frozenset([np.dtype("complex64"), np.dtype("complex128")])
_INTS = _SIGNED | _UNSIGNED
_INEXACT = _FLOATS | _COMPLEX
_NUMBERS = _INTS | _INEXACT

_SHORT = {BOOL: "bool", bfloat16: "bf16", float0: "float0"}
_SHORT.update({np.dtype(f"{kind}{bits}"): f"{short}{bits}" for kind, short, widths in (
    ("int", "i", (8, 16, 32, 64)), ("uint", "u", (8, 16, 32, 64)), ("float", "f", (16, 32, 64)),
    ("complex", "c", (64, 128))) for bits in widths})
_SHORT.update({d: ("i" if n[0] == "i" else "u") + n[-1] for n, d in _EXTRA_INTS.items()})
_SHORT.update({d: n.replace("float", "f") for n, d in _EXTRA_FLOATS.items() if n != "bfloat16"})
_SHORT.update({d: f"key<{tag}>" for tag, d in KEY_TYPES.items()})
_LONG = {short: dtype for dtype, short in _SHORT.items()}
SHORT_NAMES = frozenset(_LONG)
_NARROW = {np.dtype(a): np.dtype(b) for a, b in (("float64", "float32"), ("int64", "int32"), ("uint64", "uint32"),
                                                 ("complex128", "complex64"))}


def is_bool(d: np.dtype) -> bool:
    """Whether a dtype is bool."""
    return d == BOOL


def is_float(d: np.dtype) -> bool:
    """Whether a dtype is real floating point, small floats included."""
    return d in _FLOATS


def is_complex(d: np.dtype) -> bool:
    """Whether a dtype is complex."""
    return d in _COMPLEX


def is_inexact(d: np.dtype) -> bool:
    """Whether a dtype is floating point or complex."""
    return d in _INEXACT


def is_integer(d: np.dtype) -> bool:
    """Whether a dtype is a signed or unsigned integer; bool is not."""
    return d in _INTS


def is_number(d: np.dtype) -> bool:
    """Whether a dtype is integer, floating point or complex."""
    return d in _NUMBERS


def short_name(d: np.dtype) -> str:
    """Return the name in printed programs: `f32` for float32."""
    name = _SHORT.get(d)
    if name is None:
        raise DTypeError(f"dtype {d} is not supported")
    return name


def long_name(d: np.dtype) -> str:
    """Return the name in error messages: `float32`, or `key<fry>` for keys."""
    return f"key<{key_tag(d)}>" if is_key(d) else "float0" if d.names else d.name


def define_key_type(tag: str, size: int) -> np.dtype:
    """Make the key dtype of a new generator: `key<tag>`, with a number after the tag if it is in use.

    Args:
      tag: the printed name, without spaces, quotes and the characters `<>[],:.`.
      size: the number of uint32 values in a key, at least 1.
    Returns:
      A dtype, one element of which is one key.
    Raises:
      ValueError: `tag` or `size` is invalid.

    >>> long_name(define_key_type("mine", 3))
    'key<mine>'
    """
    if not isinstance(tag, str) or not tag or set(tag) & set("<>[],:.'\"") or any(c.isspace() for c in tag):
        raise ValueError(f"define_key_type: tag must be a string without spaces and none of <>[],:.'\"; got {tag!r}")
    if not isinstance(size, int) or size < 1:
        raise ValueError(f"define_key_type: size must be an int of at least 1; got {size!r}")
    new = new_key_type(tag, size)
    name = _SHORT[new] = long_name(new)
    _LONG[name] = new
    return new


def portable_name(d: np.dtype) -> str:
    """Return `short_name` for use in files; DTypeError for a key dtype with a number after its tag.

    Other processes may number generators with one tag differently.
    """
    name = short_name(d)
    if is_key(d) and "." in name:
        raise DTypeError(f"{name} keys cannot be stored: several generators have this tag in this process; use "
                         "different tags, or store random.key_data(keys)")
    return name


def from_short_name(name: str) -> np.dtype:
    """Return the dtype with this printed name; KeyError if absent."""
    return _LONG[name]


_PYTHON_TYPES = {bool: BOOL, int: np.dtype("int64"), float: np.dtype("float64"), complex: np.dtype("complex128")}


@lru_cache(maxsize=512)
def _resolve(spec: DTypeSpec) -> np.dtype:
    if isinstance(spec, str) and spec in _EXTRA_FLOATS:
        return _EXTRA_FLOATS[spec]
    if isinstance(spec, str) and spec in _EXTRA_INTS:
        return _EXTRA_INTS[spec]
    d = _PYTHON_TYPES.get(spec) if isinstance(spec, type) else None
    if d is None:
        own = getattr(spec, "dtype", None)  # scalar-type objects such as lamina.numpy.float32
        d = own if isinstance(own, np.dtype) else np.dtype(spec)
    if d in _SHORT:
        return d
    if d.byteorder in "<>" and d.newbyteorder("=") in _SHORT:
        return d.newbyteorder("=")
    raise DTypeError(f"dtype {d} is not an array element type here; expected bool, integer, float or complex"
                     + suggest_dtype(spec, similar=False))


def suggest_dtype(spec: object, similar: bool = True) -> str:
    """Return a question with the name of the dtype that `spec` may mean; "" if unknown.

    It knows printed names ("bf16") and their form "fp16", and if `similar`, beginnings of names and misspelled names.
    """
    if not isinstance(spec, str) or not spec:
        return ""
    name = spec.strip().lower().replace("fp", "f")
    printed_names = {d.name: short for d, short in _SHORT.items() if d in _NUMBERS or d == BOOL}
    found = [n for n, short in printed_names.items() if name == short]
    if similar and not found:
        from difflib import get_close_matches  # noqa: PLC0415 (takes 5 ms to load)
        found = [n for n, short in printed_names.items() if n.startswith(name) or short.startswith(name)]
        found = found or get_close_matches(name, printed_names, n=1, cutoff=0.75)
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else ""


def as_dtype(spec: DTypeSpec) -> np.dtype:
    """Return the `numpy.dtype` of a dtype, type, name, scalar-type object or array, without narrowing; else
    DTypeError."""
    if type(spec) is np.dtype and spec in _SHORT:
        return spec
    try:
        return _resolve(spec)
    except DTypeError:
        raise
    except (TypeError, SyntaxError) as e:  # np.dtype("f4,,") raises SyntaxError
        if isinstance(own := getattr(spec, "dtype", None), np.dtype):  # an array: not hashable, so the cache raised
            return _resolve(own)
        raise DTypeError(f"expected a dtype; got {spec!r}{suggest_dtype(spec)}") from e


def canonicalize(spec: DTypeSpec) -> np.dtype:
    """Return the dtype that lamina uses for `spec`: unchanged in 64-bit mode, else at most 32 bits wide (complex:
    64)."""
    d = as_dtype(spec)
    if d in _NARROW and not config.enable_x64.value:
        return _NARROW[d]
    return d


def canonicalize_dtype(dtype: DTypeSpec, allow_extended_dtype: bool = False) -> np.dtype:
    """Return the dtype that lamina uses for `dtype`: unchanged in 64-bit mode, else at most 32 bits wide (complex: 64).

    Args:
      dtype: a dtype, or anything that specifies one.
      allow_extended_dtype: ignored: extended dtypes, such as those of keys, are always accepted.

    >>> canonicalize_dtype("float64")
    dtype('float32')
    """
    del allow_extended_dtype
    return canonicalize(dtype)


_F32, _F64, _I32, _I64, _U32, _C64, _C128 = map(np.dtype, ("float32", "float64", "int32", "int64", "uint32",
                                                          "complex64", "complex128"))


def canonical_float() -> np.dtype:
    """Return the default float dtype."""
    return _F64 if config.enable_x64.value else _F32


def inexact_dtype_for(dtype: np.dtype) -> np.dtype:
    """Return the dtype of quotients and roots of values of `dtype`.

    It is `dtype` itself if inexact, float64 for 64-bit integers in 64-bit mode, and float32 otherwise.

    >>> inexact_dtype_for(np.dtype("int32"))
    dtype('float32')
    """
    return dtype if is_inexact(dtype) else _F64 if dtype.itemsize == 8 and config.enable_x64.value else _F32


def canonical_int() -> np.dtype:
    """Return the default integer dtype."""
    return _I64 if config.enable_x64.value else _I32


def canonical_complex() -> np.dtype:
    """Return the default complex dtype."""
    return _C128 if config.enable_x64.value else _C64


def dtype_of_int(x: int) -> np.dtype:
    """Return the dtype of a Python int; OverflowError if it does not fit."""
    d = canonical_int()
    if -(1 << (8 * d.itemsize - 1)) <= x < (1 << (8 * d.itemsize - 1)):
        return d
    raise OverflowError(f"Python integer {x} is out of range for {d.name}; pass an array of a wider dtype"
                        + ("" if d == _I64 else " (64-bit needs config.enable_x64)"))


def real_dtype(d: np.dtype) -> np.dtype:
    """Return float32 for complex64, float64 for complex128, else `d`."""
    return _F32 if d == _C64 else _F64 if d == _C128 else d


def complex_dtype(d: np.dtype) -> np.dtype:
    """Return the complex dtype whose real and imaginary parts can represent `d`."""
    return _C128 if d in (_F64, _C128) else _C64


def tangent_dtype(d: np.dtype) -> np.dtype:
    """Return the dtype of tangents of values of dtype `d`: `d`, or `float0` if `d` is not inexact."""
    return d if d in _INEXACT else float0


# --- promotion --------------------------------------------------------------------------------------------------
# Nodes are dtypes, or 'i*', 'f*', 'c*' for weak types. The promoted dtype is the least upper bound along these edges.
_Node: TypeAlias = np.dtype | str
_EDGES: dict[_Node, list[_Node]] = {BOOL: ["i*"], "i*": [], "f*": [], "c*": [_C64], _C64: [_C128], _C128: []}


def _add_edges(a: _Node, *bs: _Node) -> None:
    _EDGES.setdefault(a, []).extend(np.dtype(b) if b not in ("i*", "f*", "c*") else b for b in bs)


_add_edges("i*", "uint8", "int8", *(d for d in _EXTRA_INTS.values()), "f*")
_add_edges(np.dtype("uint8"), "int16", "uint16")
_add_edges(np.dtype("uint16"), "int32", "uint32")
_add_edges(np.dtype("uint32"), "int64", "uint64")
_add_edges(np.dtype("uint64"), "f*")
_add_edges(np.dtype("int8"), "int16")
_add_edges(np.dtype("int16"), "int32")
_add_edges(np.dtype("int32"), "int64")
_add_edges(np.dtype("int64"), "f*")
for _small in _EXTRA_INTS.values():
    _add_edges(_small)
_add_edges("f*", *(d for d in _EXTRA_FLOATS.values()), "float16", "c*")
_add_edges(bfloat16, "float32")
_add_edges(np.dtype("float16"), "float32")
_add_edges(np.dtype("float32"), "float64", "complex64")
_add_edges(np.dtype("float64"), "complex128")
for _small in _EXTRA_FLOATS.values():
    if _small != bfloat16:
        _add_edges(_small)


def _upper_bounds(node: _Node) -> frozenset[_Node]:
    seen, todo = {node}, [node]
    while todo:
        for up in _EDGES[todo.pop()]:
            if up not in seen:
                seen.add(up)
                todo.append(up)
    return frozenset(seen)


_UP = {node: _upper_bounds(node) for node in _EDGES}


@lru_cache(maxsize=1024)
def _join(nodes: frozenset[_Node]) -> _Node:
    if not nodes <= _UP.keys():  # float0 and keys promote only with themselves
        names = ", ".join(sorted(n if isinstance(n, str) else long_name(n) for n in nodes))
        raise DTypeError(f"no implicit promotion among dtypes {names}; random.key_data(key) returns the uint32 data of a "
                         "key")
    common = frozenset.intersection(*(_UP[n] for n in nodes))
    for candidate in common:
        if common <= _UP[candidate]:
            return candidate
    names = ", ".join(sorted(str(n) for n in nodes))
    raise DTypeError(f"no implicit promotion among dtypes {names}; convert one with astype first")


def _node(dtype: np.dtype, weak: bool) -> _Node:
    if not weak or dtype == BOOL:
        return dtype
    return "i*" if dtype in _INTS else "f*" if dtype in _FLOATS else "c*"


@lru_cache(maxsize=4096)
def _promote(pairs: tuple[tuple[np.dtype, bool], ...], x64: bool, mode: str) -> tuple[np.dtype, bool]:
    nodes = frozenset(_node(d, w) for d, w in pairs)
    if len(nodes) == 1:
        weak = all(w for _, w in pairs) and pairs[0][0] != BOOL
        return _widest([d for d, _ in pairs]), weak
    if mode == "strict" and _is_mixed(nodes):
        raise DTypeError(_refusal(pairs, x64, mode))
    top = _join(nodes)
    if isinstance(top, str):  # only weak types and bool, or integers with weak floats
        f = _F64 if x64 else _F32
        found, weak = {"i*": _I64 if x64 else _I32, "f*": f, "c*": complex_dtype(f)}[top], True
    else:
        found, weak = (top if x64 else _NARROW.get(top, top)), False
    if mode == "safe_integers" and _lost_integers(nodes, found):
        raise DTypeError(_refusal(pairs, x64, mode))
    return found, weak


def _is_mixed(nodes: frozenset[_Node]) -> bool:
    """Whether strict promotion refuses these types: two dtypes, or a Python number of a higher kind than the array."""
    strong = {n for n in nodes if not isinstance(n, str)}
    kinds = {"i*": 0, "f*": 1, "c*": 2}
    return len(strong) > 1 or any(_kind(d) < kinds[n] for d in strong for n in nodes if isinstance(n, str))


def _lost_integers(nodes: frozenset[_Node], found: np.dtype) -> list[np.dtype]:
    """Return the integer dtypes among `nodes` with values that `found` cannot represent.

    It is empty if one of the nodes is a float, since integers then become floats one by one and do not wrap.
    """
    if any(n not in _INTS and n != BOOL and n != "i*" for n in nodes):
        return []
    ints = [n for n in nodes if not isinstance(n, str) and n != BOOL]
    if found not in _INTS:
        return ints
    least, most = int(iinfo(found).min), int(iinfo(found).max)
    return [d for d in ints if int(iinfo(d).min) < least or int(iinfo(d).max) > most]


def _refusal(pairs: tuple[tuple[np.dtype, bool], ...], x64: bool, mode: str) -> str:
    """Return the text of the error about a refused promotion: the dtypes, what is lost, the cast to write."""
    names = ", ".join(sorted(d.name + ("*" if w else "") for d, w in pairs))
    text, cast = f"{mode} dtype promotion refuses to mix {names}", "astype"
    try:
        found = _promote(pairs, x64, "standard")[0]
    except DTypeError:
        pass
    else:
        cast = f"x.astype({found.name!r})"
        lost = sorted(d.name for d in _lost_integers(frozenset(_node(d, w) for d, w in pairs), found))
        if lost:
            text += f": {found.name} does not hold all values of {' and '.join(lost)}"
    return f"{text}; convert explicitly with {cast}, or set config.numpy_dtype_promotion to 'standard'"


def _kind(d: np.dtype) -> int:
    return -1 if d == BOOL else 0 if d in _INTS else 1 if d in _FLOATS else 2


def _widest(ds: list[np.dtype]) -> np.dtype:
    return max(ds, key=lambda d: d.itemsize)


def promote(*pairs: tuple[np.dtype, bool], call: str = "") -> tuple[np.dtype, bool]:
    """Return the promoted (dtype, weak_type) of values with these (dtype, weak_type) pairs.

    Args:
      *pairs: (dtype, weak_type) of each value.
      call: the name of the called function, for errors.
    Raises:
      DTypeError: the dtypes have no common dtype, or the setting `numpy_dtype_promotion` refuses their promotion.

    >>> promote((np.dtype("int32"), False), (np.dtype("float32"), True))
    (dtype('float32'), True)
    """
    try:
        return _promote(pairs, config.enable_x64.value, config.numpy_dtype_promotion.value)
    except DTypeError as error:
        if call:
            error.args = (f"{call}: {error}",)
        raise


def finfo(dtype: DTypeSpec) -> np.finfo | ml_dtypes.finfo:
    """Return the machine limits of a float or complex dtype, small floats included (`numpy.finfo`,
    `ml_dtypes.finfo`)."""
    d = as_dtype(dtype)
    return ml_dtypes.finfo(d) if d in _EXTRA_FLOATS.values() else np.finfo(d)


def iinfo(int_type: DTypeSpec) -> np.iinfo | ml_dtypes.iinfo:
    """Return the machine limits of an integer dtype (`numpy.iinfo`, `ml_dtypes.iinfo`)."""
    d = as_dtype(int_type)
    return ml_dtypes.iinfo(d) if d in _EXTRA_INTS.values() else np.iinfo(d)


def itemsize_bits(dtype: DTypeSpec) -> int:
    """Return how many bits an element has: 8 for bool, 4 for int4.

    >>> itemsize_bits("int4"), itemsize_bits("complex64")
    (4, 64)
    """
    d = as_dtype(dtype)
    if is_key(d):
        raise ValueError(f"itemsize_bits: the size of keys is not defined; got {long_name(d)}. Use key_data")
    if d in _EXTRA_INTS.values():
        return int(ml_dtypes.iinfo(d).bits)
    return int(ml_dtypes.finfo(d).bits) if d in _EXTRA_FLOATS.values() else 8 * d.itemsize


def issubdtype(arg1: DTypeSpec, arg2: DTypeSpec) -> bool:
    """Whether a dtype is below another, as `numpy.issubdtype`; small floats and ints count as floats and ints.

    >>> issubdtype("bfloat16", np.floating)
    True
    """
    if arg2 is prng_key or arg2 is extended:
        abstract = isinstance(arg1, type) and issubclass(arg1, np.generic)
        return arg1 is prng_key or arg1 is arg2 if abstract else is_key(as_dtype(arg1))
    if not isinstance(arg2, type) or not issubclass(arg2, np.generic):
        b_type = as_dtype(arg2).type
    else:
        b_type = arg2
    if isinstance(arg1, type) and issubclass(arg1, np.generic) and arg1 not in _SCALARS:
        return issubclass(arg1, b_type)  # an abstract type such as numpy.floating
    d = as_dtype(arg1)
    if d in _EXTRA_FLOATS.values():
        return b_type is d.type or issubclass(np.floating, b_type)
    if d in _EXTRA_INTS.values():
        kind = np.signedinteger if d in _SIGNED else np.unsignedinteger
        return b_type is d.type or issubclass(kind, b_type)
    return issubclass(d.type, b_type)


_SCALARS = frozenset(d.type for d in _SHORT)
