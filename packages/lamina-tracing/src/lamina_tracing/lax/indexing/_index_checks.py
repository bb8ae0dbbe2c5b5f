"""Check indices that are out of bounds while `config.debug_bounds` is on.

Functions that take indices call this module before they clamp or drop indices that are out of bounds.

A check is a host callback, like `debug.check`: it knows its source line, and the running program supplies the
iteration, the
member and the device. Indices that the library computes itself are not checked, because it may rely on clamping.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FrameType

import numpy as np
from lamina_ir import config, dtypes, OutOfBoundsError, prims, ShapedArray
from lamina_ir.extend import HostFunction
from lamina_ir.typing import Value

from ..._diagnostics.argument_errors import rename_errors
from ..._core.source_lines import is_library_file, find_user_source
from ..._core.trace import bind
from ..._core.tracer import typeof
from .._util.conversions import convert_element_type
from ..elementwise import add, bitwise_and, ge, le, lt, select
from ..reductions import reduce_and

__all__ = ["check_index", "check_index_vectors", "should_check_bounds"]


def should_check_bounds(*forwarding_files: str) -> bool:
    """Return whether to check indices: the setting is on, and the indices come from the user.

    Args:
      forwarding_files: files, or folders of files, that only forward indices of the caller.
    Returns:
      A truth value.

    >>> should_check_bounds(__file__)
    False
    """
    if not config.debug_bounds.value:
        return False
    frame: FrameType | None = sys._getframe(1)
    forwarding_files += (rename_errors.__code__.co_filename,)  # the wrapper that renames errors calls these functions
    while frame is not None and frame.f_code.co_filename.startswith(forwarding_files):
        frame = frame.f_back
    return frame is not None and not is_library_file(frame.f_code.co_filename)


def check_index(call: str, index: Value, size: int, axis: int, wrap: bool = True, window: int = 1) -> None:
    """Raise OutOfBoundsError, when the program runs, if an index is outside of its axis.

    Args:
      call: the calling function, for the message.
      index: an integer, or an array of integers.
      size: the length of the axis.
      axis: the axis, for the message.
      wrap: whether -1 is the last position.
      window: the number of positions, from the index on, that must be inside.

    >>> check_index("take", 2, 3, 0)
    """
    if wrap and window > 1:  # a window at -1 begins at the last position
        index, wrap = _from_front(index, size), False
    low, high = -size if wrap else 0, size - window

    def fail(found: Value) -> None:
        bad = np.argwhere((found < low) | (found > high))[0]
        what = f"index {found[tuple(bad)]}" if window == 1 else f"a window of {window} at {found[tuple(bad)]}"
        where = f", at position {tuple(map(int, bad))} of the indices," if bad.size else ""
        raise OutOfBoundsError(f"{call}: {what}{where} is out of bounds for axis {axis} of size {size}")

    _ask(call, index, np.asarray(low), np.asarray(high), fail)


def _from_front(index: Value, size: int) -> Value:
    if isinstance(index, (int, np.integer, np.ndarray)):
        given = np.asarray(index)
        return np.where(given < 0, given + size, given) if given.dtype.kind == "i" else given
    index = _wide(index)
    return index if typeof(index).dtype.kind == "u" else select(lt(index, 0), add(index, size), index)


def _wide(index: Value) -> Value:
    dtype = typeof(index).dtype
    return index if dtype.kind in "iu" and dtype.itemsize >= 4 else convert_element_type(index, np.dtype("int32"))


def check_index_vectors(call: str, vectors: Value, limits: Sequence[int], axes: Sequence[int]) -> None:
    """`check_index` for index vectors `[..., k]`.

    Args:
      call: the calling function, for the message.
      vectors: integers.
      limits: the greatest index for each of the k.
      axes: the axes of the operand, for the message.

    >>> check_index_vectors("gather", np.array([[2]]), (2,), (0,))
    """
    high = np.asarray(limits, np.int64)

    def fail(found: Value) -> None:
        *bad, k = np.argwhere((found < 0) | (found > high))[0]
        where = f", at position {tuple(map(int, bad))} of the indices," if bad else ""
        raise OutOfBoundsError(f"{call}: index {found[(*bad, k)]}{where} is out of bounds: windows begin at 0 to {limits[k]} "
                               f"along axis {axes[k]} of the operand")

    if axes:
        _ask(call, vectors, np.zeros_like(high), high, fail)


def _ask(call: str, index: Value, low: np.ndarray, high: np.ndarray, fail: Callable[[Value], None]) -> None:
    aval = typeof(index)
    if 0 in aval.shape:
        return
    if isinstance(index, (int, np.integer, np.ndarray)):
        given = np.asarray(index)
        ok: Value = np.bool_(((given >= low) & (given <= high)).all())
        if ok:
            return
    else:
        index = _wide(index)
        aval = typeof(index)
        limits = dtypes.iinfo(aval.dtype)
        ok = le(index, _full(np.minimum(high, limits.max), aval))
        if aval.dtype.kind == "i":
            ok = bitwise_and(ok, ge(index, _full(np.maximum(low, limits.min), aval)))
        if aval.shape:
            ok = reduce_and(ok, tuple(range(len(aval.shape))))

    def host(_: Value, found: Value) -> tuple[()]:
        fail(found)
        return ()

    bind(prims.debug_callback_p, ok, index, batch=(), callback=HostFunction.of(host, call, find_user_source(), checks=True),
         indexed=False, mapped=(), ordered=False, threaded=False)


def _full(limit: np.ndarray, aval: ShapedArray) -> np.ndarray:
    return np.broadcast_to(limit, aval.shape).astype(aval.dtype)
