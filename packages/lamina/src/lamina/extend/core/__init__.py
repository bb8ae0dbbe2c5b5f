"""`lamina.extend.core`: programs as data, from `lamina_ir`, and `primitives`, every op by its name.

An interpreter of programs is a loop over equations:

>>> import lamina
>>> from lamina.extend.core import Literal
>>> def run(closed, *args):
...     env = dict(zip([*closed.jaxpr.constvars, *closed.jaxpr.invars], [*closed.consts, *args]))
...     read = lambda v: v.val if type(v) is Literal else env[v]
...     for eqn in closed.jaxpr.eqns:
...         functions, params = eqn.primitive.get_bind_params(eqn.params)
...         out = eqn.primitive.bind(*functions, *map(read, eqn.invars), **params)
...         env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out]))
...     return [read(v) for v in closed.jaxpr.outvars]
>>> run(lamina.make_jaxpr(lambda x: lamina.numpy.sin(x) * 2)(1.0), 0.5)
[Array(0.9588511, dtype=float32, weak_type=True)]
"""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir import ClosedJaxpr, Jaxpr, Literal, Primitive, Var
from lamina_ir import Eqn as JaxprEqn
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_tracing.extend import array_types, jaxpr_as_fun
from lamina_tracing.lax import Token

from . import primitives

__all__ = ["ClosedJaxpr", "Jaxpr", "JaxprEqn", "Literal", "Primitive", "Token", "Var", "array_types", "jaxpr_as_fun",
           "primitives"]

_explain_absent_names(globals())
