"""A third-party elementwise primitive: `softsign(x) = x / (1 + |x|)` (Turian, Bergstra and Bengio, 2009).

Its derivative `1 / (1 + |x|)**2` is `(1 - |y|)**2` of the result `y`: no second division, and no rounding of `1 + |x|`
for large `x`. This is the reason for a primitive; as a function of other primitives it would need no rules.
"""
from __future__ import annotations

from typing import Any

import numpy as np
from lamina_autodiff.extend import def_elementwise_jvp
from lamina_batching.extend import batching_rules
from lamina_ir import DTypeError, Primitive, ShapedArray, dtypes
from lamina_ir.extend import register_primitive
from lamina_ir.testing.samples import floats, sample
from lamina_lowering.extend import lowering_rules
from lamina_tracing import lax
from lamina_tracing.extend import bind

from .bounds import bounds_rules, increasing
from .numpy_text import numpy_text_rules

__all__ = ["softsign", "softsign_p"]


def _infer(x: ShapedArray) -> ShapedArray:
    if not dtypes.is_float(x.dtype):
        raise DTypeError(f"softsign: operand must be a float array; got {x.str_long()}")
    return x


@np.errstate(invalid="ignore")  # infinity gives NaN, as in compiled programs, without a warning
def _numpy(x: np.ndarray) -> np.ndarray:
    return (x / (1 + np.abs(x))).astype(x.dtype)


# 1. The facts: type rule, NumPy implementation, source. It is registered so that saved programs find it by name.
softsign_p = Primitive("softsign", family="elementwise", elementwise=True, infer=_infer, numpy=_numpy,
                       spec="Turian, Bergstra and Bengio (2009)")
register_primitive(softsign_p)

# 2. Sample inputs for the tests of every package.
sample(softsign_p, floats(2, 3))
sample(softsign_p, floats())


# 3. The public function.
def softsign(x: Any) -> Any:
    """Compute `x / (1 + |x|)`, elementwise.

    Args:
      x: float array of any shape.
    Returns:
      Array of the shape and dtype of `x`, between -1 and 1.
    Raises:
      DTypeError: `x` is not a float.

    >>> softsign(np.float32([-1, 0, 3]))
    Array([-0.5 ,  0.  ,  0.75], dtype=float32)
    """
    return bind(softsign_p, x)


# 4. Rules: one per table, in the tables of lamina and of this package.
def_elementwise_jvp(softsign_p, lambda x, ans: lax.square(lax.sub(lax.full_like(ans, 1), lax.abs(ans))))
batching_rules.define(softsign_p, lambda axis, args, dims, /: (softsign(args[0]), dims[0]))


def _lowering(ctx: Any, x: Any, /) -> Any:
    aval = ctx.aval_out
    size = ctx.op("stablehlo.add", (ctx.op("stablehlo.abs", (x,), aval), ctx.const(1, aval)), aval)
    return ctx.op("stablehlo.divide", (x, size), aval)


lowering_rules.define(softsign_p, _lowering)
bounds_rules.define(softsign_p, increasing(softsign_p))
numpy_text_rules.define(softsign_p, lambda use, x, /: use.cast(f"{x} / (1 + np.abs({x}))"))
