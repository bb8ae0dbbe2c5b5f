"""The tables of docs/how-to/libraries.md, from the pins, the programs and the recorded counts."""
from __future__ import annotations

import ast
import json
from pathlib import Path

from library_sets import HERE, PROGRAMS, SETS, distribution_of

_START, _END = "<!-- tables: python tests/libraries/run.py --write-page -->", "<!-- end of tables -->"


def _cell(year: str, program: str) -> str:
    chosen = SETS[year]
    if program in chosen.excluded:
        return "no release"
    if program in chosen.failing:
        return "fails"
    return chosen.versions()[distribution_of(program)]


def format_tables() -> str:
    """Return the tables in Markdown."""
    lines = ["| library | 2024 | 2026 | what runs |", "| --- | --- | --- | --- |"]
    for program in PROGRAMS:
        text = ast.get_docstring(ast.parse((HERE / "programs" / f"{program}.py").read_text())) or ""
        what = text.splitlines()[0].rstrip(".")
        lines.append(f"| {distribution_of(program)} | {_cell('2024', program)} | {_cell('2026', program)} | {what} |")
    lines += ["", "| library's own tests | 2024 | 2026 |", "| --- | --- | --- |"]
    counts = json.loads((HERE / "suites.json").read_text())
    for library in SETS["2024"].suites:
        cells = [f"{SETS[year].versions()[library]}: {counts[year][library]} pass"
                 if library in SETS[year].suites else "not run" for year in SETS]
        lines.append(f"| {library} | {' | '.join(cells)} |")
    return "\n".join(lines)


def replace_tables(text: str) -> str:
    """Return the text of the page with the current tables."""
    before, _, rest = text.partition(_START)
    _, _, after = rest.partition(_END)
    return f"{before}{_START}\n\n{format_tables()}\n\n{_END}{after}"


def page_of(root: Path) -> Path:
    """Return the path of the page."""
    return root / "docs" / "how-to" / "libraries.md"


def write_page(root: Path) -> None:
    """Update the tables of the page."""
    path = page_of(root)
    path.write_text(replace_tables(path.read_text()))
