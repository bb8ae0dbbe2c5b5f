"""An index on the loopback interface with the wheels of all packages, and environments that install from it as a user does.

`nox -s release_dry_run` runs these tests. They need a package index, from which third-party wheels are downloaded once.
"""
from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import bootstrap  # noqa: E402
import check_ranges  # noqa: E402
import page_steps  # noqa: E402
import test_wheels  # noqa: E402
from packages import packages  # noqa: E402

LOWER, UPPER = "lamina-tracing", "lamina-autodiff"  # the packages with two generations; the second one requires the first one


class Environment:
    """A virtual environment. Its pip knows the index at `url` alone, or if that is None, those of this machine."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
        subprocess.run([str(base), "-m", "venv", str(folder)], check=True)
        self.python = bootstrap.venv_python(folder)
        pip = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": url, "PIP_NO_CACHE_DIR": "1"} if url else {}
        ours = ("PYTHON", "LAMINA", "PIP_") if url else ("PYTHON", "LAMINA")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
        # PIP_COMPILE: bytecode of jaxlib takes 9 s to write, and the tests import a part of it.
        self.variables = {**kept, **pip, "PIP_COMPILE": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "VIRTUAL_ENV": str(folder),
                          "PATH": f"{Path(self.python).parent}{os.pathsep}{os.environ['PATH']}"}

    def run(self, command: str, cwd: Path, fails: bool = False) -> str:
        """Run a shell command in the environment and return its output; with `fails`, its output and errors."""
        done = subprocess.run(["bash", "-c", command], cwd=cwd, env=self.variables, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT if fails else subprocess.PIPE)
        assert (done.returncode != 0) == fails, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """A handler that logs nothing. Its lists of files are the pages of an index (PEP 503)."""

    def log_message(self, *args: object) -> None: ...


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside of the clone."""
    return tmp_path_factory.mktemp("user")


@pytest.fixture(scope="session")
def clone(folder: Path) -> Path:
    """A copy of the packages, with their wheels in `dist/` once README's commands have run."""
    shutil.copytree(ROOT / "packages", folder / "clone" / "packages", ignore=shutil.ignore_patterns("__pycache__", "tests"))
    return folder / "clone"


@pytest.fixture(scope="session")
def readme_output(clone: Path, folder: Path) -> list[str]:
    """The outputs of README's three commands, run in the clone."""
    environment = Environment(folder / "readme_environment")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    steps = page_steps.commands(page_steps.section(readme, "Install"))
    try:
        return [environment.run(step.line, clone) for step in steps]
    finally:
        shutil.rmtree(folder / "readme_environment")  # 350 MB


def set_version(root: Path, name: str, version: str, upper_bound: str = "") -> None:
    """Set the version of a package in a copy of the packages, and the upper bound of its range on LOWER."""
    package = packages(root)[name]
    (package.source / "_version.py").write_text(re.sub(
        r'(?m)^__version__ = ".*"$', f'__version__ = "{version}"', (package.source / "_version.py").read_text()))
    if upper_bound:
        settings = package.folder / "pyproject.toml"
        settings.write_text(re.sub(rf'"{LOWER}>=([\d.]+),<[\d.]+"', rf'"{LOWER}>=\1,<{upper_bound}"', settings.read_text()))
        list(check_ranges.check_needs_calls(root, write=True))


@pytest.fixture(scope="session")
def wheels(readme_output: list[str], clone: Path, folder: Path) -> Path:
    """The wheels of version 0.1.0, those of two packages in version 0.2.0, and third-party wheels.

    LOWER 0.1.0 and 0.2.0. UPPER 0.1.0 requires LOWER below 0.2; 0.1.1 and 0.2.0 admit both generations of LOWER.
    """
    found = clone / "dist"
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(found), "hatchling", "pytest",
                    *map(str, found.glob("lamina*.whl"))], check=True)
    for name, version, bound in ((LOWER, "0.2.0", ""), (UPPER, "0.1.1", "0.3"), (UPPER, "0.2.0", "0.3")):
        tree, out = folder / f"{name}-{version}", folder / "out" / version
        shutil.copytree(clone / "packages", tree / "packages")
        set_version(tree, name, version, bound)
        shutil.copy(test_wheels.build_wheels([name], out, tree)[name], found)
    return found


@pytest.fixture(scope="session")
def index(wheels: Path, folder: Path) -> Iterator[str]:
    """The address of an index that serves the wheels."""
    for wheel in wheels.glob("*.whl"):
        name = re.sub(r"[-_.]+", "-", wheel.name.split("-")[0]).lower()
        (folder / "simple" / name).mkdir(parents=True, exist_ok=True)
        shutil.move(wheel, folder / "simple" / name / wheel.name)
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/simple/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def make_environment(index: str, folder: Path) -> Callable[[str], Environment]:
    """Create an environment that installs from the index."""
    return lambda name: Environment(folder / name, index)


@pytest.fixture(scope="session")
def user(make_environment: Callable[[str], Environment], folder: Path) -> Environment:
    """A user's environment, after `pip install lamina`."""
    environment = make_environment("user_environment")
    environment.run("python -m pip install --quiet lamina", folder)
    return environment
