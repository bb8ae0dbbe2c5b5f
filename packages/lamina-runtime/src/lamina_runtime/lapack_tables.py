"""scipy's tables of BLAS and LAPACK functions, without the rest of `scipy.linalg`.

jaxlib's kernels call the functions that two extension modules of scipy list, and imports those by name. Importing all of
`scipy.linalg` around them takes 0.14 s of a process that factorises one matrix, five times what compiling it takes. Here the
two are loaded by themselves, and stand among the imported modules while jaxlib reads them; who imports `scipy.linalg` later
gets all of it.
"""
from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from types import ModuleType

__all__ = ["shown"]

_PACKAGE = "scipy.linalg"
_TABLES = tuple(f"{_PACKAGE}.{name}" for name in ("cython_blas", "cython_lapack"))


@contextmanager
def shown() -> Iterator[None]:
    """A block in which the tables can be imported by name. Where they cannot be had alone, importing them takes longer."""
    if _PACKAGE in sys.modules:
        yield
        return
    made: dict[str, ModuleType] = {}
    try:
        if not _load(made):
            _hide(made)
        yield
    finally:
        _hide(made)


def _load(made: dict[str, ModuleType]) -> bool:
    """Put the tables in `made` and among the imported modules. False where scipy does not keep them as files, or they want
    of it what is not there."""
    try:
        package = importlib.util.find_spec("scipy")
        folders = [os.path.join(place, "linalg") for place in (package and package.submodule_search_locations) or ()]
        for name in _TABLES:
            spec = PathFinder.find_spec(name, folders)
            if spec is None or spec.loader is None:
                return False
            made[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(made[name])
    except Exception:  # jaxlib's own import tells what is wrong
        return False
    sys.modules.update(made)
    return True


def _hide(made: dict[str, ModuleType]) -> None:
    """The package, imported later, would find them there and have them under no name of its own."""
    for name in list(made):
        if sys.modules.get(name) is made.pop(name):
            del sys.modules[name]
