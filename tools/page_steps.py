"""Read from a Markdown page the files that its reader writes, and the commands that its reader runs.

tests/installation follows README.md and docs/contributing/replacing-a-layer.md literally.
"""
from __future__ import annotations

import re
from typing import NamedTuple


class Command(NamedTuple):
    """A shell command, and the output that the page shows; "" if it shows none."""

    line: str
    output: str


def section(page: str, heading: str) -> str:
    """Return the text below a heading of the second level, up to the next one."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"the page has no heading `## {heading}`")
    return found[1]


def files(page: str) -> dict[str, str]:
    """Return the files of a page by path: code blocks after a paragraph that ends with the path in backquotes and a colon."""
    return dict(re.findall(r"`([\w./-]+\.\w+)`:\n\n```\w+\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))


def commands(page: str) -> list[Command]:
    """Return the commands of the `console` blocks: all lines, or if some begin with `$ `, these with the lines below them."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        if block.startswith("$ "):
            found += [Command(*part.partition("\n")[::2]) for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
        else:
            found += [Command(line, "") for line in block.splitlines()]
    return found
