"""What many draws share: drawing until accepted, and compiling a draw with parameters."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_ir import config
from lamina_tracing import jit, lax
from lamina_tracing.extend import typeof

from ._arguments import as_float, common_shape, to_shape
from ._keys import halves
from ._normal import unit_core

__all__ = ["accepted", "full", "open_unit", "with_parameters"]

_part = config.threefry_partitionable


def accepted(key: Any, first: Any, propose: Callable[[Any], tuple[Any, Any]], done: Any, part: bool) -> Any:
    """Values of `propose(key) -> (values, whether accepted)`, each the first accepted one; `first` where `done`."""
    def body(state: Any) -> Any:
        key, value, done = state
        key, sub = halves(key, 2, part)
        new, good = propose(sub)
        return key, lax.select(done, value, new), lax.bitwise_or(done, good)

    def unfinished(state: Any) -> Any:
        flags = lax.bitwise_not(state[2])
        return lax.reduce_or(flags, tuple(range(len(typeof(flags).shape))))

    return lax.while_loop(unfinished, body, (key, first, done))[1]


def full(x: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """`x` as an array of this dtype and shape."""
    x = to_shape(x, shape, dtype)
    return x if typeof(x).shape == shape else lax.broadcast_in_dim(x, shape, ())


def open_unit(call: str, key: Any, shape: tuple[int, ...], dtype: np.dtype, part: bool) -> Any:
    """Numbers in (0, 1]."""
    return lax.sub(1.0, unit_core(call, key, shape, dtype, part))


def with_parameters(name: str, core: Callable[..., Any], count: int) -> Callable[..., Any]:
    """The compiled draw of a distribution with `count` parameters, each brought to the dtype and shape drawn.

    Args:
      name: of the public function, for errors and programs.
      core: `(key, *parameters, shape, dtype, partitionable) -> numbers`.
      count: how many parameters.

    Returns:
      `draw(key, parameters, shape, dtype)`, where shape and dtype may be None.
    """
    def compiled(*args: Any) -> Any:
        key, given, (shape, dtype, part) = args[0], args[1:1 + count], args[1 + count:]
        return core(key, *(full(x, shape, dtype) for x in given), shape, dtype, part)
    compiled.__name__ = name
    fast = jit(compiled, static_argnums=tuple(range(1 + count, 4 + count)), inline=True)

    def draw(key: Any, given: tuple[Any, ...], shape: Any, dtype: Any) -> Any:
        return fast(key, *given, common_shape(name, shape, *given), as_float(name, dtype), _part.value)
    return draw
