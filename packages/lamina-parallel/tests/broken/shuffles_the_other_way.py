"""`pshuffle` sends where it should fetch."""
import numpy as np
from lamina_parallel import stock
from lamina_parallel.stock import *

__contract__ = 1


def pshuffle(x, axis_name, perm):
    return stock.pshuffle(x, axis_name, np.argsort(perm).tolist())
