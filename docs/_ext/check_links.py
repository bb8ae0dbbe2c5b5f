"""Check the relative links of all Markdown pages; print one line for each that leads nowhere.

usage: python docs/_ext/check_links.py

A link must name a file of the checkout, or a page that docs/_ext/build_docs.py has written. An anchor must be a heading of that
page (as GitHub builds anchors) or an `id` of an HTML page. markdown-it finds links and headings. Link checkers on PyPI check
web sites or notebooks; mkdocs refuses links to files outside docs/.
"""
from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "docs" / "_generated"
PARSER = MarkdownIt("commonmark").enable("table")


def tokens(text: str) -> Iterator[Token]:
    """Yield the block and inline tokens of a Markdown text."""
    for token in PARSER.parse(text):
        yield token
        yield from token.children or ()


@functools.cache
def anchors(path: Path) -> set[str]:
    """Return the anchors of a Markdown or HTML page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".html":
        return set(re.findall(r'\bid="([^"]+)"', text))
    found: set[str] = set()
    blocks = PARSER.parse(text)
    for heading in (b for a, b in zip(blocks, blocks[1:]) if a.type == "heading_open"):
        title = "".join(child.content for child in heading.children or ())
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        found.add(next(s for s in (slug, *(f"{slug}-{n}" for n in range(1, 100))) if s not in found))
    return found


def broken_links(page: Path, root: Path = ROOT) -> Iterator[str]:
    """Yield a line for each relative link of a page that leads nowhere."""
    for token in tokens(page.read_text(encoding="utf-8")):
        target = str(token.attrs.get("href") or token.attrs.get("src") or "")
        if not target or re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        is_page = path.suffix in (".md", ".html")
        if not path.exists() or anchor and is_page and anchor not in anchors(path):
            yield f"{page.relative_to(root)}: no {'anchor' if path.exists() else 'file'} {target}"


def main() -> int:
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT, text=True,
                            capture_output=True, check=True).stdout.splitlines()
    pages = [*(path for name in listed if (path := ROOT / name).exists()), *GENERATED.rglob("*.md")]
    found = [line for page in pages for line in broken_links(page)]
    print("\n".join(found) or f"links: {len(pages)} pages ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
