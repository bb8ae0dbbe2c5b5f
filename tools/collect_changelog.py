"""Puts a package's changelog fragments under the heading of a version in its CHANGELOG.md, and removes them.

usage: python tools/collect_changelog.py [--check] [package ...]

A change leaves `packages/<package>/changelog.d/<slug>.<added|changed|fixed|removed>.md`: a sentence or two to the package's
users. `--check` only says which fragments are wrong: of another kind, empty, or with a prefix that collecting adds. Without
it, the fragments are shown as they would be collected; tools/release_package.py is what collects them.
"""
from __future__ import annotations

import argparse
import re
import sys
import textwrap
from pathlib import Path

import distributions
from distributions import ROOT, Distribution

KINDS = ("added", "changed", "fixed", "removed")
WIDTH = 120


def fragments(room: Distribution) -> list[Path]:
    """The fragments that wait, in the order of kinds, then of names."""
    found = [path for path in (room.folder / "changelog.d").glob("*.md") if kind_of(path) in KINDS]
    return sorted(found, key=lambda path: (KINDS.index(kind_of(path)), path.name))


def kind_of(path: Path) -> str:
    """`slug.added.md` -> `added`."""
    return path.suffixes[-2].lstrip(".") if len(path.suffixes) > 1 else ""


def breaches(room: Distribution) -> list[str]:
    """What is wrong with a package's fragments."""
    found = []
    for path in sorted((room.folder / "changelog.d").glob("*")):
        where = f"packages/{room.name}/changelog.d/{path.name}"
        text = path.read_text(encoding="utf-8").strip()
        if not re.fullmatch(rf"[a-z0-9][a-z0-9_-]*\.({'|'.join(KINDS)})\.md", path.name):
            found.append(f"{where}: is to be named <slug>.<{'|'.join(KINDS)}>.md; a slug has small letters, digits, - and _")
        elif not text:
            found.append(f"{where}: is empty; say to the package's users what changes for them")
        elif text.startswith(("- ", "#", room.name + ":")):
            found.append(f"{where}: is to be a sentence or two; the dash and the package's name are added")
    return found


def section(room: Distribution) -> str:
    """What the fragments say, as it will stand in the changelog: a heading for each kind."""
    lines: list[str] = []
    for kind in KINDS:
        texts = [" ".join(p.read_text(encoding="utf-8").split()) for p in fragments(room) if kind_of(p) == kind]
        if texts:
            lines += ["", f"### {kind.capitalize()}", ""]
        for text in texts:
            lines.append(textwrap.fill(f"- {room.name}: {text}", WIDTH, subsequent_indent="  ",
                                       break_long_words=False, break_on_hyphens=False))
    return "\n".join(lines).strip("\n")


def collect(room: Distribution, version: str, date: str, more: str = "") -> str:
    """Write the section of a version into CHANGELOG.md, remove the fragments, and give the section.

    Where the version has a heading already, as before a first release, its date is set and the new lines follow what stands
    there. `more` is a paragraph to stand first.
    """
    path = room.folder / "CHANGELOG.md"
    text = path.read_text(encoding="utf-8") if path.exists() else f"# {room.name}\n"
    title, *sections = re.split(r"(?m)^(?=## )", text)
    new = "\n\n".join(part for part in (more, section(room)) if part)
    heading = f"## {version} ({date})"
    if sections and re.match(rf"## {re.escape(version)}( \(|\n)", sections[0]):
        _, _, kept = sections.pop(0).partition("\n")
        new = "\n\n".join(part for part in (kept.strip("\n"), new) if part)
    body = f"{heading}\n\n{new}\n"
    path.write_text("\n".join([title.rstrip("\n") + "\n", body, *(f"{s.rstrip()}\n" for s in sections)]), encoding="utf-8")
    for fragment in fragments(room):
        fragment.unlink()
    waiting = room.folder / "changelog.d"
    if waiting.exists() and not any(waiting.iterdir()):
        waiting.rmdir()
    return body


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", help="default: all")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--root", type=Path, default=ROOT)
    options = parser.parse_args(argv)
    rooms = distributions.rooms(options.root.resolve())
    unknown = sorted(set(options.packages) - set(rooms))
    if unknown:
        parser.error(f"no package {', '.join(unknown)}; there are {', '.join(rooms)}")
    chosen = [rooms[name] for name in options.packages or rooms]
    wrong = [line for room in chosen for line in breaches(room)]
    if wrong:
        print("\n".join(wrong))
        return 1
    if options.check:
        print(f"changelog: {sum(len(fragments(room)) for room in chosen)} fragments wait, all well formed")
        return 0
    for room in chosen:
        if fragments(room):
            print(f"{room.name}, after {room.version}\n\n{section(room)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
