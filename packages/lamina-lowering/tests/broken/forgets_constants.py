"""Defect: the constants of a program are replaced by zeros."""
import numpy as np
from lamina_ir import ClosedJaxpr
from lamina_lowering import _default
from lamina_lowering._default import *

__contract__ = 1


def lower(closed_jaxpr, **options):
    zeros = [np.zeros_like(c) for c in closed_jaxpr.consts]
    return _default.lower(ClosedJaxpr(closed_jaxpr.jaxpr, zeros), **options)
