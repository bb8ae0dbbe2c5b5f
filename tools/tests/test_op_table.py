"""The page of operations: every primitive has its row, and the check notices a difference."""
from __future__ import annotations

from pathlib import Path

import op_table
from lamina_ir import prims


def test_page_has_a_row_for_every_primitive() -> None:
    text = op_table.page()
    for op in prims.ALL:
        assert f"| `{op.name}` |" in text, op.name


def test_page_says_how_each_derivative_comes_about() -> None:
    rows = {line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[3:5]]
            for line in op_table.page().splitlines() if line.startswith("| `")}
    assert rows["`sin`"][0] == "slope"
    assert rows["`floor`"][0] == "zero"
    assert rows["`add`"] == ["linear", "rule"]
    assert rows["`dot_general`"] == ["bilinear", "rule"]


def test_check_fails_on_a_page_that_is_behind(tmp_path: Path) -> None:
    page = tmp_path / "ops.md"
    assert op_table.main(["--out", str(page)]) == 0
    assert op_table.main(["--check", "--out", str(page)]) == 0
    page.write_text(page.read_text() + "by hand\n")
    assert op_table.main(["--check", "--out", str(page)]) == 1
