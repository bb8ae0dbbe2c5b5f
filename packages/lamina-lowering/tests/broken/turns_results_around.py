"""Defect: the results are returned in reverse order."""
from lamina_ir import ClosedJaxpr, Jaxpr
from lamina_lowering import _default
from lamina_lowering._default import *

__contract__ = 1


def lower(closed_jaxpr, **options):
    j = closed_jaxpr.jaxpr
    return _default.lower(ClosedJaxpr(Jaxpr(j.constvars, j.invars, j.eqns, j.outvars[::-1]), closed_jaxpr.consts), **options)
