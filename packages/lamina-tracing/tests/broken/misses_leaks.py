"""Defect: leaks are not detected."""
from contextlib import nullcontext

from lamina_tracing._default import *

__contract__ = 1


def checking_leaks(check=True):
    return nullcontext()
