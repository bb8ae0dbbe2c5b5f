"""`as_jax` on a small module tree in place of lamina: views, versions, missing names, child processes."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = [str(p) for p in map(Path, sys.path) if (p / "lamina_compat").is_dir() or (p / "lamina_ir").is_dir()]
FAKE = Path(__file__).parent / "fake"  # a package `lamina` with a few names


def run_python(code, *arguments, check=True, **environment):
    """Run code in a process in which `lamina` is the fake package."""
    path = os.pathsep.join([str(FAKE), *SOURCES])
    done = subprocess.run([sys.executable, *(arguments or ("-c", code))], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": path, **environment})
    if check:
        assert done.returncode == 0, done.stderr
    return done


def as_jax(code, level="0.4.30", **options):
    return run_python(f"from lamina_compat import as_jax\nas_jax({level!r})\n{code}", **options).stdout.split()


def test_modules_are_views_of_lamina():
    assert as_jax("import jax, jax.numpy as jnp; from jax.numpy import double; from jax import numpy\n"
                  "print(jax.__name__, jnp.double(2), double(3), numpy is jnp, jax.numpy is jnp)") == [
                      "jax", "4", "6", "True", "True"]


@pytest.mark.parametrize("level, version", [("0.4.30", "0.4.30"), ("0.10", "0.10.2")])
def test_versions_are_those_of_the_level(level, version):
    code = "import jax, importlib.metadata as m; print(jax.__version__, m.version('jax'), jax.__version_info__[1])"
    assert as_jax(code, level) == [version, version, version.split(".")[1]]


def test_assignment_to_a_view_changes_the_module():
    assert as_jax("import jax.numpy, lamina.numpy\njax.numpy.double = len\nprint(lamina.numpy.double is len)\n"
                  "print(jax.numpy.double is len)") == ["True", "True"]


def test_mock_patch_of_a_view_is_undone():
    code = """
import unittest.mock, jax.numpy, lamina.numpy
for _ in range(2):
    with unittest.mock.patch.object(jax.numpy, "double", wraps=jax.numpy.double) as double:
        print(jax.numpy.double(2), double.called, lamina.numpy.double is double)
    print(jax.numpy.double(2), lamina.numpy.double is jax.numpy.double)
    assert not isinstance(jax.numpy.double, unittest.mock.Mock)"""
    assert as_jax(code) == ["4", "True", "True", "4", "True"] * 2


def test_missing_names_are_errors_and_are_reported_with_their_caller():
    code = """
import jax
from lamina_compat import format_report
print(hasattr(jax, "nothing"), hasattr(jax, "nothing"))
try: import jax.absent
except ModuleNotFoundError as e: print(e.name)
try: from jax.numpy import absent
except ImportError as e: print(e.name)
print(format_report())"""
    out = run_python("from lamina_compat import as_jax; as_jax()" + code).stdout
    assert out.splitlines()[:3] == ["False False", "jax.absent", "jax.numpy"]
    assert "jax.nothing" in out and "(2 times)" in out and "jax.numpy.absent" in out and "<string>:4" in out


def test_children_are_served_too():
    code = """
import subprocess, sys, multiprocessing
print(subprocess.run([sys.executable, "-c", "import jax; print(jax.__version__)"], capture_output=True, text=True).stdout)"""
    assert as_jax(code, "0.10") == ["0.10.2"]


def test_other_sitecustomize_still_runs(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('own')")
    code = f"""
import subprocess, sys, os
os.environ["PYTHONPATH"] += os.pathsep + {str(tmp_path)!r}
print(subprocess.run([sys.executable, "-c", "import jax; print(jax.__name__)"], capture_output=True, text=True).stdout)"""
    assert as_jax(code) == ["own", "jax"]


def test_absent_module_is_explained():
    code = "from lamina_compat import as_jax; as_jax(); import jax.planned"
    assert "No module named 'jax.planned' in lamina: planned; use numpy" in run_python(code, check=False).stderr


def test_child_loads_nothing_before_it_imports_jax():
    code = """
import subprocess, sys
print(subprocess.run([sys.executable, "-c", "import sys; print('lamina' in sys.modules, 'numpy' in sys.modules)"],
                     capture_output=True, text=True).stdout)"""
    assert as_jax(code) == ["False", "False"]


@pytest.mark.parametrize("code, error", [
    ("as_jax('0.3')", 'ValueError: as_jax: level must be a version of JAX from "0.4.30" to "0.12"; got \'0.3\''),
    ("as_jax('newest')", "ValueError: as_jax: level must be a version of JAX"),
    ("as_jax(0.4)", "TypeError: as_jax: level must be a string"),
    ("import sys; sys.modules['jax'] = sys; as_jax()", "RuntimeError: as_jax: a real jax is loaded in this process")])
def test_wrong_use(code, error):
    assert error in run_python(f"from lamina_compat import as_jax; {code}", check=False).stderr


def test_later_call_changes_the_level():
    assert as_jax("import jax; as_jax('0.12'); print(jax.__version__, jax.__version_info__[1])") == ["0.10.2", "10"]


def test_wrong_level_on_the_command_line():
    done = run_python("", "-m", "lamina_compat", "--as", "0.1", "program.py", check=False)
    assert done.returncode == 2 and "level must be a version of JAX" in done.stderr


PROGRAM = """
import sys
import jax
import helper
print(jax.__version__, sys.argv[1:], helper.NAME, __name__)
hasattr(jax, "nothing")
if "fail" in sys.argv: raise KeyError("failed")
if "exit" in sys.argv: sys.exit(7)
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "helper.py").write_text("NAME = 'helper'")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def test_command_line_runs_a_program(program):
    done = run_python("", "-m", "lamina_compat", "--as", "0.10", program, "a", "--report")
    assert done.stdout.split() == ["0.10.2", "['a',", "'--report']", "helper", "__main__"] and not done.stderr


def test_command_line_runs_a_module(program):
    done = run_python("", "-m", "lamina_compat", "-m", "program", "a", PYTHONPATH=os.pathsep.join(
        [os.path.dirname(program), str(FAKE), *SOURCES]))
    assert done.stdout.split() == ["0.4.30", "['a']", "helper", "__main__"]


@pytest.mark.parametrize("argument, status, texts", [
    ("fail", 1, ["KeyError: 'failed'", "names of jax that lamina does not have", "jax.nothing"]), ("exit", 7, ["jax.nothing"])])
def test_command_line_reports_missing_names_after_a_failure(program, argument, status, texts):
    done = run_python("", "-m", "lamina_compat", program, argument, check=False)
    assert done.returncode == status and all(text in done.stderr for text in texts)


def test_command_line_reports_if_asked(program):
    assert "jax.nothing" in run_python("", "-m", "lamina_compat", "--report", program).stderr


def test_command_line_reports_as_json(program):
    done = run_python("", "-m", "lamina_compat", "--json", "--as", "0.10", program, "exit", "--json", check=False)
    found = json.loads(done.stderr)
    assert done.returncode == found["status"] == 7 and "['exit', '--json']" in done.stdout
    assert [(m["name"], m["times"]) for m in found["missing"]] == [("jax.nothing", 1)]


def test_command_line_shows_only_frames_of_the_program(tmp_path):
    (tmp_path / "failing.py").write_text("def f(x):\n    return x / 0\nf(1)\n")
    done = run_python("", "-m", "lamina_compat", str(tmp_path / "failing.py"), check=False)
    assert done.returncode == 1 and "runpy" not in done.stderr and done.stderr.count("  File ") == 2


def test_command_line_with_a_missing_file(tmp_path):
    done = run_python("", "-m", "lamina_compat", str(tmp_path / "absent.py"), check=False)
    assert done.returncode == 2 and "absent.py': it does not exist" in done.stderr and "Traceback" not in done.stderr


def test_command_line_without_program():
    done = run_python("", "-m", "lamina_compat", check=False)
    assert done.returncode == 2 and "usage: python -m lamina" in done.stderr
