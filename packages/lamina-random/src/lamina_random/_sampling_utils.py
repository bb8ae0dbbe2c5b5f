"""What many draws share: drawing until accepted, and compiling a draw with parameters."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_autodiff import custom_jvp
from lamina_ir import config, dtypes, prims
from lamina_tracing import jit, lax, make_jaxpr
from lamina_tracing.extend import EVALUATION, Tracer, bind, trace_state, scalar, typeof

from ._args import as_float, common_shape, to_shape
from ._prng_impl import is_typed
from ._keys import key_data, split_keys
from ._normal import draw_unit

__all__ = ["draw_until_accepted", "full", "inverse", "is_any_left", "make_parametric", "max_along_last",
           "sum_along_last"]

_part = config.threefry_partitionable
_U32 = np.dtype("uint32")


def draw_until_accepted(call: str, key: Any, first: Any, propose: Callable[[Any, Any], tuple[Any, Any]], done: Any,
                        shape: tuple[int, ...], dtype: np.dtype, part: bool) -> Any:
    """Values of `propose(u, v) -> (values, whether accepted)`, u in [-1/2, 1/2) and v in [0, 1); `first` where `done`.

    All elements propose until each has accepted; an element keeps what it accepted last.
    """
    def body(state: Any) -> Any:
        key, value, done = state
        key, ku, kv = split_keys(key, 3, part)
        u = lax.sub(draw_unit(call, ku, shape, dtype, part), 0.5)
        new, good = propose(u, draw_unit(call, kv, shape, dtype, part))
        return key, lax.select(good, new, value), lax.bitwise_or(done, good)

    return lax.while_loop(lambda state: is_any_left(state[2]), body, (key, first, done))[1]


def is_any_left(done: Any) -> Any:
    """Whether some element is not done."""
    return lax.bitwise_not(lax.reduce_and(done, tuple(range(len(typeof(done).shape)))))


def full(x: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """`x` as an array of this dtype and shape."""
    x = to_shape(x, shape, dtype)
    return x if typeof(x).shape == shape else lax.broadcast_in_dim(x, shape, ())


def inverse(x: Any) -> Any:
    """`1 / x`, rounded in the dtype of `x`, not in that of the numbers drawn."""
    own = typeof(x).dtype
    kind = own if dtypes.is_float(own) else dtypes.canonical_float()
    return lax.div(scalar(1, kind), lax.convert_element_type(x, kind))


@custom_jvp
def sum_along_last(x: Any) -> Any:
    """`reduce` of sums, as `reduce_sum` of many threes would be written out, and sums of three be taken in another order.
    Numbers of 16 bits are summed in 32."""
    own = typeof(x).dtype
    kind = np.dtype("float32") if own.itemsize < 4 else own
    return lax.convert_element_type(_reduce_last(lax.add, 0, lax.convert_element_type(x, kind)), own)


sum_along_last.defjvp(lambda primals, tangents: (
    sum_along_last(*primals), lax.reduce_sum(tangents[0], (typeof(tangents[0]).ndim - 1,))))


def max_along_last(x: Any) -> Any:
    """`reduce` of maxima, not written out either; it may lose NaNs. Without a derivative."""
    return _reduce_last(lax.max, -np.inf, lax.stop_gradient(x))


def _reduce_last(combine: Callable[[Any, Any], Any], first: float, x: Any) -> Any:
    t = typeof(x)
    pair = make_jaxpr(combine)(*[scalar(first, t.dtype)] * 2)
    return bind(prims.reduce_p, x, scalar(first, t.dtype), computation=pair, dimensions=(t.ndim - 1,))[0]


def _hide_constants(key: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Parameters as numbers that the compiler of a program does not know: what it makes of known ones beforehand it rounds
    otherwise than the program would. So a program draws the numbers that are drawn alone."""
    staged = trace_state.trace is not EVALUATION and isinstance(key, Tracer)
    if not staged or all(isinstance(x, Tracer) for x in given):
        return given
    words: Any = key_data(key) if is_typed(key) else key
    if typeof(words).ndim != 1 or typeof(words).dtype != _U32:  # not a key; the caller raises the error
        return given
    bit = lax.bitwise_and(lax.squeeze(lax.slice(words, (0,), (1,)), (0,)), np.uint32(1))

    def hide(x: Any) -> Any:
        own = typeof(x)
        kind = own.dtype if dtypes.is_float(own.dtype) else dtypes.canonical_float()
        none = lax.mul(lax.convert_element_type(bit, kind), scalar(0, kind))
        return lax.add(np.asarray(x, kind), lax.broadcast_in_dim(none, own.shape, ()))
    return tuple([x if isinstance(x, Tracer) else hide(x) for x in given])


def make_parametric(name: str, core: Callable[..., Any], count: int,
                    hide_constants: bool = False) -> Callable[..., Any]:
    """The compiled draw of a distribution with `count` parameters, each brought to the dtype and shape drawn.

    Args:
      name: of the public function, for errors and programs.
      core: `(key, *parameters, shape, dtype, partitionable) -> numbers`.
      count: how many parameters.
      hide_constants: a program draws the same numbers as the eager call, also with constant parameters; in a loop this
        takes memory and compile time.

    Returns:
      `draw(key, parameters, shape, dtype)`, where shape and dtype may be None.
    """
    def draw_core(*args: Any) -> Any:
        key, given, (shape, dtype, part) = args[0], args[1:1 + count], args[1 + count:]
        return core(key, *(full(x, shape, dtype) for x in given), shape, dtype, part)
    draw_core.__name__ = name
    fast = jit(draw_core, static_argnums=tuple(range(1 + count, 4 + count)), inline=True)

    def draw(key: Any, given: tuple[Any, ...], shape: Any, dtype: Any) -> Any:
        sizes = common_shape(name, shape, *given)
        parameters = _hide_constants(key, given) if hide_constants else given
        return fast(key, *parameters, sizes, as_float(name, dtype), _part.value)
    return draw
