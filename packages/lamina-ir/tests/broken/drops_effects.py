"""Defect: `dce` also drops effects."""
import lamina_ir
from lamina_ir import ClosedJaxpr, Jaxpr

_dce = lamina_ir.dce


def dce(program, used_outputs=None, *, instantiate=False):
    keep = [e for e in program.eqns if not e.primitive.effectful]
    j = program.jaxpr
    quiet = ClosedJaxpr(Jaxpr(j.constvars, j.invars, keep, j.outvars), program.consts)
    return _dce(quiet, used_outputs, instantiate=instantiate)


lamina_ir.dce = dce
