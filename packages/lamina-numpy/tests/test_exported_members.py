"""The package's public names are exactly `__all__`, every one is documented, and NumPy's main namespace is covered."""
from __future__ import annotations

import importlib
import subprocess
import sys
import types

import lamina_numpy as lnp
import numpy as np
import pytest

# numpy's names with no counterpart: memory layout, text, files, dates, masked or object data, settings of errors
NO_COUNTERPART = {
    "False_", "ScalarType", "True_", "__array_namespace_info__", "array2string", "asanyarray",
    "asarray_chkfinite", "ascontiguousarray", "asfortranarray", "asmatrix", "base_repr", "binary_repr", "bmat",
    "broadcast", "busday_count", "busday_offset", "busdaycalendar", "byte", "bytes_", "clongdouble",
    "common_type", "complex192", "complex256", "copyto", "cumproduct", "datetime64", "datetime_as_string",
    "datetime_data", "disp", "errstate", "flatiter", "float128", "float96", "format_float_positional",
    "format_float_scientific", "fromregex", "genfromtxt", "get_include", "getbufsize", "geterr",
    "geterrcall", "half", "in1d", "info", "intc", "intp", "is_busday", "isfortran", "isnat", "little_endian",
    "loadtxt", "long", "longdouble", "longlong", "matrix", "may_share_memory", "memmap", "min_scalar_type",
    "mintypecode", "msort", "ndenumerate", "ndindex", "nditer", "nested_iters", "poly1d", "putmask",
    "real_if_close", "recarray", "record", "require", "row_stack", "savetxt", "savez_compressed", "sctypeDict",
    "setbufsize", "seterr", "seterrcall", "shares_memory", "short", "show_config", "show_runtime", "str_", "test",
    "timedelta64", "trapz", "typecodes", "typename", "ubyte", "uintc", "uintp", "ulong", "ulonglong",
    "ushort", "void"}


def test_all_names_the_public_members() -> None:
    shown = {name for name in dir(lnp)
             if not name.startswith("_") and not isinstance(getattr(lnp, name), types.ModuleType)}
    assert shown | {"fft", "linalg", "__version__"} == set(lnp.__all__)
    assert len(lnp.__all__) == len(set(lnp.__all__))


def test_a_name_that_is_absent_is_refused_as_any_module_does() -> None:
    for module in (lnp, lnp.linalg, lnp.fft):
        with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'sinn'"):
            module.sinn  # noqa: B018


def test_functions_are_made_when_asked_for_and_once() -> None:
    code = """
import sys, threading
import lamina_numpy as lnp
assert "tan" not in vars(lnp) and {"tan", "unique", "fft"} <= {*dir(lnp)}
assert not {"lamina_numpy.fft", "lamina_numpy._sorting.sets"} & {*sys.modules}
got = []
threads = [threading.Thread(target=lambda: got.append((lnp.tan, lnp.unique))) for _ in range(8)]
[t.start() for t in threads], [t.join() for t in threads]
assert len(set(got)) == 1 and (vars(lnp)["tan"], vars(lnp)["unique"]) == got[0]
from lamina_numpy import *
assert unique is got[0][1] and fft.fft is lnp.fft.fft and unique.__module__ == tan.__module__ == "lamina_numpy"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_modules_that_are_loaded_later_are_shown_whole() -> None:
    for name, names in lnp._LATER.items():
        assert names.split() == [] or sorted(importlib.import_module(f"lamina_numpy.{name}").__all__) == sorted(names.split())


def test_there_are_more_than_200_functions() -> None:
    assert sum(callable(getattr(lnp, name)) and not isinstance(getattr(lnp, name), type) for name in lnp.__all__) > 250


def test_functions_have_docstrings() -> None:
    bare = [name for name in lnp.__all__ if callable(getattr(lnp, name)) and not getattr(lnp, name).__doc__]
    assert not bare


def test_numpys_functions_are_here() -> None:
    theirs = {name for name in np.__all__ if callable(getattr(np, name, None)) and (name[0] != "_" or name[1] == "_")}
    assert not theirs - set(lnp.__all__) - NO_COUNTERPART
    assert not NO_COUNTERPART & set(lnp.__all__)


def test_scalar_types_stand_for_their_dtype() -> None:
    assert lnp.float32 == np.float32 and np.dtype(lnp.bfloat16) == lnp.bfloat16
    assert {lnp.int8: 1}[np.int8] == 1
    assert lnp.zeros(2, lnp.int8).dtype == lnp.int8 and lnp.float32(3).dtype == np.float32
    assert isinstance(lnp.zeros(2), lnp.ndarray) and not isinstance(np.zeros(2), lnp.ndarray)
