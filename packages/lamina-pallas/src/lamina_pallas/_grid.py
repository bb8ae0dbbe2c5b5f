"""`program_id` and `num_programs`: the position of the program that runs, in the grid of its kernel;
`force_tpu_interpret_mode`."""
from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from lamina_ir.typing import Value

__all__ = ["force_tpu_interpret_mode", "is_interpreting", "num_programs", "program_id", "running_program"]


class _Program(NamedTuple):
    """A kernel that is being traced.

    Attributes:
      grid: the size of each axis.
      position: the index along each.
    """

    grid: tuple[Value, ...]
    position: tuple[Value, ...]


class _State(threading.local):
    program: _Program | None = None
    is_interpreting: bool = False


_state = _State()


@contextmanager
def running_program(grid: Sequence[Value], position: Sequence[Value]) -> Iterator[None]:
    """Set what `program_id` and `num_programs` return in a block."""
    outer, _state.program = _state.program, _Program(tuple(grid), tuple(position))
    try:
        yield
    finally:
        _state.program = outer


@contextmanager
def force_tpu_interpret_mode(params: object = True) -> Iterator[None]:
    """Run kernels in a block as if `pallas_call` had `interpret=True`.

    Args:
      params: options of the simulator of TPUs, which have no effect.
    Returns:
      A context manager.
    Raises:
      Nothing of its own; errors of the block pass.

    Source: jax.experimental.pallas.tpu.force_tpu_interpret_mode

    >>> import numpy as np
    >>> from lamina_pallas import pallas_call
    >>> x = np.arange(2.)
    >>> with force_tpu_interpret_mode():
    ...     pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...] + 1), np.zeros(2, np.float32))(x)
    Array([1., 2.], dtype=float32)
    """
    outer, _state.is_interpreting = _state.is_interpreting, True
    try:
        yield
    finally:
        _state.is_interpreting = outer


def is_interpreting() -> bool:
    """Return whether a block of `force_tpu_interpret_mode` is open."""
    return _state.is_interpreting


def _find_program(call: str, axis: int) -> _Program:
    program = _state.program
    if program is None:
        raise ValueError(f"{call}: no kernel runs; call it in the kernel of a pallas_call")
    if not hasattr(axis, "__index__") or not 0 <= axis < len(program.grid):
        raise ValueError(f"{call}: axis must be an axis of the grid {program.grid}; got {axis!r:.60}")
    return program


def program_id(axis: int) -> Value:
    """Return the index of the program that runs along an axis of the grid.

    Args:
      axis: the axis, from 0.
    Returns:
      An int32.
    Raises:
      ValueError: no kernel runs, or its grid has no such axis.

    Source: jax.experimental.pallas.program_id

    >>> import numpy as np
    >>> from lamina_ir import ShapeDtypeStruct
    >>> from lamina_pallas import pallas_call
    >>> def kernel(o_ref):
    ...     o_ref[program_id(0)] = program_id(0) * 10
    >>> pallas_call(kernel, ShapeDtypeStruct((3,), np.int32), grid=(3,), interpret=True)()
    Array([ 0, 10, 20], dtype=int32)
    """
    return _find_program("program_id", axis).position[axis]


def num_programs(axis: int) -> Value:
    """Return the number of programs along an axis of the grid.

    Args:
      axis: the axis, from 0.
    Returns:
      The entry of `grid`, an int as a rule.
    Raises:
      ValueError: no kernel runs, or its grid has no such axis.

    Source: jax.experimental.pallas.num_programs

    >>> num_programs(0)
    Traceback (most recent call last):
    ValueError: num_programs: no kernel runs; call it in the kernel of a pallas_call
    """
    return _find_program("num_programs", axis).grid[axis]
