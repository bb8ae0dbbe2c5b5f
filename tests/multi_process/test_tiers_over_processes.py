"""Several processes replace a quickly compiled executable at the same launch."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `processes`
from processes import run  # noqa: E402

pytestmark = pytest.mark.slow

TEXT = """
import threading, time, warnings
from lamina import jit, lax, pmap, random
from lamina_runtime._compile import compile_tiers, executable_cache
from lamina_runtime._execute.executable import CompiledProgram

compile_tiers._MIN_COMPILE_MS = 50.0
lamina.config.update("compile_tiers", "auto")
tiers, usual, compile_usual = [], CompiledProgram._launch, executable_cache._CompileTask._compile
slow, failing = {slow}, {failing}

def launch(self, *given):
    if self.name == "step":
        tiers.append(self.loaded.tier)
    return usual(self, *given)

def compile_slowly(task, options):
    if threading.current_thread().name == "lamina-compile":
        if rank == failing:
            raise MemoryError("too large")
        time.sleep(0.5 if rank == slow else 0)
    return compile_usual(task, options)

CompiledProgram._launch, executable_cache._CompileTask._compile = launch, compile_slowly
base = np.linspace(0.5, 1, rows * 64, dtype=np.float32).reshape(rows, 8, 8)

def step(x):
    noise = random.uniform(random.key(0), x.shape)  # takes long to compile
    return lax.psum(x * noise, "i") + x

f = pmap(step, "i")
noise = np.asarray(random.uniform(random.key(0), (8, 8)))
want = (base * noise).sum(0) + base[mine]

def check():
    np.testing.assert_allclose(f(base[mine]), want, rtol=1e-5)
"""

CHECK = """
tiers.clear()
until = time.monotonic() + 60
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    number = 0
    while number < 8 or tiers.count("optimized") < 3 and failing < 0:
        check()
        number += 1
        time.sleep(0.02 * (rank + 1))
        if number == 4:
            lamina.wait_for_optimized()
    for _ in range(4 if failing >= 0 else 0):
        check()
print(tiers, [str(w.message).split(":", 1)[1] for w in caught if "optimize" in str(w.message)])
"""


def run_steps(processes, text, slow=-1, failing=-1, devices=1):
    return run(TEXT.replace("{slow}", str(slow)).replace("{failing}", str(failing)) + text, processes, devices)


@pytest.mark.parametrize("processes,devices,slow", [(2, 2, 1), (3, 1, 0), (3, 1, 2)])
def test_all_processes_switch_at_the_same_launch(processes, devices, slow):
    shown = run_steps(processes, CHECK, slow, devices=devices)
    assert len(set(shown)) == 1 and "'first', 'optimized'" in shown[0] and "'optimized', 'first'" not in shown[0]
    assert shown[0].endswith(" []")


@pytest.mark.parametrize("failing", [0, 1])
def test_all_stay_at_the_first_tier_if_a_compilation_fails(failing):
    shown = run_steps(2, CHECK, failing=failing)
    assert all(s.partition("]")[0].count("'first'") >= 8 and "'optimized'" not in s.partition("]")[0] for s in shown)
    assert all(s.count("too large") == 1 and f"process {failing}" in s for s in shown), shown


LOSS = """
import os
from lamina.distributed import ProcessLostError
check()
if rank == processes - 1:
    os._exit(0)
try:
    for _ in range(1000):
        check()
except ProcessLostError as e:
    assert e.process_indices == (processes - 1,), e
lamina.wait_for_optimized()
# Programs of one process work on.
assert np.array_equal(jit(lambda x: x + 1)(base[0]), base[0] + 1)
print(set(tiers))
"""


def test_loss_of_a_process_that_compiles_raises_in_the_others():
    shown = run_steps(3, LOSS, slow=2)
    assert shown[:2] == ["{'first'}"] * 2


DIFFERENT = """
if rank:
    lamina.config.update("compile_tiers", "optimized")
from lamina.distributed import AgreementError
expect_error(AgreementError, "launch different programs", f, base[mine])
lamina.config.update("compile_tiers", "optimized")
check()
"""


def test_different_settings_raise_an_error():
    run_steps(2, DIFFERENT)


def test_processes_that_compare_only_first_launches_have_one_tier():
    text = TEXT.replace("{slow}", "-1").replace("{failing}", "-1")
    shown = run("lamina.distributed.shutdown()\nlamina.config.update('agreement', 'first')\n"
                "lamina.distributed.initialize(sys.argv[5], processes, rank, initialization_timeout=60)\n"
                + text + "check()\nprint(set(tiers))", 2, 1, more=1)
    assert shown == ["{'optimized'}"] * 2
