"""Every call traces the function anew."""
from lamina_parallel import stock
from lamina_parallel.stock import *

__contract__ = 1


def pmap(fun=None, axis_name=None, **options):
    stock.pmap(fun, axis_name, **options)  # refuses what it should

    def run(*args, **kwargs):
        return stock.pmap(lambda *a, **k: fun(*a, **k), axis_name, **options)(*args, **kwargs)
    return run if fun is not None else stock.pmap(fun, axis_name, **options)
