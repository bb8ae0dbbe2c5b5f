"""Compare single operations of lamina with releases of jax and with PyTorch, in processor time, and with the machine's limits.

usage: python benchmarks/operations.py [--rounds N] [--only PART ...] [--torch INTERPRETER] [--jaxlib INTERPRETER]

The systems are measured alternately, and the best of the rounds counts. All processes run on one processor: Linux adds
the time of threads on other processors late, so that short calls of several threads seem to take half of their time.
`--torch` names an interpreter with PyTorch (default: $LAMINA_TORCH); without it there is no such column. The last
column is the share of the limit: the time that the operation's FLOP, or its arguments and results, would take at the
speed of a large product or copy in PyTorch.
"""
from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import peers
from library_names import OPERATIONS
from run import HERE, TIME_LIMIT, US, keep_best, measure

Times = dict[str, float | str]
TORCH = "PyTorch"
# FLOP of the operations that the processor's arithmetic limits, in millions
MFLOP = {
    "depthwise": 9.4, "depthwise_input_gradient": 9.4, "depthwise_kernel_gradient": 9.4, "depthwise_sequence": 2.1,
    "groups": 37.7, "groups_input_gradient": 37.7, "groups_kernel_gradient": 37.7, "convolution": 604.0,
    "convolution_input_gradient": 604.0, "convolution_kernel_gradient": 604.0, "convolution_loop": 113.2,
    "volume_kernel_gradient": 47.8, "transposed_kernel_gradient": 75.5, "pointwise_convolution": 67.1,
    "pointwise_convolution_gradient": 201.3, "bfloat16_product": 268.4, "bfloat16_product_gradient": 805.3,
    "bfloat16_matrix_times_vector": 8.4, "small_products": 2.1, "small_products_gradient": 6.3}
# Bytes of the arguments and results, in millions
MEGABYTES = {
    "pooling": 2.6, "pooling_gradient": 4.7, "overlapping_pooling_gradient": 4.7, "softmax": 8.4, "softmax_gradient": 12.6,
    "layer_norm": 8.4, "layer_norm_gradient": 12.6, "argmax_of_columns": 4.0, "histogram": 4.0, "cumulative_sum": 8.0,
    "cumulative_sum_gradient": 8.0, "cumulative_sum_of_rows": 8.0, "cumulative_product": 8.0,
    "cumulative_product_gradient": 8.0, "top_k": 4.1, "top_k_gradient": 8.0, "top_k_of_a_long_row": 4.0,
    "take_along_axis": 4.3, "take_rows": 16.8, "take_rows_gradient": 12.6, "padding": 4.5}


def measure_torch(python: str, only: list[str]) -> Times:
    """Run one process of torch_operations.py."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "results.json"
        subprocess.run([python, str(HERE / "torch_operations.py"), str(result), *only], timeout=TIME_LIMIT, check=True)
        return json.loads(result.read_text(encoding="utf-8"))


def mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def share(name: str, microseconds: float, torch: Times) -> float | None:
    """Return the share of the machine's limit, None if it is unknown."""
    flop, memory = torch.get("limit_flop"), torch.get("limit_bytes")
    if not isinstance(flop, float) or not isinstance(memory, float) or name not in MFLOP and name not in MEGABYTES:
        return None
    return (MFLOP[name] * 1e6 / flop if name in MFLOP else MEGABYTES[name] * 1e6 / memory) / microseconds


def table(results: dict[str, Times]) -> str:
    """Return a Markdown table: a row per operation, a column per system, and the ratios."""
    def cell(value: float | str | None) -> str:
        return "-" if not isinstance(value, float) else f"{value / 1000:.2f}" if value >= 100 else f"{value / 1000:.3f}"
    lines = ["| row | " + " | ".join(results) + " | same jaxlib | best jax | PyTorch | share of limit |",
             "| --- |" + " ---: |" * (len(results) + 4)]
    columns: dict[str, list[float]] = {"same jaxlib": [], "best jax": [], TORCH: []}
    for name in OPERATIONS:
        row = f"operation_{name}"
        ours = results[US].get(row)
        if not isinstance(ours, float):
            continue
        others = {system: value for system, found in results.items() if system not in (US, TORCH)
                  and isinstance(value := found.get(row), float)}
        against = {"same jaxlib": others.get(peers.SAME_JAXLIB), "best jax": min(others.values(), default=None),
                   TORCH: results.get(TORCH, {}).get(row)}
        shown = []
        for column, other in against.items():
            if isinstance(other, float):
                columns[column].append(ours / other)
            shown.append(f"{ours / other:.2f}" if isinstance(other, float) else "-")
        reached = share(name, ours, results.get(TORCH, {}))
        lines.append(f"| {name} | " + " | ".join(cell(found.get(row)) for found in results.values()) + " | " +
                     " | ".join(shown) + f" | {'-' if reached is None else f'{reached:.0%}'} |")
    means = ", ".join(f"{column} {mean(ratios):.2f} ({sum(r > 1 for r in ratios)} of {len(ratios)} above 1)"
                      for column, ratios in columns.items() if ratios)
    return "\n".join([*lines, "", f"Processor time in ms. Geometric means of the ratios: {means}."])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=["operation_"], help="parts of the names of rows")
    parser.add_argument("--torch", default=os.environ.get("LAMINA_TORCH"), help="an interpreter with PyTorch")
    parser.add_argument("--json", type=Path, help="write the numbers to this file, too")
    options = parser.parse_args(argv)
    if hasattr(os, "sched_setaffinity"):  # of the child processes, too
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    systems = {US: (sys.executable, US)} | {name: (python, "jax") for name, python in peers.interpreters().items()}
    results: dict[str, Times] = {name: {} for name in systems}
    with tempfile.TemporaryDirectory() as caches:
        for number in range(options.rounds):
            for name, (python, module) in systems.items():
                print(f"operations: round {number + 1} of {options.rounds}, {name}", file=sys.stderr, flush=True)
                cache = str(Path(caches) / name.replace(" ", "-"))
                keep_best(results[name], measure(python, module, cache, options.only))
            if options.torch:
                found = measure_torch(options.torch, options.only)
                best = results.setdefault(TORCH, {})
                for limit in ("limit_flop", "limit_bytes"):
                    found[limit] = max(float(found[limit]), float(best.pop(limit, 0.0)))
                keep_best(best, found)
    for name, found in results.items():
        for row, value in found.items():
            if isinstance(value, str):
                print(f"operations: {name}, {row}: {value}", file=sys.stderr)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
