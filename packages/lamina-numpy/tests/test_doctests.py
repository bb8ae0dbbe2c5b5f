"""The examples in docstrings run and print what they say."""
import doctest
import importlib
import pkgutil

import lamina_numpy
import numpy
import pytest

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("name", ["lamina_numpy", *(m.name for m in pkgutil.walk_packages(
    lamina_numpy.__path__, "lamina_numpy.") if not m.name.startswith("lamina_numpy.conformance."))])  # a program, and its tests
def test_examples_run(name: str) -> None:
    module = importlib.import_module(name)
    for shown in getattr(module, "__all__", ()):
        getattr(module, shown)  # functions are made when they are asked for
    found = doctest.testmod(module, optionflags=FLAGS, extraglobs={"np": numpy})
    assert not found.failed
