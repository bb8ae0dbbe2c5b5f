"""4,096 devices in 512 processes, all but 8 made up: the Python calls of a map over them, and of an array that comes of it, are
those of this process's devices; what all devices enter is found once for a program, by NumPy.

The devices of others are stand-ins, and so is the executable, which gives this process's shards back. All else is as it is.
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


class Far:
    """A device of another process."""

    def __init__(self, number, like):
        self.id, self.process_index, self.client, self.platform = 1000 + number, number // HERE, like.client, like.platform


class Launches:
    """Nobody else is there."""

    def launch(self, program, args, start):
        return start()


class Executable:
    """Gives back its arguments as results, as far as there are any."""

    def execute_sharded(self, args, with_tokens=False):
        shards = [[s.data for s in x.addressable_shards] if hasattr(x, "addressable_shards") else [x] for x in args]
        return SimpleNamespace(consume_with_handlers=lambda handlers: [h(s) for h, s in zip(handlers, shards)])

    def get_output_shardings(self):
        return None


def events(f):
    """Calls of Python functions and of functions in C."""
    seen = Counter()

    def note(frame, event, arg):
        if event == "call":
            seen[frame.f_code.co_filename.rsplit("/", 1)[-1] + ":" + frame.f_code.co_name] += 1
        elif event == "c_call":
            seen[getattr(arg, "__qualname__", "?")] += 1

    gc.collect()
    gc.disable()  # what ends meanwhile has work of its own
    sys.setprofile(note)
    try:
        f()
    finally:
        sys.setprofile(None)
        gc.enable()
    return seen


@pytest.fixture
def topology(monkeypatch):
    """`topology(processes)` makes as many up."""
    ours = lamina.local_devices()[:HERE]
    assert len(ours) == HERE
    current = client_state.current

    def make(processes):
        far = [Far(n, ours[0]) for n in range(HERE, HERE * processes)]
        every = [tuple(ours), *[tuple(far[k:k + HERE]) for k in range(0, len(far), HERE)]]
        monkeypatch.setattr(current, "device_groups", {"cpu": tuple(every)})
        monkeypatch.setattr(backends, "process_share", lambda named, backend=None: (1, processes))
        monkeypatch.setattr(execute_executable.multi_process, "multi_process_launcher",
                            lambda devices: (Launches(), (0, 1)) if len(devices) > HERE else (None, ()))
        monkeypatch.setattr(execute_executable, "compile_and_log", lambda low, devices, *rest:
                            executable_cache.LoadedExecutable(Executable(), object(), 0, devices[0]))
        monkeypatch.setattr(execute_executable.launch_guards, "collective_window", lambda executable, device: None)

    return make


def body(x):
    return x + lax.psum(x, "i") * lax.axis_index("i") + lax.all_gather(x, "i").sum(0) + lax.ppermute(x, "i", [(0, 1)])


CALLS = {"pmap": lambda: lamina.pmap(body, axis_name="i"),
         "beside": lambda: lamina.jit(lambda x: lamina.pmap(body, axis_name="i")(x * 2) + 1)}


@pytest.mark.parametrize("how", CALLS)
def test_work_is_that_of_this_processs_devices(topology, how):
    x = lamina.pmap(lambda r: r)(np.ones((HERE, 4), np.float32))
    CALLS[how]()(x)  # what is done once in a process has been done
    first, again, held = {}, {}, {}
    for processes in (8, 64, 512):
        topology(processes)
        f = CALLS[how]()
        first[processes] = events(lambda: f(x))
        f(x)
        again[processes] = events(lambda: f(x))
        y = f(x)
        assert y.shape == (HERE, 4) and [s.device for s in y.addressable_shards] == lamina.local_devices()[:HERE]
        held[processes] = events(lambda: (np.asarray(y), repr(y), y.sharding, y.addressable_shards[0].index))
    # A call, and an array that comes of it, do the same however many devices there are elsewhere.
    assert again[512] == again[64] == again[8], {k: (n, again[8][k]) for k, n in again[512].items() if n != again[8][k]}
    assert held[512] == held[64]
    # To trace and to lower is work for a program, in which NumPy looks at all devices at once.
    more = {k: n - first[64][k] for k, n in first[512].items() if n > first[64][k] + HERE}
    assert not more, more
