"""Build reverse mode (`vjp`, `grad`, ...) on another linearizer, with the same arguments, checks and error messages.

The default linearizer records the linear part while a function runs and transposes it (`engine.linearize`). Another one
may recompute the linear part, save fewer residuals, or push basis vectors forward. A linearizer is one function; the
rule tables stay the same.
"""
from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from lamina_ir.typing import Function, Tree
from lamina_tracing.extend import api_boundary

from . import jacobians, reverse
from .jacobians import jacfwd
from .reverse import Linearize, LinearizedFunction

__all__ = ["Linearize", "LinearizedFunction", "ReverseMode", "make_reverse_mode"]


class ReverseMode(NamedTuple):
    """The public functions of reverse mode.

    Attributes:
      vjp, value_and_grad, grad, jacrev, hessian: with the signatures of `lamina_autodiff`.

    >>> ReverseMode._fields
    ('vjp', 'value_and_grad', 'grad', 'jacrev', 'hessian')
    """

    vjp: Function
    value_and_grad: Function
    grad: Function
    jacrev: Function
    hessian: Function


def make_reverse_mode(linearize: Linearize) -> ReverseMode:
    """Make the functions of reverse mode from a linearizer.

    Args:
      linearize: `linearize(fun, primals, active)` runs `fun`, a function of flat arguments that returns a list of flat
        results. It returns the results and a `LinearizedFunction`, which pulls cotangents of the results back to the
        arguments marked in `active`.
    Returns:
      `vjp`, `value_and_grad`, `grad`, `jacrev`, `hessian`.

    >>> from lamina_autodiff import jvp
    >>> class Derivative:  # of a function of one number
    ...     def __init__(self, outs, derivative):
    ...         self.outs, self.derivative = outs, derivative
    ...     def backward(self, cts, *, free=False):
    ...         return [self.derivative * cts[0]]
    >>> def linearize_forward(fun, primals, active):
    ...     outs, derivatives = jvp(fun, primals, [1.0])
    ...     return outs, Derivative(outs, derivatives[0])
    >>> make_reverse_mode(linearize_forward).grad(lambda x: x * x)(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    @api_boundary
    def vjp(fun: Function, *primals: Tree, has_aux: bool = False,
            reduce_axes: Sequence[Hashable] = ()) -> tuple[Tree, ...]:
        return reverse.vjp_impl(linearize, fun, primals, has_aux, reduce_axes)

    @api_boundary
    def value_and_grad(fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False,
                       holomorphic: bool = False, allow_int: bool = False,
                       reduce_axes: Sequence[Hashable] = ()) -> Function:
        return reverse.value_and_grad_impl(linearize, "value_and_grad", fun, argnums, has_aux, holomorphic, allow_int,
                                           reduce_axes)

    @api_boundary
    def grad(fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
             allow_int: bool = False, reduce_axes: Sequence[Hashable] = ()) -> Function:
        return reverse.grad_impl(linearize, fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    def jacrev(fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
               allow_int: bool = False) -> Function:
        return jacobians.jacrev_impl(vjp, fun, argnums, has_aux, holomorphic, allow_int)

    def hessian(fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False,
                holomorphic: bool = False) -> Function:
        return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux=has_aux, holomorphic=holomorphic)

    made = ReverseMode(vjp, value_and_grad, grad, jacrev, hessian)
    defaults: list[Function] = [reverse.vjp, reverse.value_and_grad, reverse.grad, jacobians.jacrev, jacobians.hessian]
    return ReverseMode(*[functools.update_wrapper(f, g) for f, g in zip(made, defaults)])
