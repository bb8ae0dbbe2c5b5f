"""Defect: the last process is the first."""
from lamina_distributed import _default
from lamina_distributed._default import *

__contract__ = 1


def initialize(coordinator_address=None, num_processes=None, process_id=None, **more):
    valid = type(num_processes) is int and type(process_id) is int and 0 <= process_id < num_processes
    _default.initialize(coordinator_address, num_processes, num_processes - 1 - process_id if valid else process_id, **more)
