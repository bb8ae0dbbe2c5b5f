"""`python -m lamina_see program.py`."""
import json
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from lamina_see import Report
from lamina_see._program_run import _complete_runs
from lamina_see._report import empty_report

PROGRAM = """
import sys
import numpy as np
from lamina_tracing import jit
import lamina_runtime, lamina_numpy as jnp

@jit
def step(x):
    return jnp.tanh(x @ x)

print("arguments", sys.argv[1:])
x = np.ones((300, 300), np.float32)
for _ in range(4):
    x = step(x)
x.block_until_ready()
{last}
"""


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "lamina_see", *map(str, arguments)], capture_output=True, text=True,
                          timeout=120)


def test_program_is_reported_with_its_exit_status(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM.format(last="sys.exit(3)"), encoding="utf-8")
    done = run("-o", tmp_path / "a.json", "--seconds", "0.2", tmp_path / "program.py", "a", "-b")
    assert done.returncode == 3 and "arguments ['a', '-b']" in done.stdout and "x @ x" in done.stdout
    facts = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    [f] = [f for f in facts["functions"] if f["name"] == "step"]
    assert f["step"]["runs"] >= 1 and f["memory"]["peak"] and facts["compilations"]
    assert f["values"][f["arguments"][0]]["name"] == "x"


def test_program_that_raises_is_reported_until_then(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM.format(last="raise KeyError('here')"), encoding="utf-8")
    done = run("-o", tmp_path / "a.txt", "--seconds", "0.1", tmp_path / "program.py")
    assert done.returncode == 1 and "KeyError: 'here'" in done.stderr and "_program_run" not in done.stderr
    assert "The program raised KeyError; the report has what ran until then." in done.stdout


SHAPES = """
import numpy as np
import lamina_runtime
from lamina_tracing import jit, lax

@jit
def product(x):
    return lax.tanh(lax.dot(x, x))

for n in (30, 900, 40):
    for _ in range(5):
        product(np.full((n, n), 1e-3, np.float32)).block_until_ready()
"""


@pytest.mark.parametrize("cache", ["compiled", "loaded from the disk"])
def test_runs_are_those_of_the_program_with_the_same_shapes(tmp_path, monkeypatch, cache):
    monkeypatch.setenv("LAMINA_CACHE", "1")
    monkeypatch.setenv("LAMINA_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "program.py").write_text(SHAPES, encoding="utf-8")
    for _ in range(1 if cache == "compiled" else 2):
        done = run("-o", tmp_path / "a.json", tmp_path / "program.py")
    facts = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert {c["disk_cache"] for c in facts["compilations"]} == {"miss" if cache == "compiled" else "hit"}
    times = {f["signature"][0]: f["step"]["time"] for f in facts["functions"]}
    assert times["float32[900,900]"] > 5 * max(times["float32[30,30]"], times["float32[40,40]"])
    assert all(f["step"]["runs"] <= 5 for f in facts["functions"])  # the first and the last may be left out
    assert "lamina-see: 1 function on" in done.stdout and "Other programs of product: 2" in done.stdout
    assert done.stdout.count("x float32[") == 2 and "Compilations: 3, which took" in done.stdout


def test_runs_that_a_recording_cut_off_are_left_out():
    instructions = [SimpleNamespace(name=f"fusion.{k}", opcode="fusion") for k in range(20)]
    module = SimpleNamespace(entry=[SimpleNamespace(name="x", opcode="parameter"), *instructions])
    whole, cut = [(0.0, [SimpleNamespace(name=i.name) for i in instructions[:count]]) for count in (20, 9)]
    assert _complete_runs([whole, cut, whole], module, False) == [whole, whole]
    assert _complete_runs([cut], module, True) == [] and _complete_runs([cut], module, False) == [cut]
    assert _complete_runs([], module, True) == []


@pytest.mark.parametrize(("text", "arguments", "status", "words"), [
    ("print(1)", ["-o", "out.txt"], 0, "compiled no function"),
    (None, [], 2, "it does not exist"),
])
def test_program_without_facts_is_one_sentence(tmp_path, text, arguments, status, words):
    if text is not None:
        (tmp_path / "program.py").write_text(text, encoding="utf-8")
    arguments = [tmp_path / a if a == "out.txt" else a for a in arguments]
    done = run(*arguments, "--seconds", "0.1", tmp_path / "program.py")
    assert done.returncode == status and words in done.stdout + done.stderr


@pytest.mark.parametrize(("arguments", "words"), [
    (["-m", "no_such_module"], "there is no module 'no_such_module'"),
    (["."], "it is a folder without __main__.py"),
    (["-o", "a.pdf", "program.py"], "--output must end in .html, .json, .txt, .pftrace, .perfetto-trace; got 'a.pdf'"),
])
def test_program_that_cannot_run_is_one_sentence(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text("print('ran')", encoding="utf-8")
    done = run(*arguments)
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr and done.stdout == ""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT of a process group is that of Unix")
def test_interrupted_program_is_reported_until_then(tmp_path):
    text = PROGRAM.format(last="print('loop', flush=True)\nwhile True: step(x).block_until_ready()")
    (tmp_path / "program.py").write_text(text, encoding="utf-8")
    process = subprocess.Popen([sys.executable, "-m", "lamina_see", "-o", str(tmp_path / "a.txt"), "--seconds", "0.1",
                                str(tmp_path / "program.py")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while "loop" not in process.stdout.readline():
        assert process.poll() is None
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in error, error
    assert "The program was interrupted; the report has what ran until then." in out and "x @ x" in out


def test_output_that_is_closed_is_no_error(tmp_path):
    Report(empty_report("cpu")).save(tmp_path / "a.json")
    done = subprocess.run(f"{sys.executable} -m lamina_see -o {tmp_path}/a.txt {tmp_path}/a.json | true", shell=True,
                          capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr


def test_damaged_report_is_one_sentence(tmp_path):
    facts = empty_report("cpu")
    for change, words in (({"functions": [{"name": "f"}]}, "lacks functions.kind, functions.signature"),
                          ({"devices": None}, "")):
        changed = {**facts, **change}
        if not words:
            del changed["devices"]
            words = "lacks devices"
        (tmp_path / "a.json").write_text(json.dumps(changed), encoding="utf-8")
        done = run(tmp_path / "a.json")
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and words in done.stderr


def test_saved_report_of_another_version_is_one_sentence(tmp_path):
    (tmp_path / "a.json").write_text('{"schema_version": 9}', encoding="utf-8")
    done = run(tmp_path / "a.json")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "version 9" in done.stderr


NUMPY_ONLY = """
import sys
sys.modules["lamina_runtime"] = sys.modules["jaxlib"] = None
import numpy as np
from lamina_tracing import jit, lax
from lamina_see import max_compiles, see

def loop(x):
    return lax.fori_loop(0, 5, lambda i, y: lax.tanh(lax.dot(y, x)), x)

facts = see(loop)(np.ones((20, 20), np.float32)).json()
[f] = facts["functions"]
[product] = [e for e in f["equations"] if e["primitive"] == "dot_general"]
assert (product["count"], product["flops"]) == (5, 5 * 2 * 20 ** 3), product
assert facts["platform"] == "numpy" and f["step"] is None and f["memory"]["peak"] >= 1600
assert facts["problems"] == ["Times are unknown, because lamina-runtime is not installed."]
with max_compiles(0):
    jit(loop)(np.ones((2, 2), np.float32))
print(see(loop)(np.ones((2, 2), np.float32)))
"""


def test_report_without_a_runtime_has_the_facts_of_the_program():
    done = subprocess.run([sys.executable, "-c", NUMPY_ONLY], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "1 function on numpy" in done.stdout and "Not measured" in done.stdout
