"""The package's public names are exactly `__all__`, every one is documented, and NumPy's main namespace is covered."""
from __future__ import annotations

import types

import lamina_numpy as lnp
import numpy as np

# numpy's names with no counterpart: memory layout, text, files, dates, masked or object data, settings of errors
NO_COUNTERPART = {
    "False_", "ScalarType", "True_", "__array_namespace_info__", "array2string", "asanyarray",
    "asarray_chkfinite", "ascontiguousarray", "asfortranarray", "asmatrix", "base_repr", "binary_repr", "bmat",
    "broadcast", "busday_count", "busday_offset", "busdaycalendar", "byte", "bytes_", "clongdouble",
    "common_type", "complex192", "complex256", "copyto", "cumproduct", "datetime64", "datetime_as_string",
    "datetime_data", "disp", "errstate", "flatiter", "float128", "float96", "format_float_positional",
    "format_float_scientific", "fromfile", "fromregex", "genfromtxt", "get_include", "getbufsize", "geterr",
    "geterrcall", "half", "in1d", "info", "intc", "intp", "is_busday", "isfortran", "isnat", "little_endian",
    "loadtxt", "long", "longdouble", "longlong", "matrix", "may_share_memory", "memmap", "min_scalar_type",
    "mintypecode", "msort", "ndenumerate", "ndindex", "nditer", "nested_iters", "poly1d", "putmask",
    "real_if_close", "recarray", "record", "require", "row_stack", "savetxt", "savez_compressed", "sctypeDict",
    "setbufsize", "seterr", "seterrcall", "shares_memory", "short", "show_config", "show_runtime", "str_", "test",
    "timedelta64", "trapz", "typecodes", "typename", "ubyte", "ufunc", "uintc", "uintp", "ulong", "ulonglong",
    "ushort", "void"}


def test_all_names_the_public_members() -> None:
    shown = {name for name, value in vars(lnp).items()
             if not name.startswith("_") and not isinstance(value, types.ModuleType)}
    assert shown | {"fft", "linalg", "__version__"} == set(lnp.__all__)
    assert len(lnp.__all__) == len(set(lnp.__all__))


def test_there_are_more_than_200_functions() -> None:
    assert sum(callable(getattr(lnp, name)) and not isinstance(getattr(lnp, name), type) for name in lnp.__all__) > 250


def test_functions_have_docstrings() -> None:
    bare = [name for name in lnp.__all__ if callable(getattr(lnp, name)) and not getattr(lnp, name).__doc__]
    assert not bare


def test_numpys_functions_are_here() -> None:
    theirs = {name for name in np.__all__ if callable(getattr(np, name, None))}
    assert not theirs - set(lnp.__all__) - NO_COUNTERPART
    assert not NO_COUNTERPART & set(lnp.__all__)


def test_scalar_types_stand_for_their_dtype() -> None:
    assert lnp.float32 == np.float32 and np.dtype(lnp.bfloat16) == lnp.bfloat16
    assert {lnp.int8: 1}[np.int8] == 1
    assert lnp.zeros(2, lnp.int8).dtype == lnp.int8 and lnp.float32(3).dtype == np.float32
    assert isinstance(lnp.zeros(2), lnp.ndarray) and not isinstance(np.zeros(2), lnp.ndarray)
