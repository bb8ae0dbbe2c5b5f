"""Defect: every public function does nothing."""
from lamina_distributed._default import *

__contract__ = 1


def nothing(*args, **kwargs):
    """Do nothing."""


initialize = is_initialized = shutdown = nothing
