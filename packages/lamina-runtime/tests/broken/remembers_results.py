"""Defect: a call returns the result of the first call with arguments of the same types."""
from lamina_runtime._default import *
from wrapped import wrap

__contract__ = 1


def remembering(run, spec):
    seen = {}

    def call(*args, **kwargs):
        key = str([(getattr(a, "shape", a), getattr(a, "dtype", type(a))) for a in args]) + str(sorted(kwargs))
        if key not in seen:
            seen[key] = run(*args, **kwargs)
        return seen[key]
    return call


wrap(jit=remembering)
