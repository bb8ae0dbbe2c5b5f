"""Wheels of what was released, built from its tag once and kept under `dist/released/`, and the tree they were built from.

Released is what a tag `<package>-v<version>` names. Where a package has none yet, a tool may be told of a commit to take for
it (`--released COMMIT`).
"""
from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

import build_wheels
import distributions
from distributions import ROOT, Distribution

KEPT = Path("dist", "released")
TREES = Path(".isolated", "trees")


@dataclass(frozen=True)
class Released:
    """A package as it was released: its wheel, and its folder in the tree of that commit, tests included."""

    ref: str
    room: Distribution
    wheel: Path

    @property
    def tree(self) -> Path:
        """The whole tree, from which its tests are run."""
        return self.room.folder.parent.parent


def tree_of(ref: str, root: Path = ROOT) -> Path:
    """The files of a commit, unpacked once."""
    commit = distributions.git("rev-parse", f"{ref}^{{commit}}", root=root).strip()
    home = root / TREES / commit[:12]
    if not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent) as folder:
            archive = Path(folder, "all.tar")
            distributions.git("archive", "--output", str(archive), commit, root=root)
            with tarfile.open(archive) as files:
                if hasattr(tarfile, "data_filter"):  # from Python 3.11.4 on; the archive is our own
                    files.extraction_filter = tarfile.data_filter
                files.extractall(Path(folder, "tree"))
            os.replace(Path(folder, "tree"), home)
    return home


def at(ref: str, package: str, root: Path = ROOT) -> Released:
    """A package as it is at a tag or commit, with its wheel built."""
    tree = tree_of(ref, root)
    kept = root / KEPT / (ref if ref.startswith(f"{package}-v") else tree.name)
    room = Distribution(tree / "packages" / package)
    wheels = list(kept.glob(build_wheels.wheel_pattern(package)))
    return Released(ref, room, wheels[0] if wheels else build_wheels.build_in(room.folder, package, kept))


def ref_of(package: str, root: Path = ROOT, requirement: Requirement | None = None, instead: str | None = None) -> str | None:
    """The tag of the last version released, or of the oldest that `requirement` admits; `instead` where there is none."""
    room = distributions.rooms(root)[package]
    versions = distributions.released(room, root)
    if requirement is not None:
        versions = [v for v in versions if requirement.specifier.contains(v, prereleases=True)][:1]
    return room.tag_of(versions[-1]) if versions else instead


def forget(root: Path = ROOT) -> None:
    """Take away the unpacked trees; the wheels stay."""
    shutil.rmtree(root / TREES, ignore_errors=True)


def without_tag(packages: list[str], root: Path = ROOT) -> list[str]:
    """Those packages of which nothing was released."""
    return [name for name in packages if ref_of(name, root) is None]


def check_commit(ref: str, root: Path = ROOT) -> None:
    """Refuse what names no commit, in one sentence."""
    done = subprocess.run(["git", "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}"], cwd=root, capture_output=True)
    if done.returncode:
        raise SystemExit(f"released: {ref!r} names no commit of this repository")
