"""Docstrings with shared entries are complete on functions, aliases and array methods, and may be absent."""
from __future__ import annotations

import inspect
import re
import subprocess
import sys

import lamina_numpy as lnp

PLACEHOLDER = re.compile(r"^ *(?:Args: |Raises: |Returns: )?\{[a-zA-Z_][\w, ]*\}$", re.MULTILINE)
MODULES = (lnp, lnp.fft, lnp.linalg)


def test_no_placeholder_is_left_in_public_docstrings() -> None:
    for module in MODULES:
        for name in module.__all__:
            assert not PLACEHOLDER.search(getattr(getattr(module, name), "__doc__", None) or ""), name


def test_docstrings_describe_all_parameters() -> None:
    for fun, parameters in ((lnp.max, "a axis out keepdims initial where"), (lnp.amax, "a axis out keepdims initial where"),
                            (lnp.nanvar, "a axis dtype out ddof keepdims where"), (lnp.fft.irfft2, "a s axes norm"),
                            (lnp.sort, "a axis kind order stable descending"), (lnp.hypot, "x1, x2")):
        text = inspect.getdoc(fun) or ""
        for parameter in parameters.split() if "," not in parameters else [parameters]:
            assert f"\n  {parameter}: " in text, (fun.__name__, parameter)


def test_array_methods_have_complete_docstrings() -> None:
    array = type(lnp.ones(2))
    for name in ("sum", "max", "cumsum", "sort", "clip", "argmax"):
        text = inspect.getdoc(getattr(array, name)) or ""
        assert not PLACEHOLDER.search(text), name


def test_package_works_without_docstrings() -> None:
    program = ("import lamina_numpy as n, sys\n"
               "sys.exit(n.sum.__doc__ is not None or n.sum(n.ones(2)) != 2 or n.fft.fft(n.ones(2)).size != 2)")
    assert subprocess.run([sys.executable, "-OO", "-c", program]).returncode == 0
