"""Measures maps over two processes beside jaxlib's own launch of the same program, taking turns, and how long joining takes.

usage: python benchmarks/processes.py [--processes N] [--devices K] [--agreement every first off]

Prints, for each program and way of agreeing, the median time of a call beside that of `execute_sharded`, both waited for, and
their ratio; behind it what the same rounds give for `execute_sharded` beside itself: a ratio is known as well as that one is 1.
The programs: an elementwise one and `psum` of three sizes. Joining is timed from the first line of `initialize`.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

SIZES = {"psum 1 kB": (256, 50, 40), "psum 1 MB": (1 << 18, 10, 300), "psum 64 MB": (1 << 24, 1, 9)}  # numbers, calls, rounds


def member(out: str, agreement: str) -> None:
    """One process: what it measures goes to a file, if it is the first."""
    import numpy as np

    import lamina
    from lamina import lax, pmap

    lamina.config.update("agreement", agreement)
    start = time.perf_counter()
    lamina.distributed.initialize()
    joined = time.perf_counter() - start
    n = lamina.local_device_count()
    figures: dict[str, Any] = {"initialize": joined}

    def measured(name: str, f: Any, x: Any, calls: int, rounds: int) -> None:
        x = pmap(lambda x: x)(x)
        raw = f.lower(x).compile().runtime_executable()

        def by_hand() -> Any:
            return raw.execute_sharded([x]).disassemble_into_single_device_arrays()[0][0]

        ways = {"ours": lambda: f(x), "raw": by_hand, "again": by_hand}
        taken: dict[str, list[float]] = {way: [] for way in ways}
        for way in ways:
            ways[way]().block_until_ready()
        order = [*ways]
        for _ in range(rounds):
            order.append(order.pop(0))  # nobody is always first
            for way in order:
                start = time.perf_counter()
                for _ in range(calls):
                    ways[way]().block_until_ready()
                taken[way].append((time.perf_counter() - start) / calls)
        figures[name] = [*map(median, taken.values()), min(taken["ours"]), min(taken["raw"])]

    measured("elementwise", pmap(lambda x: x * 2 + 1), np.ones((n, 256), np.float32), 100, 30)
    total = pmap(lambda x: lax.psum(x, "i"), axis_name="i")
    for name, (size, calls, rounds) in SIZES.items():
        measured(name, total, np.ones((n, size // n), np.float32), calls, rounds)
    if lamina.process_index() == 0:
        Path(out).write_text(json.dumps(figures))


def main() -> None:
    parser = argparse.ArgumentParser(description="Maps over several processes beside jaxlib's own launch.")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--devices", type=int, default=1, help="of each")
    parser.add_argument("--agreement", nargs="+", default=["every", "off"])
    options = parser.parse_args()
    for mode in options.agreement:
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "figures.json")
            sizes = ["-n", str(options.processes), "--devices", str(options.devices)]
            subprocess.run([sys.executable, "-m", "lamina.launch", *sizes, "--timeout", "300", __file__, "member", out, mode],
                           check=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}, stdout=subprocess.DEVNULL)
            figures = json.loads(Path(out).read_text())
        print(f"agreement {mode}: joined in {figures.pop('initialize'):.2f} s")
        for name, (ours, raw, again, best, best_raw) in figures.items():
            print(f"  {name:12} {ours * 1e6:9.0f} us, raw {raw * 1e6:9.0f} us: {ours / raw:5.2f}, raw beside raw "
                  f"{again / raw:5.2f} (best {best * 1e6:.0f}, {best_raw * 1e6:.0f})", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["member"]:
        member(*sys.argv[2:])
    else:
        main()
