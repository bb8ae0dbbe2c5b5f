"""Defect: eager `expm1` is `exp`."""
from lamina_ir import prims
from lamina_runtime._default import *
from lamina_tracing import hooks

__contract__ = 1


class Evaluator:
    def __init__(self, default):
        self.default = default

    def primitive(self, prim, args, params):
        return self.default.primitive(prims.exp_p if prim is prims.expm1_p else prim, args, params)

    def __getattr__(self, name):
        return getattr(self.default, name)

    def program(self, closed, args, *more):
        return self.default.program(closed, args, *more)

    def array(self, value, aval):
        return self.default.array(value, aval)


hooks.set_evaluator(Evaluator(hooks.evaluator))
