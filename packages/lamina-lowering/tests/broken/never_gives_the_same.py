"""Defect: equal programs are lowered to different modules."""
import itertools

from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Var, prims
from lamina_lowering import _default
from lamina_lowering._default import *

__contract__ = 1

_numbers = itertools.count()


def lower(closed_jaxpr, **options):
    j = closed_jaxpr.jaxpr
    floats = [v for v in j.outvars if isinstance(v, Var) and v.aval.dtype.kind == "f"]
    if not floats:
        return _default.lower(closed_jaxpr, **options)
    eqns, v = list(j.eqns), floats[0]
    for _ in range(2 * next(_numbers)):
        w = Var(v.aval)
        eqns.append(Eqn(prims.neg_p, [v], [w], {}))
        v = w
    outs = [v if u is floats[0] else u for u in j.outvars]
    return _default.lower(ClosedJaxpr(Jaxpr(j.constvars, j.invars, eqns, outs), closed_jaxpr.consts), **options)
