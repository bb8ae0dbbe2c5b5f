"""Defect: `disable_jit` does nothing."""
from contextlib import nullcontext

from lamina_tracing._default import *

__contract__ = 1


def disable_jit(disable=True):
    return nullcontext()
