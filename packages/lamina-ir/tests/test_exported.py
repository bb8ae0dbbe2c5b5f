"""Public names are exactly `__all__`. (Examples in docstrings and the README run separately, once each.)"""
import importlib
import pkgutil
import types

import pytest

import lamina_ir

MODULES = sorted(m.name for m in pkgutil.walk_packages(lamina_ir.__path__, "lamina_ir.")
                 if ".conformance." not in m.name)  # the tests and their runner


@pytest.mark.parametrize("name", ["lamina_ir", "lamina_ir.extend"])
def test_public_names_equal_all(name):
    module = importlib.import_module(name)
    for n in module.__all__:
        getattr(module, n)
    shown = {n for n, v in vars(module).items() if not n.startswith("_") and not isinstance(v, types.ModuleType)}
    shown -= {"Any", "TYPE_CHECKING", "deprecated_getattr", "import_module"}
    modules = {n for n in module.__all__ if isinstance(getattr(module, n), types.ModuleType)}
    assert shown | modules | ({"__version__"} & set(module.__all__)) == set(module.__all__)
    assert list(module.__all__) == sorted(module.__all__)


@pytest.mark.parametrize("name", MODULES)
def test_all_names_exist(name):
    module = importlib.import_module(name)
    for n in getattr(module, "__all__", ()):
        assert hasattr(module, n), f"{name}.{n}"
