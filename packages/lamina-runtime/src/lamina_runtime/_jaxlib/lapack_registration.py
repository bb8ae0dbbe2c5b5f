"""Load scipy's BLAS and LAPACK function tables without the rest of `scipy.linalg`.

jaxlib's kernels call the functions in two extension modules of scipy, which jaxlib imports by name. That import would
also import all of `scipy.linalg`, which takes longer than compiling a program that factorises one matrix. This
module loads only the two extensions and puts them into `sys.modules` while jaxlib reads them. A later import of
`scipy.linalg` is unaffected.
"""
from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from types import ModuleType

__all__ = ["importable_tables"]

_PACKAGE = "scipy.linalg"
_TABLES = tuple(f"{_PACKAGE}.{name}" for name in ("cython_blas", "cython_lapack"))


@contextmanager
def importable_tables() -> Iterator[None]:
    """Context in which the tables can be imported by name.

    If they cannot be loaded without `scipy.linalg`, jaxlib's import of them loads all of it.
    """
    if _PACKAGE in sys.modules:
        yield
        return
    loaded: dict[str, ModuleType] = {}
    try:
        if not _load(loaded):
            _remove(loaded)
        yield
    finally:
        _remove(loaded)


def _load(loaded: dict[str, ModuleType]) -> bool:
    """Load the tables into `loaded` and `sys.modules`. Return False if they are not files or fail to load."""
    try:
        package = importlib.util.find_spec("scipy")
        folders = [os.path.join(path, "linalg") for path in (package and package.submodule_search_locations) or ()]
        for name in _TABLES:
            spec = PathFinder.find_spec(name, folders)
            if spec is None or spec.loader is None:
                return False
            loaded[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(loaded[name])
    except Exception:  # jaxlib's own import reports the cause
        return False
    sys.modules.update(loaded)
    return True


def _remove(loaded: dict[str, ModuleType]) -> None:
    """Remove the tables from `sys.modules`.

    If they stayed, a later import of `scipy.linalg` would find them there and not set them as its attributes.
    """
    for name in list(loaded):
        if sys.modules.get(name) is loaded.pop(name):
            del sys.modules[name]
