"""The peers we are measured beside: released jax versions, each in an environment of its own in the user's cache.

They are installed at first use and never into the project's environment: jax and lamina cannot share a process.
"""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["SAME_JAXLIB", "alone", "interpreters"]

SAME_JAXLIB = "jax 0.10.2"  # the peer that stands on our jaxlib, for rows where jaxlib is the floor
# peer -> (minor versions of Python 3 it runs on, requirements)
PEERS = {
    "jax 0.12.0.1": ((12, 13), ("jax==0.12.0.1", "jaxlib==0.12.0.1")),
    SAME_JAXLIB: ((11, 12, 13), ("jax==0.10.2", "jaxlib==0.10.2")),
    "jax 0.4.30": ((11, 12), ("jax==0.4.30", "jaxlib==0.4.30", "numpy<2", "scipy<1.14")),
}
# differentiation of NumPy programs in Python, as lamina-autodiff is without a runtime; and what our rooms up to
# lamina-numpy need there
ALONE = "autograd 1.9", (11, 12, 13), ("autograd==1.9.1", "numpy>=2.0", "ml_dtypes>=0.5", "typing-extensions",
                                       "opt_einsum>=3.3")


def cache_folder() -> Path:
    """`$LAMINA_PEERS`, else a folder in the user's cache."""
    return Path(os.environ.get("LAMINA_PEERS") or
                Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lamina-peers")


def find_python(minors: tuple[int, ...]) -> str | None:
    """An interpreter of one of these versions: this one, one on PATH, or one that pyenv keeps."""
    if sys.version_info[1] in minors:
        return sys.executable
    for minor in minors:
        for path in (shutil.which(f"python3.{minor}"), *Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python")):
            if path and not subprocess.run([path, "-c", ""], capture_output=True).returncode:
                return str(path)
    return None


def _ready(name: str, minors: tuple[int, ...], requirements: tuple[str, ...]) -> str | None:
    """A peer's interpreter, after installing what is missing; None, aloud, where it cannot be had."""
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
    """Peer name -> its interpreter; a peer that cannot be had is left out."""
    found = {name: _ready(name, *needs) for name, needs in PEERS.items()}
    return {name: python for name, python in found.items() if python is not None}


def alone() -> str | None:
    """The interpreter of autograd's environment."""
    return _ready(*ALONE)
