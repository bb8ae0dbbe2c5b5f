"""Install built wheels into fresh environments and run their tests there.

usage: python tools/test_wheels.py isolated | min-versions | released-versions [--jobs N] [--sample] [--released COMMIT]
                                   [package ...] [-- pytest arguments]

- `isolated`: each wheel with only its declared dependencies. Packages without a backend must not find jaxlib.
- `min-versions`: the lower bound of each third-party range, and the oldest release of each sibling that the ranges admit.
- `released-versions`: each package of this tree with the last releases of its siblings; and its last release, with the tests of
  that release, with the siblings of this tree. Skipped, with a message, if the ranges exclude the combination.

The wheels are built by pip and hatchling in the environment of tools/bootstrap.py; a package index supplies third-party ones.
A release is a git tag `<package>-v<version>`. If a sibling has none, `min-versions` uses this tree, and `released-versions`
uses the commit given by `--released`. hatch's environments do not fit: they install a project once per version, so a wheel
built later under the same version is not installed again; and the versions to install depend on ranges and tags.
"""
from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import bootstrap
import run_tests
from packages import ROOT, Package, distributions, example_distributions, git, is_ours, packages, with_dependencies
from packaging.requirements import Requirement
from packaging.version import Version

Jobs = dict[str, Callable[[], run_tests.Result]]
WORK = ROOT / ".isolated"
WITH_JAXLIB = ("lamina-lowering", "lamina-runtime", "lamina-checkify", "lamina-export", "lamina-checkpoint",
               "lamina-distributed", "lamina-compat", "lamina-see", "lamina", *example_distributions())
JAXLIB_CHECK = "import importlib.util, sys; sys.exit(any(map(importlib.util.find_spec, ('jax', 'jaxlib'))))"


def build_wheels(names: list[str], out: Path = ROOT / "dist", root: Path = ROOT) -> dict[str, Path]:
    """Build the wheels of packages of a checkout; return their paths by name."""
    known = distributions(root)
    for name in names:
        for old in out.glob(f"{known[name].module}-[0-9]*.whl"):
            old.unlink()
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out),
               *(str(known[name].folder) for name in names)]
    subprocess.run(command, check=True)
    return {name: next(out.glob(f"{known[name].module}-[0-9]*.whl")) for name in names}


def checkout(ref: str) -> Path:
    """Return a folder with the files of a commit."""
    commit = git("rev-parse", f"{ref}^{{commit}}").strip()
    folder = WORK / "trees" / commit[:12]
    if not folder.exists():
        archive = folder.with_suffix(".zip")
        archive.parent.mkdir(parents=True, exist_ok=True)
        git("archive", "--format=zip", "--output", str(archive), commit)
        shutil.unpack_archive(archive, folder)
        archive.unlink()
    return folder


def released(name: str, ref: str) -> tuple[Package, Path]:
    """Return a package as it is at a tag or commit, and its wheel."""
    tree = checkout(ref)
    out = ROOT / "dist" / "released" / ref
    wheels = list(out.glob("*.whl"))
    return packages(tree)[name], wheels[0] if wheels else build_wheels([name], out, tree)[name]


def install_and_test(title: str, package: Package, wheels: list[Path], extra: list[str],
                     constraints: Sequence[str] = (), cwd: Path = ROOT) -> run_tests.Result:
    """Create an environment with wheels and the package's test requirements, and run the package's tests in it."""
    home = WORK / title
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(home)], check=True)
    python = bootstrap.venv_python(home)
    (home / "constraints.txt").write_text("\n".join(constraints))
    tests = [str(r) for r in package.test_requirements if not is_ours(r.name)]
    try:
        installed = run_tests.run([
            sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python, "install", "--quiet",
            "--no-compile", "--constraint", str(home / "constraints.txt"), *map(str, wheels), *tests])
        if installed[0]:
            return installed
        if package.name not in WITH_JAXLIB and subprocess.run([python, "-c", JAXLIB_CHECK]).returncode:
            return 1, "jax or jaxlib is installed; this package must not require it", 0.0
        arguments = ["-p", "no:cacheprovider", *run_tests.package_arguments(package.name)]
        return run_tests.run_pytest(arguments, extra, python, cwd)
    finally:
        shutil.rmtree(home, ignore_errors=True)  # some environments hold 350 MB of jaxlib


def isolated(names: list[str], extra: list[str]) -> Jobs:
    """Return the jobs that test each wheel with its declared dependencies."""
    wheels = build_wheels(with_dependencies(names))
    return {f"{name} isolated": partial(install_and_test, f"isolated-{name}", distributions()[name],
                                        [wheels[n] for n in with_dependencies([name])], extra) for name in names}


def lower_bounds(name: str) -> list[str]:
    """Return `numpy==2.0` and so on: the lowest third-party versions that a package and its dependencies admit."""
    lowest: dict[str, Version] = {}
    for package in (distributions()[n] for n in with_dependencies([name])):
        for requirement in [*package.requirements, *(package.test_requirements if package.name == name else ())]:
            bounds = [Version(part.version) for part in requirement.specifier if part.operator in (">=", "==")]
            if not is_ours(requirement.name):
                lowest[requirement.name] = max([*bounds, lowest.get(requirement.name, Version("0"))])
    return sorted(f"{name}=={version}" for name, version in lowest.items())


def oldest_admitted(name: str, requirements: list[Requirement]) -> str | None:
    """Return the tag of the oldest release of a package that satisfies all requirements; None without releases."""
    package = packages()[name]
    admitted = (v for v in package.released_versions() if all(r.specifier.contains(v, prereleases=True) for r in requirements))
    version = next(admitted, None)
    return version and package.tag(version)


def min_versions(names: list[str], extra: list[str]) -> Jobs:
    """Return the jobs that test each package with the lowest versions of everything it requires."""
    if sys.version_info[:2] != bootstrap.OLDEST:
        raise SystemExit("min-versions: the lowest versions have wheels for Python {0}.{1} only; set up an environment "
                         "of it with tools/bootstrap.py --python python{0}.{1}".format(*bootstrap.OLDEST))
    here = build_wheels(with_dependencies(names))
    jobs: Jobs = {}
    for name in names:
        needed = with_dependencies([name])
        requirements = [r for n in needed for r in packages()[n].siblings.values()]
        tags = {n: oldest_admitted(n, [r for r in requirements if r.name == n]) for n in needed if n != name}
        if untagged := [n for n, tag in tags.items() if tag is None]:
            print(f"min-versions: {name}: no release of {', '.join(untagged)}; using this tree", flush=True)
        wheels = [released(n, tag)[1] if tag else here[n] for n, tag in tags.items()]
        jobs[f"{name} min-versions"] = partial(install_and_test, f"min-{name}", packages()[name], [*wheels, here[name]], extra,
                                               lower_bounds(name))
    return jobs


def excluded_by(package: Package, siblings: dict[str, Package]) -> str | None:
    """Return the requirement of a package that excludes a sibling's version, as a sentence; None if all are admitted."""
    for name, requirement in package.siblings.items():
        if not requirement.specifier.contains(siblings[name].version, prereleases=True):
            return f"{package.name} {package.version} requires {requirement}; got {name} {siblings[name].version}"
    return None


def released_versions(names: list[str], extra: list[str], commit: str | None) -> Jobs:
    """Return the jobs that combine packages of this tree with releases, both ways."""
    here = build_wheels(with_dependencies(names))
    jobs: Jobs = {}
    for name in names:
        needed = with_dependencies([name])
        versions = {n: packages()[n].released_versions() for n in needed}
        refs = {n: packages()[n].tag(found[-1]) if found else commit for n, found in versions.items()}
        if missing := [n for n, ref in refs.items() if ref is None]:
            raise SystemExit(f"released-versions: no tag of {', '.join(missing)}; name a commit with --released")
        old = {n: released(n, ref) for n, ref in refs.items() if ref}
        below = needed[:-1]
        combinations = {
            "with released siblings": (packages()[name], {n: old[n][0] for n in below},
                                       [*(old[n][1] for n in below), here[name]], ROOT),
            "released, with siblings of this tree": (old[name][0], {n: packages()[n] for n in below},
                                                     [*(here[n] for n in below), old[name][1]], old[name][0].folder.parents[1])}
        for title, (package, siblings, wheels, tree) in combinations.items() if below else ():
            if reason := excluded_by(package, siblings):
                print(f"released-versions: {name} {title}: skipped; {reason}", flush=True)
            else:
                jobs[f"{name} {title}"] = partial(install_and_test, f"{name}-{len(jobs)}", package, wheels, extra, cwd=tree)
    return jobs


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", choices=("isolated", "min-versions", "released-versions"))
    parser.add_argument("packages", nargs="*", help="default: all")
    parser.add_argument("--released", metavar="COMMIT", help="stands for the release of a package without a tag")
    options, extra = run_tests.parse(parser, argv)
    known = [*packages(), *(example_distributions() if options.versions == "isolated" else ())]
    if unknown := sorted(set(options.packages) - set(known)):
        parser.error(f"unknown package {', '.join(unknown)}; expected {', '.join(known)}")
    names = options.packages or known
    jobs = (isolated(names, extra) if options.versions == "isolated" else min_versions(names, extra)
            if options.versions == "min-versions" else released_versions(names, extra, options.released))
    return run_tests.run_all(jobs, options.jobs)


if __name__ == "__main__":
    sys.exit(main())
