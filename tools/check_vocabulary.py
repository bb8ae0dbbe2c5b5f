"""Refuse words of the old private vocabulary in sources, tests, tools and docs.

usage: python tools/check_vocabulary.py [path ...]

The words, their replacements and the files where each is allowed are in `tools/vocabulary.toml`, with the
files that are not checked yet. Identifiers are split at underscores. Exit status 1 if a word was found.
"""
from __future__ import annotations

import fnmatch
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = (".py", ".pyi", ".md", ".toml", ".mjs", ".yml", ".sh")
NOT_CHECKED = ("*/_deprecated.py", "*/corpus/*", "docs/reference/glossary.md", "tools/vocabulary.toml",
               "tools/check_vocabulary.py", "tools/prose.toml")


def load_words(path: Path) -> list[tuple[re.Pattern[str], str, list[str]]]:
    """Return (pattern, replacement, allowed files) of each word in a vocabulary file."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))["word"]
    return [(re.compile(word["pattern"], re.IGNORECASE), word["use"], word.get("allow", [])) for word in table]


def find_words(name: str, text: str, words: list[tuple[re.Pattern[str], str, list[str]]]) -> Iterator[str]:
    """Yield one line for each refused word in `text`, the content of the file `name`."""
    active = [(pattern, use) for pattern, use, allow in words if not any(fnmatch.fnmatch(name, glob) for glob in allow)]
    for number, line in enumerate(text.splitlines(), 1):
        spaced = line.replace("_", " ")
        for pattern, use in active:
            found = pattern.search(spaced)
            if found:
                yield f"{name}:{number}: {found.group(0)!r}; write: {use}"


def main(argv: list[str] | None = None) -> int:
    paths = sys.argv[1:] if argv is None else argv
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *paths], cwd=ROOT, text=True,
                            capture_output=True, check=True).stdout.splitlines()
    vocabulary = ROOT / "tools" / "vocabulary.toml"
    words = load_words(vocabulary)
    excluded = (*NOT_CHECKED, *tomllib.loads(vocabulary.read_text(encoding="utf-8"))["not_yet"])
    found: list[str] = []
    for name in listed:
        path = ROOT / name
        if name.endswith(SUFFIXES) and path.is_file() and not any(fnmatch.fnmatch(name, glob) for glob in excluded):
            found += find_words(name, path.read_text(encoding="utf-8"), words)
    print("\n".join(found) or "vocabulary: no refused word")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
