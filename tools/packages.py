"""Facts about the distributions of this repository: folders, requirements, versions, release tags.

hatch and pip know one project at a time; releasing needs to know who depends on a package, and which tags it has.
"""
from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

try:
    from packaging.requirements import Requirement
    from packaging.version import Version
except ModuleNotFoundError:
    raise SystemExit(f"{sys.argv[0]}: needs the repository's environment, with pip, hatchling and packaging; run `python3 "
                     f"tools/bootstrap.py setup`, then `.venv/bin/python {' '.join(sys.argv)}`") from None

ROOT = Path(__file__).resolve().parent.parent
UMBRELLA = "lamina"
VERSION_LINE = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)


def is_ours(name: str) -> bool:
    """Return whether a distribution or import name is `lamina`, `lamina-x` or `lamina_x`."""
    return re.fullmatch(r"lamina([-_].*)?", name.lower()) is not None


@dataclass(frozen=True)
class Package:
    """A folder with a pyproject.toml: one of `packages/`, or an example distribution that uses them."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def module(self) -> str:
        return self.name.replace("-", "_")

    @property
    def source(self) -> Path:
        return self.folder / "src" / self.module

    @cached_property
    def settings(self) -> dict[str, Any]:
        return tomllib.loads((self.folder / "pyproject.toml").read_text(encoding="utf-8"))

    @cached_property
    def requirements(self) -> list[Requirement]:
        return [Requirement(line) for line in self.settings["project"].get("dependencies", ())]

    @cached_property
    def optional_requirements(self) -> list[Requirement]:
        """The requirements of its extras."""
        extras = self.settings["project"].get("optional-dependencies", {})
        return [Requirement(line) for lines in extras.values() for line in lines]

    @cached_property
    def test_requirements(self) -> list[Requirement]:
        return [Requirement(line) for line in self.settings.get("dependency-groups", {}).get("test", ())]

    @property
    def siblings(self) -> dict[str, Requirement]:
        """The packages of this repository that it requires, by name."""
        return {r.name: r for r in self.requirements if is_ours(r.name)}

    @property
    def version(self) -> Version:
        found = VERSION_LINE.search((self.source / "_version.py").read_text(encoding="utf-8"))
        if found is None:
            raise ValueError(f'{self.name}: _version.py must have a line `__version__ = "..."`')
        return Version(found[1])

    def tag(self, version: Version | str) -> str:
        """Return the name of the git tag of a release."""
        return f"{self.name}-v{version}"

    def released_versions(self) -> list[Version]:
        """Return the versions that have a tag, oldest first."""
        tags = git("tag", "--list", self.tag("[0-9]*"), root=self.folder).split()
        return sorted(Version(tag.removeprefix(self.tag(""))) for tag in tags)


def packages(root: Path = ROOT) -> dict[str, Package]:
    """Return the packages of a checkout by name."""
    return {path.parent.name: Package(path.parent) for path in sorted(root.glob("packages/*/pyproject.toml"))}


def example_distributions(root: Path = ROOT) -> dict[str, Package]:
    """Return the distributions below `examples/` by name, without the alternative layers."""
    return {path.parent.name: Package(path.parent) for path in sorted(root.glob("examples/*/pyproject.toml"))}


def alternative_layers(root: Path = ROOT) -> dict[str, Package]:
    """Return the alternative implementations of layers by name."""
    found = sorted(root.glob("examples/alternative_layers/*/pyproject.toml"))
    return {path.parent.name: Package(path.parent) for path in found}


def distributions(root: Path = ROOT) -> dict[str, Package]:
    """Return everything in a checkout that has a pyproject.toml of its own."""
    return packages(root) | example_distributions(root) | alternative_layers(root)


def with_dependencies(names: Iterable[str], root: Path = ROOT) -> list[str]:
    """Return packages and all of this repository's packages that they require, dependencies first."""
    known = distributions(root)
    found: list[str] = []
    seen: set[str] = set()

    def visit(name: str) -> None:
        if name not in seen:
            seen.add(name)
            for required in [*known[name].siblings, *(r.name for r in known[name].test_requirements if is_ours(r.name))]:
                visit(required)
            found.append(name)

    for name in names:
        visit(name)
    return found


def git(*arguments: str, root: Path = ROOT) -> str:
    """Run git and return its output.

    Raises:
      RuntimeError: git failed; the message is git's.
    """
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"git {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout
