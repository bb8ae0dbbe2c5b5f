"""Holds the ranges in the packages' pyproject files to what is there and what is imported; prints one line per breach.

usage: python tools/check_ranges.py [--write] [--root FOLDER]

- a range admits the version its neighbour has in this tree;
- a distribution from outside has one range in all packages, and no test group asks for another;
- each name imported from a neighbour is there in the oldest released version that the range admits (a tag names it);
- each `_version.py` tells `lamina_ir.needs` what the pyproject file says (`--write` writes that line).
"""
from __future__ import annotations

import argparse
import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

import check_walls
import distributions
from distributions import ROOT, Distribution

OPENING = '"""The version, set by `hatch version`, and the neighbours it works with, as tools/check_ranges.py writes them."""\n'
LONGEST = 120


def needs_line(room: Distribution) -> str:
    """The call that compares neighbours' versions, from the pyproject file; nothing for the ground floor."""
    if not room.neighbours:
        return ""
    wanted = [f"{name}{requirement.specifier}" for name, requirement in room.neighbours.items()]
    ordered = [re.sub(r"(.*?)(<[^,]*),(>=.*)", r"\1\3,\2", text) for text in wanted]
    start = f'_needs("{room.name}", __version__'
    line = f"{start}, {', '.join(map(_quoted, ordered))})"
    if len(line) > LONGEST:
        line = start + "".join(f",\n       {_quoted(text)}" for text in ordered) + ")"
    return f"\n{line}\n"


def _quoted(text: str) -> str:
    return f'"{text}"'


def version_file(room: Distribution) -> str:
    """What a room's `_version.py` should say."""
    needs = needs_line(room)
    door = "from lamina_ir import needs as _needs\n\n" if needs else "\n"
    return f'{OPENING}{door}__version__ = "{room.version}"\n{needs}'


def version_breaches(root: Path, write: bool) -> Iterator[str]:
    """Rooms whose `_version.py` says something else than their pyproject file."""
    for room in distributions.rooms(root).values():
        path = room.source / "_version.py"
        if path.read_text(encoding="utf-8") == version_file(room):
            continue
        if write:
            path.write_text(version_file(room), encoding="utf-8")
        else:
            yield f"{path.relative_to(root)}: does not say what {room.name}'s pyproject.toml does; `check_ranges.py --write`"


def admission_breaches(root: Path) -> Iterator[str]:
    """Ranges that the tree itself does not keep."""
    known = distributions.everything(root)
    for owner in known.values():
        for name, requirement in owner.asked.items():
            where = f"{owner.folder.relative_to(root)}/pyproject.toml"
            if name not in known:
                yield f"{where}: asks for {name}, which is not in this tree"
            elif not requirement.specifier.contains(known[name].version, prereleases=True):
                yield f"{where}: asks for {requirement}, and {name} is {known[name].version} here"
            if not bounded(requirement):
                yield f"{where}: {requirement} wants a lower and an upper bound, as in {name}>=0.1,<0.2"


def bounded(requirement: Requirement) -> bool:
    """Whether a range has both ends."""
    operators = {part.operator for part in requirement.specifier}
    return operators == {">=", "<"}


def outside_breaches(root: Path) -> Iterator[str]:
    """Distributions that are not ours and for which two packages give different ranges."""
    seen: dict[str, tuple[str, str]] = {}
    for room in distributions.rooms(root).values():
        for requirement in map(Requirement, [*room.dependencies, *room.test_group]):
            if distributions.is_ours(requirement.name):
                continue
            name, text = requirement.name.lower().replace("_", "-"), str(requirement.specifier)
            first, owner = seen.setdefault(name, (text, room.name))
            if first != text:
                yield f"packages/{room.name}/pyproject.toml: asks for {requirement}, and {owner} for {requirement.name}{first}"
            if not any(part.operator in (">=", "==") for part in requirement.specifier):
                yield f"packages/{room.name}/pyproject.toml: {requirement} names no lowest version"


def oldest_admitted(neighbour: Distribution, requirement: Requirement, root: Path) -> Version | None:
    """The oldest released version that a range admits, or None where none is released."""
    versions = distributions.released(neighbour, root)
    return next((v for v in versions if requirement.specifier.contains(v, prereleases=True)), None)


@functools.cache
def names_at(root: Path, tag: str, folder: str, module: str) -> set[str] | None:
    """The names in the `__all__` of a module at a tag; None where it has none that is written out.

    Raises:
      LookupError: there is no such module at that tag.
    """
    path = f"packages/{folder}/src/{module.replace('.', '/')}"
    for candidate in (f"{path}/stock.py", f"{path}/__init__.py", f"{path}.py"):
        shown = subprocess.run(["git", "show", f"{tag}:{candidate}"], cwd=root, capture_output=True, text=True)
        if shown.returncode == 0:
            found = listed(shown.stdout)
            if found is None:
                return None
            parts = [names_at(root, tag, folder, f"{module}.{part}") for part in included(shown.stdout)]
            return None if None in parts else found.union(*filter(None, parts))
    raise LookupError(module)


def names_here(room: Distribution) -> set[str] | None:
    """The names in a room's `__all__` as it stands in this tree."""
    stock = room.source / "stock.py"
    return listed((stock if stock.exists() else room.source / "__init__.py").read_text(encoding="utf-8"))


def listed(source: str) -> set[str] | None:
    """The names that are written out in the `__all__` of a source text; None where some are computed."""
    value = stated(source)
    if value is None or any(isinstance(n, ast.comprehension) for n in ast.walk(value)):
        return None
    return {n.value for n in ast.walk(value) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def included(source: str) -> list[str]:
    """The modules whose `__all__` a source text includes in its own: `ops` of `*ops.__all__`."""
    value = stated(source)
    return [] if value is None else [ast.unparse(n.value) for n in ast.walk(value)
                                     if isinstance(n, ast.Attribute) and n.attr == "__all__"]


def stated(source: str) -> ast.expr | None:
    """The expression of a source text's `__all__`."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return node.value
    return None


def name_breaches(root: Path) -> Iterator[str]:
    """Names that are imported from a neighbour and are missing in the oldest released version that is admitted."""
    known = distributions.rooms(root)
    for owner in distributions.everything(root).values():
        oldest = {known[name].module: (known[name], version, requirement) for name, requirement in owner.neighbours.items()
                  if name in known and (version := oldest_admitted(known[name], requirement, root)) is not None}
        for where, module, names in uses(owner) if oldest else ():
            if module.split(".")[0] in oldest:
                neighbour, version, requirement = oldest[module.split(".")[0]]
                missing = missing_names(root, neighbour, neighbour.tag_of(version), module, names)
                if missing:
                    yield (f"{where.relative_to(root)}: uses {missing}, which {neighbour.name} {version} does not have and "
                           f"{owner.name}'s range {requirement} admits; raise its lower bound")


def uses(owner: Distribution) -> Iterator[tuple[Path, str, tuple[str, ...]]]:
    """(file, module, names) of each use of one of ours in a package's source."""
    for path in sorted((owner.folder / "src").rglob("*.py")):
        for _, module, names in check_walls.imports(path):
            if distributions.is_ours(module.split(".")[0]):
                yield path, module, names
        for _, room, name in check_walls.attributes_of_rooms(path):
            yield path, room, (name,)


def lacking(owner: Distribution, refs: dict[str, str], root: Path) -> list[str]:
    """What a package uses of neighbours and they do not have at these tags or commits, a sentence for each file and module."""
    known = {room.module: room for room in distributions.rooms(root).values() if room.name in refs and room.name != owner.name}
    found = []
    for where, module, names in uses(owner):
        neighbour = known.get(module.split(".")[0])
        missing = missing_names(root, neighbour, refs[neighbour.name], module, names) if neighbour else ""
        if neighbour and missing:
            file = where.relative_to(owner.folder.parent.parent)
            found.append(f"{file}: uses {missing}, which {neighbour.name} does not have at {refs[neighbour.name]}")
    return found


def missing_names(root: Path, neighbour: Distribution, tag: str, module: str, names: tuple[str, ...]) -> str:
    """Those of the names that a neighbour does not have at a tag or commit, as text."""
    try:
        there = names_at(root, tag, neighbour.name, module)
    except LookupError:
        return module
    missing = [name for name in names if there is not None and name not in there and name != "*" and name[:2] != "__"]
    return ", ".join(f"{module}.{name}" for name in missing if not is_module(root, tag, neighbour, f"{module}.{name}"))


def is_module(root: Path, tag: str, neighbour: Distribution, module: str) -> bool:
    try:
        names_at(root, tag, neighbour.name, module)
    except LookupError:
        return False
    return True


def breaches(root: Path, write: bool = False) -> list[str]:
    """Every breach in the house at `root`."""
    return [*admission_breaches(root), *outside_breaches(root), *name_breaches(root), *version_breaches(root, write)]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--write", action="store_true", help="write each _version.py anew")
    options = parser.parse_args(argv)
    root = options.root.resolve()
    found = breaches(root, options.write)
    tagged = sum(bool(distributions.released(room, root)) for room in distributions.rooms(root).values())
    print("\n".join(found) or f"ranges: all true, beside the released versions of {tagged} packages")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
