"""The chapters have their parts, the solutions run, transformer.py holds the functions of chapter 11; README's picture."""
from __future__ import annotations

import doctest
import re
import runpy
from pathlib import Path
from typing import Any

import pictures
import pytest

import lamina.numpy as jnp

FOLDER = Path(__file__).resolve().parent
CHAPTERS = sorted(FOLDER.glob("[0-9]*.md"))
SOLUTIONS = sorted((FOLDER / "solutions").glob("*.py"))


def test_course_has_twelve_chapters_in_its_index() -> None:
    assert [path.name[:2] for path in CHAPTERS] == [f"{number:02d}" for number in range(1, 13)]
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((\d\d-[\w-]+\.md)\)", index) == [path.name for path in CHAPTERS]


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_says_what_it_presumes_and_ends_with_exercises(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.search(r"^# \d+\. .*\n\n\*Presumes: [^*]+\. Time: \d+ minutes\.[^*]*\*$", text, re.MULTILINE)
    exercises = text.split("## Exercises\n")[1]
    solved = [solution.name for solution in SOLUTIONS if solution.name[:3] == f"{path.name[:2]}_"]
    assert re.findall(r"\]\(solutions/(\S+)\)", exercises) == solved
    assert 2 <= len(re.findall(r"^\d\. ", exercises, re.MULTILINE)) <= 3


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_solution_runs(path: Path) -> None:
    runpy.run_path(str(path))


def test_module_of_the_transformer_has_the_lines_of_chapter_11() -> None:
    page = (FOLDER / "11-transformer.md").read_text(encoding="utf-8")
    lines = {line[4:] for line in page.splitlines() if line.startswith((">>> ", "... "))}
    module = (FOLDER / "transformer.py").read_text(encoding="utf-8").split("\nLETTERS", 1)[1]
    assert [line for line in ("LETTERS" + module).splitlines() if line and line not in lines] == []


def test_first_example_of_the_readme_draws_its_picture() -> None:
    """`LAMINA_REDRAW=1` replaces the picture."""
    readme = (FOLDER.parents[1] / "README.md").read_text(encoding="utf-8")
    assert readme.count("](docs/learn/pictures/readme.svg)") == 1
    names: dict[str, Any] = {}
    exec("".join(example.source for example in doctest.DocTestParser().get_examples(readme)), names)
    dense, trained = jnp.linspace(-3, 3, 61), names["trained"]
    lines = {"fit": (dense, names["fit"](trained, dense)), "derivative": (dense, names["derivative"](trained, dense))}
    svg = pictures.line_chart("A network, and its derivative", lines, {"data": (names["xs"], names["ys"])})
    pictures.save("readme.svg", svg)
