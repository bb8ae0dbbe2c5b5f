"""Each package refuses a sibling package that is too old, before any other module of the package is imported."""
from __future__ import annotations

import subprocess
import sys

IMPORT_ALL = """
import importlib, sys
from lamina_ir._util import version_check
names = "tracing autodiff batching parallel lowering runtime numpy random nn scipy export".split()
for package in [*(f"lamina_{name}" for name in names), "lamina"]:
    version_check._versions = {"lamina-ir": "0.0.9"}
    version_check._requirements = {}
    try:
        importlib.import_module(package)
    except ImportError as error:
        print(package, str(error))
    print(*(name for name in sys.modules if name.startswith(f"{package}.")), file=sys.stderr)
"""


def test_import_error_names_both_packages_and_the_fix() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=True)
    messages = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert len(messages) == 12
    for package, message in messages.items():
        assert message.startswith(f"{package.replace('_', '-')} ") and " needs lamina-ir>=0." in message, message
        assert "and lamina-ir 0.0.9 is installed; pip install 'lamina-ir>=" in message
    assert done.stderr.strip() == "", "a module was imported before the versions were checked"
