"""Set up the project in `.venv` and run a command in it.

usage: python3 tools/bootstrap.py setup | demo | test | run   [--python PYTHON] [--venv FOLDER] [-- arguments]

`demo` runs examples/vmap_vs_pmap.py, `test` runs all tests, `run` runs the command after `--`.

A new environment gets the newest supported Python that is installed, because only Python 3.12 and later have the newest
jaxlib; `--python` chooses another. An existing environment keeps its Python. Setting up again is free until the third-party
requirements change; if only a version or range of our packages changed, pip reinstalls those in seconds. Standard library
only, because a fresh clone has Python, pip and venv and nothing else.
"""
from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OLDEST, NEWEST = (3, 11), (3, 13)
STAMP = "lamina-stamp"


class SetupError(Exception):
    """A problem that the user can fix; the message says how."""


def log(text: str) -> None:
    print(f"bootstrap: {text}", flush=True)


def version_of(python: str) -> tuple[int, int] | None:
    """Return (major, minor) of an interpreter, or None if it does not run."""
    ask = "import sys; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", ask], capture_output=True, text=True, timeout=60)
        major, minor = done.stdout.split()
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return int(major), int(minor)


def base_python(python: str) -> str | None:
    """Return the interpreter behind an environment's one, or `python` itself if it is in none.

    The result is None if it is not supported, is a free-threaded build, or cannot create environments (Debian packages venv
    and pip separately).
    """
    ask = ("import ensurepip, sys, sysconfig, venv; assert not sysconfig.get_config_var('Py_GIL_DISABLED'); "
           "print(getattr(sys, '_base_executable', None) or sys.executable)")
    if not OLDEST <= (version_of(python) or (0, 0)) <= NEWEST:
        return None
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True)
    return None if done.returncode else done.stdout.strip()


def candidates() -> Iterator[str]:
    """Yield interpreters, the newest first: this one, those on PATH and those in pyenv's folder."""
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        if sys.version_info[:2] == (3, minor):
            yield sys.executable
        on_path = shutil.which(f"python3.{minor}")
        if on_path:
            yield on_path
        yield from map(str, sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"), reverse=True))


def choose_python(requested: str | None, venv: Path) -> str:
    """Return the interpreter for the environment: `requested`, else that of the environment, else the newest supported one.

    Raises:
      SetupError: no interpreter is supported.
    """
    if requested:
        if (version_of(requested) or (0, 0)) < OLDEST:
            raise SetupError(f"--python: {requested} must be Python {OLDEST[0]}.{OLDEST[1]} or newer")
        return requested
    # The base interpreter, because the environment that contains the other may be replaced.
    kept = base_python(venv_python(venv))
    if kept:
        return kept
    for python in filter(None, map(base_python, candidates())):
        if version_of(python) != sys.version_info[:2]:
            log(f"this is Python {sys.version_info[0]}.{sys.version_info[1]}; using {python}, the newest supported one "
                "(--python chooses another)")
        return python
    if sys.version_info[:2] > NEWEST:
        log(f"Python {sys.version_info[0]}.{sys.version_info[1]} is newer than the tested versions; trying it")
    if sys.version_info[:2] >= OLDEST:
        return sys.executable  # if it cannot create environments, that error names the repair
    raise SetupError(f"Python {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]} is required; this is "
                     f"{sys.version.split()[0]} and no other was found. Install one (https://python.org/downloads, "
                     "`apt install python3.12 python3.12-venv`, `brew install python@3.12`) and run this again with it.")


def venv_python(venv: Path) -> str:
    """Return the path of an environment's interpreter."""
    return str(venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))


def read_toml(path: Path) -> dict[str, Any]:
    import tomllib  # an older Python, which only looks for a newer one, has no tomllib
    return tomllib.loads(path.read_text(encoding="utf-8"))


def fingerprints(python: str) -> dict[str, str]:
    """Return two hashes: of all that requires a new environment, and of the packages' metadata."""
    projects = {path: read_toml(path) for path in sorted(ROOT.glob("packages/*/pyproject.toml"))}
    third_party = {path.parent.name: [line for line in [*p["project"]["dependencies"], *p["build-system"]["requires"]]
                                      if not re.match(r"lamina\b", line)] for path, p in projects.items()}
    groups = read_toml(ROOT / "pyproject.toml")["dependency-groups"]
    environment = json.dumps([version_of(python), str(ROOT), groups, third_party])
    metadata = [path.read_text(encoding="utf-8") for path in [*projects, *sorted(ROOT.glob("packages/*/src/*/_version.py"))]]
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in
            (("environment", environment), ("packages", "".join(metadata)))}


def create_venv(python: str, venv: Path) -> None:
    """Create an empty environment with pip."""
    done = subprocess.run([python, "-m", "venv", "--clear", str(venv)], capture_output=True, text=True)
    if done.returncode:
        version = ".".join(map(str, version_of(python) or OLDEST))
        raise SetupError(f"{python} cannot create a virtual environment in {venv}:\n{(done.stdout + done.stderr).strip()}\n"
                         f"If Python comes without venv or pip (Debian, Ubuntu): apt install python{version}-venv. "
                         "If the disk is full or the folder is read-only, choose another folder with --venv.")


def pip_install(venv: Path, *arguments: str) -> None:
    """Run `pip install` in an environment.

    Raises:
      SetupError: pip failed.
    """
    command = [venv_python(venv), "-m", "pip", "install", "--disable-pip-version-check", *arguments]
    if subprocess.run(command, cwd=ROOT).returncode:
        raise SetupError("pip failed; see its last lines above. Most often the package index cannot be reached: check the "
                         "network, or set PIP_INDEX_URL (a mirror), HTTPS_PROXY (a proxy) or PIP_CERT (a company "
                         "certificate), then run the same command again.")


def set_up(python: str, venv: Path) -> None:
    """Install all packages in editable form, and the `dev` group, into `venv`; do only what is out of date."""
    wanted = fingerprints(python)
    try:
        found = json.loads((venv / STAMP).read_text())
    except (OSError, ValueError):
        found = {}
    if found == wanted and version_of(venv_python(venv)):
        return
    if venv.is_symlink():
        raise SetupError(f"{venv} is a link to {venv.resolve()}, which was set up for another checkout or for other "
                         "requirements, and would be cleared. Remove the link, or choose another folder with --venv.")
    editable = [part for path in sorted(ROOT.glob("packages/*/pyproject.toml")) for part in ("-e", str(path.parent))]
    if found.get("environment") == wanted["environment"] and version_of(venv_python(venv)):
        log("updating the metadata of the packages")
        pip_install(venv, "--quiet", "--no-deps", "--no-build-isolation", *editable)
    else:
        start = time.monotonic()
        log(f"[1/3] creating {venv} with {python} (Python {'.'.join(map(str, version_of(python) or ()))})")
        create_venv(python, venv)
        log("[2/3] installing the build tools")
        pip_install(venv, "--quiet", *read_toml(ROOT / "pyproject.toml")["dependency-groups"]["build"])
        log("[3/3] installing the packages and the tools (about 250 MB; a few minutes at first)")
        pip_install(venv, "--no-build-isolation", *editable, "--group", "dev")
        log(f"ready after {time.monotonic() - start:.0f} s")
    (venv / STAMP).write_text(json.dumps(wanted))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("setup", "demo", "test", "run"))
    parser.add_argument("--python", help="interpreter of the environment (default: see above)")
    parser.add_argument("--venv", help="folder of the environment (default: .venv)")
    argv = list(sys.argv[1:] if argv is None else argv)
    at = argv.index("--") if "--" in argv else len(argv)
    options, rest = parser.parse_known_args(argv[:at])
    rest += argv[at + 1:]
    venv = Path(options.venv).absolute() if options.venv else ROOT / ".venv"
    if options.action == "run" and not rest:
        parser.error("run: give a command after --")
    try:
        python = choose_python(options.python, venv)
        if sys.version_info[:2] < OLDEST:
            return subprocess.call([python, str(Path(__file__).resolve()), *argv])
        set_up(python, venv)
    except SetupError as error:
        print(f"bootstrap: {error}", file=sys.stderr)
        return 1
    inside = venv_python(venv)
    # Imports take three times as long without bytecode, which PYTHONDONTWRITEBYTECODE would prevent.
    subprocess.run([inside, "-m", "compileall", "-q", *map(str, sorted(ROOT.glob("packages/*/src")))], cwd=ROOT)
    commands = {"setup": [], "demo": [inside, str(ROOT / "examples" / "vmap_vs_pmap.py"), *rest],
                "test": [inside, str(ROOT / "tools" / "run_tests.py"), *rest],
                "run": [inside if rest[:1] == ["python"] else rest[0], *rest[1:]] if rest else []}
    if options.action == "setup":
        log(f"environment at {venv}")
        return 0
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    environment["PATH"] = str(Path(inside).parent) + os.pathsep + environment.get("PATH", "")
    try:
        return subprocess.call(commands[options.action], cwd=ROOT, env={**environment, "VIRTUAL_ENV": str(venv)})
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
