"""The systems to compare with: released jax versions, each in its own environment in the user's cache folder.

They are installed at first use, not into the project's environment, because jax and lamina cannot share a process.
"""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

__all__ = ["SAME_JAXLIB", "alone", "interpreters"]

# name -> (minor versions of Python 3, requirements)
PEERS = {
    "jax 0.12.0.1": ((12, 13), ("jax==0.12.0.1", "jaxlib==0.12.0.1")),
    "jax 0.10.2": ((11, 12, 13), ("jax==0.10.2", "jaxlib==0.10.2")),
    "jax 0.4.30": ((11, 12), ("jax==0.4.30", "jaxlib==0.4.30", "numpy<2", "scipy<1.14")),
}
# The jax version with the same jaxlib as lamina, for rows that jaxlib dominates.
SAME_JAXLIB = next((name for name, (_, wanted) in PEERS.items() if f"jaxlib=={version('jaxlib')}" in wanted), "jax 0.10.2")
# Differentiation of NumPy programs in Python, like lamina-autodiff without a runtime; with the dependencies of the
# packages up to lamina-numpy.
ALONE = "autograd 1.9", (11, 12, 13), ("autograd==1.9.1", "numpy>=2.0", "ml_dtypes>=0.5", "typing-extensions",
                                       "opt_einsum>=3.3")


def cache_folder() -> Path:
    """Return `$LAMINA_PEERS`, else a folder in the user's cache."""
    return Path(os.environ.get("LAMINA_PEERS") or
                Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lamina-peers")


def find_python(minors: tuple[int, ...]) -> str | None:
    """Return an interpreter of one of these versions: this one, one on PATH, or one of pyenv."""
    if sys.version_info[1] in minors:
        return sys.executable
    for minor in minors:
        for path in (shutil.which(f"python3.{minor}"), *Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python")):
            if path and not subprocess.run([path, "-c", ""], capture_output=True).returncode:
                return str(path)
    return None


def _install(name: str, minors: tuple[int, ...], requirements: tuple[str, ...]) -> str | None:
    """Install a system if it is missing, and return its interpreter; print the reason and return None on failure."""
    home = cache_folder() / name.replace(" ", "-")
    python, ready = home / "bin" / "python", home / "ready"
    if not ready.exists():
        base = find_python(minors)
        if base is None:
            print(f"bench: {name} left out; it needs Python 3.{' or 3.'.join(map(str, minors))}", file=sys.stderr)
            return None
        print(f"bench: installing {name} into {home}", file=sys.stderr)
        steps = ([base, "-m", "venv", "--clear", str(home)],
                 [str(python), "-m", "pip", "install", "--quiet", *requirements])
        if any(subprocess.run(step, stdout=sys.stderr).returncode for step in steps):
            print(f"bench: {name} left out; it cannot be installed", file=sys.stderr)
            return None
        ready.touch()
    return str(python)


def interpreters() -> dict[str, str]:
    """Return name -> interpreter of the systems that are available."""
    found = {name: _install(name, *needs) for name, needs in PEERS.items()}
    return {name: python for name, python in found.items() if python is not None}


def alone() -> str | None:
    """Return the interpreter of autograd's environment."""
    return _install(*ALONE)
