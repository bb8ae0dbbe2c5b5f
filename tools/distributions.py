"""What the tools know of a distribution: where it stands, its version and tag, what it asks for, who asks for it.

Everything is read from a house, a checkout's root, so that tools can be tried on a small one.
"""
from __future__ import annotations

import re
import subprocess
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
VERSION_LINE = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)


def is_ours(name: str) -> bool:
    """`lamina` and `lamina-...`, however it is spelled."""
    return re.fullmatch(r"lamina([-_].*)?", name.lower()) is not None


@dataclass(frozen=True)
class Distribution:
    """One folder with a pyproject.toml: a room of `packages/`, or one of those that use the house from outside."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def module(self) -> str:
        """Its import name."""
        return self.name.replace("-", "_")

    @property
    def source(self) -> Path:
        return self.folder / "src" / self.module

    @cached_property
    def settings(self) -> dict[str, Any]:
        return tomllib.loads((self.folder / "pyproject.toml").read_text(encoding="utf-8"))

    @property
    def dependencies(self) -> list[str]:
        return list(self.settings["project"].get("dependencies", ()))

    @property
    def test_group(self) -> list[str]:
        return list(self.settings.get("dependency-groups", {}).get("test", ()))

    @property
    def neighbours(self) -> dict[str, Requirement]:
        """Those of ours that it declares, by name."""
        return {r.name: r for r in map(Requirement, self.dependencies) if is_ours(r.name)}

    @property
    def asked(self) -> dict[str, Requirement]:
        """The same, and those that its tests ask for with a range."""
        tests = {r.name: r for r in map(Requirement, self.test_group) if is_ours(r.name) and r.specifier}
        return {**tests, **self.neighbours}

    @property
    def version(self) -> Version:
        return Version(version_in((self.source / "_version.py").read_text(encoding="utf-8"), self.name))

    def tag_of(self, version: Version | str) -> str:
        return f"{self.name}-v{version}"


def version_in(text: str, name: str) -> str:
    """The version that a `_version.py` states."""
    found = VERSION_LINE.search(text)
    if found is None:
        raise ValueError(f'{name}: its _version.py has no line `__version__ = "..."`')
    return found[1]


def rooms(root: Path = ROOT) -> dict[str, Distribution]:
    """The packages, by name."""
    return {path.parent.name: Distribution(path.parent) for path in sorted(root.glob("packages/*/pyproject.toml"))}


def everything(root: Path = ROOT) -> dict[str, Distribution]:
    """The packages, and the distributions that use them from outside."""
    outside = [*root.glob("examples/*/pyproject.toml"), *root.glob("forks/*/pyproject.toml")]
    return {**rooms(root), **{path.parent.name: Distribution(path.parent) for path in sorted(outside)}}


def dependants(name: str, root: Path = ROOT) -> list[Distribution]:
    """Who declares this package."""
    return [d for d in everything(root).values() if name in d.asked]


def git(*arguments: str, root: Path = ROOT) -> str:
    """What git prints; a failure says what git said."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"git {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout


def released(room: Distribution, root: Path = ROOT) -> list[Version]:
    """The versions of a package that a tag names, oldest first."""
    prefix = room.tag_of("")
    tags = git("tag", "--list", f"{prefix}[0-9]*", root=root).split()
    return sorted(Version(tag.removeprefix(prefix)) for tag in tags)
