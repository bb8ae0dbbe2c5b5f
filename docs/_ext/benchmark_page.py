"""Make the benchmark page of the documentation, with a plot, from the numbers of one run of benchmarks/run.py.

usage: python docs/_ext/benchmark_page.py

The numbers are in benchmarks/results.json: `nox -s bench -- --json benchmarks/results.json` writes them. As a program, this
writes the table of README.md from the same numbers.
"""
from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results.json"
README = ROOT / "README.md"
README_TABLE = re.compile(r"(?<=<!-- table: python docs/_ext/benchmark_page.py -->\n\n).*?(?=\n\n)", re.DOTALL)
# Beginning of a row's name -> heading; the first that fits counts.
GROUPS = {
    "import": "Import", "jit_call": "Calls of compiled programs", "pmap_call": "Calls of compiled programs",
    "xmap_call": "Maps over named axes, compared with positional programs", "eager": "Eager operations",
    "trace": "Tracing and lowering", "first_result": "First results", "second_process": "First results",
    "run": "Running compiled programs", "loop": "Loops of small bodies, compared with jax 0.4.30", "psum": "Queued collectives",
    "operation": "Convolutions, pooling and other single operations"}
NOTES = {
    "Import": "A new process imports the module and its `numpy`, with bytecode present.",
    "First results": "The `first result` rows stage the same program again in one process. lamina finds its executable by the "
                     "content of the program; jax compiles it again. The other row starts a second process that finds the "
                     "executable on disk.",
    "Running compiled programs": "XLA makes nearly the same kernels for both systems, so ratios near 1 are expected.",
    "Loops of small bodies, compared with jax 0.4.30": "Later versions of jaxlib launch each operation of a body separately; "
                                                       "lamina chooses one kernel for small bodies.",
    "Maps over named axes, compared with positional programs": "The goal is that names cost nothing."}
MARGIN, BAR, LOG_WIDTH, LOW, HIGH = 270, 17, 110, -2, 1  # of the plot: pixels, pixels per factor of 10, exponents


def group_rows(results: dict[str, Any]) -> dict[str, list[tuple[str, float]]]:
    """Return heading -> (row, ratio) of the rows that are compared with jax on the same jaxlib or with its fastest version."""
    found: dict[str, list[tuple[str, float]]] = {}
    for row, (_, basis) in results["goals"].items():
        ratio = find_ratio(results, row, basis)
        heading = next((text for start, text in GROUPS.items() if row.startswith(start)), None)
        if ratio is not None and heading is not None:
            found.setdefault(heading, []).append((row, ratio))
    return found


def find_ratio(results: dict[str, Any], row: str, basis: str) -> float | None:
    """Return lamina's time divided by the one that the row is compared with; None if either is missing."""
    times = results["microseconds"]
    basis = results["same"] if basis == "same" else basis
    ours = times["lamina"].get(row)
    others = [found[row] for name, found in times.items() if name != "lamina" and isinstance(found.get(row), float)]
    if basis == "best":
        other = min(others, default=None)
    else:
        other = times["lamina"].get(basis) if basis not in times else times[basis].get(row)
    return ours / other if isinstance(ours, float) and isinstance(other, float) else None


def geometric_mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def draw(rows: list[tuple[str, float]]) -> str:
    """Draw a bar per row on a logarithmic scale: to the left of 1 lamina is faster."""
    def place(ratio: float) -> float:
        return MARGIN + LOG_WIDTH * (min(max(math.log10(ratio), LOW), HIGH) - LOW)

    width, height = MARGIN + LOG_WIDTH * (HIGH - LOW) + 60, BAR * len(rows) + 40
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" '
             'aria-label="Times of lamina divided by those of jax">',
             "<style>text{font:12px sans-serif;fill:#57606a}.l{stroke:#8b949e;stroke-width:.6}.a{fill:#2f81f7}.b{fill:#d29922}"
             "@media(prefers-color-scheme:dark){text{fill:#adbac7}}</style>"]
    for exponent in range(LOW, HIGH + 1):
        x = place(10.0 ** exponent)
        parts.append(f'<line class="l" x1="{x}" x2="{x}" y1="20" y2="{height - 16}"/>'
                     f'<text x="{x}" y="14" text-anchor="middle">{10.0 ** exponent:g}</text>')
    for k, (row, ratio) in enumerate(rows):
        y, start, end = 24 + BAR * k, *sorted((place(1.0), place(ratio)))
        parts.append(f'<text x="{MARGIN - 8}" y="{y + 11}" text-anchor="end">{row.replace("_", " ")}</text>'
                     f'<rect class="{"a" if ratio <= 1 else "b"}" x="{start:.1f}" y="{y + 2}" '
                     f'width="{max(end - start, 1):.1f}" height="{BAR - 5}"/>'
                     f'<text x="{MARGIN + LOG_WIDTH * (HIGH - LOW) + 8}" y="{y + 11}">{ratio:.2f}</text>')
    return "\n".join([*parts, "</svg>", ""])


def make_page(results: dict[str, Any]) -> str:
    """Return the page: what was measured, the plot, a table per group."""
    times = results["microseconds"]
    groups = group_rows(results)
    every = [ratio for rows in groups.values() for _, ratio in rows]
    lines = ["# Benchmarks", "",
             "This page compares lamina with released versions of jax. All numbers come from one run of one command, "
             "`nox -s bench -- --json benchmarks/results.json`.", "",
             f"- Date: {results['date']}. Rounds: {results['rounds']}; the best counts.",
             f"- Machine: {results['processor']}, {results['cores']} cores, {results['system']}.",
             f"- Python {results['python']}, jaxlib {results['jaxlib']} for lamina. Other systems: "
             f"{', '.join(name for name in times if name != 'lamina')}.", "",
             "A ratio is the time of lamina divided by the time of the other system: smaller is better. The basis *same* is "
             f"jax with the same jaxlib ({results['same']}); *best* is the fastest jax. Other bases are rows of lamina.", "",
             f"The geometric mean of all {len(every)} ratios is {geometric_mean(every):.2f}. "
             f"{sum(r <= 1 for r in every)} rows are at most 1.", "", "![Ratios](benchmarks.svg)", ""]
    for heading, rows in groups.items():
        mean = geometric_mean([r for _, r in rows])
        note = [NOTES[heading], ""] if heading in NOTES else []
        lines += [f"## {heading}", "", *note, f"Geometric mean: {mean:.2f}. Times are in microseconds.", "",
                  "| row | " + " | ".join(times) + " | ratio | basis |", "| --- |" + " ---: |" * (len(times) + 1) + " --- |"]
        for row, ratio in rows:
            cells = [f"{value:,.1f}" if isinstance(value := found.get(row), float) else "fails" if value else "-"
                     for found in times.values()]
            lines.append(f"| {row.replace('_', ' ')} | {' | '.join(cells)} | {ratio:.2f} | "
                         f"{results['goals'][row][1].replace('_', ' ')} |")
        lines.append("")
    return "\n".join(lines)


def pages(results: Path = RESULTS) -> dict[str, str]:
    """Return the page and the plot by their paths in docs/_generated."""
    found = json.loads(results.read_text(encoding="utf-8"))
    return {"benchmarks.md": make_page(found),
            "benchmarks.svg": draw([row for rows in group_rows(found).values() for row in rows])}


def readme_table(results: dict[str, Any]) -> str:
    """Return the table of README.md: the ratios of each group of rows."""
    basis = f"{results['processor']}, {results['cores']} cores, {results['date']}"
    lines = [f"| {basis} | rows | mean ratio | best | worst |", "| --- | ---: | ---: | ---: | ---: |"]
    for heading, rows in group_rows(results).items():
        ratios = [ratio for _, ratio in rows]
        lines.append(f"| {heading} | {len(rows)} | {geometric_mean(ratios):.2f} | {min(ratios):.2f} | {max(ratios):.2f} |")
    return "\n".join(lines)


def with_table(readme: str, results: dict[str, Any]) -> str:
    """Return the text of README.md with the table of these results."""
    found, count = README_TABLE.subn(lambda _: readme_table(results), readme)
    if count != 1:
        raise ValueError("README.md must have one table after the line `<!-- table: python docs/_ext/benchmark_page.py -->`; "
                         f"got {count}")
    return found


def main() -> None:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    README.write_text(with_table(README.read_text(encoding="utf-8"), results), encoding="utf-8")


if __name__ == "__main__":
    main()
