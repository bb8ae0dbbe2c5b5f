"""The pages run in this folder, as programs next to `pictures.py`; a picture that they draw must be like the committed one.

`LAMINA_REDRAW=1` replaces the committed pictures.
"""
from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
sys.path.insert(0, str(FOLDER))  # the pages import pictures.py and transformer.py
import pictures  # noqa: E402


def assert_alike(drawn: str, committed: str, name: str) -> None:
    """Compare two pictures: texts and shapes are equal, colours differ by one level at most, positions by two units."""
    levels = [[int(digit, 16) for text in re.findall(r'data-levels="([^"]*)"', svg) for digit in text.replace(" ", "")]
              for svg in (drawn, committed)]
    assert len(levels[0]) == len(levels[1]), name
    assert all(abs(a - b) <= 1 for a, b in zip(*levels)), name
    rest = [re.sub(r'data-levels="[^"]*"|<path[^>]*>', "", svg) for svg in (drawn, committed)]
    assert NUMBER.sub("#", rest[0]) == NUMBER.sub("#", rest[1]), name
    numbers = [[float(number) for number in NUMBER.findall(svg)] for svg in rest]
    assert all(abs(a - b) <= 2 for a, b in zip(*numbers)), name


@pytest.fixture(autouse=True)
def compared_pictures(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Draw into a temporary folder; after the page compare what it drew, and that each picture in its text was drawn."""
    committed = FOLDER / "pictures"
    monkeypatch.chdir(FOLDER)
    monkeypatch.setattr(pictures, "folder", tmp_path)
    yield
    if os.environ.get("LAMINA_REDRAW"):
        monkeypatch.setattr(pictures, "folder", committed)
    for path in sorted(tmp_path.glob("*.svg")):
        svg = path.read_text(encoding="utf-8")
        if os.environ.get("LAMINA_REDRAW"):
            pictures.save(path.name, svg)
        assert_alike(svg, (committed / path.name).read_text(encoding="utf-8"), path.name)
    if request.path.suffix == ".md":
        shown = re.findall(r"\]\(pictures/([^)]+)\)", request.path.read_text(encoding="utf-8"))
        assert sorted(shown) == sorted(path.name for path in tmp_path.glob("*.svg"))
