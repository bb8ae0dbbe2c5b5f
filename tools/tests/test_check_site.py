"""Faults of a built site are reported."""
from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import check_site
import pytest

TEXT = " ".join(["word"] * 30)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "index.html").write_text(f'<article>{TEXT} <a href="in/a.html#there">a</a> <a href="https://x.org/b">b</a></article>')
    (tmp_path / "in" / "a.html").write_text(
        f'<article id="there">{TEXT} <a href="../index.html?q=1">i</a> <a href="#there">t</a></article>')
    for name in ("index", "in/a"):
        (tmp_path / f"{name}.md").write_text("# Page\n")
    (tmp_path / "llms.txt").write_text("- [a](in/a.md)\n")
    return tmp_path


def faults(site: Path) -> list[str]:
    pages = check_site.read_pages(site)
    return [*check_site.broken_links(site, pages), *check_site.missing_twins(site, pages)]


def test_site_without_faults(site: Path) -> None:
    assert faults(site) == []


def test_broken_links_and_missing_twins_are_reported(site: Path) -> None:
    (site / "in" / "a.html").write_text('<a href="gone.html">x</a> <img src="../gone.png"> <a href="../index.html#gone">y</a>')
    (site / "alone.html").write_text("")
    (site / "llms.txt").write_text("- [b](b.md)\n")
    assert sorted(faults(site)) == [
        "alone.html: no Markdown twin", "alone.html: no page links to it", "in/a.html: no anchor index.html#gone",
        "in/a.html: no file gone.png", "in/a.html: no file in/gone.html", "index.html: no anchor in/a.html#there",
        "llms.txt: no file b.md"]


def test_without_chromium_no_page_is_opened(site: Path, monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(check_site, "find_chromium", lambda: None)
    assert check_site.main([str(site)]) == 0
    assert "no Chromium" in capsys.readouterr().out


def test_faults_in_the_browser_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    results: dict[str, Any] = {
        "good": (f"<article>{TEXT}</article>", ""), "empty": ("<article><script>many words</script></article>", ""),
        "loud": (f"<article>{TEXT}</article>", '[1:1:0101/1.1:INFO:CONSOLE:12] "Uncaught ReferenceError", source: x\n')}

    def browse(program: str, address: str, *arguments: str) -> tuple[str, str]:
        name = address.rpartition("/")[2]
        if name not in results:
            raise subprocess.TimeoutExpired(program, 1)
        return results[name]

    monkeypatch.setattr(check_site, "browse", browse)
    found = {page: list(check_site.faults_of_page("chromium", "http://x", page)) for page in [*results, "slow"]}
    assert found["good"] == [] and found["empty"] == ["empty: empty in Chromium"]
    assert "Uncaught ReferenceError" in found["loud"][0] and "not open" in found["slow"][0]
    assert list(check_site.faults_of_page("chromium", "http://x", "good", "name.html")) == ["good: no link to name.html"]


@pytest.mark.slow
@pytest.mark.skipif(not any(map(shutil.which, check_site.PROGRAMS)), reason="no Chromium")
def test_chromium_reports_messages_on_the_console(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = site / "in" / "a.html"
    page.write_text(page.read_text() + "<script>nothing.there</script>")
    monkeypatch.setattr(check_site, "PAGES", ("index", "in/a"))
    monkeypatch.setattr(check_site, "SEARCH", ("index.html", "in/a.html#there"))
    found = check_site.browser_faults(site, check_site.find_chromium() or "", None)
    assert any("nothing is not defined" in line for line in found)
    assert all(line.startswith("in/a.html") for line in found if "favicon" not in line)
