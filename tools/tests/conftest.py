import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

SMALL_ROOMS = {"lamina-ir": ["numpy>=2.0"], "lamina-tracing": ["lamina-ir>=0.1,<0.2", "numpy>=2.0"],
               "lamina": ["lamina-ir>=0.1,<0.2", "lamina-tracing>=0.1,<0.2"]}
SMALL_SOURCES = {"lamina-ir": '__all__ = ["needs", "shaped"]\nfrom numpy import array as shaped\n',
                 "lamina-tracing": "import numpy\nfrom lamina_ir import shaped\n",
                 "lamina": "from lamina_tracing import shaped\n"}


def small_pyproject(name: str, dependencies: list[str]) -> str:
    lines = "".join(f'    "{line}",\n' for line in dependencies)
    return (f'[build-system]\nrequires = ["hatchling>=1.26"]\nbuild-backend = "hatchling.build"\n\n[project]\nname = "{name}"\n'
            f'dynamic = ["version"]\nrequires-python = ">=3.11"\ndependencies = [\n{lines}]\n\n[tool.hatch.version]\n'
            f'path = "src/{name.replace("-", "_")}/_version.py"\n\n[tool.hatch.build.targets.wheel]\n'
            f'packages = ["src/{name.replace("-", "_")}"]\n')


@pytest.fixture
def small_house(tmp_path: Path) -> Path:
    """Three packages of version 0.1.0 in a git repository, all committed."""
    import check_ranges
    import distributions

    for name, dependencies in SMALL_ROOMS.items():
        source = tmp_path / "packages" / name / "src" / name.replace("-", "_")
        source.mkdir(parents=True)
        (source / "__init__.py").write_text(SMALL_SOURCES[name])
        (source / "_version.py").write_text('__version__ = "0.1.0"\n')
        (source.parents[1] / "pyproject.toml").write_text(small_pyproject(name, dependencies))
        (source.parents[1] / "CHANGELOG.md").write_text(f"# {name}\n\n## 0.1.0\n\n- {name}: first version.\n")
    for room in distributions.rooms(tmp_path).values():
        (room.source / "_version.py").write_text(check_ranges.version_file(room))
    (tmp_path / ".gitignore").write_text("dist/\n.isolated/\n__pycache__/\n")
    run_git(tmp_path, "init", "--quiet")
    commit(tmp_path, "first")
    return tmp_path


def run_git(house: Path, *arguments: str) -> None:
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", "a tester"), ("EMAIL", "tester@example.org"))}
    subprocess.run(["git", *arguments], cwd=house, check=True, capture_output=True, env={**os.environ, **who})


def commit(house: Path, message: str) -> None:
    run_git(house, "add", "--all")
    run_git(house, "commit", "--quiet", "--message", message)


@pytest.fixture
def git(small_house: Path) -> Callable[..., None]:
    """Run git in the small house."""
    return lambda *arguments: run_git(small_house, *arguments)
