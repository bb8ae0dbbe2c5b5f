"""Compare maps over two processes with jaxlib's own launch of the same program, and time `initialize`.

usage: python benchmarks/processes.py [--processes N] [--devices K] [--agreement every first off]

For each program and setting of `agreement` it prints the median time of a call and of `execute_sharded`, both waited
for (the second one inside jaxlib) and measured alternately, and their ratio. Then it prints the ratio of two measurements
of `execute_sharded` in the same rounds: its distance from 1 is the accuracy of the ratios. The programs are an
elementwise one and `psum` of three sizes.
"""
from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

SIZES = {"psum 1 kB": (256, 50, 40), "psum 1 MB": (1 << 18, 10, 300), "psum 64 MB": (1 << 24, 1, 9)}  # numbers, calls, rounds


def member(out: str, agreement: str) -> None:
    """Run one process; the first one writes the results to a file."""
    import numpy as np

    import lamina
    from lamina import lax, pmap
    from lamina_runtime.extend.processes import wait_in_jaxlib

    lamina.config.update("agreement", agreement)
    start = time.perf_counter()
    lamina.distributed.initialize()
    joined = time.perf_counter() - start
    n = lamina.local_device_count()
    results: dict[str, Any] = {"initialize": joined}
    draw = random.Random(0)  # the same order in all processes

    def measure(name: str, f: Any, x: Any, calls: int, rounds: int) -> None:
        x = pmap(lambda x: x)(x)
        raw = f.lower(x).compile().runtime_executable()

        def launch_raw() -> Any:
            return wait_in_jaxlib(raw.execute_sharded([x]).disassemble_into_single_device_arrays()[0][0])

        ways = {"ours": lambda: f(x).block_until_ready(), "raw": launch_raw, "again": launch_raw}
        taken: dict[str, list[float]] = {way: [] for way in ways}
        for way in ways:
            ways[way]()
        order = [*ways]
        for _ in range(rounds):
            draw.shuffle(order)  # no system always follows the same other one
            for way in order:
                ways[way]()  # the processes may have drifted apart
                start = time.perf_counter()
                for _ in range(calls):
                    ways[way]()
                taken[way].append((time.perf_counter() - start) / calls)
        results[name] = [*map(median, taken.values()), min(taken["ours"]), min(taken["raw"])]

    measure("elementwise", pmap(lambda x: x * 2 + 1), np.ones((n, 256), np.float32), 100, 30)
    total = pmap(lambda x: lax.psum(x, "i"), axis_name="i")
    for name, (size, calls, rounds) in SIZES.items():
        measure(name, total, np.ones((n, size // n), np.float32), calls, rounds)
    if lamina.process_index() == 0:
        Path(out).write_text(json.dumps(results))


def main() -> None:
    parser = argparse.ArgumentParser(description="Maps over several processes compared with jaxlib's own launch.")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--devices", type=int, default=1, help="of each")
    parser.add_argument("--agreement", nargs="+", default=["every", "off"])
    options = parser.parse_args()
    for mode in options.agreement:
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "results.json")
            sizes = ["-n", str(options.processes), "--devices", str(options.devices)]
            subprocess.run([sys.executable, "-m", "lamina.launch", *sizes, "--timeout", "300", __file__, "member", out, mode],
                           check=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}, stdout=subprocess.DEVNULL)
            results = json.loads(Path(out).read_text())
        print(f"agreement {mode}: joined in {results.pop('initialize'):.2f} s")
        for name, (ours, raw, again, best, best_raw) in results.items():
            print(f"  {name:12} {ours * 1e6:9.0f} us, raw {raw * 1e6:9.0f} us: {ours / raw:5.2f}, raw/raw "
                  f"{again / raw:5.2f} (best {best * 1e6:.0f}, {best_raw * 1e6:.0f})", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["member"]:
        member(*sys.argv[2:])
    else:
        main()
