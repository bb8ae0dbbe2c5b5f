"""What one can do here: `nox -l`. All sessions share the one `.venv` of tools/bootstrap.py.

A machine with two cores should not build an environment per session; where a bare one matters (`isolated`), the tool
behind the session makes it. Arguments after `--` go to the program behind the session.
"""
from __future__ import annotations

import sys
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent

nox.needs_version = ">=2024.4"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["tests", "walls", "lint", "types", "docs"]


def inside(session: nox.Session, *command: str) -> None:
    """Run a command of the project's environment, after setting that up if anything changed."""
    session.run(sys.executable, str(ROOT / "tools" / "bootstrap.py"), "run", "--", *command, external=True)


def python(session: nox.Session, *command: str) -> None:
    """Run the project's interpreter."""
    inside(session, "python", *command)


@nox.session
def tests(session: nox.Session) -> None:
    """Every test, one process per room."""
    python(session, "tools/run_tests.py", *session.posargs)


@nox.session
def laws(session: nox.Session) -> None:
    """Every law of every primitive on many random uses: `-- 200` of each; the tests try a few."""
    examples, *rest = session.posargs or ["60"]
    session.env["LAMINA_LAWS"] = examples
    python(session, "-m", "pytest", "-q", "tests/laws", *rest)


@nox.session
def processes(session: nox.Session) -> None:
    """Everything over 2, 3 and 4 processes of 1, 2 and 4 devices, and each kind of loss of any of them; the tests try a few."""
    session.env |= {"LAMINA_WIDE": "1", "LAMINA_LOSSES": "every"}
    for path in sorted(Path("tests/devices").glob("test_*.py")):
        python(session, "-m", "pytest", "-q", str(path), *session.posargs)


@nox.session
def isolated(session: nox.Session) -> None:
    """Each built wheel, and that of examples/outside, with only what it declares in a bare environment: its tests pass."""
    python(session, "tools/run_isolated.py", *session.posargs)


@nox.session
def contract(session: nox.Session) -> None:
    """What each layer means, tried on the stock; `-- lamina-batching PATH [pytest arguments]`: on the stand-in at PATH."""
    python(session, "tools/try_contract.py", *session.posargs)


@nox.session
def forks(session: nox.Session) -> None:
    """The stand-ins under forks/: each installed by itself, its layer's contract, the seed pages, the examples."""
    python(session, "tools/run_forks.py", *session.posargs)


@nox.session
def lowest(session: nox.Session) -> None:
    """Each package with the lowest versions that its ranges admit, from outside and of neighbours (docs/releasing.md)."""
    python(session, "tools/run_lowest.py", *session.posargs)


@nox.session
def neighbours(session: nox.Session) -> None:
    """Each package among the last released neighbours, and the last released one among these (docs/releasing.md)."""
    python(session, "tools/run_neighbours.py", *session.posargs)


@nox.session
def release(session: nox.Session) -> None:
    """Make one package ready for release: `-- lamina-batching minor` (docs/releasing.md). Uploads nothing."""
    python(session, "tools/release_package.py", *session.posargs)


@nox.session
def walls(session: nox.Session) -> None:
    """Imports only go down, in no circle; dependencies are declared, ranges true; rooms use each other's public names."""
    inside(session, "lint-imports")
    python(session, "tools/check_walls.py")
    python(session, "tools/check_circles.py")
    python(session, "tools/check_ranges.py")
    python(session, "tools/collect_changelog.py", "--check")


@nox.session
def lint(session: nox.Session) -> None:
    """ruff over everything."""
    python(session, "-m", "ruff", "check", *(session.posargs or ["."]))


@nox.session
def types(session: nox.Session) -> None:
    """mypy, package by package; then what a user's typed program sees, under mypy and pyright."""
    packages = session.posargs or [path.name for path in sorted((ROOT / "packages").glob("*/src/*")) if path.is_dir()]
    python(session, "-m", "mypy", *(part for name in packages for part in ("-p", name)))
    if not session.posargs:
        python(session, "tools/check_typed_program.py")


@nox.session
def docs(session: nox.Session) -> None:
    """Every example in the pages runs, the written pages say what is there, and docstrings of wing and doors are whole."""
    python(session, "tools/run_tests.py", "docs")
    for tool in ("op_table", "settings_table", "reference_pages", "coverage_page"):
        python(session, f"tools/{tool}.py", "--check")
    python(session, "tools/check_docstrings.py")
    python(session, "tools/check_docstrings.py", "--doors")


@nox.session
def ops(session: nox.Session) -> None:
    """Write docs/ops.md from the live tables."""
    python(session, "tools/op_table.py")


@nox.session
def reference(session: nox.Session) -> None:
    """Write docs/reference/ from docstrings and live tables, and docs/coverage.md from the table of names."""
    python(session, "tools/reference_pages.py")
    python(session, "tools/coverage_page.py")


@nox.session
def kernels(session: nox.Session) -> None:
    """The CUDA lowerings against the plugin's kernels, which need no GPU to say what they expect."""
    python(session, "tools/check_cuda_kernels.py", *session.posargs)


@nox.session
def wheels(session: nox.Session) -> None:
    """Build every package into dist/."""
    python(session, "tools/build_wheels.py", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Us beside the peers, in one run; writes out/bench.md."""
    python(session, "benchmarks/run.py", *session.posargs)


@nox.session
def demo(session: nox.Session) -> None:
    """The main job: examples/vmap_vs_pmap.py."""
    python(session, "examples/vmap_vs_pmap.py", *session.posargs)
