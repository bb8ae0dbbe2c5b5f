"""Defect: the results of a pmap are moved to the first device."""
from lamina_runtime._default import *
from wrapped import wrap

__contract__ = 1


def on_the_first(run, spec):
    return lambda *args, **kwargs: device_put(run(*args, **kwargs), devices()[0])


wrap(pmap=on_the_first)
