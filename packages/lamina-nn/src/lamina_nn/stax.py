"""Small networks out of layers; each layer is a pair of functions, `init` and `apply`.

`init(rng, input_shape)` gives the shape of the result and the layer's parameters, a tree of arrays;
`apply(params, inputs, **kwargs)` gives the result. A size of -1 in a shape is one that is not known, the batch's as a rule.
`serial` and `parallel` make one layer of several. Layers that draw random numbers take a key by the keyword `rng`; the others
let it pass.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import lamina_numpy as lnp
import lamina_random as random
from lamina_ir import ShapeError
from lamina_tracing import ArrayLike
from lamina_tracing.extend import check_axis, typeof

from . import elu, gelu, leaky_relu, log_softmax, relu, selu, sigmoid, softmax, softplus, standardize
from ._stax_combinators import FanInConcat, FanInSum, FanOut, parallel, serial, shape_dependent
from ._stax_conv_pool import (AvgPool, Conv, Conv1DTranspose, ConvTranspose, GeneralConv, GeneralConvTranspose, MaxPool,
                              SumPool, check_size)
from ._layer_errors import Layer, check_input_shape, layer
from .initializers import Initializer, glorot_normal, normal, ones, zeros

__all__ = ["AvgPool", "BatchNorm", "Conv", "Conv1DTranspose", "ConvTranspose", "Dense", "Dropout", "Elu", "Exp",
           "FanInConcat", "FanInSum", "FanOut", "Flatten", "Gelu", "GeneralConv", "GeneralConvTranspose", "Identity",
           "LeakyRelu", "LogSoftmax", "MaxPool", "Relu", "Selu", "Sigmoid", "Softmax", "Softplus", "SumPool", "Tanh",
           "elementwise", "elu", "gelu", "glorot", "glorot_normal", "leaky_relu", "log_softmax", "logsoftmax", "normal",
           "ones", "parallel", "randn", "relu", "selu", "serial", "shape_dependent", "sigmoid", "softmax", "softplus",
           "standardize", "zeros"]

# shorter names of initial weights and of a function, which programs give to `W_init` and call
glorot, randn, logsoftmax = glorot_normal, normal, log_softmax


# --- layers with parameters ----------------------------------------------------------------------------------------
@layer
def Dense(out_dim: int, W_init: Initializer = glorot_normal(), b_init: Initializer = normal()) -> Layer:
    """A layer that multiplies by a matrix and adds a vector.

    Args:
      out_dim: length of the last axis of the result.
      W_init, b_init: initial weights of the matrix `[in, out_dim]` and of the vector `[out_dim]`.
    Returns:
      The layer; its parameters are `(W, b)`, inputs `[..., in]` give `[..., out_dim]`.
    Raises:
      TypeError: `out_dim` is no integer.
      ValueError: `out_dim` is negative.
      ShapeError: by `init`, where the shape has no axes; by `apply`, where the last axis of the inputs has another length.

    Source: an affine map; initial weights of Glorot and Bengio, "Understanding the difficulty of training deep feedforward
      neural networks" (2010).

    >>> from lamina_random import PRNGKey
    >>> init, apply = Dense(3)
    >>> shape, (W, b) = init(PRNGKey(0), (-1, 4))
    >>> shape, W.shape, b.shape, apply((W, b), np.ones((2, 4))).shape
    ((-1, 3), (4, 3), (3,), (2, 3))
    """
    out_dim = check_size("Dense", "out_dim", out_dim)

    def init(rng: Any, input_shape: Any) -> Any:
        input_shape = check_input_shape("Dense", input_shape)
        if not input_shape:
            raise ShapeError("Dense: inputs must have at least one axis, the features; got the shape ()")
        for_matrix, for_vector = random.split(rng)
        return ((*input_shape[:-1], out_dim),
                (W_init(for_matrix, (input_shape[-1], out_dim)), b_init(for_vector, (out_dim,))))

    def apply(params: Any, inputs: ArrayLike, **kwargs: Any) -> Any:
        w, b = params
        out = lnp.dot(inputs, w)
        return out + lnp.expand_dims(b, range(typeof(out).ndim - 1))
    return init, apply


@layer
def BatchNorm(axis: int | Sequence[int] = (0, 1, 2), epsilon: float = 1e-5, center: bool = True, scale: bool = True,
              beta_init: Initializer = zeros, gamma_init: Initializer = ones) -> Layer:
    """A layer that standardises its inputs along axes, then scales and moves them by parameters.

    Args:
      axis: axes of means and variances; the parameters have the others.
      epsilon: added to the variance.
      center, scale: whether there are parameters to add, and to multiply by.
      beta_init, gamma_init: initial weights of both.
    Returns:
      The layer; its parameters are `(beta, gamma)`, `()` in the place of one that is not there. Means and variances are
      those of the inputs at hand, in training and after.
    Raises:
      ShapeError: by `init` or `apply`, where there is no such axis, or one is named twice; by `init`, where the size of
        another is not known.

    Source: Ioffe and Szegedy, "Batch normalization: accelerating deep network training by reducing internal covariate
      shift" (2015), algorithm 1.

    >>> from lamina_random import PRNGKey
    >>> init, apply = BatchNorm(axis=0)
    >>> shape, params = init(PRNGKey(0), (-1, 2))
    >>> apply(params, np.array([[1., 10.], [3., 30.]])).round(3)
    Array([[-1., -1.],
           [ 1.,  1.]], dtype=float32)
    """
    axes: tuple[int, ...] = tuple(axis) if isinstance(axis, Sequence) else (axis,)

    def get_axes(ndim: int) -> tuple[int, ...]:
        found = tuple(check_axis("BatchNorm", a, ndim) for a in axes)
        if len(set(found)) < len(found):
            raise ShapeError(f"BatchNorm: axis must name each axis once; got {axes} for inputs of {ndim} axes")
        return found

    def init(rng: Any, input_shape: Any) -> Any:
        input_shape = check_input_shape("BatchNorm", input_shape)
        taken = get_axes(len(input_shape))
        shape = tuple(n for i, n in enumerate(input_shape) if i not in taken)
        if min(shape, default=0) < 0:
            raise ShapeError(f"BatchNorm: parameters have the axes that are not in axis={axes}, and these need known sizes; "
                             f"got the shape {input_shape}")
        for_beta, for_gamma = random.split(rng)
        return input_shape, (beta_init(for_beta, shape) if center else (), gamma_init(for_gamma, shape) if scale else ())

    def apply(params: Any, x: ArrayLike, **kwargs: Any) -> Any:
        beta, gamma = params
        taken = get_axes(len(typeof(x).shape))
        z = standardize(x, taken, epsilon=epsilon)
        if scale:
            z = lnp.expand_dims(gamma, taken) * z
        return z + lnp.expand_dims(beta, taken) if center else z
    return init, apply


# --- layers without parameters -------------------------------------------------------------------------------------
def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """A layer that applies one function, which keeps the shape.

    Args:
      fun: takes the inputs and gives an array of their shape.
      **fun_kwargs: what else `fun` is given, by keyword.
    Returns:
      The layer, without parameters.
    Raises:
      TypeError: `fun` is no function.

    Source: `fun`.

    >>> init, apply = elementwise(lambda x, power: x ** power, power=2)
    >>> apply((), np.array([1, 2, 3]))
    array([1, 4, 9])
    """
    if not callable(fun):
        raise TypeError(f"elementwise: fun must be a function of the inputs; got {type(fun).__name__}")
    return (lambda rng, input_shape: (input_shape, ())), (lambda params, inputs, **kwargs: fun(inputs, **fun_kwargs))


Tanh = elementwise(lnp.tanh)
Relu = elementwise(relu)
Exp = elementwise(lnp.exp)
LogSoftmax = elementwise(log_softmax, axis=-1)
Softmax = elementwise(softmax, axis=-1)
Softplus = elementwise(softplus)
Sigmoid = elementwise(sigmoid)
Elu = elementwise(elu)
LeakyRelu = elementwise(leaky_relu)
Selu = elementwise(selu)
Gelu = elementwise(gelu)
Identity = elementwise(lambda x: x)


def _make_flatten() -> Layer:
    def init(rng: Any, input_shape: Any) -> Any:
        input_shape = check_input_shape("Flatten", input_shape)
        if not input_shape:
            raise ShapeError("Flatten: inputs must have a batch axis; got the shape ()")
        return (input_shape[0], math.prod(input_shape[1:])), ()

    def apply(params: Any, inputs: ArrayLike, **kwargs: Any) -> Any:
        first, *rest = typeof(inputs).shape
        return lnp.reshape(inputs, (first, math.prod(rest)))
    return init, apply


Flatten = layer(_make_flatten, "Flatten")()


@layer
def Dropout(rate: Any, mode: str = "train") -> Layer:
    """A layer that keeps each number with a probability, divided by it, and makes the others 0.

    Args:
      rate: the probability to keep a number, from 0 to 1.
      mode: "train"; in any other the inputs stay as they are.
    Returns:
      The layer, without parameters; `apply` takes a key by the keyword `rng`, in all modes.
    Raises:
      ValueError: `rate` is a number outside of `[0, 1]`; by `apply`, where no key is given.

    Source: Srivastava and others, "Dropout: a simple way to prevent neural networks from overfitting" (2014), scaled in
      training.

    >>> from lamina_random import PRNGKey
    >>> init, apply = Dropout(0.5)
    >>> apply((), np.ones(5), rng=PRNGKey(0))
    Array([0., 2., 2., 0., 0.], dtype=float32)
    """
    if isinstance(rate, (int, float)) and not 0 <= rate <= 1:
        raise ValueError(f"Dropout: rate must be the probability to keep a number, from 0 to 1; got {rate!r}")

    def apply(params: Any, inputs: ArrayLike, **kwargs: Any) -> Any:
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError("Dropout: apply needs a key, in all modes: apply(params, inputs, rng=key)")
        if mode != "train":
            return inputs
        keep = random.bernoulli(rng, rate, typeof(inputs).shape)
        return lnp.where(keep, lnp.divide(inputs, lnp.where(rate == 0, 1, rate)), 0)
    return (lambda rng, input_shape: (input_shape, ())), apply
