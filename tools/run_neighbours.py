"""Tests this tree's packages among released neighbours, and released packages among this tree's, in bare environments.

usage: python tools/run_neighbours.py [--released COMMIT] [--jobs N] [--sample] [package ...] [-- pytest arguments]

Each package is tried twice: as it is here, with the last released version of all that it stands on; and as it was last
released, with its tests of then, on what it stands on as that is here. Where a range does not admit that, nothing is tried:
pip would not install it either, and a sentence says so; where the released neighbours lack names that the package uses, it has
failed without a run, and a sentence for each says which. Released is what a tag names; a package without a tag is taken from
COMMIT.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import bare_environments
import build_wheels
import check_ranges
import distributions
import released_wheels
import run_isolated
import run_tests
from bare_environments import ROOT, Result
from distributions import Distribution


def refusal(room: Distribution, others: dict[str, Distribution]) -> str | None:
    """Which range does not admit a neighbour, in words."""
    for name, requirement in room.neighbours.items():
        if name in others and not requirement.specifier.contains(others[name].version, prereleases=True):
            return f"{room.name} {room.version} asks for {requirement}, and {name} is {others[name].version}"
    return None


Tries = dict[str, Callable[[], Result]]


def failed_already(sentences: list[str]) -> Result:
    """What stands for a run that need not be made."""
    return 1, "\n".join([*sentences, "Release those first, and raise the range's lower bound to what has these names"]), 0.0


def attempts(package: str, house: Path, instead: str | None, extra: list[str]) -> tuple[Tries, list[str]]:
    """What to try for one package, and sentences about what is not tried."""
    rooms = distributions.rooms()
    below = [name for name in run_isolated.with_those_below([package]) if name != package and name in rooms]
    found = {name: released_wheels.ref_of(name, instead=instead) for name in [*below, package]}
    missing = sorted(name for name, ref in found.items() if ref is None)
    if missing:
        return {}, [f"{package}: no tag names a release of {', '.join(missing)}; name a commit to take: --released COMMIT"]
    refs = {name: ref for name, ref in found.items() if ref}
    old = {name: released_wheels.at(ref, name) for name, ref in refs.items()}
    new_wheel = {name: str(next((ROOT / "dist").glob(build_wheels.wheel_pattern(name)))) for name in refs}
    tries: Tries = {}
    notes = []
    if not below:
        return {}, [f"{package}: stands on no other package, nothing to try"]
    ways = (
        ("released neighbours", rooms[package], {n: old[n].room for n in below}, ROOT,
         [new_wheel[package], *(str(old[n].wheel) for n in below)]),
        ("as released, among these neighbours", old[package].room, {n: rooms[n] for n in below}, old[package].tree,
         [str(old[package].wheel), *(new_wheel[n] for n in below)]))
    for title, room, others, tree, wheels in ways:
        reason = refusal(room, others)
        if reason:
            notes.append(f"{package}, {title}: not tried, for {reason}")
            continue
        lacking = check_ranges.lacking(room, {n: refs[n] for n in below}, ROOT) if tree == ROOT else []
        if lacking:
            tries[f"{package}, {title}"] = partial(failed_already, lacking)
            continue
        asked = [line for line in room.test_group if not distributions.is_ours(line.split("=")[0].rstrip("<>~! "))]
        tries[f"{package}, {title}"] = partial(
            bare_environments.run_in_bare, f"{package}-{len(tries)}", [*wheels, *asked], [house],
            [*run_tests.package_arguments(package), *extra], package not in run_isolated.MACHINE_WING, tree)
    return tries, notes


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--released", metavar="COMMIT", help="what stands for the release of a package without a tag")
    options, extra = bare_environments.parse(parser, argv)
    if options.released:
        released_wheels.check_commit(options.released)
    packages = options.packages or build_wheels.packages()
    below = run_isolated.with_those_below(packages)
    if build_wheels.main(below):
        return 1
    house = bare_environments.fill_wheelhouse(line for name in below for line in run_isolated.requirements(name))
    tries: Tries = {}
    without = []
    for name in packages:
        more, notes = attempts(name, house, options.released, extra)
        tries |= more
        without += [note for note in notes if "no tag names" in note]
        print(*(f"neighbours: {note}" for note in notes), sep="\n", end="\n" if notes else "", flush=True)
    failed = bare_environments.run_all("neighbours", options.jobs, tries)
    released_wheels.forget()
    return 1 if failed or without else 0


if __name__ == "__main__":
    sys.exit(main())
