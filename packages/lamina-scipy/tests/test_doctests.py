"""The examples in docstrings run and print what they say."""
import doctest
import importlib
import pkgutil

import lamina_scipy
import numpy
import pytest

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("name", [m.name for m in pkgutil.walk_packages(lamina_scipy.__path__, "lamina_scipy.")])
def test_examples_run(name):
    module = importlib.import_module(name)
    for shown in getattr(module, "__all__", ()):
        getattr(module, shown)  # functions are made when they are asked for
    found = doctest.testmod(module, optionflags=FLAGS, extraglobs={"np": numpy})
    assert not found.failed
