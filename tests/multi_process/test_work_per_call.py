"""The Python work of a call with placed arguments does not grow with the number of devices."""
import os
import subprocess
import sys

PROGRAM = """
import sys
import time
import numpy as np
import lamina
from lamina import lax
from lamina_runtime._backend import launch_guards

n = lamina.device_count()
x = lamina.pmap(lambda r: r)(np.ones((n, 2), np.float32))
calls = {
    "pmap": lamina.pmap(lambda r: r * 2),
    "psum": lamina.pmap(lambda r: lax.psum(r, "i"), axis_name="i"),
    "jit(pmap)": lamina.jit(lamina.pmap(lambda r: r * 2)),
    "jit(pmap) and more": lamina.jit(lambda x: lamina.pmap(lambda r: lax.psum(r, "i"), axis_name="i")(x) + 1),
    "split": lamina.jit(lambda x: x * 2),
    "sum": lamina.jit(lambda x: x.sum(0)),
}
launch_guards._has_ended = lambda x: False  # it depends on timing whether one launch ends before the next
for name, f in calls.items():
    for _ in range(12):  # until the window is full
        f(x)
    count = 0
    def seen(frame, event, arg):
        global count
        count += event == "call"
    sys.setprofile(seen)
    for _ in range(3):
        f(x)
    sys.setprofile(None)
    print(name, count)
    if len(sys.argv) > 1:  # for manual use: time of the call, and until the result is ready
        times = []
        for _ in range(20):
            start = time.perf_counter()
            y = f(x)
            called = time.perf_counter()
            y.block_until_ready()
            times.append((called - start, time.perf_counter() - start))
        print("  ", *[round(min(t) * 1e6) for t in zip(*times)], "us")
"""


def count_python_calls(devices):
    env = {**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_work_does_not_grow_with_devices():
    few = count_python_calls(8)
    assert count_python_calls(64) == few and count_python_calls(512) == few
    assert all(int(line.split()[-1]) < 30 for line in few.splitlines())  # nothing is traced or looked up
