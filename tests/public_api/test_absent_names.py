"""Each public name of JAX exists, or the error about it says what to use instead.

`jax_0_4_30_names.tsv` and `jax_0_12_names.tsv` list the names of two releases, by module below `jax`: the public ones, and
others that are found there, such as imports. Names inside of modules that are absent as a whole are not listed for all of them.
"""
import copy
import doctest
import importlib
import importlib.util
import pickle
import re
import subprocess
import sys
import traceback
import warnings
from pathlib import Path
from types import ModuleType

import lamina
import pytest
from lamina._absent_names import ABSENT, GROUPS

FOLDER = Path(__file__).parent
RELEASES = {"0.4.30": "jax_0_4_30_names.tsv", "0.12": "jax_0_12_names.tsv"}


def read_names(release):
    """Return (module, public names, other names) for each module of a release of JAX."""
    lines = (FOLDER / RELEASES[release]).read_text(encoding="utf-8").splitlines()[1:]
    return [(module, public.split(), other.split()) for module, public, other in (line.split("\t") for line in lines)]


def find_module(path):
    """Return the module or settings object at a dotted path below lamina, or None."""
    found = lamina
    for part in filter(None, path.split(".")):
        found = getattr(found, part, None)
    return found


def exists(module, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return hasattr(module, name)


def explanation(path):
    """Return the entry of a dotted path below lamina, or of a module around it."""
    parts = path.split(".")
    return next((ABSENT[name] for end in range(1, len(parts) + 1) if (name := ".".join(parts[:end])) in ABSENT), None)


@pytest.mark.parametrize("release", RELEASES)
def test_each_name_exists_or_is_explained(release):
    unexplained = []
    for path, public, other in read_names(release):
        module = find_module(path)
        if module is None:
            unexplained += [] if explanation(path) else [path]
            continue
        for name in (*public, *other):
            dotted = f"{path}.{name}".lstrip(".")
            unexplained += [] if exists(module, name) or explanation(dotted) else [dotted]
    assert not unexplained, f"add these names, or list them in lamina/_absent_names.py: {unexplained}"


def test_explained_names_do_not_exist():
    present = [path for path in ABSENT if exists(find_module(path.rpartition(".")[0]), path.rpartition(".")[2])]
    assert not present, f"these names exist now; remove them from lamina/_absent_names.py: {present}"


def test_each_name_is_listed_once():
    listed = [f"{module}.{name}" for _, modules in GROUPS for module, names in modules.items() for name in names.split()]
    assert sorted({name for name in listed if listed.count(name) > 1}) == []


@pytest.mark.parametrize("text", sorted({text for text, _ in GROUPS}))
def test_explanations_are_short(text):
    assert len(text) <= 150 and not text.endswith(".") and ". " not in text


@pytest.mark.parametrize("text", sorted({text for text, _ in GROUPS}))
def test_recommended_names_exist(text):
    for dotted in re.findall(r"\b(?:lamina\w*|lax|jaxlib)(?:\.\w+)+", text):
        parts = dotted.replace("lax.", "lamina.lax.").split(".") if dotted.startswith("lax.") else dotted.split(".")
        found = importlib.import_module(parts[0])
        for end, name in enumerate(parts[1:], 2):
            if not hasattr(found, name):
                importlib.import_module(".".join(parts[:end]))
            found = getattr(found, name)


@pytest.mark.parametrize("path", ABSENT)
def test_errors_contain_the_explanation(path):
    home, _, name = f"lamina.{path}".rpartition(".")
    module, text = sys.modules.get(home) or importlib.import_module(home), ABSENT[path]
    with pytest.raises(AttributeError) as raised:
        getattr(module, name)
    assert str(raised.value) == f"module {home!r} has no attribute {name!r}: {text}"
    with pytest.raises(ImportError) as raised:
        exec(f"from {home} import {name}")
    assert str(raised.value) == f"cannot import name {name!r} from {home!r}: {text}" and raised.value.name == home
    assert not hasattr(module, name) and getattr(module, name, 5) == 5 and name not in dir(module)


@pytest.mark.parametrize("path", ["core", "interpreters.ad", "experimental.mosaic", "experimental.sparse.bcoo",
                                  "experimental.pallas.mosaic_gpu", "_src", "lib.xla_client"])
def test_import_of_an_absent_module_is_explained(path):
    for line in (f"import lamina.{path}", f"import lamina.{path} as module", f"from lamina.{path} import name"):
        with pytest.raises(ModuleNotFoundError) as raised:
            exec(line)
        assert raised.value.name == str(raised.value).split("'")[1] and f"lamina.{path}.".startswith(f"{raised.value.name}.")
        assert str(raised.value).endswith(f": {explanation(path)}")


def test_find_spec_of_an_absent_module_is_none():
    assert importlib.util.find_spec("lamina.experimental.mosaic") is None
    assert importlib.util.find_spec("lamina.experimental.ode") is not None


def test_other_names_have_the_errors_of_python():
    with pytest.raises(AttributeError) as raised:
        lamina.gradd
    assert str(raised.value) == "module 'lamina' has no attribute 'gradd'"
    with pytest.raises(ImportError, match=r"^cannot import name 'AxisTypo' from 'lamina.sharding' \("):
        from lamina.sharding import AxisTypo  # noqa: F401
    with pytest.raises(ModuleNotFoundError, match="^No module named 'lamina.experimental.spars'$"):
        exec("import lamina.experimental.spars")


def test_python_suggests_names_for_typing_mistakes_only():
    code = "import lamina; lamina.errors.ShapeErro"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "Did you mean: 'ShapeError'?" in done.stderr
    with pytest.raises(AttributeError) as raised:
        lamina.core
    assert "Did you mean" not in "".join(traceback.format_exception(raised.value))


def test_modules_can_be_copied_pickled_and_collected():
    for module in (lamina, lamina.sharding, lamina.tree_util, lamina.experimental):
        for special in ("__wrapped__", "__deepcopy__", "__test__", "_pytestfixturefunction", "pytest_plugins"):
            assert getattr(module, special, None) is None
        assert doctest.DocTestFinder(recurse=False).find(module)
        with pytest.raises(TypeError, match="cannot pickle 'module' object"):
            copy.deepcopy(module)
        with pytest.raises(TypeError, match="cannot pickle 'module' object"):
            pickle.dumps(module)
    assert pickle.loads(pickle.dumps(lamina.sharding.Mesh)) is copy.copy(lamina.sharding.Mesh) is lamina.sharding.Mesh


def test_the_table_is_loaded_at_the_first_absent_name():
    code = ("import sys, lamina; lamina.grad, lamina.numpy.sin, lamina.errors.ShapeError, lamina.experimental.ode\n"
            "from lamina.tree_util import tree_map\nprint('lamina._absent_names' in sys.modules, end=' ')\n"
            "hasattr(lamina, 'core'); print('lamina._absent_names' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_the_finder_is_installed_once():
    finders = [finder for finder in sys.meta_path if getattr(finder, "prefix", None) == "lamina."]
    assert len(finders) == 1 and isinstance(lamina, ModuleType)
