"""Find out whether a process waits to join the group."""
from __future__ import annotations

import numpy as np
from lamina_ir import prims
from lamina_runtime.extend.processes import AXIS, all_process_collective, process_count

from .. import _session

__all__ = ["has_waiting_processes"]


def has_waiting_processes() -> bool:
    """Return whether a process waits to join the group. All processes must call this, and get the same answer.

    Call it between two steps of a group that has fewer processes than `num_processes`. If it is true, all processes call
    `shutdown()` and `initialize(...)` again, with the arguments that they have used before. It is true only for groups
    that were formed with `min_processes`. It costs one small collective.

    Raises:
      ProcessLostError: a process was lost meanwhile.

    >>> has_waiting_processes()
    False
    """
    own = _session.is_awaited()
    count = process_count()
    if count == 1:
        return own
    # The coordinator reports to each process at another moment, so they exchange what they know.
    return bool(all_process_collective(prims.psum_p, np.array([own], np.uint32), count, axes=(AXIS,),
                                       axis_index_groups=None)[0])
