"""`custom_gradient`: a function that returns its value together with its own pullback."""
from __future__ import annotations


from lamina_ir import trees
from lamina_ir.typing import Function, Tree, Value
from lamina_tracing.extend import function_name, typeof, wraps

from .._engine.arg_checks import check_function, zeros_of
from .closure_convert import closure_convert
from .custom_vjp import custom_vjp

__all__ = ["custom_gradient"]


class _Residual:
    """Residual: a closure-converted vjp function and the values it closed over."""

    def __init__(self, rule: Function, values: list[Value], count: int) -> None:
        self.rule, self.values, self.count = rule, values, count


trees.register_pytree_node(_Residual, lambda h: (tuple(h.values), (h.rule, h.count)),
                           lambda aux, values: _Residual(aux[0], list(values), aux[1]))


def custom_gradient(fun: Function) -> Function:
    """Make a differentiable function from one that returns its value together with its pullback.

    Args:
      fun: `fun(*args) -> (output, vjp)`, where `vjp(cotangent of the output)` returns the cotangents of the arguments:
        one value for one argument, else a tuple.
    Returns:
      A function of the same arguments that returns `output`. Forward mode and higher orders work as for `custom_vjp`.

    >>> from lamina_autodiff import grad
    >>> grad(custom_gradient(lambda x: (x * x, lambda g: g * x)))(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    check_function("custom_gradient", fun)
    @wraps(fun)
    def value(*args: Tree) -> Tree:
        return fun(*args)[0]

    def fwd(*args: Tree) -> tuple[Tree, _Residual]:
        pair = fun(*args)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not callable(pair[1]):
            raise TypeError(f"custom_gradient: `{function_name(fun)}` must return a pair (output, vjp function)")
        out, rule = pair
        like = trees.tree_map(lambda o: zeros_of(typeof(o)), out)
        converted, values = closure_convert(rule, like)
        return out, _Residual(converted, values, len(args))

    def bwd(residual: _Residual, ct: Tree) -> tuple[Tree, ...]:
        back = residual.rule(ct, *residual.values)
        return (back,) if residual.count == 1 and not (isinstance(back, tuple) and len(back) == 1) else tuple(back)

    wrapped = custom_vjp(value)
    wrapped.defvjp(fwd, bwd)
    return wrapped
