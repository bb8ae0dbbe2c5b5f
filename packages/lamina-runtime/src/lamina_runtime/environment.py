"""Report what a bug report needs: versions, devices, processes, the machine, settings and environment variables."""
from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable, Iterable

import numpy as np
from lamina_ir.config import options
from lamina_ir.layers import layers

from . import _jaxlib
from ._backend import backends
from ._version import __version__

__all__ = ["print_environment_info"]

# Environment variables that change what lamina, jaxlib or NumPy do. Others are private to the user.
_VARIABLES = ("LAMINA_", "JAX_", "JAX2TF_", "JAXLIB_", "XLA_", "TF_CPP_", "ABSL_", "GLOG_", "LIBTPU_", "TPU_", "CUDA_",
              "NVIDIA_", "NCCL_", "HIP_", "ROCR_", "OMP_", "OPENBLAS_", "MKL_", "NPY_", "PYTHONHASHSEED",
              "PYTHONOPTIMIZE", "PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "MALLOC_")
# Names of secrets. Random keys are none, nor are the keys of caches.
_SECRET = "(?i)TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|CERT|(?<!PRNG_)(?<!CACHE_)KEY(?!_REUSE)"
_USER_OF_ADDRESS = r"(?<=://)[^/@\s]*@"
_MAX_DEVICES = 8
_MAX_TEXT = 300


def print_environment_info(return_string: bool = False) -> str | None:
    """Print versions, devices, the machine and changed settings, for bug reports.

    The text has the versions of all packages of lamina, of jaxlib, NumPy and Python, and devices and processes. Then
    follow the implementation of each layer, settings that differ from their defaults, and environment variables that
    change the behaviour of lamina, jaxlib or NumPy. It has no host name. The home folder is shown as `~`, and values of
    variables and settings whose name suggests a secret are hidden. It starts the default backend, like `devices`. A part
    that cannot be read is shown with the error; the function does not raise.

    Args:
      return_string: return the text instead of printing it.
    Returns:
      The text, or None.

    Source: `jax.print_environment_info`, which has the same parameter.

    >>> print(print_environment_info(return_string=True).splitlines()[0])
    lamina: ...
    """
    sections: tuple[tuple[str, Callable[[], str | Iterable[str]]], ...] = (
        ("lamina", lambda: f"{_version('lamina') or __version__} (lamina-runtime {__version__})"),
        ("jaxlib", lambda: _jaxlib.VERSION), ("numpy", lambda: np.__version__),
        ("python", lambda: " ".join(sys.version.split())),
        ("device info", _describe_devices), ("process_count", lambda: str(backends.process_count())),
        ("platform", _describe_platform), ("packages", _list_packages), ("layers", _list_layers),
        ("settings that differ from their defaults", _list_settings), ("environment variables", _list_variables))
    text = "\n".join([_format_section(title, read) for title, read in sections])
    if return_string:
        return text
    print(text)
    return None


def _format_section(title: str, read: Callable[[], str | Iterable[str]]) -> str:
    try:
        found = read()
        if isinstance(found, str):
            return f"{title}: {found}"
        lines = list(found)
    except Exception as error:  # a report of a broken installation is most useful of all
        return f"{title}: not available ({type(error).__name__}: {_shorten(str(error))})"
    return "\n".join([f"{title}:", *[f"  {line}" for line in lines]]) if lines else f"{title}: none"


def _shorten(text: str) -> str:
    home = os.path.expanduser("~")
    text = re.sub(_USER_OF_ADDRESS, "<hidden>@", " ".join(text.split()))
    if len(home) > 1:
        text = text.replace(home, "~")
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "..."


def _version(distribution: str) -> str | None:
    from importlib import metadata  # noqa: PLC0415 (on demand: takes milliseconds to import)
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _describe_devices() -> str:
    devices = backends.devices()
    kinds = ", ".join(sorted({str(d.device_kind) for d in devices}))
    shown = f"{', '.join(map(str, devices[:_MAX_DEVICES]))}{', ...' if len(devices) > _MAX_DEVICES else ''}"
    return (f"{kinds}-{len(devices)}, {backends.local_device_count()} local devices, process "
            f"{backends.process_index()}: {shown}")


def _describe_platform() -> str:
    found = platform.uname()  # without its node: the host name is private
    return f"{found.system} {found.release} {found.version} {found.machine}, {os.cpu_count()} CPU cores"


def _list_packages() -> list[str]:
    """Return the loaded and the installed packages of lamina, with their versions."""
    from importlib import metadata  # noqa: PLC0415 (on demand: takes milliseconds to import)
    versions = {name.replace("-", "_"): version for found in metadata.distributions()
                if (name := str(found.name)).startswith("lamina") for version in [f"{found.version}, installed"]}
    for name, module in list(sys.modules.items()):
        if name.startswith("lamina") and "." not in name and hasattr(module, "__version__"):
            versions[name] = f"{module.__version__}, loaded"
    return [f"{name.replace('_', '-')}: {version}" for name, version in sorted(versions.items())]


def _list_layers() -> list[str]:
    """Return the implementation of each layer."""
    described = []
    for found in layers():
        file = _shorten(found.file) if found.file else "not loaded"
        described.append(f"{found.layer}: {found.module} {found.version} of {found.distribution or 'no distribution'} "
                         f"({found.chosen}, contract {found.contract}), {file}")
    return described


def _list_settings() -> list[str]:
    """Return the settings whose value in this thread is not the initial default, aliases left out."""
    changed = []
    for name, option in sorted(options.items()):
        value = option.value
        if name == option.name and (type(value) is not type(option.initial) or value != option.initial):
            is_secret = type(value) is str and re.search(_SECRET, name)
            changed.append(f"{name} = {'<hidden>' if is_secret else _shorten(repr(value))}")
    return changed


def _list_variables() -> list[str]:
    return [f"{name}={'<hidden>' if re.search(_SECRET, name) else _shorten(value)}"
            for name, value in sorted(os.environ.items()) if name.startswith(_VARIABLES)]
