"""Each package refuses a neighbour that is too old, in one sentence, before anything of it is imported."""
from __future__ import annotations

import subprocess
import sys

ASK = """
import importlib, sys
from lamina_ir._util import version_check as neighbours
ours = "tracing autodiff batching parallel lowering runtime numpy random nn scipy export".split()
for room in [*(f"lamina_{name}" for name in ours), "lamina"]:
    neighbours._versions = {"lamina-ir": "0.0.9"}
    neighbours._asking = {}
    try:
        importlib.import_module(room)
    except ImportError as error:
        print(room, str(error))
    print(*(name for name in sys.modules if name.startswith(f"{room}.")), file=sys.stderr)
"""


def test_each_package_names_itself_the_neighbour_and_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert len(said) == 12
    for room, sentence in said.items():
        assert sentence.startswith(f"{room.replace('_', '-')} ") and " needs lamina-ir>=0." in sentence, sentence
        assert "and lamina-ir 0.0.9 is installed; pip install 'lamina-ir>=" in sentence
    assert done.stderr.strip() == "", "something of a room was imported before its neighbours were compared"
