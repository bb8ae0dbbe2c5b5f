"""What the processes of one program settle after a launch of it, where somebody looks on: whether anything was wrong in any of
them. Then all raise, and nobody waits in the next collective for one that has raised in this.

Each tells the others so much first: what was wrong, if anything, and how long its words are. That is a collective of three
numbers. Only if something was wrong do more follow: the words of a callback's error, or the arguments of all, with which each
process finds out by itself where a NaN comes from.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Primitive, Var, config, errors, prims, shaped
from lamina_tracing import slots

__all__ = ["AXIS", "first_devices", "rows_of", "settle", "together"]

AXIS = "processes"
_FINE, _FAILED, _KINDS = 0, 1, ("", "", "a NaN", "an infinity")


@lru_cache(maxsize=256)
def _program(prim: Primitive, shape: tuple[int, ...], dtype: Any, count: int, devices: tuple[Any, ...] | None,
             params: tuple[tuple[str, Any], ...]) -> ClosedJaxpr:
    row, whole = Var(shaped(shape, dtype)), Var(shaped((1, *shape), dtype))
    given = dict(params)
    found = prim.infer(row.aval, **given)
    out = Var(found[0] if prim.multiple else found)
    body = ClosedJaxpr(Jaxpr((), [row], [Eqn(prim, [row], [out], given)], [out]))
    result = Var(out.aval)
    mapped = Eqn(prims.xla_pmap_p, [whole], [result], dict(
        axis_name=AXIS, axis_size=1, backend=None, call_jaxpr=body, devices=devices, donated_invars=(False,),
        global_arg_shapes=(None,), global_axis_size=count, in_axes=(0,), name="processes", out_axes=(None,)))
    return ClosedJaxpr(Jaxpr((), [whole], [mapped], [result]))


def _forget(gone: Any) -> None:
    """Devices that would be held."""
    _program.cache_clear()
    first_devices.cache_clear()


slots.on_devices_gone.append(_forget)


def together(prim: Primitive, words: np.ndarray, count: int, devices: tuple[Any, ...] | None = None,
             **params: Any) -> np.ndarray:
    """What a collective makes of a row of 32-bit words from each process, the same in all: a map with a row of each.

    Args:
      prim: the collective's op, over the axis "processes".
      words: this process's.
      count: how many processes there are.
      devices: one of each; None: the first ones.
      params: of the op.
    """
    closed = _program(prim, words.shape, words.dtype, count, devices, tuple(sorted(params.items())))
    return np.asarray(slots.evaluator.program(closed, [words[None]])[0])


@lru_cache(maxsize=256)
def first_devices(devices: tuple[Any, ...]) -> tuple[Any, ...]:
    """The first device of each process among these, in this order."""
    found: dict[int, Any] = {}
    for d in devices:
        found.setdefault(d.process_index, d)
    return tuple(found.values())


def rows_of(firsts: tuple[Any, ...], words: np.ndarray) -> np.ndarray:
    """Row by row the words of each process, in the order of these devices."""
    if len(firsts) == 1:
        return words[None]
    return together(prims.all_gather_p, words, len(firsts), firsts, all_gather_dimension=0, axis_index_groups=None,
                    axis_name=AXIS, axis_size=len(firsts), tiled=False)


def _bytes_of(firsts: tuple[Any, ...], data: bytes, lengths: Sequence[int]) -> list[bytes]:
    """The bytes of each process, of these lengths."""
    longest = max(lengths) + -max(lengths) % 4
    if not longest:
        return [b""] * len(lengths)
    rows = rows_of(firsts, np.frombuffer(data.ljust(longest, b"\0"), np.uint32))
    return [row.tobytes()[:n] for row, n in zip(rows, lengths)]


def settle(devices: tuple[Any, ...], failure: Exception | None, bad: str | None,
           arguments: Sequence[np.ndarray] | None) -> tuple[str, list[bytes]] | None:
    """Whether all was well in all processes.

    Args:
      devices: of the program.
      failure: what a callback raised in this process, or what was raised of a NaN beside its maps.
      bad: what this process has seen: "a NaN", "an infinity".
      arguments: this process's, for finding where that comes from; None where there is no finding out.
    Returns:
      None if all was well; else what the first process that has seen something has seen, and the bytes of the arguments of
      each process, in the order of their first devices; an empty list where one of them cannot give any.
    Raises:
      CallbackError, FloatingPointError: `failure` is given in some process: that process's own there, its text in the others.
    """
    firsts = first_devices(devices)
    text = b"" if failure is None else f"{type(failure).__name__}\n{failure}".encode()
    kind = _FAILED if failure is not None else _FINE if bad is None else _KINDS.index(bad)
    size = -1 if arguments is None else sum([x.nbytes for x in arguments])
    with config.debug_nans(False), config.debug_infs(False):
        rows = rows_of(firsts, np.array([kind, len(text), size >> 31, size & (2**31 - 1)], np.int32))
        kinds = rows[:, 0].tolist()
        if _FAILED in kinds:
            texts = _bytes_of(firsts, text, rows[:, 1].tolist())
            if failure is not None:
                raise failure
            name, _, words = texts[kinds.index(_FAILED)].decode().partition("\n")
            raise (FloatingPointError if name == "FloatingPointError" else getattr(errors, name, errors.CallbackError))(words)
        if not any(kinds):
            return None
        what = _KINDS[next(k for k in kinds if k)]
        sizes = [(int(high) << 31) + int(low) for high, low in rows[:, 2:]]
        if min(sizes) < 0:
            return what, []
        return what, _bytes_of(firsts, b"".join([np.ascontiguousarray(x).tobytes() for x in arguments or ()]), sizes)
