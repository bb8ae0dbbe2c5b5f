"""`x[index]`.

An eager read is one compiled call, remembered by the index's plan and fed with its positions: `x[0]` and `x[1]` run the
same program. Traced values run the same function directly, where known positions become static slices.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_ir import config
from lamina_ir.typing import Sharding
from lamina_tracing import hooks, jit, lax
from lamina_tracing.extend import EVALUATION, Tracer, call_with_out_sharding, trace_state, typeof
from lamina_tracing.lax import GatherScatterMode

from .bounds import check_bounds, is_check_enabled
from .parse import FULL, POINT, Plan, has_traced, parse, wrap_index
from .gather import CLIP, FILL, read

__all__ = ["compile_plan", "getitem", "parse_mode", "take_index", "traced_getitem"]

_NO = (False, False)
_bounds = config.debug_bounds
_MOST = 4096  # programs remembered
_programs: dict[Any, Callable[..., Any]] = {}


def compile_plan(key: Any, make: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The jitted `make(*key, x, *positions)`, remembered by `key`."""
    found = _programs.get(key)
    if found is None:
        static = key

        def run_plan(*args: Any) -> Any:
            return make(*static, *args)

        run_plan.__name__ = run_plan.__qualname__ = name
        if len(_programs) >= _MOST:
            _programs.clear()
        found = _programs[key] = jit(run_plan, inline=True)
    return found


def _index_first_axis(x: Any, i: Any) -> Any:
    shape = typeof(x).shape
    if not shape:
        raise IndexError("indexing: too many indices: the array has 0 axes, 1 was indexed")
    if type(i) is int:  # run without staging
        i = min(max(i + shape[0] if i < 0 else i, 0), max(shape[0] - 1, 0))
    return read(Plan(((POINT,), *[(FULL,)] * (len(shape) - 1)), True, False, False), CLIP, None, _NO, True, x, i)


_index_first_axis.__name__ = "getitem"
_read_one = jit(_index_first_axis, inline=True)


def getitem(x: Any, index: Any) -> Any:
    """`x[index]`.

    Args:
      x: array `[d0, d1, ...]`.
      index: as NumPy: integers, slices with known bounds, None, Ellipsis, integer arrays, known boolean masks, and
        tuples of these. Integers and integer arrays may be traced.
    Returns:
      Array with the axes NumPy gives. A position outside the array reads the nearest one inside; `x.at[i].get` has
      other choices.
    Raises:
      TypeError: an index of a wrong kind; a list.
      IndexError: too many indices, or a mask of another shape.
      TracerIndexError: traced slice bounds or masks, which would decide the result's shape.

    >>> from lamina_numpy import arange
    >>> getitem(arange(6.), slice(4, 1, -1))
    Array([4., 3., 2.], dtype=float32)
    """
    if _bounds.ever_enabled and is_check_enabled():
        check_bounds("x[...]", index, x.shape)
    if type(index) is int and not isinstance(x, Tracer):
        return _read_one(x, index)
    plan, positions = parse(index, x.shape)
    if isinstance(x, Tracer) or has_traced(positions):
        return read(plan, CLIP, None, _NO, True, x, *positions)
    program = _programs.get(plan)
    if program is None:
        program = _programs[plan] = compile_plan((plan, CLIP, None, _NO, True), read, "getitem")
    return program(x, *positions)


def traced_getitem(x: Any, index: Any) -> Any:
    """`getitem` of a traced `x`: no compiled call is tried."""
    if _bounds.ever_enabled and is_check_enabled():
        check_bounds("x[...]", index, x.shape)
    shape = x.aval.shape
    if type(index) is int and shape and -shape[0] <= index < shape[0] and _is_static_slice_cheap():  # the most frequent index
        at = index + shape[0] if index < 0 else index
        return lax.squeeze(lax.slice(x, (at, *[0] * (len(shape) - 1)), (at + 1, *shape[1:])), (0,))
    plan, positions = parse(index, shape)
    return read(plan, CLIP, None, _NO, True, x, *positions)


def _is_static_slice_cheap() -> bool:
    """Return whether nothing is compiled for each start of a static slice."""
    return trace_state.trace is not EVALUATION or isinstance(hooks.evaluator, hooks.NumPyEvaluator)


def parse_mode(verb: str, mode: Any) -> GatherScatterMode:
    """The mode that a word means to `x.at[index].<verb>`."""
    try:
        return GatherScatterMode.from_any(mode)
    except (TypeError, ValueError):
        raise ValueError(f"x.at[index].{verb}: mode: expected 'clip', 'wrap', 'fill', 'drop' or 'promise_in_bounds'; got "
                         f"{type(mode).__name__}: {mode!r:.60}") from None


def take_index(x: Any, index: Any, mode: Any, fill_value: Any, flags: tuple[bool, bool], wrap: bool,
               out_sharding: Sharding = None) -> Any:
    """`x[index]` with all choices: what `x.at[index].get` does."""
    if mode is None and _bounds.ever_enabled and is_check_enabled():
        check_bounds("x.at[...].get", index, x.shape, wrap)
    if mode == "wrap":
        index, mode = wrap_index(index, x.shape), CLIP
    how = CLIP if mode is None else parse_mode("get", mode)
    if isinstance(fill_value, Tracer):
        raise TypeError("x.at[...].get: fill_value must be a known number; use lamina.numpy.where for a traced one")
    if fill_value is not None:
        fill_value = np.asarray(fill_value).item()
    plan, positions = parse(index, x.shape, how is not FILL, wrap)
    if out_sharding is not None:
        run = compile_plan((plan, how, fill_value, flags, wrap), read, "get")
        return call_with_out_sharding("get", run, (x, *positions), out_sharding)
    if isinstance(x, Tracer) or has_traced(positions):
        return read(plan, how, fill_value, flags, wrap, x, *positions)
    return compile_plan((plan, how, fill_value, flags, wrap), read, "get")(x, *positions)
