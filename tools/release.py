"""Prepare the release of one package; commit, tag and upload nothing.

usage: python tools/release.py PACKAGE [major|minor|patch|VERSION] [--date DATE] [--no-tests]

Sets the version (hatchling), checks the API against the last tag (griffe), collects the changelog (towncrier), builds the wheel
and the source archive (hatchling), tests the wheel in a fresh environment, and prints the commands that publish it. Without a
version, it releases the current one, as for a first release.

These libraries know one project. This program adds the order of the steps, and the check that the packages which require this
one admit its new version. If a check fails, nothing is written.
"""
from __future__ import annotations

import argparse
import datetime
import re
import subprocess
import sys
from pathlib import Path

import check_ranges
import test_wheels
from packages import ROOT, UMBRELLA, Package, git, packages
from packaging.version import Version

# Packages that store files written by each version, for all later versions to read; and the program that writes them.
CORPORA = {"lamina-ir": "packages/lamina-ir/tests/saved_program_corpus.py",
           "lamina-export": "packages/lamina-export/tests/test_files.py"}


class ReleaseError(Exception):
    """A problem to fix before the release; the message says which."""


def run(*command: str, cwd: Path) -> None:
    """Run a Python module as a program.

    Raises:
      ReleaseError: the program failed; the message is its output.
    """
    done = subprocess.run([sys.executable, "-m", *command], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def compatible(one: Version, other: Version) -> bool:
    """Return whether users of one version may rely on the API of the other: the same minor version before 1.0, else major."""
    return (one.major, one.minor * (one.major == 0)) == (other.major, other.minor * (other.major == 0))


def check_clean(package: Package, is_new: bool, root: Path) -> None:
    """Check that there is something to release and that nothing is uncommitted."""
    if changed := git("status", "--porcelain", "--", "packages", "examples", root=root):
        raise ReleaseError(f"uncommitted changes; commit or stash them first:\n{changed}")
    if is_new and package.name != UMBRELLA and not list((package.folder / "changelog.d").glob("*.md")):
        raise ReleaseError(f"packages/{package.name}/changelog.d is empty; describe what changes for users of the package")


def check_version(package: Package, root: Path) -> None:
    """Check the new version of `package` against its tags, and its public API against that of the last release."""
    name, new, tags = package.name, package.version, package.released_versions()
    if new in tags:
        raise ReleaseError(f"{name} {new} is already released (tag {package.tag(new)}); pass major, minor or patch")
    if tags and new < tags[-1]:
        raise ReleaseError(f"{name} {tags[-1]} is already released; {new} is older")
    if tags and compatible(new, tags[-1]):
        command = [sys.executable, "-m", "griffe", "check", package.module, "--search", f"packages/{name}/src", "--against",
                   package.tag(tags[-1]), "--format", "oneline"]
        lines = subprocess.run(command, cwd=root, capture_output=True, text=True).stderr.splitlines()
        # griffe also reports modules that no `__all__` lists, which may change.
        public = re.compile(rf"packages/{name}/src/{package.module}/(__init__|extend|testing)\b.*: Public object was removed")
        if removed := [line for line in lines if public.match(line)]:
            raise ReleaseError(f"names of {name} {tags[-1]} are missing; release a minor version:\n" + "\n".join(removed))


def release(name: str, part: str | None, date: str, root: Path = ROOT) -> Package:
    """Write everything that a release changes, and build the package."""
    if name not in packages(root):
        raise ReleaseError(f"unknown package {name}; expected {', '.join(packages(root))}")
    package = packages(root)[name]
    version_file = package.source / "_version.py"
    before = version_file.read_text(encoding="utf-8")
    check_clean(package, part is not None, root)
    try:
        if part is not None:
            run("hatchling", "version", part, cwd=package.folder)
        if wrong := check_ranges.check(root):
            raise ReleaseError("\n".join([f"with {name} {package.version}:", *wrong, "Test the dependents with this version, "
                                          "widen their ranges and commit; or release a patch"]))
        check_version(package, root)
    except ReleaseError:
        version_file.write_text(before, encoding="utf-8")
        raise
    if name == UMBRELLA:
        fragments = package.folder / "changelog.d"
        fragments.mkdir(exist_ok=True)
        versions = ", ".join(f"{p.name} {p.version}" for p in packages(root).values() if p.name != UMBRELLA)
        (fragments / "+versions.changed.md").write_text(f"Tested with {versions}.\n", encoding="utf-8")
    run("towncrier", "build", "--config", str(ROOT / "pyproject.toml"), "--dir", str(package.folder), "--name", name,
        "--version", str(package.version), "--date", date, "--yes", cwd=root)
    if (script := root / CORPORA.get(name, "")).is_file():
        subprocess.run([sys.executable, str(script)], cwd=root, check=True)
    run("hatchling", "build", "-d", str(root / "dist" / "release"), cwd=package.folder)
    return package


def next_steps(package: Package) -> str:
    """Return the commands that publish a release."""
    title, tag = f"{package.name} {package.version}", package.tag(package.version)
    return "\n".join([
        f"{title} is built in dist/release. `nox -s released_versions -- {package.name}` tests it with released siblings.",
        "To publish it (.github/workflows/publish.yml uploads what a tag names):",
        "  git add packages examples", f'  git commit -m "{title}"', f'  git tag -a {tag} -m "{title}"',
        f"  git push origin HEAD {tag}"])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package")
    parser.add_argument("part", nargs="?", help="major, minor, patch or a version (default: the current version)")
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--no-tests", action="store_true", help="do not test the wheel")
    options = parser.parse_args(argv)
    try:
        package = release(options.package, options.part, options.date)
        if not options.no_tests and test_wheels.main(["isolated", package.name]):
            raise ReleaseError("the tests of the wheel fail; to undo: git restore packages examples && git clean -f packages")
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print(next_steps(package))
    return 0


if __name__ == "__main__":
    sys.exit(main())
