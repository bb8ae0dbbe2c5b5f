"""Compare lamina with other systems in one run and write the table of results.

usage: python benchmarks/run.py [--rounds N] [--only PART ...] [--out FILE.md] [--json FILE]

The systems are measured alternately within a round, so that a change of the machine's speed affects all of them; the
best of the rounds counts. A ratio is lamina's time divided by that of the fastest other system ("best"), or of the one
with the same jaxlib ("same"). `--json` writes the numbers with the machine and the date; docs/_ext/benchmark_page.py
makes the page of the documentation from such a file.
"""
from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import peers
from library_names import LOOPS, OPERATIONS
from library_names import NAMES as LIBRARY

HERE = Path(__file__).resolve().parent
US = "lamina"
TIME_LIMIT = 900  # seconds for a process: queued collectives of jax 0.4.30 can wait for each other forever
# row: (goal, what lamina is compared with; "limit" compares its number with the goal)
GOALS: dict[str, tuple[float, str]] = {
    "import": (0.6, "best"),
    "jit_call_one_argument": (1.0, "same"), "jit_call_100_leaves": (1.0, "same"),
    "jit_call_training_step": (1.0, "same"),
    "pmap_call_sharded": (0.75, "same"), "pmap_call_host_arrays": (0.5, "same"),
    "pmap_call_of_jit": (0.75, "same"), "jit_call_of_pmap": (0.75, "same"), "jit_call_of_pmap_and_more": (0.75, "same"),
    "jit_call_of_pmap_psum_blocking": (0.95, "same"), "pmap_call_psum_blocking": (0.95, "same"),
    "pmap_call_training_step": (0.8, "same"),
    "eager_add": (0.8, "same"), "eager_sin": (1.0, "same"), "eager_sum_axis": (1.0, "same"),
    "eager_where": (0.6, "same"), "eager_random_normal": (0.6, "same"),
    "eager_matmul": (0.4, "best"), "eager_index": (0.3, "best"), "eager_update": (0.2, "best"),
    "eager_grad": (0.2, "best"), "eager_vmap": (0.2, "best"), "eager_jacfwd": (0.2, "best"),
    "trace_chain": (0.35, "best"), "trace_jvp_chain": (0.3, "best"), "trace_grad_chain": (0.25, "best"),
    "trace_vmap_chain": (0.25, "best"), "trace_and_lower_grad_network": (0.4, "best"),
    "first_result_grad_network": (0.8, "same"), "first_result_pmap_psum": (0.7, "same"),
    "second_process_first_result": (0.3, "same"),
    "run_training_step_wide": (1.05, "same"), "run_pmap_vmap_dot": (0.6, "same"),
    "run_two_million_normals": (0.7, "same"),
    **{f"trace_derivative_{name}": (0.2, "best")
       for name in ("scan", "while", "cond", "remat", "custom_jvp", "custom_vjp")},
    **{f"run_derivative_{name}": (1.05, "same") for name in ("scan", "while", "cond", "custom_jvp", "custom_vjp")},
    "eager_scan": (0.5, "best"), "eager_while": (0.1, "best"), "eager_cond": (0.3, "best"),
    "eager_custom_jvp": (0.3, "best"), "eager_grad_checkpoint": (0.3, "best"),
    "growth_trace": (1.15, "limit"), "growth_jvp": (1.15, "limit"), "growth_grad": (1.15, "limit"),
    "growth_vmap": (1.15, "limit"), "growth_remat": (1.15, "limit"), "growth_print": (1.15, "limit"),
    "growth_calls": (0.33, "limit"),  # 300 calls in three times the time of 10
    **{f"xmap_call_{name}": (1.1, f"xmap_call_{name}_by_hand")
       for name in ("product", "regression", "mesh_sum", "loop", "loop_gradient")},
    **{f"trace_xmap_{name}": (0.5, "best") for name in ("product", "regression", "regression_gradient")},
    "first_result_xmap_product_mesh": (0.8, "best"), "first_result_xmap_regression": (0.8, "best"),
    "psum_10000_queued": (0.9, "psum_10000_blocking"),
    **{f"loop_{name}": (1.1, "jax 0.4.30") for name in LOOPS},  # the last release that compiles loops to one kernel
    **{f"operation_{name}": (goal, "best") for name, goal in OPERATIONS.items()},
    **{f"library_{kind}_{name}": (goal, "same") for kind, goal in (
        ("small", 1.05), ("large", 1.05), ("eager", 0.7), ("first", 0.5), ("memory", 1.0)) for name in LIBRARY},
}

# Lower bounds of every front end: kind of row -> kinds of rows that measure jaxlib's part alone
FLOORS = {"eager": ("launch", "small"), "first": ("xla", "begun")}


def measure(python: str, module: str, cache: str, only: list[str]) -> dict[str, float | str]:
    """Run one process of programs.py; if it dies, return the last line of its error output."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "results.json"
        command = [python, str(HERE / "programs.py"), module, str(result), cache, *only]
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}
        environment.pop("PYTHONPATH", None) if module != US else None
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIME_LIMIT)
        except subprocess.TimeoutExpired:
            return {"failed": f"still running after {TIME_LIMIT} s"}
        if result.exists():
            return json.loads(result.read_text(encoding="utf-8"))
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        return {"failed": last[:160]}


def keep_best(best: dict[str, float | str], found: dict[str, float | str]) -> None:
    for name, value in found.items():
        old = best.get(name)
        if not isinstance(old, float) or (isinstance(value, float) and value < old):
            best[name] = value


def ratio_of(row: str, basis: str, results: dict[str, dict[str, float | str]]) -> float | None:
    """Return lamina's number divided by the one named by the goal, or None if either is missing."""
    ours = results[US].get(row)
    if basis == "limit":
        against: float | str | None = 1.0
    elif basis in results:
        against = results[basis].get(row)
    elif basis in ("best", "same"):
        others = {name: value for name, found in results.items()
                  if name != US and isinstance(value := found.get(row), float)}
        against = others.get(peers.SAME_JAXLIB) if basis == "same" else min(others.values(), default=None)
    else:
        against = results[US].get(basis)
    return ours / against if isinstance(ours, float) and isinstance(against, float) else None


def table(results: dict[str, dict[str, float | str]]) -> str:
    """Return a Markdown table: a row per program, a column per system, then ratio, goal and verdict."""
    def cell(value: float | str | None) -> str:
        if isinstance(value, float):
            return f"{value:,.1f}" if value >= 10 else f"{value:.2f}"
        return "fails" if value else "-"
    lines = ["| row | " + " | ".join(results) + " | ratio | goal | |",
             "| --- |" + " ---: |" * (len(results) + 2) + " --- |"]
    reached = total = 0
    for row, (goal, basis) in GOALS.items():
        if not any(row in found for found in results.values()):
            continue
        ratio = ratio_of(row, basis, results)
        total += 1
        good = ratio is not None and ratio <= goal
        reached += good
        lines.append(f"| {row} | " + " | ".join(cell(found.get(row)) for found in results.values()) +
                     f" | {'-' if ratio is None else f'{ratio:.2f}'} | {goal:g} {basis} | {'' if good else 'short'} |")
    ratios = [r for row, (_, basis) in GOALS.items() if basis != "limit" and (r := ratio_of(row, basis, results))]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
    return "\n".join([*lines, "", f"{reached} of {total} goals reached; geometric mean of the ratios {mean:.2f}."])


def floors(results: dict[str, dict[str, float | str]]) -> str:
    """Return a Markdown table of the library rows that miss their goal, with jaxlib's part of the call."""
    lines = []
    for kind, parts in FLOORS.items():
        for name in LIBRARY:
            row = f"library_{kind}_{name}"
            goal, basis = GOALS[row]
            ratio, peer = ratio_of(row, basis, results), results[peers.SAME_JAXLIB].get(row)
            alone = [results[US].get(f"library_{part}_{name}") for part in parts]
            if ratio is not None and ratio > goal and isinstance(peer, float):
                shown = [f"{part} {took / peer:.2f}" for part, took in zip(parts, alone) if isinstance(took, float)]
                lines.append(f"| {row} | {ratio:.2f} | {', '.join(shown)} | {goal:g} |")
    head = ["", "| short | ratio | jaxlib's part alone | goal |", "| --- | ---: | --- | ---: |"]
    return "\n".join([*head, *lines, ""]) if lines else ""


def record(results: dict[str, dict[str, float | str]], rounds: int) -> dict[str, object]:
    """Return the numbers, with what a reader must know about the run."""
    return {"date": datetime.date.today().isoformat(), "rounds": rounds, "cores": os.cpu_count(), "processor": processor(),
            "system": platform.system(), "python": platform.python_version(), "jaxlib": importlib.metadata.version("jaxlib"),
            "same": peers.SAME_JAXLIB,
            "goals": {row: goal for row, goal in GOALS.items() if any(row in found for found in results.values())},
            "microseconds": {name: {row: value if isinstance(value, str) else float(f"{value:.4g}")
                                    for row, value in found.items()} for name, found in results.items()}}


def processor() -> str:
    """Return the name of the processor, or its architecture if the system does not say it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[], help="parts of the names of rows")
    parser.add_argument("--out", type=Path, default=HERE.parent / "out" / "bench.md")
    parser.add_argument("--json", type=Path, help="write the numbers to this file, too")
    options = parser.parse_args(argv)
    systems = {US: (sys.executable, US)} | {name: (python, "jax") for name, python in peers.interpreters().items()}
    results: dict[str, dict[str, float | str]] = {name: {} for name in systems}
    with tempfile.TemporaryDirectory() as caches:
        for number in range(options.rounds):
            for name, (python, module) in systems.items():
                print(f"bench: round {number + 1} of {options.rounds}, {name}", file=sys.stderr, flush=True)
                cache = str(Path(caches) / name.replace(" ", "-"))
                keep_best(results[name], measure(python, module, cache, options.only))
    for name, found in results.items():
        for row, value in found.items():
            if isinstance(value, str):
                print(f"bench: {name}, {row}: {value}", file=sys.stderr)
    text = (f"# Results\n\nMicroseconds, rounds: {options.rounds}, the best counts; `growth` rows are exponents. "
            f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}.\n\n{table(results)}\n"
            f"{floors(results)}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text, encoding="utf-8")
    if options.json:
        options.json.write_text(json.dumps(record(results, options.rounds), indent=1) + "\n", encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
