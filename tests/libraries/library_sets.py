"""The sets of pinned libraries, their environments, and how a program of `programs/` is run and compared."""
from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAMS = sorted(path.stem for path in (HERE / "programs").glob("[a-z]*.py"))
TIME_LIMIT = 300  # seconds for a program
_NO_INDEX = re.compile("connection broken|Could not fetch URL|name resolution|Ignoring indexes|ConnectTimeout|ProxyError")
Numbers = dict[str, list[float]]


class NoPackageIndexError(Exception):
    """pip could not reach the package index."""


@dataclass(frozen=True)
class LibrarySet:
    """Libraries of one year, the level of JAX that they are offered, and the programs that do not apply.

    Attributes:
      excluded: programs that fail with JAX itself, with the reason.
      failing: programs that fail with lamina, with the reason.
      suites: the libraries' own tests: paths below the environment, by library.
    """

    year: str
    level: str
    excluded: dict[str, str] = field(default_factory=dict)
    failing: dict[str, str] = field(default_factory=dict)
    suites: dict[str, list[str]] = field(default_factory=dict)

    @property
    def requirements(self) -> Path:
        """The file of pinned versions."""
        return HERE / f"requirements-{self.year}.txt"

    @property
    def recording(self) -> Path:
        """The file of numbers that JAX gave."""
        return HERE / f"recorded-{self.year}.json"

    @property
    def programs(self) -> list[str]:
        """The programs that run with JAX."""
        return [name for name in PROGRAMS if name not in self.excluded]

    def versions(self) -> dict[str, str]:
        """Return the pinned versions by distribution."""
        lines = self.requirements.read_text().splitlines()
        return dict(line.split("==") for line in lines if line and not line.startswith("#"))


_NEEDS_OLD_JAX = "its last release needs names that JAX 0.12 does not have"
# The parts that take less than a minute.
_SUITES = {"einops": ["einops/tests"],
           "optax": [f"optax/{part}" for part in (
               "losses", "projections", "schedules", "second_order", "transforms", "tree_utils")]
           + [f"optax/_src/{part}_test.py" for part in ("base", "combine", "numerics", "transform", "update", "utils")]}
SETS = {
    "2024": LibrarySet("2024", "0.4.30", suites=_SUITES),
    "2026": LibrarySet("2026", "0.10", dict.fromkeys(
        ("clu_metrics", "distrax_bijectors", "rlax_losses", "tfp_distributions"), _NEEDS_OLD_JAX), suites=_SUITES),
}
# The distribution of a program, if it is not the part of the program's name before the first underscore.
DISTRIBUTIONS = {"jax_dataclasses_tree": "jax-dataclasses", "tree_math_vectors": "tree-math", "haiku_attention": "dm-haiku",
                 "pix_images": "dm-pix", "e3nn_tensors": "e3nn-jax", "ott_transport": "ott-jax",
                 "tfp_distributions": "tensorflow-probability"}


def distribution_of(program: str) -> str:
    """Return the name of the distribution that a program is about."""
    return DISTRIBUTIONS.get(program, program.split("_")[0])


def build_environment(chosen: LibrarySet, python: str) -> Path:
    """Install a set into a folder of its own below .cache, if its pins changed; return the folder.

    The folder goes on the import path of the interpreter `python`, whose environment has JAX or lamina and stays as it is.

    Raises:
      NoPackageIndexError: the package index cannot be reached.
      RuntimeError: pip failed otherwise.
    """
    return install_pins(chosen.requirements, ROOT / ".cache" / "libraries" / chosen.year, python)


def install_pins(requirements: Path, folder: Path, python: str) -> Path:
    """Install a file of pins into a folder for each version of Python, if it changed; return the folder.

    Raises:
      NoPackageIndexError: the package index cannot be reached.
      RuntimeError: pip failed otherwise.
    """
    version = subprocess.run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], check=True, text=True,
                             capture_output=True).stdout.strip()
    folder = folder.with_name(f"{folder.name}-python{version}")
    stamp = folder / "pins.txt"
    pins = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == pins:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    done = subprocess.run([python, "-m", "pip", "--disable-pip-version-check", "--retries", "2", "install", "--no-deps",
                           "--no-compile", "--progress-bar", "off", "--target", str(folder), "-r", str(requirements)],
                          text=True, capture_output=True, cwd=ROOT)
    if done.returncode:
        output = (done.stdout + done.stderr)[-6000:]
        raise (NoPackageIndexError if _NO_INDEX.search(output) else RuntimeError)(f"pip failed:\n{output}")
    stamp.write_text(pins)
    return folder


def environment_variables(libraries: Path) -> dict[str, str]:
    """Return the environment of a program: the libraries come first on the import path."""
    path = os.pathsep.join([str(libraries), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "ignore",
            "TF_CPP_MIN_LOG_LEVEL": "2", "LIBRARIES_START": str(time.time())}


def run_program(program: str, command: list[str], libraries: Path) -> tuple[dict[str, dict] | None, str, float]:
    """Run a program after `command`; return what it prints (None if it fails), the end of its errors, and seconds."""
    start = time.monotonic()
    try:
        done = subprocess.run([*command, str(HERE / "programs" / f"{program}.py")], env=environment_variables(libraries),
                              text=True, capture_output=True, timeout=TIME_LIMIT, cwd=libraries)
    except subprocess.TimeoutExpired:
        return None, f"stopped after {TIME_LIMIT} s", TIME_LIMIT
    seconds = time.monotonic() - start
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"numbers"')]
    if done.returncode or not lines:
        return None, done.stderr[-3000:], seconds
    return json.loads(lines[-1]), done.stderr[-3000:], seconds


def differences(numbers: Numbers, recorded: Numbers, tolerance: float) -> list[str]:
    """Return a line for each named number that is not the recorded one."""
    found = [f"{name}: missing" for name in recorded if name not in numbers]
    for name, values in numbers.items():
        expected = recorded.get(name, [])
        scale = max((abs(x) for x in expected if math.isfinite(x)), default=0.0) or 1.0
        if len(values) != len(expected) or not all(
                x == y or (math.isnan(x) and math.isnan(y)) or abs(x - y) <= tolerance * scale
                for x, y in zip(values, expected)):
            found.append(f"{name}: {values} instead of {expected}")
    return found
