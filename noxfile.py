"""Development tasks; `nox -l` lists them. All sessions use the `.venv` of tools/bootstrap.py.

Arguments after `--` go to the program behind a session. One environment serves all sessions, because building one takes minutes
and 1 GB; the sessions that need fresh environments (`isolated`, `min_versions`, `released_versions`, `release_dry_run`) create
small ones.
"""
from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
PACKAGES = sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))
EXAMPLES = sorted(path.parent for path in ROOT.glob("examples/*/pyproject.toml"))

nox.needs_version = ">=2024.4"
nox.options.default_venv_backend = "none"
nox.options.sessions = ["tests", "imports", "lint", "types", "docs", "page"]


@functools.cache
def environment() -> Path:
    """Set up `.venv`, or update it if its requirements changed; return the folder of its programs."""
    subprocess.run([sys.executable, str(ROOT / "tools" / "bootstrap.py"), "setup"], check=True)
    return ROOT / ".venv" / ("Scripts" if sys.platform == "win32" else "bin")


def run(session: nox.Session, program: str, *arguments: str) -> None:
    """Run a program of the project's environment, which sees only what is installed."""
    session.run(str(environment() / program), *arguments, external=True, env={"PYTHONPATH": ""})


def python(session: nox.Session, *arguments: str) -> None:
    """Run the project's interpreter."""
    run(session, "python", *arguments)


@nox.session
def tests(session: nox.Session) -> None:
    """Run all tests, or those of the named targets: `-- lamina-ir tests/property`."""
    python(session, "tools/run_tests.py", *session.posargs)


@nox.session(name="property")
def property_tests(session: nox.Session) -> None:
    """Run the property-based tests on more random programs: `-- 200` for each property; `tests` runs a few."""
    examples, *rest = session.posargs or ["60"]
    session.env["LAMINA_LAWS"] = examples
    python(session, "-m", "pytest", "-q", "tests/property", *rest)


@nox.session
def processes(session: nox.Session) -> None:
    """Run the multi-process tests with all numbers of processes and devices and all kinds of failures; `tests` runs a few."""
    session.env |= {"LAMINA_WIDE": "1", "LAMINA_LOSSES": "every"}
    for path in sorted(ROOT.glob("tests/multi_process/test_*.py")):
        python(session, "-m", "pytest", "-q", str(path), *session.posargs)


@nox.session
def faults(session: nox.Session) -> None:
    """Inject random faults into groups of processes: `-- 200` runs; `-- 1 --seed N` repeats one; `tests` runs five."""
    python(session, "tests/multi_process/inject_faults.py", *session.posargs)


@nox.session
def isolated(session: nox.Session) -> None:
    """Test each wheel in a fresh environment that has only its declared dependencies."""
    python(session, "tools/test_wheels.py", "isolated", *session.posargs)


@nox.session
def min_versions(session: nox.Session) -> None:
    """Test each package with the lowest versions that its ranges admit."""
    python(session, "tools/test_wheels.py", "min-versions", *session.posargs)


@nox.session
def released_versions(session: nox.Session) -> None:
    """Test each package with the last releases of its siblings, and its last release with this tree's siblings."""
    python(session, "tools/test_wheels.py", "released-versions", *session.posargs)


@nox.session
def release_dry_run(session: nox.Session) -> None:
    """Build all wheels, serve them from a local index, and install, combine and extend them as a user does."""
    python(session, "tools/run_tests.py", "tests/installation", *session.posargs)


@nox.session
def conformance(session: nox.Session) -> None:
    """Run the conformance tests of all layers, or of an implementation: `-- lamina-batching PATH [pytest arguments]`."""
    python(session, "tools/run_conformance.py", *session.posargs)


@nox.session
def conformance_trials(session: nox.Session) -> None:
    """Run the conformance tests on every defective implementation; each must fail. `tests` runs every third."""
    session.env["LAMINA_LAWS"] = "60"
    for path in sorted(ROOT.glob("packages/*/tests/test_conformance.py")):
        python(session, "-m", "pytest", "-q", str(path), *session.posargs)


@nox.session
def alternative_layers(session: nox.Session) -> None:
    """Install each alternative layer; run its conformance tests, the JAX documentation pages and the examples with it."""
    python(session, "tools/run_alternative_layers.py", *session.posargs)


@nox.session
def libraries(session: nox.Session) -> None:
    """Run programs of pinned libraries on lamina and compare their numbers with JAX's; `-- --sample` runs some."""
    python(session, "tests/libraries/run.py", *session.posargs)


@nox.session
def ray(session: nox.Session) -> None:
    """Run the tests of workers in a local Ray cluster; `-- --sample` runs those of each change."""
    python(session, "tests/ray_cluster/run.py", *session.posargs)


@nox.session
def notebooks(session: nox.Session) -> None:
    """Execute the notebooks in docs/notebooks, or some: `-- digits`. The pages of `docs` then show their outputs."""
    python(session, "docs/_ext/run_notebooks.py", *session.posargs)


@nox.session
def imports(session: nox.Session) -> None:
    """Check the layering: import contracts, declared dependencies, public names, version ranges."""
    run(session, "lint-imports")
    for folder in [*PACKAGES, *EXAMPLES]:
        run(session, "deptry", str(folder / "src"), "--config", str(folder / "pyproject.toml"))
    python(session, "tools/check_imports.py")
    python(session, "tools/check_ranges.py")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, spelling, vocabulary, the length of sentences, and changelog fragments."""
    python(session, "-m", "ruff", "check", *(session.posargs or ["."]))
    run(session, "codespell")
    python(session, "tools/check_vocabulary.py")
    python(session, "tools/check_prose.py")
    for folder in PACKAGES:
        run(session, "towncrier", "build", "--draft", "--config", "pyproject.toml", "--dir", str(folder), "--name", folder.name,
            "--version", "0")


@nox.session
def types(session: nox.Session) -> None:
    """Run mypy on the packages, and mypy and pyright on a user's programs (tests/typed)."""
    packages = session.posargs or [path.name for folder in PACKAGES for path in folder.glob("src/*") if path.is_dir()]
    python(session, "-m", "mypy", *(part for name in packages for part in ("-p", name)))
    if not session.posargs:
        python(session, "tools/check_typed_program.py")


@nox.session
def docs(session: nox.Session) -> None:
    """Generate docs/_generated; check docstrings, links, and the examples in the pages."""
    python(session, "docs/_ext/build_docs.py")
    python(session, "tools/check_docstrings.py")
    python(session, "tools/run_tests.py", "docs", *session.posargs)


@nox.session
def site(session: nox.Session) -> None:
    """Build the site of the documentation in out/site; check its links, and open pages in Chromium if there is one."""
    python(session, "docs/_ext/build_docs.py")
    python(session, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "-j", "2", "-d", ".cache/site/doctrees",
           "docs", "out/site")
    python(session, "docs/_ext/check_site.py", *session.posargs)


@nox.session
def page(session: nox.Session) -> None:
    """Build the page of lamina-see, and compare it with the committed one; skipped without Node.js."""
    python(session, "tools/check_page.py", *session.posargs)


@nox.session
def kernels(session: nox.Session) -> None:
    """Check the CUDA lowerings against the kernels of the CUDA plugin; needs no GPU."""
    python(session, "tools/check_cuda_kernels.py", *session.posargs)


@nox.session
def release(session: nox.Session) -> None:
    """Prepare the release of a package: `-- lamina-batching minor`. Uploads nothing."""
    python(session, "tools/release.py", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Run the benchmarks, compared with released jax versions; write out/bench.md."""
    python(session, "benchmarks/run.py", *session.posargs)


@nox.session
def demo(session: nox.Session) -> None:
    """Run examples/vmap_vs_pmap.py."""
    python(session, "examples/vmap_vs_pmap.py", *session.posargs)
