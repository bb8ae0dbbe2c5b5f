"""Builds the wheel of every package into `dist/`; `outside`, the example distribution, where it is asked for.

usage: python tools/build_wheels.py [--out FOLDER] [package ...]
"""
from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def packages() -> list[str]:
    """Names of all packages, from their folders."""
    return sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml"))


def guests() -> list[str]:
    """Names of the distributions under `examples/`, which use the house from outside."""
    return sorted(path.parent.name for path in ROOT.glob("examples/*/pyproject.toml"))


def folder_of(package: str) -> Path:
    """Where a package's pyproject stands."""
    return ROOT / ("examples" if package in guests() else "packages") / package


def wheel_pattern(package: str) -> str:
    """Glob of the files a package's wheel may have; `lamina` must not catch `lamina_ir`."""
    return f"{package.replace('-', '_')}-[0-9]*.whl"


def build(package: str, out: Path) -> Path:
    """Build one wheel, replacing earlier ones, and return its path."""
    return build_in(folder_of(package), package, out)


def build_in(folder: Path, package: str, out: Path) -> Path:
    """The same for a package that stands in `folder`."""
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob(wheel_pattern(package)):
        old.unlink()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    built = list(out.glob(wheel_pattern(package)))
    if done.returncode or len(built) != 1:
        raise RuntimeError(f"build_wheels: {package} does not build:\n{done.stdout}{done.stderr}")
    return built[0]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", help="default: all")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    options = parser.parse_args(argv)
    wanted = options.packages or packages()
    known = [*packages(), *guests()]
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        parser.error(f"no package {', '.join(unknown)}; there are {', '.join(known)}")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for wheel in pool.map(lambda package: build(package, options.out.absolute()), wanted):
            print(wheel.name, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
