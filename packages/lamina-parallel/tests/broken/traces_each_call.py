"""Defect: every call traces the function again."""
from lamina_parallel import _default
from lamina_parallel._default import *

__contract__ = 1


def pmap(fun=None, axis_name=None, **options):
    _default.pmap(fun, axis_name, **options)  # raises for invalid options

    def run(*args, **kwargs):
        return _default.pmap(lambda *a, **k: fun(*a, **k), axis_name, **options)(*args, **kwargs)
    return run if fun is not None else _default.pmap(fun, axis_name, **options)
