"""The Python work of a call whose arguments are in place does not grow with the number of devices."""
import os
import subprocess
import sys

PROGRAM = """
import sys
import numpy as np
import lamina
from lamina import lax

n = lamina.device_count()
x = lamina.pmap(lambda r: r)(np.ones((n, 2), np.float32))
calls = {
    "pmap": lamina.pmap(lambda r: r * 2),
    "psum": lamina.pmap(lambda r: lax.psum(r, "i"), axis_name="i"),
    "jit(pmap)": lamina.jit(lamina.pmap(lambda r: r * 2)),
    "jit(pmap) and more": lamina.jit(lambda x: lamina.pmap(lambda r: lax.psum(r, "i"), axis_name="i")(x) + 1),
}
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
"""


def counted(devices):
    env = {**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_work_does_not_grow_with_devices():
    few = counted(4)
    assert counted(32) == few
    assert "jit(pmap) 0" in few  # nothing waits for anything: jaxlib runs it by itself
