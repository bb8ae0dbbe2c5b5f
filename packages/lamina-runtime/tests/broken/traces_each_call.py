"""Defect: every call traces the function again."""
from lamina_runtime._default import *
from wrapped import wrap

__contract__ = 1


def retrace(run, spec):
    def call(*args, **kwargs):
        spec.programs.clear()
        clear_caches()
        return run(*args, **kwargs)
    return call


wrap(jit=retrace)
