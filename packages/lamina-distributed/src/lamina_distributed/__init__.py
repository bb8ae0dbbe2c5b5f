"""Several processes as one system: after `initialize` in each of them, `devices()` lists the devices of all.

`python -m lamina_distributed.launch` starts the processes of a program on one machine. `multihost_utils` broadcasts and
gathers between processes. `docs/how-to/several-processes/processes.md` describes the sockets between them, and the shutdown.
"""
from . import _version as _version  # first: it checks the versions of sibling packages
from lamina_tracing.extend import hide_frames_of as _hide_frames_of

from ._session import (AgreementError, CollectiveTimeoutError, CoordinatorLostError, LaunchFailedError, ProcessLostError,
                       initialize, is_initialized, shutdown)
from ._version import __version__

__all__ = ["AgreementError", "CollectiveTimeoutError", "CoordinatorLostError", "LaunchFailedError", "ProcessLostError",
           "__version__", "initialize", "is_initialized", "shutdown"]

_hide_frames_of(__file__.rsplit("/", 1)[0])
