"""Notebooks: their cells, and the pages with and without outputs. `nox -s notebooks` executes them."""
from __future__ import annotations

import json
from pathlib import Path

import pytest
import run_notebooks

SOURCE = """# %% [markdown]
# # A title
#
# Text.

# %%
x = 1

x

# %%
print(x)
"""


def test_cells_are_text_and_code() -> None:
    cells = run_notebooks.split_cells(SOURCE)
    assert [(cell["cell_type"], cell["source"]) for cell in cells] == [
        ("markdown", "# A title\n\nText."), ("code", "x = 1\n\nx"), ("code", "print(x)")]


def test_page_shows_outputs() -> None:
    text, code, printing = run_notebooks.split_cells(SOURCE)
    code["outputs"] = [{"output_type": "execute_result", "data": {"text/plain": "1"}}]
    printing["outputs"] = [{"output_type": "stream", "name": "stdout", "text": part} for part in ("a\n", "b\n")]
    page, pictures = run_notebooks.render("name", [text, code, printing])
    assert page == ("# A title\n\nText.\n\n```python\nx = 1\n\nx\n```\n\n```text\n1\n```\n\n"
                    "```python\nprint(x)\n```\n\n```text\na\nb\n```\n")
    assert pictures == {}


def test_page_prefers_a_drawing_then_html() -> None:
    cell = {"cell_type": "code", "source": "x", "outputs": [
        {"data": {"text/plain": "1", "text/html": "<b>1</b>"}},
        {"data": {"text/plain": "1", "text/html": "<b>1</b>", "image/svg+xml": "<svg><title>One</title></svg>"}}]}
    page, pictures = run_notebooks.render("name", [cell])
    assert '```{raw} html\n<div style="overflow-x: auto"><b>1</b></div>\n```' in page and "![One](name-1.svg)" in page
    assert pictures == {"name-1.svg": "<svg><title>One</title></svg>"}


def test_outputs_of_another_version_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_notebooks, "SOURCES", tmp_path)
    monkeypatch.setattr(run_notebooks, "OUTPUTS", tmp_path)
    (tmp_path / "one.py").write_text(SOURCE, encoding="utf-8")
    cells = run_notebooks.split_cells(SOURCE)
    cells[1]["outputs"] = [{"data": {"text/plain": "a result"}}]
    for source, is_shown in ((SOURCE, True), (SOURCE + "y = 2\n", False)):
        (tmp_path / "one.json").write_text(json.dumps({"source": source, "cells": cells}), encoding="utf-8")
        assert ("a result" in run_notebooks.pages()["notebooks/one.md"]) == is_shown


def test_every_notebook_is_a_program_and_starts_with_a_title() -> None:
    sources = sorted(run_notebooks.SOURCES.glob("*.py"))
    assert len(sources) == 3
    for path in sources:
        text = path.read_text(encoding="utf-8")
        compile(text, str(path), "exec")
        assert run_notebooks.split_cells(text)[0]["source"].startswith("# ")
