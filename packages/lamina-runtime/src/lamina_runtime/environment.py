"""Report versions, devices and the machine."""
from __future__ import annotations

import platform
import sys

import numpy as np
from lamina_ir.layers import layers

from . import _jaxlib
from ._backend import backends
from ._version import __version__

__all__ = ["print_environment_info"]


def print_environment_info(return_string: bool = False) -> str | None:
    """Print versions, devices and the machine, for bug reports.

    Args:
      return_string: return the text instead of printing it.
    Returns:
      The text, or None.

    >>> print(print_environment_info(return_string=True).splitlines()[0])
    lamina: ...
    """
    devices = backends.devices()
    packages = [f"  {x.layer}: {x.module} {x.version} of {x.distribution or 'no distribution'} ({x.chosen}, "
             f"contract {x.contract}), {x.file or 'not loaded'}" for x in layers()]
    text = "\n".join([
        f"lamina: {__version__} (lamina-runtime)", f"jaxlib: {_jaxlib.VERSION}", f"numpy:  {np.__version__}",
        f"python: {sys.version}".replace("\n", " "),
        f"devices ({len(devices)} total, {backends.local_device_count()} local): {devices[:8]}",
        f"process_count: {backends.process_count()}", f"platform: {platform.uname()}",
        "layers:", *packages])
    if return_string:
        return text
    print(text)
    return None
