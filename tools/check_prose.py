"""Check the length of sentences in Markdown pages, changelog fragments and docstrings of the library packages.

usage: python tools/check_prose.py [--update] [--all] [path ...]

The limits, the files and those not rewritten yet are in `tools/prose.toml`. A file of `not_yet` that meets the limits, or
that is gone, is an error too, so the list only shrinks; `--update` removes such files from it. `--all` checks the files of
`not_yet` as well. Exit status 1 if a sentence or the median of a file is too long.

A sentence ends at a full stop, a question mark or the end of its paragraph or list entry. Code, tables, headings and doctests
are not counted. A code span is one word, and so is a list of code spans. Vale checks more, but it is a binary program outside
the package index and knows no median; markdown-it already parses the pages for `check_links.py`.
"""
from __future__ import annotations

import argparse
import ast
import fnmatch
import inspect
import re
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = ROOT / "tools" / "prose.toml"
PARSER = MarkdownIt("commonmark").enable("table")
SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields|Source|Example|Examples|Note|Notes|References):")
DIRECTIVE = re.compile(r"\.\. \w+::.*")
LIST_ENTRY = re.compile(r"\s*([-*]|\d+\.)\s")
SECTION_ENTRY = re.compile(r" {2,4}\*{0,2}\w[\w, *]*: ")
# Full stops that do not end a sentence.
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|vs|cf|al|etc|Fig|Eq|Sec|No|pp?|vol)\.(?=\s)")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+")
NAME_LIST = re.compile(r"\bCode(?:\s?(?:,|/|,? and|,? or)\s?Code\b)+")
CODE_SPAN = re.compile(r"(`+).+?\1")
WORD = re.compile(r"[^\W_]")


class Sentence(NamedTuple):
    """A sentence of a file: the line where its paragraph starts, its text, and the number of its words."""

    line: int
    text: str
    words: int


def split_sentences(line: int, text: str) -> Iterator[Sentence]:
    """Yield the sentences of a paragraph, in which each code span is the word `Code`."""
    text = NAME_LIST.sub("Code", " ".join(text.split()))
    for sentence in SENTENCE_END.split(ABBREVIATION.sub(r"\1", text)):
        words = [word for word in sentence.split() if WORD.search(word)]
        if words:
            yield Sentence(line, " ".join(words), len(words))


def inline_text(token: Token) -> str:
    """Return the text of an inline token, each code span as the word `Code`, without images and HTML."""
    shown = {"text": lambda part: part.content, "code_inline": lambda part: "Code"}
    return "".join(shown.get(part.type, lambda part: "" if part.content or part.nesting else " ")(part)
                   for part in token.children or ())


def markdown_sentences(text: str) -> Iterator[Sentence]:
    """Yield the sentences of the paragraphs and list entries of a Markdown page; tables and headings have none."""
    enclosing = ""
    for token in PARSER.parse(text):
        if token.nesting == 1 and token.type in ("paragraph_open", "heading_open", "table_open"):
            enclosing = token.type if enclosing != "table_open" else enclosing
        elif token.type == "table_close":
            enclosing = ""
        elif token.type == "inline" and enclosing == "paragraph_open":
            yield from split_sentences((token.map or [0])[0] + 1, inline_text(token))


def docstring_paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of the paragraphs and section entries of a docstring, without doctests and indented code."""
    paragraph: list[str] = []
    start = 0
    in_section = in_doctest = False
    for number, line in enumerate(text.splitlines()):
        stripped = line.strip()
        heading = SECTION.match(line)
        entry = heading or LIST_ENTRY.match(line) or in_section and SECTION_ENTRY.match(line)
        if not stripped or stripped.startswith(">>>") or entry or DIRECTIVE.match(stripped):
            if paragraph:
                yield start, " ".join(paragraph)
            paragraph = []
        in_section = bool(heading) or in_section and bool(stripped)
        in_doctest = bool(stripped) and (in_doctest or stripped.startswith(">>>"))
        code_indent = "    " if paragraph else "  "
        is_code = in_doctest or DIRECTIVE.match(stripped) or not in_section and line.startswith(code_indent)
        if stripped and not is_code:
            start = start if paragraph else number
            paragraph.append(line[heading.end():].strip() if heading else stripped)
    if paragraph:
        yield start, " ".join(paragraph)


def docstring_sentences(source: str) -> Iterator[Sentence]:
    """Yield the sentences of all docstrings of a Python file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=False)
            is_module = isinstance(node, ast.Module)
            for line, paragraph in docstring_paragraphs((text if is_module else inspect.cleandoc(text)) if text else ""):
                yield from split_sentences(node.body[0].lineno + line, CODE_SPAN.sub("Code", paragraph))


def find_faults(name: str, sentences: list[Sentence], limits: dict[str, Any]) -> list[str]:
    """Return one line for each sentence that is too long, and one if the median of the file is."""
    longest, median = limits["longest"], limits["median"]
    found = [f"{name}:{line}: {words} words, at most {longest}: {text[:60]}..."
             for line, text, words in sentences if words > longest]
    if len(sentences) >= limits["median_of"]:
        middle = statistics.median(sentence.words for sentence in sentences)
        if middle > median:
            found.append(f"{name}: the median sentence has {middle:g} words, at most {median}")
    return found


def file_faults(name: str, limits: dict[str, Any]) -> list[str]:
    """Return the faults of a file of the repository."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return find_faults(name, list(docstring_sentences(text) if name.endswith(".py") else markdown_sentences(text)), limits)


def list_files(paths: list[str]) -> list[str]:
    """Return the names of the repository's files that git does not ignore, of all folders or the given paths."""
    return subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *paths], cwd=ROOT, text=True,
                          capture_output=True, check=True).stdout.splitlines()


def is_listed(name: str, patterns: list[str]) -> bool:
    """Return whether a file name matches one of some glob patterns."""
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def remove_entries(entries: list[str]) -> None:
    """Remove files from the list `not_yet` of the settings."""
    lines = SETTINGS.read_text(encoding="utf-8").splitlines(keepends=True)
    gone = {f'"{name}",' for name in entries}
    SETTINGS.write_text("".join(line for line in lines if line.strip() not in gone), encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Check the length of sentences.")
    parser.add_argument("path", nargs="*")
    parser.add_argument("--update", action="store_true", help="remove files that meet the limits from `not_yet`")
    parser.add_argument("--all", action="store_true", help="check the files of `not_yet` too")
    options = parser.parse_args(argv)
    settings = tomllib.loads(SETTINGS.read_text(encoding="utf-8"))
    names = [name for name in list_files(options.path) if (ROOT / name).is_file() and is_listed(name, settings["checked"])
             and not is_listed(name, settings["not_checked"])]
    faults = {name: file_faults(name, settings) for name in names}
    pending = settings["not_yet"]
    found = [line for name in names if options.all or name not in pending for line in faults[name]]
    finished = [name for name in pending if name in faults and not faults[name] or not (ROOT / name).is_file()]
    if options.update:
        remove_entries(finished)
    elif not options.all:
        found += [f"{name}: meets the limits, or is gone; remove it from not_yet (python tools/check_prose.py --update)"
                  for name in finished]
    print("\n".join(found) or f"prose: no sentence is too long; {len(pending)} files are not rewritten yet")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
