"""Check the version ranges in the packages' pyproject.toml files.

usage: python tools/check_ranges.py [--write]

- A range on a package of this repository has both ends and admits the version in this tree.
- All packages give one range for a third-party distribution, and it has a lower bound.
- The `_needs(...)` call in `_version.py` repeats the ranges of pyproject.toml; `--write` writes it.

pip checks ranges only on installation, of one package; nothing checks a workspace of packages.
"""
from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from packages import ROOT, Package, distributions, is_ours, packages
from packaging.requirements import Requirement

NEEDS = re.compile(r"^_needs\(.*?\)\n", re.MULTILINE | re.DOTALL)
MAX_LINE = 120


def needs_call(package: Package) -> str:
    """Return the call for `_version.py` that checks the versions of siblings at import; "" without siblings."""
    if not package.siblings:
        return ""
    ranges = [f'"{name}{",".join(sorted(map(str, r.specifier), reverse=True))}"' for name, r in package.siblings.items()]
    start = f'_needs("{package.name}", __version__'
    line = f"{start}, {', '.join(ranges)})\n"
    return line if len(line) <= MAX_LINE else start + "".join(f",\n       {text}" for text in ranges) + ")\n"


def check_needs_calls(root: Path, write: bool = False) -> Iterator[str]:
    """Yield the packages whose `_version.py` does not repeat the ranges of pyproject.toml."""
    for package in packages(root).values():
        path = package.source / "_version.py"
        text = path.read_text(encoding="utf-8")
        expected = needs_call(package)
        if "".join(NEEDS.findall(text)) == expected:
            continue
        if write and NEEDS.search(text):
            path.write_text(text.replace("".join(NEEDS.findall(text)), expected), encoding="utf-8")
        else:
            yield f"{path.relative_to(root)}: expected `{expected.strip()}`; run tools/check_ranges.py --write"


def check_sibling_ranges(root: Path) -> Iterator[str]:
    """Yield ranges on packages of this repository that lack an end or exclude the version in this tree."""
    known = distributions(root)
    for package in known.values():
        ranged = [r for r in (*package.optional_requirements, *package.test_requirements) if is_ours(r.name) and r.specifier]
        for requirement in [*package.siblings.values(), *ranged]:
            where = f"{package.folder.relative_to(root)}/pyproject.toml"
            if requirement.name not in known:
                yield f"{where}: {requirement} is not in this repository"
            elif not requirement.specifier.contains(known[requirement.name].version, prereleases=True):
                yield f"{where}: {requirement} excludes {requirement.name} {known[requirement.name].version} of this tree"
            if {part.operator for part in requirement.specifier} != {">=", "<"}:
                yield f"{where}: {requirement} must have a lower and an upper bound, as in {requirement.name}>=0.1,<0.2"


def check_third_party_ranges(root: Path) -> Iterator[str]:
    """Yield third-party requirements that differ between packages or have no lower bound."""
    seen: dict[str, tuple[Requirement, str]] = {}
    for package in packages(root).values():
        for requirement in [*package.requirements, *package.test_requirements]:
            where = f"packages/{package.name}/pyproject.toml"
            if is_ours(requirement.name):
                continue
            first, owner = seen.setdefault(requirement.name.lower().replace("_", "-"), (requirement, package.name))
            if first.specifier != requirement.specifier:
                yield f"{where}: {requirement}, but {owner} requires {first}; use one range"
            if not any(part.operator in (">=", "==") for part in requirement.specifier):
                yield f"{where}: {requirement} has no lower bound"


def check(root: Path, write: bool = False) -> list[str]:
    """Return every violation in a checkout."""
    return [*check_sibling_ranges(root), *check_third_party_ranges(root), *check_needs_calls(root, write)]


def main(argv: list[str] | None = None) -> int:
    found = check(ROOT, write="--write" in (sys.argv[1:] if argv is None else argv))
    print("\n".join(found) or "ranges: ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
