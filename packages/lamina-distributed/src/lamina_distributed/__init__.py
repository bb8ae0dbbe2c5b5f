"""Several processes as one system: after `initialize` in each of them, `devices()` lists the devices of all.

`python -m lamina_distributed.launch` starts the processes of a program on one machine. `multihost_utils` broadcasts and
gathers between processes. `docs/design/processes.md` describes the states of a process and the exceptions.
"""
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import _version  # noqa: F401  first: it checks the versions of the sibling packages
from lamina_ir.layers import reexport_implementation as _fill

if _TYPE_CHECKING:
    from ._default import *
    from ._default import __all__ as __all__

_fill(globals())
