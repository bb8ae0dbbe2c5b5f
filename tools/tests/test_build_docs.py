"""Generated pages: complete, and independent of the run. Links that lead nowhere are found."""
from __future__ import annotations

import re
from pathlib import Path

import api_pages
import build_docs
import check_links
import operation_pages
import pytest
from lamina_ir import config, prims


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return operation_pages.pages("conventions.md")


def test_every_primitive_has_its_rules_and_a_specification(pages: dict[str, str]) -> None:
    for prim in prims.ALL:
        assert f"| `{prim.name}` |" in pages["ops.md"], prim.name
        assert f"## `{prim.name}`" in pages[f"ops/{prim.family}.md"], prim.name
    assert set(re.findall(r"\]\((ops/[\w-]+\.md)\)", pages["ops.md"])) == set(pages) - {"ops.md"}


def test_rules_of_each_kind_are_shown(pages: dict[str, str]) -> None:
    rows = {line.split("|")[1].strip(" `"): [cell.strip() for cell in line.split("|")[3:5]]
            for line in pages["ops.md"].splitlines() if line.startswith("| `")}
    assert rows["sin"][0] == "elementwise" and rows["floor"][0] == "zero"
    assert rows["add"] == ["linear", "rule"] and rows["dot_general"] == ["bilinear", "rule"]


def test_parameter_types_have_a_meaning_for_every_field(pages: dict[str, str]) -> None:
    assert not re.findall(r"^\| `\w+` \|  \|$", pages["ops/param-types.md"], re.MULTILINE)


def test_every_setting_has_a_line_and_pages_belong_to_settings() -> None:
    text = build_docs.settings_page()
    assert all(f"`{name}`" in text for name in config.options)
    assert set(build_docs.SETTING_PAGES) <= set(config.options)


@pytest.fixture(scope="module")
def coverage() -> dict[str, list[list[str]]]:
    """The lines of the tables of coverage.md, by heading."""
    sections = build_docs.coverage_page().split("\n## ")
    return {text.partition("\n")[0]: [line.split("|") for line in text.splitlines() if line.startswith("| `lamina")]
            for text in sections}


def test_coverage_counts_every_listed_name(coverage: dict[str, list[list[str]]]) -> None:
    names = (build_docs.PUBLIC_API_TESTS / "core_names.tsv").read_text().splitlines()[1:]
    assert sum(int(row[2]) for row in coverage["Stable modules and classes of JAX 0.4.30"]) == len(names)


def test_coverage_counts_two_releases(coverage: dict[str, list[list[str]]]) -> None:
    page = build_docs.coverage_page()
    for release in ("0.4.30", "0.12"):
        rows = coverage[f"Names of JAX {release}"]
        names, existing = (sum(int(row[column]) for row in rows) for column in (2, 3))
        assert f"| {release} | {len(rows)} | {names} | {existing} |" in page and 0 < existing < names
    mosaic = next(row for row in coverage["Names of JAX 0.12"] if row[1] == " `lamina.experimental.mosaic` ")
    assert int(mosaic[3]) == 0 and "absent by design" in mosaic[4]


def test_public_modules_include_nested_ones() -> None:
    assert {"lamina", "lamina.numpy.linalg", "lamina.scipy.stats.norm"} <= set(api_pages.public_modules())


def test_broken_links_are_reported(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A `name` of one\n\n## Twice\n\n## Twice\n")
    (tmp_path / "there.html").write_text('<section id="sin">')
    page = tmp_path / "page.md"
    page.write_text("# Top\n[a](there.md#a-name-of-one) [b](there.md#twice-1) [c](#top) [d](there.html#sin) [e](https://x.org)\n")
    assert list(check_links.broken_links(page, tmp_path)) == []
    page.write_text("[a](gone.md) [b](there.md#gone) [c](#gone) [d](there.html#cos)\n\n```\n[e](gone.md)\n```\n")
    assert list(check_links.broken_links(page, tmp_path)) == [
        "page.md: no file gone.md", "page.md: no anchor there.md#gone", "page.md: no anchor #gone",
        "page.md: no anchor there.html#cos"]
