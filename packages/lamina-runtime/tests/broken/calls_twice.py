"""Defect: every call runs twice."""
from lamina_runtime._default import *
from wrapped import wrap

__contract__ = 1


def twice(run, spec):
    def call(*args, **kwargs):
        if not spec.donate_argnums:
            run(*args, **kwargs)
        return run(*args, **kwargs)
    return call


wrap(jit=twice)
