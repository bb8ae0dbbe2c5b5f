"""The extension of the site: order of pages, links outside of docs/, docstrings as reStructuredText."""
from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("sphinx")
import sphinx_site

PAGES = {"index", "how-to/index", "how-to/a", "how-to/b", "how-to/deep/index", "how-to/deep/c", "learn/index", "learn/01-x",
         "notes/d", "_generated/ops", "_generated/ops/math"}


def test_sections_have_their_order_and_other_folders_follow() -> None:
    assert sphinx_site.children("", "index", PAGES) == ["learn/index", "how-to/index", "notes/d"]


def test_linked_pages_come_first_and_the_others_by_name() -> None:
    text = "[b](b.md), [d](../notes/d.md) and [ops](../_generated/ops.md)\n\n```\n[a](a.md)\n```\n"
    assert sphinx_site.children(text, "how-to/index", PAGES) == ["how-to/b", "_generated/ops", "how-to/a", "how-to/deep/index"]
    assert sphinx_site.children("", "how-to/deep/index", PAGES) == ["how-to/deep/c"]
    assert sphinx_site.children("[m](ops/math.md)", "_generated/ops", PAGES) == ["_generated/ops/math"]


@pytest.mark.parametrize("urls, options", [
    ('[project.urls]\nRepository = "https://x.org/r/"\n',
     {"source_repository": "https://x.org/r/", "source_branch": "main", "source_directory": "docs/"}),
    ('[project.urls]\nHomepage = "https://x.org"\n', {}), ("", {})])
def test_edit_links_need_the_address_of_the_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, urls: str,
                                                       options: dict[str, str]) -> None:
    (tmp_path / "packages" / "lamina").mkdir(parents=True)
    (tmp_path / "packages" / "lamina" / "pyproject.toml").write_text(f'[project]\nname = "lamina"\n{urls}')
    monkeypatch.setattr(sphinx_site, "ROOT", tmp_path)
    assert sphinx_site.repository_options() == options


def test_links_outside_of_docs_lead_to_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "[run](../../examples/run.py#x), [tools](../../tools) [b](b.md) ![p](p.svg)\n\n```\n[run](../../run.py)\n\n```\n"
    monkeypatch.setattr(sphinx_site, "repository", lambda: "https://x.org/r")
    assert sphinx_site.with_repository_links(text, "how-to/a") == (
        "[run](https://x.org/r/blob/main/examples/run.py#x), [tools](https://x.org/r/tree/main/tools) [b](b.md) ![p](p.svg)\n\n"
        "```\n[run](../../run.py)\n```\n")
    monkeypatch.setattr(sphinx_site, "repository", lambda: None)
    assert sphinx_site.with_repository_links(text, "how-to/a").startswith("run, tools [b](b.md)")


@pytest.mark.parametrize(("text", "expected"), [
    ("Sum of `x` and `lamina.jit`.", "Sum of ``x`` and :py:obj:`lamina.jit`."),
    ("As `numpy.sum`, for x_ and a*b.", "As :py:obj:`numpy.sum`, for x\\_ and a\\*b."),
    ("Two `a\n  b` lines; `x`s.", "Two ``a b`` lines; ``x``\\ s."),
    ("Args:\n  **more: of `x`.\n  y, **z: none.", "Args:\n  **more: of ``x``.\n  y, \\*\\*z: none."),
    ("Text.\nDerivative: of\n  `x`.\nSource: a page.", "Text.\n\n**Derivative.** of\n``x``.\n\n**Source.** a page."),
])
def test_docstring_is_restructured_text(text: str, expected: str) -> None:
    assert sphinx_site.as_rst(text) == expected


def test_examples_stay_as_they_are() -> None:
    lines = ["Add `x`.", "", ">>> f(*a_)", "`x*`", "", "More `y`."]
    sphinx_site.process_docstring(Any, "function", "f", None, None, lines)
    assert lines == ["Add ``x``.", "", ">>> f(*a_)", "`x*`", "", "More ``y``."]


def test_source_of_a_name_is_its_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sphinx_site, "repository", lambda: "https://x.org/r")
    address = sphinx_site.linkcode_resolve("py", {"module": "lamina", "fullname": "jit"}) or ""
    path, _, line = address.removeprefix("https://x.org/r/blob/main/").partition("#L")
    assert "def jit" in "".join((sphinx_site.ROOT / path).read_text().splitlines(True)[int(line) - 1:int(line) + 3])
    assert sphinx_site.linkcode_resolve("py", {"module": "lamina", "fullname": "absent"}) is None


def test_inventories_need_no_network() -> None:
    from sphinx.util.inventory import InventoryFile
    for name, item in (("numpy", "numpy.linalg.svd"), ("python", "TypeError")):
        address, path = sphinx_site.inventories()[name]
        found = InventoryFile.loads(Path(path).read_bytes(), uri=address)
        assert any(item in names for names in found.data.values())


def test_short_type_name_links_to_its_page() -> None:
    app: Any = SimpleNamespace(builder=SimpleNamespace(get_relative_uri=lambda source, target: target))
    node = {"refdomain": "py", "reftarget": "lamina_parallel.Mesh", "refdoc": "x"}
    assert sphinx_site.resolve_name(app, app, node, sphinx_site.nodes.Text("Mesh"))["refuri"].endswith("lamina.sharding.Mesh")
    assert sphinx_site.resolve_name(app, app, {**node, "reftarget": "Absent"}, sphinx_site.nodes.Text("Absent")) == "Absent"
