"""Defect: donated arguments are not deleted."""
from lamina_ir import trees
from lamina_runtime._default import *
from wrapped import wrap

__contract__ = 1


def on_copies(run, spec):
    def call(*args, **kwargs):
        return run(*trees.tree_map(lambda x: x.copy() if isinstance(x, Array) else x, args), **kwargs)
    return call if spec.donate_argnums else run


wrap(jit=on_copies)
