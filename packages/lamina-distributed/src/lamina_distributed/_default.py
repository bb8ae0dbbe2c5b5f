"""The default implementation of the package, re-exported by `__init__`.

A plugin that changes a few names starts with `from lamina_distributed._default import *`.
"""
from lamina_tracing.extend import hide_frames_of

from ._elastic.newest_state import share_newest_state
from ._elastic.waiting import has_waiting_processes
from ._session import (AgreementError, CollectiveTimeoutError, CoordinatorLostError, LaunchFailedError, ProcessLostError,
                       initialize, is_initialized, shutdown)
from ._version import __version__

__all__ = ["AgreementError", "CollectiveTimeoutError", "CoordinatorLostError", "LaunchFailedError", "ProcessLostError",
           "__version__", "has_waiting_processes", "initialize", "is_initialized", "share_newest_state", "shutdown"]

hide_frames_of(__file__.rsplit("/", 1)[0])
