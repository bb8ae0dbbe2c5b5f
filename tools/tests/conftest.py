"""Fixtures: a small checkout with three packages, in a git repository."""
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("tools", "docs/_ext", "packages/lamina-ir/tests")]

DEPENDENCIES = {"lamina-ir": ["numpy>=2.0"], "lamina-tracing": ["lamina-ir>=0.1,<0.2", "numpy>=2.0"],
                "lamina": ["lamina-ir>=0.1,<0.2", "lamina-tracing>=0.1,<0.2"]}
SOURCES = {"lamina-ir": '__all__ = ["needs", "prims", "shaped"]\nfrom numpy import array as shaped\n',
           "lamina-tracing": "import numpy\nfrom lamina_ir import shaped\n", "lamina": "from lamina_tracing import shaped\n"}


def _write_package(folder: Path, dependencies: list[str], source: str) -> None:
    """Write a package of version 0.1.0."""
    name, module = folder.name, folder.name.replace("-", "_")
    (folder / "src" / module).mkdir(parents=True)
    (folder / "src" / module / "__init__.py").write_text(source)
    (folder / "src" / module / "_version.py").write_text('__version__ = "0.1.0"\n')
    (folder / "README.md").write_text(f"# {name}\n")
    (folder / "CHANGELOG.md").write_text(f"# {name}\n\n<!-- towncrier release notes start -->\n")
    (folder / "pyproject.toml").write_text(
        f'[build-system]\nrequires = ["hatchling>=1.26"]\nbuild-backend = "hatchling.build"\n\n[project]\nname = "{name}"\n'
        f'dynamic = ["version"]\ndependencies = {dependencies}\n\n[tool.hatch.version]\npath = "src/{module}/_version.py"\n\n'
        f'[tool.hatch.build.targets.wheel]\npackages = ["src/{module}"]\n')


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with three packages, all committed."""
    import check_ranges
    import packages

    for name, dependencies in DEPENDENCIES.items():
        _write_package(tmp_path / "packages" / name, dependencies, SOURCES[name])
    for package in packages.packages(tmp_path).values():
        with (package.source / "_version.py").open("a") as file:
            file.write(check_ranges.needs_call(package))
    (tmp_path / ".gitignore").write_text("dist/\n.isolated/\n__pycache__/\n")
    run_git(tmp_path, "init", "--quiet")
    run_git(tmp_path, "add", "--all")
    run_git(tmp_path, "commit", "--quiet", "--message", "first")
    return tmp_path


def run_git(folder: Path, *arguments: str) -> None:
    author = {f"GIT_{role}_{field}": value for role in ("AUTHOR", "COMMITTER")
              for field, value in (("NAME", "a tester"), ("EMAIL", "tester@example.org"))}
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, env={**os.environ, **author})


@pytest.fixture
def git(checkout: Path) -> Callable[..., None]:
    """Run git in the checkout."""
    return lambda *arguments: run_git(checkout, *arguments)


@pytest.fixture
def write_package() -> Callable[[Path, list[str], str], None]:
    """Write a package into a folder, with dependencies and a source text."""
    return _write_package
