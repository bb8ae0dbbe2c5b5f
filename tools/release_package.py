"""Makes one package ready for release: bumps, collects its changelog, checks who depends on it, builds, tries the wheel alone.

usage: python tools/release_package.py PACKAGE [major|minor|patch|VERSION] [--widen] [--date DATE] [--no-tests]

Without a part the version that stands in `_version.py` is released, as a first one is. Everything is checked before anything
is written. Where a dependant's range does not admit the new version, nothing happens and its name is said; `--widen` lets the
range run up to the new version's successor and leaves a fragment with the dependant. Nothing is committed, tagged or
uploaded: the last lines say what to do.
"""
from __future__ import annotations

import argparse
import datetime
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

import check_ranges
import collect_changelog
import distributions
import run_isolated
from distributions import ROOT, Distribution

PARTS = ("major", "minor", "patch")
ROOF = "lamina"
# What keeps files of every version: the programs that write those of a new one.
CORPORA = {"lamina-ir": "tools/add_corpus.py", "lamina-export": "packages/lamina-export/tests/test_files.py"}


class ReleaseError(Exception):
    """Something to be put right first; the message says what."""


@dataclass(frozen=True)
class Plan:
    """What a release will do."""

    room: Distribution
    old: Version
    new: Version
    shut_out: list[Distribution]  # dependants whose ranges do not admit the new version


def next_version(old: Version, part: str | None) -> Version:
    """`minor` of 0.1.3 is 0.2.0; a version is itself; none is the old one."""
    if part is None:
        return old
    if part in PARTS:
        numbers = [old.major, old.minor, old.micro]
        at = PARTS.index(part)
        return Version(".".join(map(str, [*numbers[:at], numbers[at] + 1, *[0] * (2 - at)])))
    try:
        return Version(part)
    except InvalidVersion:
        raise ReleaseError(f"{part!r} is neither {', '.join(PARTS)} nor a version such as 0.2.0") from None


def make_plan(package: str, part: str | None, root: Path) -> Plan:
    """Check all that can be checked before anything is written."""
    rooms = distributions.rooms(root)
    if package not in rooms:
        raise ReleaseError(f"no package {package!r}; there are {', '.join(rooms)}")
    room = rooms[package]
    old, tags = room.version, distributions.released(room, root)
    new = next_version(old, part)
    if new in tags:
        raise ReleaseError(f"{package} {new} is released, tag {room.tag_of(new)}; say what to bump: {', '.join(PARTS)}")
    if new < old or (tags and new < tags[-1]):
        raise ReleaseError(f"{package} is at {max([old, *tags])}; {new} is older")
    gone = names_gone(room, tags[-1], root) if tags and successor(new) == successor(tags[-1]) else []
    if gone:
        raise ReleaseError(f"{package} {tags[-1]} has {', '.join(gone)}, which are gone; that wants a "
                           f"{'minor' if new.major == 0 else 'major'} version")
    wrong = collect_changelog.breaches(room)
    if wrong:
        raise ReleaseError("\n".join(wrong))
    if part is not None and not collect_changelog.fragments(room) and package != ROOF:
        raise ReleaseError(f"packages/{package}/changelog.d holds nothing: say there what changes for the package's users")
    changed = distributions.git("status", "--porcelain", "--", "packages", "examples", root=root).splitlines()
    if changed:
        raise ReleaseError("a release is a commit of its own, and these changes are not committed:\n" + "\n".join(changed))
    shut_out = [d for d in distributions.dependants(package, root)
                if not d.asked[package].specifier.contains(new, prereleases=True)]
    return Plan(room, old, new, shut_out)


def successor(version: Version) -> str:
    """The first version that may break what works with this one: the next minor one before 1.0, then the next major one."""
    return f"0.{version.minor + 1}" if version.major == 0 else f"{version.major + 1}"


def names_gone(room: Distribution, version: Version, root: Path) -> list[str]:
    """Public names of a released version that are no longer there."""
    before = check_ranges.names_at(root, room.tag_of(version), room.name, room.module) or set()
    now = check_ranges.names_here(room) or set()
    return [f"{room.module}.{name}" for name in sorted(before - now)]


def widened(text: str, package: str, new: Version) -> str:
    """A pyproject file whose upper bounds on a package lie above its new version."""
    range_of = re.compile(rf'"({re.escape(package)}>=[0-9.]+),<[0-9.]+"')
    return range_of.sub(lambda found: f'"{found[1]},<{successor(new)}"', text)


def widen(plan: Plan, root: Path) -> None:
    """Let the dependants' ranges admit the new version, and tell their users."""
    for dependant in plan.shut_out:
        path = dependant.folder / "pyproject.toml"
        path.write_text(widened(path.read_text(encoding="utf-8"), plan.room.name, plan.new), encoding="utf-8")
        if dependant.folder.parent.name == "packages":
            waiting = dependant.folder / "changelog.d"
            waiting.mkdir(exist_ok=True)
            (waiting / f"with-{plan.room.name}-{plan.new.major}-{plan.new.minor}.changed.md").write_text(
                f"Works with {plan.room.name} {plan.new} too.\n", encoding="utf-8")


def bump(plan: Plan) -> None:
    """Write the new version where `hatch version` writes it."""
    if plan.new == plan.old:
        return
    command = [sys.executable, "-m", "hatchling", "version", str(plan.new)]
    done = subprocess.run(command, cwd=plan.room.folder, capture_output=True, text=True)
    if done.returncode:
        raise ReleaseError(f"hatchling does not set the version:\n{done.stdout}{done.stderr}")


def keep_files(plan: Plan, root: Path) -> None:
    """Files that this version writes, for every later one to read."""
    script = root / CORPORA.get(plan.room.name, "")
    if not script.is_file():
        return
    done = subprocess.run([sys.executable, str(script)], cwd=root, capture_output=True, text=True)
    if done.returncode:
        raise ReleaseError(f"{script.relative_to(root)} does not write this version's files:\n{done.stdout}{done.stderr}")


def joined(root: Path) -> str:
    """The paragraph of the roof's changelog: which versions of the rooms it joins."""
    rooms = [f"{room.name} {room.version}" for room in distributions.rooms(root).values() if room.name != ROOF]
    return f"Joins {', '.join(rooms)}."


def build(room: Distribution, out: Path) -> list[Path]:
    """The wheel and the source archive that are to be published."""
    out.mkdir(parents=True, exist_ok=True)
    for old in [*out.glob(f"{room.module}-[0-9]*")]:
        old.unlink()
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    done = subprocess.run(command, cwd=room.folder, capture_output=True, text=True)
    if done.returncode:
        raise ReleaseError(f"{room.name} does not build:\n{done.stdout}{done.stderr}")
    return sorted(out.glob(f"{room.module}-[0-9]*"))


def what_next(plan: Plan, built: list[Path], root: Path) -> str:
    """What a person does now."""
    name, tag = f"{plan.room.name} {plan.new}", plan.room.tag_of(plan.new)
    lines = [f"{name} is ready:", *(f"  {path.relative_to(root)}" for path in built),
             "publish it so; .github/workflows/publish.yml builds, tests and uploads what a tag names:",
             "  git add packages examples", f'  git commit -m "{name}"', f'  git tag -a {tag} -m "{name}"',
             f"  git push origin HEAD {tag}"]
    rooms = [d.name for d in plan.shut_out if d.folder.parent.name == "packages"]
    if rooms:
        lines += ["then release those whose released ranges do not admit it, from the ground up:",
                  f"  {', '.join(ground_up(rooms, root))}"]
    lines += [f"`nox -s neighbours -- {plan.room.name}` tries it among what was released before"]
    return "\n".join(lines)


def ground_up(names: list[str], root: Path) -> list[str]:
    """The packages, each after those it stands on."""
    rooms = distributions.rooms(root)
    found: list[str] = []

    def place(name: str) -> None:
        for below in sorted(rooms[name].neighbours):
            place(below)
        if name in names and name not in found:
            found.append(name)

    for name in sorted(names):
        place(name)
    return found


def release(package: str, part: str | None, date: str, widen_too: bool, tests: bool, root: Path = ROOT) -> str:
    """All of it; returns what to do next."""
    plan = make_plan(package, part, root)
    if plan.shut_out and not widen_too:
        lines = [f"  {d.folder.relative_to(root)}/pyproject.toml: {d.asked[package]}" for d in plan.shut_out]
        raise ReleaseError(f"those who depend on {package} do not admit {plan.new}; try them with it, then say --widen, or "
                           "release a patch:\n" + "\n".join(lines))
    bump(plan)
    if plan.shut_out:
        widen(plan, root)
    for line in check_ranges.version_breaches(root, write=True):
        raise ReleaseError(line)
    plan = Plan(Distribution(plan.room.folder), plan.old, plan.new, plan.shut_out)
    collect_changelog.collect(plan.room, str(plan.new), date, joined(root) if package == ROOF else "")
    keep_files(plan, root)
    built = build(plan.room, root / "dist" / "release")
    if tests and run_isolated.main([package]):
        raise ReleaseError(f"{package} {plan.new} does not pass its tests alone; `git restore packages examples && git clean "
                           "-f packages` takes back what was written")
    return what_next(plan, built, root)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package")
    parser.add_argument("part", nargs="?", help="major, minor, patch or a version; default: the version as it stands")
    parser.add_argument("--widen", action="store_true", help="let the ranges of dependants admit the new version")
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--no-tests", action="store_true", help="do not try the wheel")
    options = parser.parse_args(argv)
    try:
        print(release(options.package, options.part, options.date, options.widen, not options.no_tests))
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
