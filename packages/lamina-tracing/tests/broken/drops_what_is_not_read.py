"""Defect: programs lack effects and unused equations."""
from lamina_ir import Jaxpr, ClosedJaxpr
from lamina_tracing import _default
from lamina_tracing._default import *

__contract__ = 1


def make_jaxpr(fun, *args, **options):
    def made(*xs, **kw):
        out = _default.make_jaxpr(fun, *args, **options)(*xs, **kw)
        closed = out[0] if isinstance(out, tuple) else out
        read = {id(v) for v in closed.jaxpr.outvars}
        kept = []
        for e in reversed(closed.eqns):
            if any(id(v) in read for v in e.outvars):
                kept.append(e)
                read |= {id(v) for v in e.invars}
        j = closed.jaxpr
        short = ClosedJaxpr(Jaxpr(j.constvars, j.invars, kept[::-1], j.outvars), closed.consts)
        return (short, out[1]) if isinstance(out, tuple) else short
    return made
