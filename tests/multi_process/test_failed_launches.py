"""A launch that fails in one process after the consistency check raises in the others, which then continue."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `processes`
from processes import run  # noqa: E402

pytestmark = pytest.mark.slow

# Launches are made to fail in `CompiledProgram._launch`, before jaxlib launches and after it.
TEXT = """
import time
from lamina import lax, pmap
from lamina.distributed import LaunchFailedError, initialize, shutdown
from lamina_runtime._execute.executable import CompiledProgram

base = np.arange(rows, dtype=np.float32)
f, g = (pmap(lambda x, op=op: x + op(x, "i"), "i") for op in (lax.psum, lax.pmax))
usual = CompiledProgram._launch

def fail_next_launch(error, first=False):
    def launch(self, *given):
        CompiledProgram._launch = usual
        if first:
            usual(self, *given)
        raise error
    CompiledProgram._launch = launch

def check_result():
    assert np.array_equal(f(base[mine]), base[mine] + base.sum())

def expect_launch_failure(act, failed_rank):
    begun = time.monotonic()
    try:
        act()
    except LaunchFailedError as e:
        assert e.process_indices == (failed_rank,) and "no more" in str(e), e
        assert time.monotonic() - begun < 5
    else:
        raise SystemExit("no error was raised")

def check_local_map():
    own = pmap(lambda x: lax.psum(x, "i"), "i", devices=lamina.local_devices())
    assert np.array_equal(own(base[mine]), np.full(devices, base[mine].sum()))

def initialize_again(number):
    shutdown()
    initialize(sys.argv[5 + number], processes, rank, initialization_timeout=60)
    check_result()

cases = [(f, MemoryError("no more"), False), (g, KeyboardInterrupt("no more"), False), (f, ValueError("no more"), True)]
check_result()
for number, (h, error, first) in enumerate(cases):
    bad = number % processes
    if rank == bad:
        fail_next_launch(error, first)
        try:
            h(base[mine])
        except BaseException as e:
            while e is not None and "shutdown" not in "".join(getattr(e, "__notes__", ())):
                e = e.__cause__
            assert "no more" in str(e), e
        else:
            raise SystemExit("nothing failed")
    else:
        expect_launch_failure(lambda: lamina.block_until_ready([h(base[mine]) for _ in range(3)]), bad)
    expect_launch_failure(lambda: f(base[mine]), bad)
    check_local_map()
    initialize_again(number)

# A launch that fails in all processes is harmless.
for _ in range(2):
    fail_next_launch(MemoryError("no more"))
    try:
        f(base[mine])
    except LaunchFailedError:
        raise
    except Exception as e:
        assert "no more" in str(e)
    else:
        raise SystemExit("nothing failed")
    check_result()
"""


@pytest.mark.parametrize("processes, devices", [(2, 2), (3, 1)])
def test_failed_launch_raises_in_other_processes(processes, devices):
    run(TEXT, processes, devices, more=3)
