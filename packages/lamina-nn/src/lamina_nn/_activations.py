"""Activations: functions of each element, and `glu` of two halves.

Where a function has a corner its derivative there is the one that the formula on its left or right has; which, the
docstring says.
`_piece` gives a function of two pieces one derivative: that of the first piece where it holds, none elsewhere.
"""
from __future__ import annotations

import math
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir import ShapeError, dtypes
from lamina_ir.extend import docstring_entries
from lamina_numpy.extend import public_api, to_inexact
from lamina_tracing import Array, ArrayLike, lax
from lamina_tracing.extend import check_axis, typeof

__all__ = ["celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_tanh", "identity", "leaky_relu", "log1mexp",
           "log_sigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign", "softplus", "sparse_plus",
           "sparse_sigmoid", "squareplus", "tanh"]

_ACTIVATION = docstring_entries("""
    x: number array of any shape; integers and booleans become float.
    alpha: the limit at minus infinity is `-alpha`; broadcasts to `x`.
    result: Float array of the shape of `x`.
    common: Float array of the shape that `x` and `alpha` broadcast to.
    TypeError: `x` is neither an array nor a number.
    """)
_SCALED = {**_ACTIVATION, **docstring_entries("""
    TypeError: `x` or `alpha` is neither an array nor a number.
    ShapeError: `x` and `alpha` do not broadcast to each other.
    """)}

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def _whole(d: np.dtype) -> bool:
    """Return whether numbers of a dtype become weak floats, as in operations with Python floats."""
    return dtypes.is_bool(d) or dtypes.is_integer(d)


def _piece(inside: Any, x: Any, value: Any) -> Any:
    """`value`, with the derivative of `x` where `inside` holds (there both are equal) and none elsewhere."""
    return lnp.where(inside, x, lax.stop_gradient(value))


@public_api(entries=_ACTIVATION)
def identity(x: ArrayLike) -> Array:
    """`x` itself, as an array.

    Args:
      x: array of any shape and dtype.
    Returns:
      Array of the shape and dtype of `x`.
    Raises: {TypeError}

    Source: where a network asks for an activation and there is to be none.

    >>> identity(np.array([-1., 2.]))
    Array([-1.,  2.], dtype=float32)
    """
    return lnp.asarray(x)


@public_api(entries=_ACTIVATION)
def relu(x: ArrayLike) -> Array:
    """`max(x, 0)`.

    Args:
      x: number array of any shape.
    Returns:
      Array of the shape and dtype of `x`; booleans become integers.
    Raises: {TypeError}

    Derivative: 1 where x is positive, else 0; at zero 0.
    Source: Nair and Hinton, "Rectified linear units improve restricted Boltzmann machines" (2010).

    >>> relu(np.array([-1., 0., 2.]))
    Array([0., 0., 2.], dtype=float32)
    """
    top = lnp.maximum(x, 0)
    return _piece(lnp.greater(x, 0), x, top) if dtypes.is_inexact(typeof(x).dtype) else top


@public_api(entries=_ACTIVATION)
def relu6(x: ArrayLike) -> Array:
    """`min(max(x, 0), 6)`.

    Args: {x}
    Returns: {result}
    Raises: {TypeError}

    Derivative: 1 where x is between 0 and 6, else 0; at both ends 0.
    Source: Krizhevsky, "Convolutional deep belief networks on CIFAR-10" (2010).

    >>> relu6(np.array([-1., 2., 9.]))
    Array([0., 2., 6.], dtype=float32)
    """
    x = to_inexact("relu6", x, _whole)
    return _piece(lax.bitwise_and(lnp.greater(x, 0), lnp.less(x, 6)), x, lnp.minimum(lnp.maximum(x, 0), 6))


def _logistic(x: Any) -> Any:
    """Of float16 by way of float32: far below 0 its exponential overflows."""
    if typeof(x).dtype != np.float16:
        return lax.logistic(x)
    return lax.convert_element_type(lax.logistic(lax.convert_element_type(x, np.float32)), np.float16)


@public_api(entries=_ACTIVATION)
def sigmoid(x: ArrayLike) -> Array:
    """`1 / (1 + exp(-x))`, in [0, 1].

    Args: {x}
    Returns: {result}
    Raises: {TypeError}

    Derivative: `y (1 - y)`, y the result: 0 where that is rounded to 1, where `lamina.scipy.special.expit` has one.
    Source: the logistic function.

    >>> sigmoid(np.array([-np.inf, 0., 100.]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return _logistic(to_inexact("sigmoid", x))


@public_api(entries=_ACTIVATION)
def tanh(x: ArrayLike) -> Array:
    """Hyperbolic tangent, in [-1, 1].

    Args: {x}
    Returns: {result}
    Raises: {TypeError}

    Derivative: `1 - y**2`, y the result.
    Source: meaning of `numpy.tanh`.

    >>> tanh(np.array([-np.inf, 0., 100.]))
    Array([-1.,  0.,  1.], dtype=float32)
    """
    return lax.tanh(to_inexact("tanh", x))


@public_api(entries=_ACTIVATION)
def softplus(x: ArrayLike) -> Array:
    """`log(1 + exp(x))`, without overflow on the way.

    Args: {x}
    Returns: {result}
    Raises: {TypeError}

    Derivative: `sigmoid(x)`.
    Source: Dugas et al., "Incorporating second-order functional knowledge for better option pricing" (2001).

    >>> softplus(np.array([-np.inf, 1000.]))
    Array([   0., 1000.], dtype=float32)
    """
    return lnp.logaddexp(to_inexact("softplus", x, dtypes.is_bool), 0.0)


@public_api(entries=_ACTIVATION)
def log_sigmoid(x: ArrayLike) -> Array:
    """`log(sigmoid(x))`, precise where the sigmoid is near 0 or 1.

    Args: {x}
    Returns:
      Float array of the shape of `x`, not above 0.
    Raises: {TypeError}

    Derivative: `sigmoid(-x)`.
    Source: `-softplus(-x)`.

    >>> log_sigmoid(np.array([-1000., np.inf]))
    Array([-1000.,    -0.], dtype=float32)
    """
    return lax.neg(softplus(lax.neg(to_inexact("log_sigmoid", x))))


@public_api(entries=_ACTIVATION)
def soft_sign(x: ArrayLike) -> Array:
    """`x / (abs(x) + 1)`, in (-1, 1).

    Args: {x}
    Returns:
      Float array of the shape of `x`; NaN at an infinity.
    Raises: {TypeError}

    Derivative: `1 / (abs(x) + 1)**2`.
    Source: Turian, Bergstra and Bengio, "Quadratic features and deep architectures for chunking" (2009).

    >>> soft_sign(np.array([-1., 0., 3.]))
    Array([-0.5 ,  0.  ,  0.75], dtype=float32)
    """
    x = to_inexact("soft_sign", x, dtypes.is_bool)
    return lnp.divide(x, lnp.abs(x) + 1)


@public_api(entries=_ACTIVATION)
def silu(x: ArrayLike) -> Array:
    """`x sigmoid(x)`, also called swish.

    Args: {x}
    Returns:
      Float array of the shape of `x`; NaN at minus infinity.
    Raises: {TypeError}

    Derivative: `s + x s (1 - s)`, s the sigmoid of x.
    Source: Elfwing, Uchibe and Doya, "Sigmoid-weighted linear units for neural network function approximation" (2018).

    >>> silu(np.array([0., 20.]))
    Array([ 0., 20.], dtype=float32)
    """
    x = to_inexact("silu", x)
    return lax.mul(x, _logistic(x))


swish = silu


@public_api(entries=_ACTIVATION)
def mish(x: ArrayLike) -> Array:
    """`x tanh(softplus(x))`.

    Args: {x}
    Returns:
      Float array of the shape of `x`; NaN at minus infinity.
    Raises: {TypeError}

    Source: Misra, "Mish: a self regularized non-monotonic activation function" (2019).

    >>> mish(np.array([0., 20.]))
    Array([ 0., 20.], dtype=float32)
    """
    x = to_inexact("mish", x, dtypes.is_bool)
    return lax.mul(x, lax.tanh(softplus(x)))


@public_api(entries=_SCALED)
def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """`x` where it is positive, else `alpha (exp(x) - 1)`.

    Args: {x, alpha}
    Returns: {common}
    Raises: {TypeError, ShapeError}

    Derivative: 1 where x is positive, else `alpha exp(x)`; at zero alpha.
    Source: Clevert et al., "Fast and accurate deep network learning by exponential linear units" (2015).

    >>> elu(np.array([-np.inf, 0., 2.]))
    Array([-1.,  0.,  2.], dtype=float32)
    """
    x = to_inexact("elu", x, _whole)
    positive = lnp.greater(x, 0)
    low = lax.expm1(lnp.where(positive, 0, x))  # no large positive numbers: their derivative would be infinite, times zero
    return lnp.where(positive, x, lnp.multiply(alpha, low))


@public_api(entries=_ACTIVATION)
def selu(x: ArrayLike) -> Array:
    """`elu` scaled so that layer by layer mean 0 and variance 1 are kept.

    Args: {x}
    Returns:
      Float array of the shape of `x`: 1.0507 times `elu(x, 1.67326)`.
    Raises: {TypeError}

    Derivative: at zero that from the left, 1.7581.
    Source: Klambauer et al., "Self-normalizing neural networks" (2017).

    >>> [round(float(y), 4) for y in selu(np.array([-np.inf, 0., 1.]))]
    [-1.7581, 0.0, 1.0507]
    """
    return lnp.multiply(_SELU_SCALE, elu(to_inexact("selu", x, _whole), _SELU_ALPHA))


@public_api(entries=_SCALED)
def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """`x` where it is positive, else `alpha (exp(x / alpha) - 1)`.

    Args: {x, alpha}
    Returns: {common}
    Raises: {TypeError, ShapeError}

    Derivative: continuous; 1 where x is positive, else `exp(x / alpha)`.
    Source: Barron, "Continuously differentiable exponential linear units" (2017).

    >>> celu(np.array([-np.inf, 0., 2.]), 2.0)
    Array([-2.,  0.,  2.], dtype=float32)
    """
    x = to_inexact("celu", x, _whole)
    positive = lnp.greater(x, 0)
    low = lnp.expm1(lnp.divide(lnp.where(positive, 0, x), alpha))
    return lnp.where(positive, x, lnp.multiply(alpha, low))


@public_api()
def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> Array:
    """`x` where it is not negative, else `negative_slope x`.

    Args:
      x: number array of any shape; integers and booleans become float.
      negative_slope: the derivative below zero; broadcasts to `x`.
    Returns:
      Float array of the shape `x` and `negative_slope` broadcast to.
    Raises:
      TypeError: `x` or `negative_slope` is neither an array nor a number.
      ShapeError: `x` and `negative_slope` do not broadcast to each other.

    Derivative: at zero 1.
    Source: Maas, Hannun and Ng, "Rectifier nonlinearities improve neural network acoustic models" (2013).

    >>> leaky_relu(np.array([-100., 0., 2.]))
    Array([-1.,  0.,  2.], dtype=float32)
    """
    x = to_inexact("leaky_relu", x, _whole)
    return lnp.where(lnp.greater_equal(x, 0), x, lnp.multiply(negative_slope, x))


@public_api("approximate")
def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """`x` times the share of the standard normal distribution below `x`.

    Args:
      x: number array of any shape; integers and booleans become float.
      approximate: whether to take `(1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))) / 2` for that share; it is off by less than
        0.0005. Complex numbers need it.
    Returns:
      Float array of the shape of `x`; NaN at minus infinity.
    Raises:
      TypeError: `x` is neither an array nor a number.
      DTypeError: `x` is complex and `approximate` false.

    Source: Hendrycks and Gimpel, "Gaussian error linear units" (2016).

    >>> [round(float(y), 4) for y in gelu(np.array([-1., 0., 2.]), approximate=False)]
    [-0.1587, 0.0, 1.9545]
    """
    x = to_inexact("gelu", x)
    if typeof(x).weak_type:
        x = lnp.asarray(x, typeof(x).dtype)
    if not approximate:
        return lax.mul(lax.mul(x, 0.5), lax.erfc(lax.mul(x, -math.sqrt(0.5))))
    inner = lax.mul(lax.add(x, lax.mul(lax.integer_pow(x, 3), 0.044715)), math.sqrt(2 / math.pi))
    return lax.mul(x, lax.mul(lax.add(lax.tanh(inner), 1.0), 0.5))


@public_api(entries=_ACTIVATION)
def hard_tanh(x: ArrayLike) -> Array:
    """`x`, no lower than -1 and no higher than 1.

    Args:
      x: number array of any shape.
    Returns:
      Array of the shape and dtype of `x`; booleans become integers.
    Raises: {TypeError}

    Derivative: 1 from -1 to 1, both ends included, else 0.
    Source: Collobert et al., "Natural language processing (almost) from scratch" (2011).

    >>> hard_tanh(np.array([-3., 0.5, 3.]))
    Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    return lnp.where(lnp.greater(x, 1), 1, lnp.where(lnp.less(x, -1), -1, x))


@public_api(entries=_ACTIVATION)
def hard_sigmoid(x: ArrayLike) -> Array:
    """`relu6(x + 3) / 6`, in [0, 1].

    Args: {x}
    Returns: {result}
    Raises: {TypeError}

    Derivative: 1/6 between -3 and 3, else 0.
    Source: Howard et al., "Searching for MobileNetV3" (2019).

    >>> hard_sigmoid(np.array([-4., 0., 4.]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return lax.div(relu6(lax.add(to_inexact("hard_sigmoid", x, _whole), 3.0)), 6.0)


@public_api(entries=_ACTIVATION)
def hard_silu(x: ArrayLike) -> Array:
    """`x hard_sigmoid(x)`, also called hard swish.

    Args: {x}
    Returns:
      Float array of the shape of `x`; NaN at minus infinity.
    Raises: {TypeError}

    Derivative: 0 below -3, 1 above 3, `x / 3 + 1 / 2` between.
    Source: Howard et al., "Searching for MobileNetV3" (2019).

    >>> hard_silu(np.array([-4., 0., 4.]))
    Array([-0.,  0.,  4.], dtype=float32)
    """
    x = to_inexact("hard_silu", x, _whole)
    return lax.mul(x, hard_sigmoid(x))


hard_swish = hard_silu


@public_api(entries=_ACTIVATION)
def sparse_plus(x: ArrayLike) -> Array:
    """0 up to -1, `x` from 1, `(x + 1)**2 / 4` between.

    Args: {x}
    Returns: {result}
    Raises: {TypeError}

    Derivative: `sparse_sigmoid(x)`.
    Source: the twin of softplus for sparse probabilities: Martins and Astudillo, "From softmax to sparsemax" (2016).

    >>> sparse_plus(np.array([-2., 0., 2.]))
    Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    x = to_inexact("sparse_plus", x, _whole)
    low, high = lnp.less_equal(x, -1), lnp.greater_equal(x, 1)
    middle = lnp.where(lax.bitwise_or(low, high), 0, x)
    return lnp.where(low, 0, lnp.where(high, x, lax.mul(lax.integer_pow(lax.add(middle, 1.0), 2), 0.25)))


@public_api(entries=_ACTIVATION)
def sparse_sigmoid(x: ArrayLike) -> Array:
    """0 up to -1, 1 from 1, `(x + 1) / 2` between.

    Args: {x}
    Returns: {result}
    Raises: {TypeError}

    Derivative: 1/2 between -1 and 1, 1/4 at both, else 0.
    Source: sparsemax of two classes: Martins and Astudillo, "From softmax to sparsemax" (2016).

    >>> sparse_sigmoid(np.array([-2., 0., 2.]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return lax.mul(lnp.clip(lax.add(to_inexact("sparse_sigmoid", x, _whole), 1.0), 0.0, 2.0), 0.5)


@public_api()
def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """`(x + sqrt(x**2 + b)) / 2`.

    Args:
      x: number array of any shape; integers and booleans become float.
      b: how round the corner is; broadcasts to `x`. At 0 it is `relu`.
    Returns:
      Float array of the shape `x` and `b` broadcast to.
    Raises:
      TypeError: `x` or `b` is neither an array nor a number.
      ShapeError: `x` and `b` do not broadcast to each other.

    Derivative: `(1 + x / sqrt(x**2 + b)) / 2`; NaN where x and b are 0.
    Source: Barron, "Squareplus: a softplus-like algebraic rectifier" (2021).

    >>> squareplus(np.array([0., 3.]), 16)
    Array([2., 4.], dtype=float32)
    """
    x = to_inexact("squareplus", x)
    d = typeof(x).dtype
    if d.itemsize < 4:  # the square overflows early
        return lnp.astype(squareplus(lnp.astype(x, np.float32), b), lnp.result_type(d, b))
    root = lnp.sqrt(lnp.add(lax.integer_pow(x, 2), b))
    below = lnp.less(x, 0)  # there the two all but cancel; their sum times their difference is b
    left = lnp.divide(b, lnp.where(below, lnp.subtract(root, x), 1))
    return lax.mul(lnp.where(below, left, lnp.add(x, root)), 0.5)


@public_api(entries=_ACTIVATION)
def log1mexp(x: ArrayLike) -> Array:
    """`log(1 - exp(-x))`, precise for small and for large `x`.

    Args: {x}
    Returns:
      Float array of the shape of `x`; minus infinity at 0, NaN below.
    Raises: {TypeError}

    Derivative: `1 / (exp(x) - 1)`.
    Source: Maechler, "Accurately computing log(1 - exp(-|a|))" (2012): one formula below log 2, another above.

    >>> log1mexp(np.array([0., np.inf]))
    Array([-inf,  -0.], dtype=float32)
    """
    x = to_inexact("log1mexp", x)
    small = lnp.less(x, math.log(2))
    low, high = lnp.where(small, x, 1), lnp.where(small, 1, x)
    return lnp.where(small, lnp.log(lax.neg(lax.expm1(lax.neg(low)))), lax.log1p(lax.neg(lax.exp(lax.neg(high)))))


@public_api("axis")
def glu(x: ArrayLike, axis: int = -1) -> Array:
    """The first half along an axis, times the sigmoid of the second.

    Args:
      x: number array `[..., 2 n, ...]`; integers and booleans become float.
      axis: the axis of length `2 n`; negative counts from the end. A position sees one place of a mapped axis, so names
        have no meaning here.
    Returns:
      Float array `[..., n, ...]`.
    Raises:
      ShapeError: the axis has an odd length, or `x` does not have it.
      TypeError: `x` is neither an array nor a number, or `axis` is a name.

    Source: Dauphin et al., "Language modeling with gated convolutional networks" (2017).

    >>> glu(np.array([[1., 2., 0., 100.]]))
    Array([[0.5, 2. ]], dtype=float32)
    """
    x = to_inexact("glu", x)
    sizes = typeof(x).shape
    at = check_axis("glu", axis, len(sizes))
    if sizes[at] % 2:
        raise ShapeError(f"glu: axis {axis} must have an even length, to be halved; got {typeof(x).str_long()}")
    left, right = lnp.split(x, 2, at)
    return lax.mul(left, _logistic(right))
