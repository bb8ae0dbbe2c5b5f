"""Functions that kernels call: `when`, `loop`, `run_scoped`, and integers of blocks."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from lamina_ir import dtypes, trees
from lamina_ir.typing import Function, Tree, Value
from lamina_refs import new_ref
from lamina_tracing import debug, lax
from lamina_tracing.extend import typeof

from ._blocks import make_blocks

__all__ = ["align_to", "cdiv", "debug_print", "empty", "empty_like", "loop", "multiple_of", "next_power_of_2",
           "run_scoped", "strides_from_shape", "when"]


def when(condition: Value) -> Callable[[Callable[[], None]], None]:
    """Run a function if a condition holds; it may write to references.

    Args:
      condition: a boolean or a number, which may be traced.
    Returns:
      A decorator, which runs the function at once and returns None.
    Raises:
      TypeError: `condition` is not a scalar.

    Source: jax.experimental.pallas.when

    >>> ref = new_ref(np.zeros(2, np.float32))
    >>> @when(True)
    ... def _():
    ...     ref[0] = 1
    >>> ref
    Ref([1., 0.], dtype=float32)
    """
    def run(f: Callable[[], None]) -> None:
        if isinstance(condition, bool | np.bool_ | int):
            if condition:
                f()
            return
        holds = condition if dtypes.is_bool(typeof(condition).dtype) else lax.ne(condition, 0)

        def call() -> None:
            f()

        lax.cond(holds, call, lambda: None)

    return run


def loop(lower: Value, upper: Value, *, init_carry: Tree = None, step: Value = 1, unroll: int | bool | None = None) -> Function:
    """Run a function for each index of a range; it may write to references.

    Args:
      lower, upper: the range, as of `range`; may be traced.
      init_carry: the first carry; None: there is none.
      step: the distance between two indices, which is positive.
      unroll: as of `lax.fori_loop`.
    Returns:
      A decorator, which runs the function at once: `body(i)`, or `body(i, carry)`, which returns the next carry. It returns
      the last carry.
    Raises:
      TypeError: the range is not of integers, or the carry changes its type.

    Source: jax.experimental.pallas.loop

    >>> ref = new_ref(np.zeros(3, np.int32))
    >>> @loop(0, 3)
    ... def _(i):
    ...     ref[i] = i * i
    >>> ref
    Ref([0, 1, 4], dtype=int32)
    """
    def run(body: Function) -> Tree:
        def advance(k: Value, carry: Tree) -> Tree:
            i = lax.add(lower, lax.mul(k, step))
            if init_carry is not None:
                return body(i, carry)
            body(i)
            return None

        return lax.fori_loop(0, cdiv(upper - lower, step), advance, init_carry, unroll=unroll)

    return run


def run_scoped(f: Function, *types: Any, collective_axes: Any = (), **kw_types: Any) -> Tree:
    """Call a function with references to temporary memory.

    Args:
      f: the function.
      *types, **kw_types: `MemoryRef`s, or trees of objects with shape and dtype.
      collective_axes: has no effect.
    Returns:
      The result of `f`.
    Raises:
      TypeError: a type has no shape and dtype.

    Source: jax.experimental.pallas.run_scoped

    >>> from lamina_pallas import MemorySpace
    >>> def swap_halves(ref):
    ...     ref[...] = np.arange(4, dtype=np.int32)
    ...     return ref[2:], ref[:2]
    >>> run_scoped(swap_halves, MemorySpace.VMEM((4,), np.int32))
    (Array([2, 3], dtype=int32), Array([0, 1], dtype=int32))
    """
    refs, kw_refs = trees.tree_map(lambda x: new_ref(make_blocks("run_scoped", x, None).make_empty()), (types, kw_types))
    return f(*refs, **kw_refs)


def debug_print(fmt: str, *args: Value) -> None:
    """Print values while a kernel runs.

    Args:
      fmt: the text, with `{}` for each value; without, the values follow the text.
      *args: arrays or numbers.
    Returns:
      None.
    Raises:
      ValueError: the text does not fit the values.

    Source: jax.experimental.pallas.debug_print

    >>> debug_print("position", np.int32(3))
    position 3
    """
    debug.print(fmt if "{" in fmt or not args else fmt + " {}" * len(args), *args)


def empty(shape: Sequence[int], dtype: Any, *, out_sharding: None = None) -> Value:
    """Return an array whose values do not matter: zeros.

    Args:
      shape, dtype: of the array.
      out_sharding: must be None.
    Returns:
      An array.
    Raises:
      ValueError: `out_sharding` is not None.

    Source: jax.experimental.pallas.empty

    >>> empty((2,), np.int32)
    Array([0, 0], dtype=int32)
    """
    if out_sharding is not None:
        raise ValueError(f"empty: out_sharding must be None; got {out_sharding!r:.60}. Move the array with device_put")
    return lax.full(tuple(shape), 0, dtype)


def empty_like(x: Tree) -> Tree:
    """Return a tree of arrays of the shapes and dtypes of `x`, whose values do not matter.

    Args:
      x: a tree of arrays, or of objects with shape and dtype.
    Returns:
      A tree of arrays.
    Raises:
      TypeError: a leaf has no shape and dtype.

    Source: jax.experimental.pallas.empty_like

    >>> empty_like(np.ones(2, np.int32))
    Array([0, 0], dtype=int32)
    """
    return trees.tree_map(lambda v: lax.full(tuple(v.shape), 0, v.dtype), x)


def cdiv(a: Value, b: Value) -> Value:
    """Divide integers and round up.

    Args:
      a, b: integers, which may be traced; `b` is positive.
    Returns:
      `a / b`, rounded up.
    Raises:
      ZeroDivisionError: both are ints, and `b` is 0.

    Source: jax.experimental.pallas.cdiv

    >>> cdiv(7, 2), cdiv(8, 2)
    (4, 4)
    """
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    return lax.div(lax.sub(lax.add(a, b), 1), b)


def next_power_of_2(x: int) -> int:
    """Return the smallest power of 2 that is at least `x`.

    Args:
      x: a positive int.
    Returns:
      A power of 2.
    Raises:
      ValueError: `x` is not positive.

    Source: jax.experimental.pallas.next_power_of_2

    >>> next_power_of_2(5)
    8
    """
    if x < 1:
        raise ValueError(f"next_power_of_2: x must be positive; got {x}")
    return 1 << (x - 1).bit_length()


def align_to(a: Value, alignment: Value) -> Value:
    """Return the smallest multiple of `alignment` that is at least `a`.

    Args:
      a, alignment: integers, which may be traced; `alignment` is positive.
    Returns:
      The multiple, an integer.
    Raises:
      ZeroDivisionError: both are ints, and `alignment` is 0.

    Source: jax.experimental.pallas.align_to

    >>> align_to(5, 4)
    8
    """
    return cdiv(a, alignment) * alignment


def multiple_of(x: Value, values: int | Sequence[int]) -> Value:
    """Return `x`, which is a multiple of `values`; a hint for compilers of kernels.

    Args:
      x: an integer, which may be traced.
      values: its divisors.
    Returns:
      `x`.
    Raises:
      ValueError: `x` is an int that is not a multiple.

    Source: jax.experimental.pallas.multiple_of

    >>> multiple_of(4, 2)
    4
    """
    for n in (values,) if isinstance(values, int) else values:
        if isinstance(x, int) and x % n:
            raise ValueError(f"multiple_of: x must be a multiple of {n}; got {x}")
    return x


def strides_from_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return by how many elements the position in memory grows along each axis, in row-major order.

    Args:
      shape: ints.
    Returns:
      A tuple of ints.
    Raises:
      TypeError: `shape` is not a sequence of ints.

    Source: jax.experimental.pallas.strides_from_shape

    >>> strides_from_shape((2, 3, 4))
    (12, 4, 1)
    """
    return tuple([math.prod(shape[d + 1:]) for d in range(len(shape))])
