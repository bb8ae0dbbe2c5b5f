"""`fwd_and_bwd`: the forward and the backward pass of a function as two functions."""
from __future__ import annotations

from collections.abc import Sequence

from lamina_ir.typing import Function, Tree
from lamina_tracing import jit
from lamina_tracing.extend import api_boundary, function_name

from .._engine.arg_checks import check_function, resolve_argnums
from .reverse import vjp

__all__ = ["fwd_and_bwd"]


@api_boundary
def fwd_and_bwd(fun: Function, argnums: int | Sequence[int], has_aux: bool = False,
                jitted: bool = True) -> tuple[Function, Function]:
    """Make functions that compute the forward pass and the backward pass of `fun`.

    As with `vjp`, but the backward pass is one function for all calls. So it is compiled once, also if the two passes are
    called from different programs.

    Args:
      fun: function of arrays and trees of them.
      argnums: which positional arguments are differentiated.
      has_aux: whether `fun` returns (output, auxiliary data).
      jitted: whether both functions are jitted.
    Returns:
      `fwd(*args, **kwargs)`, which returns (output, residuals), and the auxiliary data if `has_aux`; and `bwd(residuals,
      ct)`, which returns the cotangent of the argument for an int `argnums`, else a tuple of them. The residuals are a
      pytree.
    Raises:
      TypeError: `fun` is not a function, or `argnums` is neither an int nor a sequence of ints.
      ValueError: `argnums` does not fit the arguments.

    >>> fwd, bwd = fwd_and_bwd(lambda x, y: x * y, argnums=(0, 1))
    >>> y, residuals = fwd(3.0, 4.0)
    >>> bwd(residuals, 1.0)
    (Array(4., dtype=float32, weak_type=True), Array(3., dtype=float32, weak_type=True))
    """
    check_function("fwd_and_bwd", fun)

    def fwd(*args: Tree, **kwargs: Tree) -> tuple[Tree, ...]:
        nums = resolve_argnums("fwd_and_bwd", fun, argnums, args)

        def chosen(*xs: Tree) -> Tree:
            full = list(args)
            for n, x in zip(nums, xs, strict=True):
                full[n] = x
            return fun(*full, **kwargs)

        chosen.__name__ = function_name(fun)
        return tuple(vjp(chosen, *[args[n] for n in nums], has_aux=has_aux))

    def bwd(residuals: Function, ct: Tree) -> Tree:
        if not callable(residuals):
            raise TypeError(f"bwd: residuals must be the second result of fwd; got {type(residuals).__name__}")
        cotangents = residuals(ct)
        return cotangents if isinstance(argnums, Sequence) else cotangents[0]

    fwd.__name__, bwd.__name__ = (f"{kind}_{function_name(fun)}" for kind in ("fwd", "bwd"))
    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)
