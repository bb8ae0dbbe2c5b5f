"""The public names of the package and of each of its modules are exactly those in `__all__`."""
import importlib
import subprocess
import sys
import types
from collections.abc import Iterator

import lamina_scipy
import pytest


def modules(module: types.ModuleType) -> Iterator[types.ModuleType]:
    """The modules that `__all__` lists, and theirs."""
    for name in module.__all__:
        value = getattr(module, name)
        if isinstance(value, types.ModuleType):
            yield value
            yield from modules(value)


MODULES = [module.__name__ for module in modules(lamina_scipy)]


@pytest.mark.parametrize("name", MODULES)
def test_all_names_the_public_members(name):
    module = importlib.import_module(name)
    made_here = {n for n in dir(module) if not n.startswith("_") and getattr(getattr(module, n), "__module__", "") == name}
    assert made_here <= set(module.__all__) <= set(dir(module)) and len(module.__all__) == len(set(module.__all__))
    assert not [n for n in module.__all__ if not getattr(module, n).__doc__]


def test_modules_load_when_asked_for():
    code = ("import sys, lamina_scipy\nassert {m for m in sys.modules if m.startswith('lamina_scipy.')} == "
            "{'lamina_scipy._version', 'lamina_scipy._default'}\n"
            "lamina_scipy.special\nassert 'lamina_scipy.special' in sys.modules")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
