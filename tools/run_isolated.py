"""Installs each built wheel with only its declared dependencies in a bare environment and runs its own tests there.

usage: python tools/run_isolated.py [--jobs N] [--sample] [package ...] [-- pytest arguments]

Third-party wheels are downloaded once into `.isolated/`; the environments are filled from there and from `dist/` alone, so
nothing undeclared can slip in. Rooms outside the machine wing must find no jaxlib. The distributions under `examples/`,
which use the house from outside, are tried in the same way. `--sample` takes every second test, and none that is `slow`.
"""
from __future__ import annotations

import argparse
import re
import sys
from functools import partial
from pathlib import Path

import bare_environments
import build_wheels
import run_tests
from bare_environments import ROOT, Result
from distributions import Distribution, is_ours

MACHINE_WING = ("lamina-lowering", "lamina-runtime", "lamina-export", "lamina", *build_wheels.guests())


def declared(package: str) -> list[str]:
    """Dependencies and the `test` group."""
    room = Distribution(build_wheels.folder_of(package))
    return room.dependencies + room.test_group


def requirements(package: str) -> list[str]:
    """What a package declares, our own packages left out."""
    return [line for line in declared(package) if not is_ours(re.split(r"[\s<>=!~;\[]", line)[0])]


def with_those_below(packages: list[str]) -> list[str]:
    """These packages and all of ours that they stand on."""
    found, todo = set(), list(packages)
    while todo:
        package = todo.pop()
        if package not in found:
            found.add(package)
            todo += [name[0] for line in declared(package) if (name := re.match(r"lamina[\w-]*", line))]
    return sorted(found)


def try_package(package: str, house: Path, extra: list[str]) -> Result:
    """A bare environment, the wheel, its tests: (exit status, output, seconds)."""
    test_group = Distribution(build_wheels.folder_of(package)).test_group
    return bare_environments.run_in_bare(package, [package, *test_group], [ROOT / "dist", house],
                                         [*run_tests.package_arguments(package), *extra],
                                         no_jaxlib=package not in MACHINE_WING)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options, extra = bare_environments.parse(parser, argv)
    everything = [*build_wheels.packages(), *build_wheels.guests()]
    packages = options.packages or everything
    print("isolated: building the wheels", flush=True)
    if build_wheels.main(everything):
        return 1
    house = bare_environments.fill_wheelhouse(line for name in with_those_below(packages) for line in requirements(name))
    tries = {f"{name} alone": partial(try_package, name, house, extra) for name in packages}
    return 1 if bare_environments.run_all("isolated", options.jobs, tries) else 0


if __name__ == "__main__":
    sys.exit(main())
