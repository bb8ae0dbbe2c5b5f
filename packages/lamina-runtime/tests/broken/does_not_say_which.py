"""Defect: errors do not name the argument."""
from lamina_runtime._default import *
from wrapped import wrap

__contract__ = 1


def without_details(run, spec):
    def call(*args, **kwargs):
        try:
            return run(*args, **kwargs)
        except TypeError:
            raise TypeError("that cannot be") from None
    return call


wrap(jit=without_details)
