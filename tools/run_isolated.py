"""Installs each built wheel with only its declared dependencies in a bare environment and runs its own tests there.

usage: python tools/run_isolated.py [--jobs N] [--sample] [package ...] [-- pytest arguments]

Third-party wheels are downloaded once into `.isolated/wheelhouse`; the environments are filled from there and from
`dist/` with `--no-index`, so nothing undeclared can slip in. Rooms outside the machine wing must find no jaxlib. The
distributions under `examples/`, which use the house from outside, are tried in the same way. `--sample` leaves out `slow`
tests.
"""
from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import build_wheels
import run_tests

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".isolated"
NO_JAXLIB_CHECK = """
import importlib.util, sys
found = [name for name in ("jax", "jaxlib") if importlib.util.find_spec(name)]
sys.exit(f"{found} can be imported here, and must not be" if found else 0)
"""
MACHINE_WING = ("lamina-lowering", "lamina-runtime", "lamina-export", "lamina", *build_wheels.guests())


def project_of(package: str) -> dict[str, object]:
    return tomllib.loads((build_wheels.folder_of(package) / "pyproject.toml").read_text(encoding="utf-8"))


def declared(package: str) -> list[str]:
    """Dependencies and the `test` group."""
    project = project_of(package)
    found = list(project["project"].get("dependencies", ()))  # type: ignore[attr-defined]
    return found + project.get("dependency-groups", {}).get("test", [])  # type: ignore[attr-defined]


def requirements(package: str) -> list[str]:
    """What a package declares, our own packages left out."""
    return [line for line in declared(package) if not re.match(r"lamina\b", line)]


def with_those_below(packages: list[str]) -> list[str]:
    """These packages and all of ours that they stand on."""
    found, todo = set(), list(packages)
    while todo:
        package = todo.pop()
        if package not in found:
            found.add(package)
            todo += [name[0] for line in declared(package) if (name := re.match(r"lamina[\w-]*", line))]
    return sorted(found)


def pip(*arguments: str, python: Path | None = None) -> None:
    """Run this environment's pip, on another environment where one is named."""
    target = ["--python", str(python)] if python else []
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *target, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"pip {' '.join(arguments[:2])} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def fill_wheelhouse(packages: list[str]) -> Path:
    """Download what the packages declare, once per set of requirements and Python version."""
    house = WORK / f"wheelhouse-{sys.version_info[0]}.{sys.version_info[1]}"
    wanted = sorted({line for package in packages for line in requirements(package)})
    stamp = house / "requirements.txt"
    if not stamp.exists() or not set(wanted) <= set(stamp.read_text().splitlines()):
        house.mkdir(parents=True, exist_ok=True)
        print(f"isolated: downloading {', '.join(wanted)}", flush=True)
        pip("download", "--only-binary=:all:", "--dest", str(house), *wanted)
        stamp.write_text("\n".join(wanted) + "\n")
    return house


def try_package(package: str, house: Path, extra: list[str]) -> tuple[int, str, float]:
    """A bare environment, the wheel, its tests: (exit status, output, seconds)."""
    start = time.monotonic()
    home = WORK / package
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    test_group = project_of(package).get("dependency-groups", {}).get("test", [])  # type: ignore[attr-defined]
    pip("install", "--quiet", "--no-compile", "--no-index", "--find-links", str(ROOT / "dist"),
        "--find-links", str(house), package, *test_group, python=python)
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["TF_CPP_MIN_LOG_LEVEL"] = "1"
    if package not in MACHINE_WING:
        bare = subprocess.run([str(python), "-c", NO_JAXLIB_CHECK], capture_output=True, text=True, env=environment)
        if bare.returncode:
            return bare.returncode, bare.stderr, time.monotonic() - start
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider",
               *run_tests.package_arguments(package), *extra]
    status, output = run_tests.run_limited(command, environment)
    shutil.rmtree(home, ignore_errors=True)  # three of the environments hold 350 MB of jaxlib each
    return status, output, time.monotonic() - start


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", help="default: all")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4))
    parser.add_argument("--sample", action="store_true", help="leave out tests marked slow")
    argv = list(sys.argv[1:] if argv is None else argv)
    own, extra = (argv[:argv.index("--")], argv[argv.index("--") + 1:]) if "--" in argv else (argv, [])
    options = parser.parse_args(own)
    if options.sample:
        extra = ["-m", "not slow", *extra]
    everything = [*build_wheels.packages(), *build_wheels.guests()]
    packages = options.packages or everything
    print("isolated: building the wheels", flush=True)
    if build_wheels.main(everything):
        return 1
    house = fill_wheelhouse(with_those_below(packages))
    failed = []
    with ThreadPoolExecutor(options.jobs) as pool:
        waiting = {pool.submit(try_package, package, house, extra): package for package in packages}
        for done in as_completed(waiting):
            status, output, seconds = done.result()
            print(f"\n----- {waiting[done]} alone ({seconds:.0f} s)\n{output.rstrip()}", flush=True)
            if status:
                failed.append(waiting[done])
    verdict = f"failed: {', '.join(sorted(failed))}" if failed else f"{len(packages)} packages stand alone"
    print(f"\nisolated: {verdict}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
