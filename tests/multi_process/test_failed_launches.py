"""A launch fails in one process after all have agreed on it: the others are told, and free."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `processes`
from processes import run  # noqa: E402

pytestmark = pytest.mark.slow

# Launches are made to fail in `CompiledProgram._launch`, where jaxlib has been given nothing, and after it.
TEXT = """
import time
from lamina import lax, pmap
from lamina.distributed import LaunchFailedError, initialize, shutdown
from lamina_runtime._execute.executable import CompiledProgram

base = np.arange(rows, dtype=np.float32)
f, g = (pmap(lambda x, op=op: x + op(x, "i"), "i") for op in (lax.psum, lax.pmax))
usual = CompiledProgram._launch

def fails(error, first=False):
    def launch(self, *given):
        CompiledProgram._launch = usual
        if first:
            usual(self, *given)
        raise error
    CompiledProgram._launch = launch

def right():
    assert np.array_equal(f(base[mine]), base[mine] + base.sum())

def told(act, who):
    begun = time.monotonic()
    try:
        act()
    except LaunchFailedError as e:
        assert e.process_indices == (who,) and "no more" in str(e), e
        assert time.monotonic() - begun < 5
    else:
        raise SystemExit("nobody told")

def alone():
    own = pmap(lambda x: lax.psum(x, "i"), "i", devices=lamina.local_devices())
    assert np.array_equal(own(base[mine]), np.full(devices, base[mine].sum()))

def again(turn):
    shutdown()
    initialize(sys.argv[5 + turn], processes, rank, initialization_timeout=60)
    right()

cases = [(f, MemoryError("no more"), False), (g, KeyboardInterrupt("no more"), False), (f, ValueError("no more"), True)]
right()
for turn, (h, error, first) in enumerate(cases):
    bad = turn % processes
    if rank == bad:
        fails(error, first)
        try:
            h(base[mine])
        except BaseException as e:
            while e is not None and not getattr(e, "__notes__", ()):
                e = e.__cause__
            assert "shutdown" in e.__notes__[0] and "no more" in str(e), e
        else:
            raise SystemExit("nothing failed")
    else:
        told(lambda: lamina.block_until_ready([h(base[mine]) for _ in range(3)]), bad)
    told(lambda: f(base[mine]), bad)
    alone()
    again(turn)

# What fails in all harms none.
for _ in range(2):
    fails(MemoryError("no more"))
    try:
        f(base[mine])
    except LaunchFailedError:
        raise
    except Exception as e:
        assert "no more" in str(e)
    else:
        raise SystemExit("nothing failed")
    right()
"""


@pytest.mark.parametrize("processes, devices", [(2, 2), (3, 1)])
def test_the_others_are_told(processes, devices):
    run(TEXT, processes, devices, more=3)
