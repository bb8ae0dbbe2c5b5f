"""Combinators of `stax`: layers in series, in parallel, dependent on shapes, and the layers that fan out and in."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import lamina_numpy as lnp
import lamina_random as random
from lamina_ir import ShapeError
from lamina_tracing.extend import check_axis, rename_errors, typeof

from ._stax_conv_pool import check_size
from ._layer_errors import Layer, layer

__all__ = ["FanInConcat", "FanInSum", "FanOut", "parallel", "serial", "shape_dependent"]


# --- layers of several inputs or outputs ---------------------------------------------------------------------------
@layer
def FanOut(num: int) -> Layer:
    """A layer that gives its input several times, for `parallel`.

    Args:
      num: how many times.
    Returns:
      The layer, without parameters; it gives a list.
    Raises:
      TypeError: `num` is no integer.
      ValueError: `num` is negative.

    Source: the identity.

    >>> FanOut(2)[1]((), 5)
    [5, 5]
    """
    num = check_size("FanOut", "num", num)
    return (lambda rng, input_shape: ([input_shape] * num, ())), (lambda params, inputs, **kwargs: [inputs] * num)


def _broadcast_shapes(call: str, shapes: Any, concat_axis: int | None) -> tuple[Any, ...]:
    """The shape that shapes broadcast to; sizes along `concat_axis` are added. Sizes of 0 or less are unknown."""
    shapes = [tuple(s) for s in shapes]
    if not shapes:
        raise ValueError(f"{call}: at least one input is needed; got none")
    ndim = max(map(len, shapes))
    if concat_axis is not None:
        if {len(s) for s in shapes} != {ndim}:
            raise ShapeError(f"{call}: inputs need the same number of axes; got the shapes {shapes}")
        concat_axis = check_axis(call, concat_axis, ndim)
    shape = list(next(s for s in shapes if len(s) == ndim))
    for i in range(ndim):
        found = [s[i - ndim] for s in shapes if len(s) >= ndim - i]
        known = {n for n in found if n > (1 if concat_axis is None else 0)}
        if i == concat_axis:
            shape[i] = sum(found) if min(found) >= 0 else -1
        elif len(known) > 1:
            raise ShapeError(f"{call}: inputs differ along axis {i}; got the shapes {shapes}")
        elif shape[i] == 1 and len(set(found)) > 1:
            shape[i] = next(n for n in found if n != 1)
    return tuple(shape)


def _make_fan_in_sum() -> Layer:
    def apply(params: Any, inputs: Sequence[Any], **kwargs: Any) -> Any:
        if not len(inputs):
            raise ValueError("FanInSum: at least one input is needed; got none")
        return sum(inputs[1:], inputs[0])
    return (lambda rng, input_shapes: (_broadcast_shapes("FanInSum", input_shapes, None), ())), apply


FanInSum = layer(_make_fan_in_sum, "FanInSum")()


@layer
def FanInConcat(axis: int = -1) -> Layer:
    """A layer that joins its inputs along an axis.

    Args:
      axis: of the inputs; negative counts from the end.
    Returns:
      The layer, without parameters; it takes a list.
    Raises:
      ShapeError: by `init` or `apply`, where there is no such axis, or other axes differ.
      ValueError: by `init` or `apply`, where there are no inputs.

    Source: meaning of `numpy.concatenate`.

    >>> init, apply = FanInConcat()
    >>> init(None, [(-1, 2), (-1, 3)])
    ((-1, 5), ())
    >>> apply((), [np.ones((4, 2)), np.ones((4, 3))]).shape
    (4, 5)
    """
    return ((lambda rng, input_shapes: (_broadcast_shapes("FanInConcat", input_shapes, axis), ())),
            (lambda params, inputs, **kwargs: lnp.concatenate(inputs, axis)))


# --- layers of layers ----------------------------------------------------------------------------------------------
def _split_pairs(call: str, layers: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    for i, pair in enumerate(layers):
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and all(map(callable, pair))):
            what = f"the function {pair.__name__}, which makes one" if hasattr(pair, "__name__") else repr(pair)
            raise TypeError(f"{call}: a layer is a pair of functions (init, apply); layer {i} is {what}")
    return [pair[0] for pair in layers], [pair[1] for pair in layers]


def _check_count(call: str, what: str, values: Any, n: int) -> Any:
    if len(values) != n:
        raise ValueError(f"{call}: {what} has one entry for each of {n} layers; got {len(values)}")
    return values


def _split_rng(call: str, rng: Any, n: int) -> Any:
    return [None] * n if rng is None else rename_errors(random.split, call)(rng, n) if n else ()


def serial(*layers: Layer) -> Layer:
    """One layer of several, each on what the one before it gives.

    Args:
      *layers: pairs of functions, `init` and `apply`.
    Returns:
      The layer; its parameters are a list of the layers' own, and each layer is given its own key where `rng` is given.
    Raises:
      TypeError: a layer is no pair of functions.
      ValueError: by `apply`, where there are more or fewer parameters than layers.

    Source: composition.

    >>> from lamina_nn.stax import Dense, LogSoftmax, Relu
    >>> from lamina_random import PRNGKey
    >>> init, apply = serial(Dense(8), Relu, Dense(2), LogSoftmax)
    >>> shape, params = init(PRNGKey(0), (-1, 4))
    >>> shape, apply(params, np.ones((3, 4))).shape
    ((-1, 2), (3, 2))
    """
    inits, applies = _split_pairs("serial", layers)

    def init(rng: Any, input_shape: Any) -> Any:
        params = []
        split = rename_errors(random.split, "serial")
        for start in inits:
            rng, own = split(rng)
            input_shape, param = start(own, input_shape)
            params.append(param)
        return input_shape, params

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        keys = _split_rng("serial", kwargs.pop("rng", None), len(applies))
        for run, param, key in zip(applies, _check_count("serial", "params", params, len(applies)), keys, strict=True):
            inputs = run(param, inputs, rng=key, **kwargs)
        return inputs
    return init, apply


def parallel(*layers: Layer) -> Layer:
    """One layer of several side by side, each on an input of its own.

    Args:
      *layers: pairs of functions, `init` and `apply`.
    Returns:
      The layer, of a sequence of inputs, which `FanOut` makes of one; it gives a list, which `FanInSum` and `FanInConcat`
      make one again. Its parameters are a tuple of the layers' own; each is given a key of its own.
    Raises:
      TypeError: a layer is no pair of functions.
      ValueError: there are more or fewer shapes, inputs or parameters than layers.

    Source: the product of functions.

    >>> from lamina_nn.stax import Dense, Identity
    >>> from lamina_random import PRNGKey
    >>> init, apply = serial(FanOut(2), parallel(Dense(3), Identity), FanInConcat())
    >>> shape, params = init(PRNGKey(0), (-1, 4))
    >>> shape, apply(params, np.ones((2, 4))).shape
    ((-1, 7), (2, 7))
    """
    inits, applies = _split_pairs("parallel", layers)

    def init(rng: Any, input_shape: Any) -> Any:
        shapes, params = [], []
        keys = _split_rng("parallel", rng, len(inits))
        for start, key, shape in zip(inits, keys, _check_count("parallel", "input_shape", input_shape, len(inits)),
                                     strict=True):
            shape, param = start(key, shape)
            shapes.append(shape)
            params.append(param)
        return tuple(shapes), tuple(params)

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        n = len(applies)
        keys = _split_rng("parallel", kwargs.pop("rng", None), n)
        all_of = zip(applies, _check_count("parallel", "params", params, n),
                     _check_count("parallel", "inputs", inputs, n), keys, strict=True)
        return [run(param, x, rng=key, **kwargs) for run, param, x, key in all_of]
    return init, apply


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """A layer that is made when the shape of its inputs is known.

    Args:
      make_layer: takes the shape of the inputs, in which `init` may have sizes that are not known, and gives a layer.
    Returns:
      The layer.
    Raises:
      TypeError: `make_layer` is no function; by `init` or `apply`, where it gives no pair of functions.

    Source: the layer that `make_layer` gives.

    >>> from lamina_nn.stax import Dense
    >>> from lamina_random import PRNGKey
    >>> init, apply = shape_dependent(lambda shape: Dense(2 * shape[-1]))
    >>> init(PRNGKey(0), (-1, 4))[0]
    (-1, 8)
    """
    if not callable(make_layer):
        raise TypeError(f"shape_dependent: make_layer must be a function of a shape; got {type(make_layer).__name__}")

    def make_pair(shape: Any) -> Any:
        return _split_pairs("shape_dependent", [make_layer(shape)])

    return ((lambda rng, input_shape: make_pair(input_shape)[0][0](rng, input_shape)),
            (lambda params, inputs, **kwargs: make_pair(typeof(inputs).shape)[1][0](params, inputs, **kwargs)))
