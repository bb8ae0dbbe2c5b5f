"""Compare queued programs with collectives with the same programs waited for at each step: the time per call of small
ones, and the peak memory of a loop over large ones. Each runs in a separate process, on eight CPU devices.

usage: python benchmarks/queued.py [--calls N] [--megabytes N]
"""
from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np

from memory import resident_megabytes

STEPS = 12


def calls(wait: bool, number: int) -> None:
    """Print the microseconds per call of `psum` on four numbers per device."""
    import lamina
    f = lamina.pmap(lambda x: lamina.lax.psum(x, "i"), axis_name="i")
    x = lamina.pmap(lambda x: x)(np.ones((8, 4), np.float32))
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(number):
            y = f(x)
            if wait:
                y.block_until_ready()
        y.block_until_ready()
        best = min(best, time.perf_counter() - begin)
    print(f"{best / number * 1e6:.0f} us a call")


def loop(wait: bool, megabytes: int) -> None:
    """Print the peak memory of a loop `p, loss = f(p, x)` over shards of this many megabytes."""
    import lamina
    from lamina import lax
    import lamina.numpy as jnp
    n = megabytes * 1_000_000 // 4
    f = lamina.pmap(lambda p, x: (lax.pmean(p + x, "i") * 0.5, lax.pmean(x[0], "i")), axis_name="i")
    x = lamina.pmap(lambda i: jnp.full(n, i))(np.arange(8, dtype=np.float32))
    p: Any = f(x, x)[0].block_until_ready()
    base, peak, ended = resident_megabytes(), [0.0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.0005):
            peak[0] = max(peak[0], resident_megabytes())

    watching = threading.Thread(target=watch)
    watching.start()
    for _ in range(STEPS):
        p, loss = f(p, x)
        if wait:
            lamina.block_until_ready((p, loss))
    p.block_until_ready()
    ended.set()
    watching.join()
    print(f"peak {peak[0]:.0f} MB, {base:.0f} MB before the loop")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--megabytes", type=int, default=33, help="of each device's piece")
    parser.add_argument("--here", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.here:
        what, wait = options.here[0], options.here[1] == "waited for"
        calls(wait, options.calls) if what == "psum" else loop(wait, options.megabytes)
        return 0
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    for what in ("psum", "loop"):
        for how in ("waited for", "queued"):
            print(f"{what}, {how}: ", end="", flush=True)
            subprocess.run([sys.executable, __file__, "--calls", str(options.calls), "--megabytes", str(options.megabytes),
                            "--here", what, how], env=environment, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
