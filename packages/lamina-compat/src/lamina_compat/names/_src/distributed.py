"""`jax._src.distributed`: the processes of a program."""
from typing import Any

from lamina_runtime import distributed, process_count, process_index

__all__ = ["global_state"]


class _GlobalState:
    """What libraries read about the processes; lamina connects them by itself (`jax.distributed.initialize`)."""

    process_id = property(lambda self: process_index(), doc="The index of this process.")
    num_processes = property(lambda self: process_count(), doc="The number of processes.")
    service = None
    preemption_sync_manager = None

    @property
    def client(self) -> Any:
        """None in a program of one process; RuntimeError in a program of several processes."""
        if process_count() == 1:
            return None
        raise RuntimeError("global_state.client: lamina has no client of JAX's coordination service; use "
                           "jax.experimental.multihost_utils to synchronize processes")


global_state = _GlobalState()
