"""A position outside of an array reads as zero."""
import numpy as np
from lamina_numpy.stock import *
from lamina_tracing import slots

__contract__ = 1

_get = slots.operators.tracer_table["__getitem__"]


def _read(self, index):
    if isinstance(index, np.ndarray) and index.dtype.kind == "i" and index.ndim == 1 and self.ndim == 1:
        return self.at[index].get(mode="fill", fill_value=0)
    return _get(self, index)


slots.operators.install({"__getitem__": _read}, {"__getitem__": _read})
