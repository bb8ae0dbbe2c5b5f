"""Tests each package with the lowest versions that its ranges admit, in an environment of its own.

usage: python tools/run_lowest.py [--jobs N] [--sample] [package ...] [-- pytest arguments]

From outside (numpy, ml_dtypes, jaxlib, ...) that is the lower bound of each range, of the package and of all that it stands
on. Of our own packages it is the oldest released version that the range admits, built from its tag; while none has a tag,
this tree's. It wants the oldest Python that is supported: for newer ones the lowest versions have no wheels.
"""
from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

import bare_environments
import bootstrap
import build_wheels
import distributions
import released_wheels
import run_isolated
import run_tests
from bare_environments import ROOT


def lower_bound(requirement: Requirement) -> Version:
    """The lowest version that a requirement names."""
    bounds = [Version(part.version) for part in requirement.specifier if part.operator in (">=", "==", "~=")]
    if not bounds:
        raise SystemExit(f"lowest: {requirement} names no lowest version; write one, as in {requirement.name}>=1.0")
    return max(bounds)


def pins(package: str) -> list[str]:
    """Each distribution from outside at its lowest, for a package and all that it stands on: `numpy==2.0`."""
    found: dict[str, tuple[Version, str]] = {}
    for name in run_isolated.with_those_below([package]):
        tests_apart = name != package
        lines = run_isolated.requirements(name)
        room = distributions.Distribution(build_wheels.folder_of(name))
        for requirement in map(Requirement, (line for line in lines if not (tests_apart and line in room.test_group))):
            low = lower_bound(requirement)
            marker = f"; {requirement.marker}" if requirement.marker else ""
            if requirement.name not in found or found[requirement.name][0] < low:
                found[requirement.name] = low, marker
    return sorted(f"{name}=={low}{marker}" for name, (low, marker) in found.items())


def neighbour_wheels(package: str) -> list[str]:
    """Wheels of ours that a package stands on, each the oldest that is admitted by all who ask for it."""
    below = [name for name in run_isolated.with_those_below([package]) if name != package]
    asking = [distributions.Distribution(build_wheels.folder_of(name)) for name in [*below, package]]
    found = []
    for name in below:
        lows = [r for room in asking if (r := room.neighbours.get(name)) is not None]
        ref = released_wheels.ref_of(name, requirement=max(lows, key=lower_bound)) if lows else None
        [wheel] = ([released_wheels.at(ref, name).wheel] if ref else
                   (ROOT / "dist").glob(build_wheels.wheel_pattern(name)))
        found.append(str(wheel))
    return found


def try_lowest(package: str, house: Path, extra: list[str]) -> bare_environments.Result:
    """One package with everything at its lowest."""
    [own] = (ROOT / "dist").glob(build_wheels.wheel_pattern(package))
    return bare_environments.run_in_bare(
        f"lowest-{package}", [str(own), *neighbour_wheels(package), *pins(package)], [house],
        [*run_tests.package_arguments(package), *extra], no_jaxlib=package not in run_isolated.MACHINE_WING)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options, extra = bare_environments.parse(parser, argv)
    if sys.version_info[:2] != bootstrap.OLDEST:
        print(f"lowest: Python {sys.version_info[0]}.{sys.version_info[1]} has no wheels of the lowest versions; start "
              f"`tools/bootstrap.py` with Python {bootstrap.OLDEST[0]}.{bootstrap.OLDEST[1]}")
        return 1
    packages = options.packages or build_wheels.packages()
    below = run_isolated.with_those_below(packages)
    if build_wheels.main(below):
        return 1
    unreleased = released_wheels.without_tag([name for name in below if name in build_wheels.packages()])
    if unreleased:
        print(f"lowest: no tag names a release of {', '.join(unreleased)}: this tree's stand in", flush=True)
    tries = {}
    for name in packages:
        print(f"lowest: {name} with {', '.join(pins(name))}", flush=True)
        house = bare_environments.fill_wheelhouse(pins(name), f"-lowest-{name}")
        tries[f"{name} with the lowest"] = partial(try_lowest, name, house, extra)
    return 1 if bare_environments.run_all("lowest", options.jobs, tries) else 0


if __name__ == "__main__":
    sys.exit(main())
