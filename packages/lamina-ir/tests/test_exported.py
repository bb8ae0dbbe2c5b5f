"""Public names are exactly `__all__`, and every example in a docstring runs."""
import doctest
import importlib
import pkgutil
import types
from pathlib import Path

import pytest

import lamina_ir

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
MODULES = sorted(m.name for m in pkgutil.walk_packages(lamina_ir.__path__, "lamina_ir."))


@pytest.mark.parametrize("name", ["lamina_ir", *MODULES])
def test_examples_run(name):
    assert doctest.testmod(importlib.import_module(name), optionflags=FLAGS).failed == 0


@pytest.mark.parametrize("name", ["lamina_ir", "lamina_ir.extend"])
def test_public_names_are_exactly_all(name):
    module = importlib.import_module(name)
    for n in module.__all__:
        getattr(module, n)
    shown = {n for n, v in vars(module).items() if not n.startswith("_") and not isinstance(v, types.ModuleType)}
    shown -= {"Any", "TYPE_CHECKING", "import_module"}
    modules = {n for n in module.__all__ if isinstance(getattr(module, n), types.ModuleType)}
    assert shown | modules | ({"__version__"} & set(module.__all__)) == set(module.__all__)
    assert list(module.__all__) == sorted(module.__all__)


@pytest.mark.parametrize("name", MODULES)
def test_all_names_exist(name):
    module = importlib.import_module(name)
    for n in getattr(module, "__all__", ()):
        assert hasattr(module, n), f"{name}.{n}"


def test_the_readme_runs():
    readme = Path(__file__).parents[1] / "README.md"
    assert doctest.testfile(str(readme), module_relative=False, optionflags=FLAGS).failed == 0
