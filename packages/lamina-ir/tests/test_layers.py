"""Packages that re-export an implementation, and plugins that replace it; each test runs a new process."""
import os
import re
import subprocess
import sys
import textwrap

import pytest
from lamina_ir import layers

FACADE = ('"""Facade."""\nfrom lamina_ir.layers import reexport_implementation\n\n'
          'reexport_implementation(globals(){rules})\n')
DEFAULT = '''
from . import extend
from ._inner import vmap

__all__ = ["custom_vmap", "extend", "vmap"]


def __getattr__(name):
    if name == "custom_vmap":
        return "the default custom_vmap"
    raise AttributeError(name)
'''
PLUGIN = "from lamina_batching import extend\n__contract__ = 1\nvmap = custom_vmap = 'mine'\n"


@pytest.fixture
def package(tmp_path):
    """Make a package `lamina_batching` with two names and a rule table; return a function that adds modules."""
    folder = tmp_path / "lamina_batching"
    folder.mkdir()
    for name, text in (("__init__", FACADE.format(rules=', rule_modules=("rules",)')), ("_default", DEFAULT),
                       ("_inner", "vmap = 'default'"),
                       ("extend", "table = {}"), ("rules", "from .extend import table\ntable['sin'] = 'default'")):
        (folder / f"{name}.py").write_text(text)

    def add(name, text):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        return tmp_path

    return add


def install(folder, distribution, text):
    (folder / f"{distribution.replace('-', '_')}-1.2.dist-info").mkdir()
    (folder / f"{distribution.replace('-', '_')}-1.2.dist-info" / "entry_points.txt").write_text(text)
    (folder / f"{distribution.replace('-', '_')}-1.2.dist-info" / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")


def run(folder, line, setting=None):
    """Return the output of a new process, or the last line of its error before the code."""
    code = f"import os, sys\nsys.path.insert(0, {str(folder)!r})\nfrom lamina_ir import layers\n" + line
    env = {"LAMINA_LAYERS": setting} if setting is not None else {}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**clean(), **env})
    return done.stdout.strip() if done.returncode == 0 else re.sub(r"\n\[LAM\d+\].*", "", done.stderr.strip()).splitlines()[-1]


def clean():
    return {key: value for key, value in os.environ.items() if key != "LAMINA_LAYERS"}


SHOW = "import lamina_batching as b; print(b.vmap, b.custom_vmap, b.extend.table)"


def test_default_implementation_is_reexported_with_lazy_names(package):
    folder = package("unused", "")
    assert run(folder, SHOW) == "default the default custom_vmap {'sin': 'default'}"
    assert run(folder, "import lamina_batching as b; b.vmapp").startswith(
        "AttributeError: module 'lamina_batching' has no attribute 'vmapp'")
    assert run(folder, "from lamina_batching import *; print(vmap, custom_vmap); import lamina_batching; "
                       "print('vmap' in dir(lamina_batching))") == "default the default custom_vmap\nTrue"


@pytest.mark.parametrize("way", ["environment", "use", "use of a module", "installed"])
def test_plugin_can_be_selected(package, way):
    folder = package("mine", PLUGIN if way != "use of a module" else PLUGIN.replace(
        "from lamina_batching import extend", "class extend: table = {'sin': 'default'}"))
    selected, line = None, ""
    if way == "environment":
        selected = "batching=mine"
    elif way == "installed":
        install(folder, "my-batching", "[console_scripts]\nx = y:z\n[lamina.layers]\nbatching = mine\n")
    else:
        line = "layers.use(batching='mine')\n" if way == "use" else "import mine; layers.use(batching=mine)\n"
    assert run(folder, line + SHOW, selected) == "mine mine {'sin': 'default'}"
    chosen = {"environment": "LAMINA_LAYERS", "installed": "installed"}.get(way, "use")
    by = "my-batching 1.2" if way == "installed" else "None None"
    assert run(folder, line + "import lamina_batching\nfound = [x for x in layers.layers() if x.layer == 'batching'][0]\n"
               "print(found.module, found.chosen, found.distribution, found.version, found.file[-7:])", selected) == (
        f"mine {chosen} {by} mine.py")


def test_default_implementation_is_not_imported_if_plugin_is_selected(package):
    folder = package("mine", PLUGIN)
    assert run(folder, "import lamina_batching; print(sorted(n for n in sys.modules if n.startswith('lamina_batching')))",
               "batching=mine") == "['lamina_batching', 'lamina_batching.extend', 'lamina_batching.rules']"


def test_plugin_may_extend_default_implementation_and_be_imported_first(package):
    folder = package("mine", "from lamina_batching._default import *\n__contract__ = 1\nvmap = 'mine'\n")
    shown = "mine the default custom_vmap {'sin': 'default'}"
    assert run(folder, SHOW, "batching=mine") == shown
    assert run(folder, f"import mine; {SHOW}", "batching=mine") == shown


def test_submodule_of_plugin_replaces_submodule_of_package(package):
    folder = package("unused", "")
    (folder / "mine").mkdir()
    (folder / "mine" / "__init__.py").write_text("from . import extend\n__contract__ = 1\nvmap = custom_vmap = 1\n")
    (folder / "mine" / "extend.py").write_text("table = {'mine': 1}")
    assert run(folder, "from lamina_batching.extend import table; print(table)", "batching=mine") == "{'mine': 1}"


def test_rule_modules_are_replaced_separately(package):
    text = "from lamina_batching.extend import table\n__contract__ = 1\ntable['sin'] = 'my rule'\n"
    folder = package("my_rules", text)
    assert run(folder, SHOW, "batching.rules=my_rules") == "default the default custom_vmap {'sin': 'my rule'}"
    assert run(folder, f"layers.use(batching_rules='my_rules'); {SHOW}").endswith("{'sin': 'my rule'}")


def test_is_default_does_not_import_the_layer(package):
    folder = package("my_rules", "")
    line = "print(layers.is_default('batching'), 'lamina_batching' in sys.modules)"
    assert run(folder, line) == "True False"
    assert run(folder, line, "batching.rules=my_rules") == run(folder, line, "batching=mine") == "False False"


TWO = "[lamina.layers]\nbatching = {0}\n"


def test_two_installed_plugins_are_an_error_until_one_is_selected(package):
    package("mine", PLUGIN)
    folder = package("yours", PLUGIN.replace("mine", "yours"))
    install(folder, "my-batching", TWO.format("mine"))
    install(folder, "your-batching", TWO.format("yours"))
    error = run(folder, SHOW)
    assert error.startswith("lamina_ir.layers.LayerError: ") and all(part in error for part in (
        "mine of my-batching", "yours of your-batching", "`batching`", "LAMINA_LAYERS=batching=", "lamina.use(batching="))
    assert run(folder, SHOW, "batching=yours").startswith("yours")
    assert run(folder, SHOW, "").startswith("default") and run(folder, SHOW, "batching=default").startswith("default")
    assert run(folder, f"layers.use(batching='mine'); {SHOW}").startswith("mine")


@pytest.mark.parametrize("text, words", [
    ("__contract__ = 1\nvmap = 1\n", "lacks custom_vmap, extend of lamina_batching.__all__"),
    ("raise OSError('no such disk')\n", "importing it raised OSError: no such disk"),
    ("import nothing_of_that_name\n", "importing it raised ModuleNotFoundError: No module named 'nothing_of_that_name'"),
    (PLUGIN.replace("1", "2"), "has contract 2; this lamina-ir requires 1; upgrade lamina, or upgrade or uninstall"),
    (PLUGIN.replace("1", "0"), "has contract 0; this lamina-ir requires 1; upgrade or uninstall my-batching"),
    (PLUGIN.replace("__contract__ = 1", ""), "has no `__contract__`"),
])
def test_unusable_plugin_is_reported(package, text, words):
    folder = package("mine", text)
    install(folder, "my-batching", TWO.format("mine"))
    error = run(folder, SHOW)
    assert error.startswith("lamina_ir.layers.LayerError: mine of my-batching was selected (installed) for the layer "
                           "`batching`, but ")
    assert words in error and "LAMINA_LAYERS= (empty)" in error
    assert run(folder, SHOW, "").startswith("default")  # the default still works


@pytest.mark.parametrize("line, words", [
    ("batching = mine:vmap", "expected a layer of tracing, "), ("baching = mine", "expected a layer of tracing, "),
    ("batching", "expected a layer of tracing, ")])
def test_wrong_entry_point_error_names_distribution(package, line, words):
    folder = package("mine", PLUGIN)
    install(folder, "my-batching", f"[lamina.layers]\n# a comment\n{line}\n")
    error = run(folder, SHOW)
    assert error.startswith(f"lamina_ir.layers.LayerError: my-batching declares the entry point {line!r}")
    assert words in error
    assert run(folder, SHOW, "").startswith("default")


@pytest.mark.parametrize("value", ["batching", "baching=mine", "batching=", "batching=my/path", "=mine"])
def test_wrong_environment_variable_is_reported(package, value):
    folder = package("mine", PLUGIN)
    error = run(folder, SHOW, value)
    assert error.startswith(f"lamina_ir.layers.LayerError: LAMINA_LAYERS={value}: ") and "expected" in error


def test_missing_plugin_module_is_named(package):
    error = run(package("mine", PLUGIN), SHOW, "batching=nowhere")
    assert "nowhere was selected (LAMINA_LAYERS) for the layer `batching`, but there is no such module; set " in error


def test_selection_after_import_is_rejected(package):
    folder = package("mine", PLUGIN)
    error = run(folder, f"{SHOW}\nlayers.use(batching='mine')")
    assert error.startswith("lamina_ir.layers.LayerError: use: lamina_batching is in use already, with the impl")
    assert run(folder, f"{SHOW}\nlayers.use(batching='default')").startswith("default")
    retry = ("try:\n    import lamina_batching\nexcept layers.LayerError: layers.use(batching='mine')\n")
    assert run(folder, retry + SHOW, "batching=nowhere").startswith("mine")


@pytest.mark.parametrize("choices, words", [({"baching": "x"}, "unknown layer `baching`; expected one of tracing"),
                                            ({"batching": 3}, "batching: expected an import name, a module or None; got int")])
def test_use_rejects_wrong_arguments(choices, words):
    with pytest.raises(TypeError, match=words):
        layers.use(**choices)


def test_distribution_found_on_two_paths_counts_once(package):
    folder = package("mine", PLUGIN)
    install(folder, "my-batching", TWO.format("mine"))
    assert run(folder, f"sys.path.insert(0, {str(folder)!r}); {SHOW}").startswith("mine")
