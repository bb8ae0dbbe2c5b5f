"""Defect: `shutdown` does nothing."""
from lamina_distributed._default import *

__contract__ = 1


def shutdown():
    """Stay in the group."""
