"""Sets the project up in `.venv` and runs something in it; needs only Python, pip, venv and a package index.

usage: python3 tools/bootstrap.py setup | demo | test | run   [--python PYTHON] [--venv FOLDER] [-- arguments]

`demo` runs examples/vmap_vs_pmap.py, `test` every test, `run` the command given after `--` inside the environment.
Setting up again costs nothing unless what is needed from outside changed; a package with another version or other ranges
between packages is told to pip alone, in seconds. Standard library only; Python 3.11 or newer.
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
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OLDEST, NEWEST = (3, 11), (3, 13)
STAMP = "lamina-stamp"


class SetupError(Exception):
    """Something the person at the keyboard can put right; the message says how."""


def version_of(python: str) -> tuple[int, int] | None:
    """(major, minor) of an interpreter, or None where it does not run."""
    ask = "import sys; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", ask], capture_output=True, text=True, timeout=60)
        major, minor = done.stdout.split()
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return int(major), int(minor)


def candidates() -> list[str]:
    """Interpreters of the supported versions on this machine, newest first: on PATH, then those pyenv keeps."""
    found = []
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        name = f"python3.{minor}"
        on_path = shutil.which(name)
        kept = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"), reverse=True)
        found += [on_path] if on_path else []
        found += [str(path) for path in kept]
    return found


def choose_python(asked: str | None) -> str:
    """The interpreter to build on: the one asked for, else this one if supported, else another on the machine."""
    if asked:
        found = version_of(asked)
        if found is None or found < OLDEST:
            raise SetupError(f"{asked} is not a Python {OLDEST[0]}.{OLDEST[1]} or newer that runs. "
                             "Give another one after --python.")
        return asked
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        # Started from inside an environment (perhaps ours, about to be made anew): build on what that stands on.
        return getattr(sys, "_base_executable", None) or sys.executable
    for python in candidates():
        found = version_of(python)
        if found and OLDEST <= found <= NEWEST:
            say(f"this is Python {sys.version_info[0]}.{sys.version_info[1]}; using {python} instead")
            return python
    if sys.version_info[:2] > NEWEST:
        say(f"Python {sys.version_info[0]}.{sys.version_info[1]} is newer than what is tested; trying it")
        return sys.executable
    raise SetupError(f"Python {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]} is needed; this is "
                     f"{sys.version.split()[0]} and no other was found. Install one (https://python.org/downloads, "
                     "`apt install python3.12 python3.12-venv`, `brew install python@3.12`) and start again with it.")


def say(text: str) -> None:
    print(f"bootstrap: {text}", flush=True)


def inside(venv: Path) -> str:
    """The environment's interpreter."""
    folder = "Scripts" if os.name == "nt" else "bin"
    return str(venv / folder / ("python.exe" if os.name == "nt" else "python"))


def package_folders() -> list[Path]:
    return sorted(path.parent for path in ROOT.glob("packages/*/pyproject.toml"))


def read_toml(path: Path) -> dict[str, Any]:
    import tomllib  # an older Python that only looks for a newer one has none
    return tomllib.loads(path.read_text(encoding="utf-8"))


def from_outside(folder: Path) -> list[str]:
    """What a package needs that is not ours, and what builds it."""
    settings = read_toml(folder / "pyproject.toml")
    wanted = [*settings["project"].get("dependencies", ()), *settings["build-system"]["requires"]]
    return [line for line in wanted if not re.match(r"lamina\b", line)]


def fingerprint(python: str) -> str:
    """Changes with all that the environment must be made anew for: Python, places, and what comes from outside."""
    groups = read_toml(ROOT / "pyproject.toml")["dependency-groups"]
    parts = [version_of(python), str(ROOT), groups, *((folder.name, from_outside(folder)) for folder in package_folders())]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def told(folder: Path) -> str:
    """Changes with what pip is told of one package: its version, its ranges on its neighbours, its entry points."""
    digest = hashlib.sha256()
    for path in [folder / "pyproject.toml", *sorted(folder.glob("src/*/_version.py"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def group(name: str) -> list[str]:
    """Requirements of a dependency group of the top-level pyproject.toml, included groups spelled out."""
    groups = read_toml(ROOT / "pyproject.toml")["dependency-groups"]
    found: list[str] = []
    for item in groups[name]:
        found += [item] if isinstance(item, str) else group(item["include-group"])
    return found


def make_venv(python: str, venv: Path) -> None:
    """A fresh environment with pip in it."""
    done = subprocess.run([python, "-m", "venv", "--clear", str(venv)], capture_output=True, text=True)
    if done.returncode:
        version = ".".join(map(str, version_of(python) or OLDEST))
        raise SetupError(f"{python} cannot make a virtual environment in {venv}:\n"
                         f"{(done.stdout + done.stderr).strip()}\n"
                         f"Where Python comes without venv or pip (Debian, Ubuntu): apt install python{version}-venv; "
                         "if the disk is full or the folder read-only, choose another with --venv.")


def pip_install(venv: Path, *arguments: str) -> None:
    """One pip run with its progress on the screen; a failure names the likely causes."""
    command = [inside(venv), "-m", "pip", "install", "--disable-pip-version-check", *arguments]
    if subprocess.run(command, cwd=ROOT).returncode:
        raise SetupError("pip could not install what is needed; its last lines above say what. Most often the package "
                         "index is out of reach: check the network, or set PIP_INDEX_URL (a mirror), HTTPS_PROXY (a "
                         "proxy) or PIP_CERT (a company certificate), then run the same command again; it goes on "
                         "where it stopped.")


def set_up(python: str, venv: Path) -> None:
    """Make `venv` hold all packages in editable form and what demo, tests and gates need; quick when it does."""
    environment, packages = fingerprint(python), {folder.name: told(folder) for folder in package_folders()}
    before = stamp_of(venv)
    if before.get("environment") != environment or not version_of(inside(venv)):
        make_anew(python, venv)
    else:
        changed = [name for name in packages if before["packages"].get(name) != packages[name]]
        if not changed:
            return
        say(f"telling pip of the changed metadata of {', '.join(changed)}")
        folders = [folder for folder in package_folders() if folder.name in changed]
        pip_install(venv, "--quiet", "--no-deps", "--no-build-isolation", *editable(folders))
    (venv / STAMP).write_text(json.dumps({"environment": environment, "packages": packages}))


def stamp_of(venv: Path) -> dict[str, Any]:
    """What `venv` was last set up for; nothing where it was not."""
    try:
        found = json.loads((venv / STAMP).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def editable(folders: Iterable[Path]) -> list[str]:
    return [part for folder in folders for part in ("-e", str(folder.relative_to(ROOT)))]


def make_anew(python: str, venv: Path) -> None:
    """A fresh environment with everything in it."""
    start = time.monotonic()
    say(f"[1/3] making {venv} with {python} (Python {'.'.join(map(str, version_of(python) or ()))})")
    make_venv(python, venv)
    say("[2/3] installing the build tools")
    pip_install(venv, "--quiet", *group("build"))
    say("[3/3] installing the packages and what demo, tests and gates need (about 250 MB; a few minutes at first)")
    pip_install(venv, "--no-build-isolation", *editable(package_folders()), *group("dev"))
    say(f"ready after {time.monotonic() - start:.0f} s")


def compile_sources(venv: Path) -> None:
    """Write bytecode beside the sources: Python may be told not to (PYTHONDONTWRITEBYTECODE), and imports take then
    three times as long."""
    sources = [str(path) for path in sorted(ROOT.glob("packages/*/src"))]
    subprocess.run([inside(venv), "-m", "compileall", "-q", *sources], cwd=ROOT)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("setup", "demo", "test", "run"))
    parser.add_argument("--python", help="interpreter to build the environment on (default: this one)")
    parser.add_argument("--venv", help="folder of the environment (default: .venv)")
    argv = list(sys.argv[1:] if argv is None else argv)
    own, rest = (argv[:argv.index("--")], argv[argv.index("--") + 1:]) if "--" in argv else (argv, [])
    options, unknown = parser.parse_known_args(own)
    rest = unknown + rest
    venv = Path(options.venv).absolute() if options.venv else ROOT / ".venv"
    if options.action == "run" and not rest:
        parser.error("run: give a command after --")
    try:
        python = choose_python(options.python)
        if sys.version_info[:2] < OLDEST:
            return subprocess.call([python, str(Path(__file__).resolve()), *argv])
        set_up(python, venv)
        compile_sources(venv)
    except SetupError as error:
        print(f"bootstrap: {error}", file=sys.stderr)
        return 1
    commands = {"setup": None, "demo": [inside(venv), str(ROOT / "examples" / "vmap_vs_pmap.py"), *rest],
                "test": [inside(venv), str(ROOT / "tools" / "run_tests.py"), *rest],
                "run": [inside(venv) if rest[:1] == ["python"] else rest[0], *rest[1:]] if rest else None}
    command = commands[options.action]
    if command is None:
        say(f"environment at {venv}")
        return 0
    path = str(Path(inside(venv)).parent) + os.pathsep + os.environ.get("PATH", "")
    environment = {**os.environ, "PATH": path, "VIRTUAL_ENV": str(venv)}
    environment.pop("PYTHONPATH", None)  # only what is installed counts
    environment.pop("PYTHONHOME", None)
    try:
        return subprocess.call(command, cwd=ROOT, env=environment)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
