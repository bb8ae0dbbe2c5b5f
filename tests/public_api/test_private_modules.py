"""Each name of lamina_compat's table of private modules is found under `as_jax`, or explained."""
import json
import os
import subprocess
import sys

import pytest

WALK = """
import importlib, json, sys
from lamina_compat import as_jax
as_jax(sys.argv[1])
from lamina_compat._private_modules import PRIVATE_MODULES
import jax
missing = []
for path, row in PRIVATE_MODULES.items():
    try:
        module = importlib.import_module(path)
    except ImportError as e:
        missing.append(f"{path}: {e}")
        continue
    shown = {name for part in vars(module).get("_parts", ()) for name in getattr(part, "__all__", ())}
    for name in [*row.needed.split(), *shown]:
        if not hasattr(module, name):
            missing.append(f"{path}.{name}")
print(json.dumps(missing))
"""

EXPLAIN = """
import importlib, json
from lamina_compat import as_jax
as_jax()
import jax
from lamina_compat._absent_names import ABSENT
wrong = []
for dotted, text in ABSENT.items():
    path, _, name = dotted.replace("names.", "jax.", 1).rpartition(".")
    try:
        getattr(importlib.import_module(path), name)
        wrong.append(f"{dotted} exists")
    except AttributeError as e:
        if text not in str(e):
            wrong.append(f"{dotted}: {e}")
print(json.dumps(wrong))
"""


def run(code, *arguments):
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "LAMINA_AS_JAX": ""})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("level", ["0.4.30", "0.10.2"])
def test_names_that_libraries_read_are_found(level):
    assert run(WALK, level) == []


def test_absent_names_are_explained():
    assert run(EXPLAIN) == []
