"""Defect: custom JVP rules are ignored."""
from lamina_autodiff._default import *

__contract__ = 1


class custom_jvp:
    def __init__(self, fun, nondiff_argnums=()):
        self.fun = fun

    def defjvp(self, rule, symbolic_zeros=False):
        return rule

    def __call__(self, *args, **kwargs):
        return self.fun(*args, **kwargs)
