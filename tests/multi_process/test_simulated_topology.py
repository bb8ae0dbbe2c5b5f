"""4,096 devices in 512 processes, all but 8 of them fake. The number of Python calls of a map, and of an array that it returns,
depends only on the devices of this process. Work for all devices is done once per program, by NumPy.

The devices of other processes are fakes, and so is the executable, which returns the shards of this process.
"""
import gc
import sys
from collections import Counter
from types import SimpleNamespace

import lamina
import numpy as np
import pytest
from lamina import lax
from lamina_runtime._backend import backends, client_state
from lamina_runtime._compile import executable_cache
from lamina_runtime._execute import executable as execute_executable

HERE = 8


class FakeRemoteDevice:
    """A device of another process."""

    def __init__(self, number, like):
        self.id, self.process_index, self.client, self.platform = 1000 + number, number // HERE, like.client, like.platform


class LocalLauncher:
    """Launches without other processes."""

    is_stuck = False

    def launch(self, program, args, start):
        return start()


class FakeExecutable:
    """Returns its arguments as results, as far as possible."""

    def execute_sharded(self, args, with_tokens=False):
        shards = [[s.data for s in x.addressable_shards] if hasattr(x, "addressable_shards") else [x] for x in args]
        return SimpleNamespace(consume_with_handlers=lambda handlers: [h(s) for h, s in zip(handlers, shards)])

    def get_output_shardings(self):
        return None


def count_calls(f):
    """Return how often each Python and C function was called."""
    seen = Counter()

    def note(frame, event, arg):
        if event == "call":
            seen[frame.f_code.co_filename.rsplit("/", 1)[-1] + ":" + frame.f_code.co_name] += 1
        elif event == "c_call":
            seen[getattr(arg, "__qualname__", "?")] += 1

    gc.collect()
    gc.disable()  # finalizers would be counted too
    sys.setprofile(note)
    try:
        f()
    finally:
        sys.setprofile(None)
        gc.enable()
    return seen


@pytest.fixture
def topology(monkeypatch):
    """Return a function that simulates a number of processes."""
    ours = lamina.local_devices()[:HERE]
    assert len(ours) == HERE
    current = client_state.current

    def make(processes):
        far = [FakeRemoteDevice(n, ours[0]) for n in range(HERE, HERE * processes)]
        every = [tuple(ours), *[tuple(far[k:k + HERE]) for k in range(0, len(far), HERE)]]
        monkeypatch.setattr(current, "device_groups", {"cpu": tuple(every)})
        monkeypatch.setattr(backends, "process_share", lambda named, backend=None: (1, processes))
        monkeypatch.setattr(current, "launcher", LocalLauncher())
        monkeypatch.setattr(execute_executable.process_group, "multi_process_launcher",
                            lambda devices: (LocalLauncher(), (0, 1)) if len(devices) > HERE else (None, ()))
        monkeypatch.setattr(execute_executable, "compile_and_log", lambda low, devices, *rest:
                            executable_cache.LoadedExecutable(FakeExecutable(), object(), 0, devices[0]))

    return make


def body(x):
    return x + lax.psum(x, "i") * lax.axis_index("i") + lax.all_gather(x, "i").sum(0) + lax.ppermute(x, "i", [(0, 1)])


CALLS = {"pmap": lambda: lamina.pmap(body, axis_name="i"),
         "with other work": lambda: lamina.jit(lambda x: lamina.pmap(body, axis_name="i")(x * 2) + 1)}


@pytest.mark.parametrize("how", CALLS)
def test_work_depends_only_on_local_devices(topology, how):
    x = lamina.pmap(lambda r: r)(np.ones((HERE, 4), np.float32))
    CALLS[how]()(x)  # work that is done once per process
    first, again, held = {}, {}, {}
    for processes in (8, 64, 512):
        topology(processes)
        f = CALLS[how]()
        first[processes] = count_calls(lambda: f(x))
        f(x)
        again[processes] = count_calls(lambda: f(x))
        y = f(x)
        assert y.shape == (HERE, 4) and [s.device for s in y.addressable_shards] == lamina.local_devices()[:HERE]
        held[processes] = count_calls(lambda: (np.asarray(y), repr(y), y.sharding, y.addressable_shards[0].index))
    # A call, and an array that it returns, do the same for any number of remote devices.
    assert again[512] == again[64] == again[8], {k: (n, again[8][k]) for k, n in again[512].items() if n != again[8][k]}
    assert held[512] == held[64]
    # Tracing and lowering are done once per program; NumPy handles all devices at once.
    more = {k: n - first[64][k] for k, n in first[512].items() if n > first[64][k] + HERE}
    assert not more, more
