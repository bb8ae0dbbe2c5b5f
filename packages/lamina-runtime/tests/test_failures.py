"""Exception classes of programs and transfers that fail."""
import subprocess
import sys

import pytest


SHORT = """
import resource, numpy as np
from lamina_runtime import device_put
from lamina_tracing import lax
from lamina_parallel import pmap

x, rows = np.ones(1 << 25, "float32"), np.ones((1, 1 << 25), "float32")
on_device = device_put(x)
g = pmap(lambda v: lax.sin(v))
uses = [lambda: lax.sin(on_device), lambda: g(rows), lambda: device_put(x)]
results = [use() for use in uses for _ in range(2)]  # the second calls use the fast path
[k.block_until_ready() for k in results]
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 26), resource.getrlimit(resource.RLIMIT_AS)[1]))
for use in uses:
    try:
        for _ in range(4):
            results.append(use())
            results[-1].block_until_ready()
    except Exception as e:
        print(type(e).__name__, str(e)[:60])
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_out_of_memory_raises_an_error_of_its_own():
    found = subprocess.run([sys.executable, "-c", SHORT], capture_output=True, text=True).stdout.splitlines()
    assert len(found) == 3, found
    assert all(line.startswith("OutOfMemoryError ") for line in found), found
