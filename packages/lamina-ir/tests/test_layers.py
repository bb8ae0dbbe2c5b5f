"""Faces and stand-ins, on small rooms of their own, each in a fresh process."""
import os
import subprocess
import sys
import textwrap

import pytest
from lamina_ir import layers

FACE = '"""A face."""\nfrom lamina_ir.layers import reexport_implementation\n\nreexport_implementation(globals(){rows})\n'
DEFAULT = '''
from . import extend
from ._inner import vmap

__all__ = ["custom_vmap", "extend", "vmap"]


def __getattr__(name):
    if name == "custom_vmap":
        return "the default custom_vmap"
    raise AttributeError(name)
'''
STAND_IN = "from lamina_batching import extend\n__contract__ = 1\nvmap = custom_vmap = 'mine'\n"


@pytest.fixture
def house(tmp_path):
    """A folder with a room `lamina_batching` that is nothing but a face, two names, and a table."""
    room = tmp_path / "lamina_batching"
    room.mkdir()
    for name, text in (("__init__", FACE.format(rows=', rule_modules=("rules",)')), ("_default", DEFAULT),
                       ("_inner", "vmap = 'default'"),
                       ("extend", "table = {}"), ("rules", "from .extend import table\ntable['sin'] = 'default'")):
        (room / f"{name}.py").write_text(text)

    def add(name, text):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        return tmp_path

    return add


def install(folder, distribution, text):
    (folder / f"{distribution.replace('-', '_')}-1.2.dist-info").mkdir()
    (folder / f"{distribution.replace('-', '_')}-1.2.dist-info" / "entry_points.txt").write_text(text)
    (folder / f"{distribution.replace('-', '_')}-1.2.dist-info" / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")


def run(folder, line, said=None):
    """What a fresh process prints, its last line where it ends with an error."""
    code = f"import os, sys\nsys.path.insert(0, {str(folder)!r})\nfrom lamina_ir import layers\n" + line
    env = {"LAMINA_LAYERS": said} if said is not None else {}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**clean(), **env})
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def clean():
    return {key: value for key, value in os.environ.items() if key != "LAMINA_LAYERS"}


SHOW = "import lamina_batching as b; print(b.vmap, b.custom_vmap, b.extend.table)"


def test_the_stock_fills_the_face_and_gives_late_names(house):
    folder = house("unused", "")
    assert run(folder, SHOW) == "default the default custom_vmap {'sin': 'default'}"
    assert run(folder, "import lamina_batching as b; b.vmapp").startswith(
        "AttributeError: module 'lamina_batching' has no attribute 'vmapp'")
    assert run(folder, "from lamina_batching import *; print(vmap, custom_vmap); import lamina_batching; "
                       "print('vmap' in dir(lamina_batching))") == "default the default custom_vmap\nTrue"


@pytest.mark.parametrize("way", ["environment", "use", "use of a module", "installed"])
def test_a_stand_in_is_chosen(house, way):
    folder = house("mine", STAND_IN if way != "use of a module" else STAND_IN.replace(
        "from lamina_batching import extend", "class extend: table = {'sin': 'default'}"))
    said, line = None, ""
    if way == "environment":
        said = "batching=mine"
    elif way == "installed":
        install(folder, "my-batching", "[console_scripts]\nx = y:z\n[lamina.layers]\nbatching = mine\n")
    else:
        line = "layers.use(batching='mine')\n" if way == "use" else "import mine; layers.use(batching=mine)\n"
    assert run(folder, line + SHOW, said) == "mine mine {'sin': 'default'}"
    chosen = {"environment": "LAMINA_LAYERS", "installed": "installed"}.get(way, "use")
    by = "my-batching 1.2" if way == "installed" else "None None"
    assert run(folder, line + "import lamina_batching\nfound = [x for x in layers.layers() if x.layer == 'batching'][0]\n"
               "print(found.module, found.chosen, found.distribution, found.version, found.file[-7:])", said) == (
        f"mine {chosen} {by} mine.py")


def test_the_stock_is_not_run_beside_a_stand_in(house):
    folder = house("mine", STAND_IN)
    assert run(folder, "import lamina_batching; print(sorted(n for n in sys.modules if n.startswith('lamina_batching')))",
               "batching=mine") == "['lamina_batching', 'lamina_batching.extend', 'lamina_batching.rules']"


def test_a_stand_in_may_take_the_rest_from_the_stock_and_be_imported_first(house):
    folder = house("mine", "from lamina_batching._default import *\n__contract__ = 1\nvmap = 'mine'\n")
    shown = "mine the default custom_vmap {'sin': 'default'}"
    assert run(folder, SHOW, "batching=mine") == shown
    assert run(folder, f"import mine; {SHOW}", "batching=mine") == shown


def test_doors_of_its_own_are_found_under_the_rooms_name(house):
    folder = house("unused", "")
    (folder / "mine").mkdir()
    (folder / "mine" / "__init__.py").write_text("from . import extend\n__contract__ = 1\nvmap = custom_vmap = 1\n")
    (folder / "mine" / "extend.py").write_text("table = {'mine': 1}")
    assert run(folder, "from lamina_batching.extend import table; print(table)", "batching=mine") == "{'mine': 1}"


def test_rows_are_replaced_apart(house):
    folder = house("my_rows", "from lamina_batching.extend import table\n__contract__ = 1\ntable['sin'] = 'my row'\n")
    assert run(folder, SHOW, "batching.rules=my_rows") == "default the default custom_vmap {'sin': 'my row'}"
    assert run(folder, f"layers.use(batching_rules='my_rows'); {SHOW}").endswith("{'sin': 'my row'}")


TWO = "[lamina.layers]\nbatching = {0}\n"


def test_two_without_a_choice_are_one_error_and_a_choice_helps(house):
    house("mine", STAND_IN)
    folder = house("yours", STAND_IN.replace("mine", "yours"))
    install(folder, "my-batching", TWO.format("mine"))
    install(folder, "your-batching", TWO.format("yours"))
    told = run(folder, SHOW)
    assert told.startswith("lamina_ir.layers.LayerError: ") and all(part in told for part in (
        "mine of my-batching", "yours of your-batching", "`batching`", "LAMINA_LAYERS=batching=", "lamina.use(batching="))
    assert run(folder, SHOW, "batching=yours").startswith("yours")
    assert run(folder, SHOW, "").startswith("default") and run(folder, SHOW, "batching=default").startswith("default")
    assert run(folder, f"layers.use(batching='mine'); {SHOW}").startswith("mine")


@pytest.mark.parametrize("text, words", [
    ("__contract__ = 1\nvmap = 1\n", "lacks custom_vmap, extend of lamina_batching.__all__"),
    ("raise OSError('no such disk')\n", "importing it raised OSError: no such disk"),
    ("import nothing_of_that_name\n", "importing it raised ModuleNotFoundError: No module named 'nothing_of_that_name'"),
    (STAND_IN.replace("1", "2"), "has contract 2; this lamina-ir requires 1; upgrade lamina, or upgrade or uninstall"),
    (STAND_IN.replace("1", "0"), "has contract 0; this lamina-ir requires 1; upgrade or uninstall my-batching"),
    (STAND_IN.replace("__contract__ = 1", ""), "has no `__contract__`"),
])
def test_what_cannot_stand_in_is_told_in_one_sentence(house, text, words):
    folder = house("mine", text)
    install(folder, "my-batching", TWO.format("mine"))
    told = run(folder, SHOW)
    assert told.startswith("lamina_ir.layers.LayerError: mine of my-batching was selected (installed) for the layer "
                           "`batching`, but ")
    assert words in told and "LAMINA_LAYERS= (empty)" in told
    assert run(folder, SHOW, "").startswith("default")  # and without it all is as before


@pytest.mark.parametrize("line, words", [
    ("batching = mine:vmap", "expected a layer of tracing, "), ("baching = mine", "expected a layer of tracing, "),
    ("batching", "expected a layer of tracing, ")])
def test_a_wrong_entry_point_names_the_distribution(house, line, words):
    folder = house("mine", STAND_IN)
    install(folder, "my-batching", f"[lamina.layers]\n# a comment\n{line}\n")
    told = run(folder, SHOW)
    assert told.startswith(f"lamina_ir.layers.LayerError: my-batching declares the entry point {line!r}") and words in told
    assert run(folder, SHOW, "").startswith("default")


@pytest.mark.parametrize("said", ["batching", "baching=mine", "batching=", "batching=my/path", "=mine"])
def test_a_wrong_variable_says_what_was_expected(house, said):
    folder = house("mine", STAND_IN)
    told = run(folder, SHOW, said)
    assert told.startswith(f"lamina_ir.layers.LayerError: LAMINA_LAYERS={said}: ") and "expected" in told


def test_an_absent_module_is_named(house):
    told = run(house("mine", STAND_IN), SHOW, "batching=nowhere")
    assert "nowhere was selected (LAMINA_LAYERS) for the layer `batching`, but there is no such module; set " in told


def test_a_choice_comes_before_the_room_is_used(house):
    folder = house("mine", STAND_IN)
    told = run(folder, f"{SHOW}\nlayers.use(batching='mine')")
    assert told.startswith("lamina_ir.layers.LayerError: use: lamina_batching is in use already, with the impl")
    assert run(folder, f"{SHOW}\nlayers.use(batching='default')").startswith("default")
    again = ("try:\n    import lamina_batching\nexcept layers.LayerError: layers.use(batching='mine')\n")
    assert run(folder, again + SHOW, "batching=nowhere").startswith("mine")


@pytest.mark.parametrize("choices, words", [({"baching": "x"}, "unknown layer `baching`; expected one of tracing"),
                                            ({"batching": 3}, "batching: expected an import name, a module or None; got int")])
def test_use_refuses(choices, words):
    with pytest.raises(TypeError, match=words):
        layers.use(**choices)


def test_one_distribution_on_two_paths_is_one(house):
    folder = house("mine", STAND_IN)
    install(folder, "my-batching", TWO.format("mine"))
    assert run(folder, f"sys.path.insert(0, {str(folder)!r}); {SHOW}").startswith("mine")
