"""Exchange errors between the processes of a program after a launch, so that all of them raise if one does.

This is done if debug checks or callbacks may raise in one process only. Without it, the others would hang in the next
collective.

First each process sends four numbers: kind of error, length of its text, size of its arguments. If all is well, nothing
follows. Otherwise a second collective gathers either the text of a callback's error, or the arguments of all processes.
With these each process finds the source of a NaN by itself.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Primitive, Var, config, errors, prims, shaped
from lamina_tracing import hooks
from lamina_ir.typing import Device, ParamValue

__all__ = ["AXIS", "all_process_collective", "exchange_errors", "first_devices", "gather_rows"]

AXIS = "processes"
_OK, _FAILED, _KINDS = 0, 1, ("", "", "a NaN", "an infinity")  # kinds 2 and 3 are indices of _KINDS


@lru_cache(maxsize=256)
def _collective_program(prim: Primitive, shape: tuple[int, ...], dtype: np.dtype, count: int,
                        devices: tuple[Device, ...] | None, params: tuple[tuple[str, ParamValue], ...]) -> ClosedJaxpr:
    """Return the program of a pmap of `prim` over one device of each process. Each passes a (1, *shape) operand."""
    member, stacked = Var(shaped(shape, dtype)), Var(shaped((1, *shape), dtype))
    prim_params = dict(params)
    inferred = prim.infer(member.aval, **prim_params)
    out = Var(inferred[0] if prim.multiple else inferred)
    body = ClosedJaxpr(Jaxpr((), [member], [Eqn(prim, [member], [out], prim_params)], [out]))
    result = Var(out.aval)
    mapped = Eqn(prims.xla_pmap_p, [stacked], [result], dict(
        axis_name=AXIS, axis_size=1, backend=None, call_jaxpr=body, devices=devices, donated_invars=(False,),
        global_arg_shapes=(None,), global_axis_size=count, in_axes=(0,), name="processes", out_axes=(None,)))
    return ClosedJaxpr(Jaxpr((), [stacked], [mapped], [result]))


def _clear_caches(closed_devices: object) -> None:
    """Drop cached programs, which would keep devices of closed clients alive."""
    _collective_program.cache_clear()
    first_devices.cache_clear()


hooks.on_devices_closed.append(_clear_caches)


def all_process_collective(prim: Primitive, data: np.ndarray, count: int, devices: tuple[Device, ...] | None = None,
                           **params: ParamValue) -> np.ndarray:
    """Run a collective over processes, each with its own `data`. Return the result, which is the same in all of them.

    Args:
      prim: the collective primitive, over the axis "processes".
      data: this process's operand, of a 32-bit dtype; shape and dtype are the same in all processes.
      count: number of processes.
      devices: one device of each process. None: the first ones.
      params: parameters of the primitive.
    """
    closed = _collective_program(prim, data.shape, data.dtype, count, devices, tuple(sorted(params.items())))
    return np.asarray(hooks.evaluator.program(closed, [data[None]])[0])


@lru_cache(maxsize=256)
def first_devices(devices: tuple[Device, ...]) -> tuple[Device, ...]:
    """Return the first device of each process among `devices`, in the same order."""
    first: dict[int, Device] = {}
    for d in devices:
        first.setdefault(d.process_index, d)
    return tuple(first.values())


def gather_rows(firsts: tuple[Device, ...], data: np.ndarray) -> np.ndarray:
    """Gather `data` of all processes along a new axis 0, in the order of `firsts`: one device of each process."""
    if len(firsts) == 1:
        return data[None]
    return all_process_collective(prims.all_gather_p, data, len(firsts), firsts, all_gather_dimension=0,
                                  axis_index_groups=None, axis_name=AXIS, axis_size=len(firsts), tiled=False)


def _gather_bytes(firsts: tuple[Device, ...], data: bytes, lengths: Sequence[int]) -> list[bytes]:
    """Gather the bytes of all processes. All of them know all lengths; shorter data is padded to the longest."""
    # A collective needs one length in all processes. Bytes are sent as uint32, so it is a multiple of 4.
    longest = max(lengths) + -max(lengths) % 4
    if not longest:
        return [b""] * len(lengths)
    rows = gather_rows(firsts, np.frombuffer(data.ljust(longest, b"\0"), np.uint32))
    return [row.tobytes()[:n] for row, n in zip(rows, lengths)]


def exchange_errors(devices: tuple[Device, ...], failure: Exception | None, bad: str | None,
           arguments: Sequence[np.ndarray] | None) -> tuple[str, list[bytes]] | None:
    """Exchange the errors of a launch between its processes. All processes of `devices` call this.

    Args:
      devices: devices of the program.
      failure: exception of a callback in this process, or a FloatingPointError found outside of the program's maps.
      bad: the non-finite value seen in this process: "a NaN", "an infinity". None if there is none.
      arguments: this process's arguments, with which the source of a NaN is located. None if they are not available.
    Returns:
      None if no process saw an error. Else the value seen by the first process that saw one, and the bytes of each
      process's arguments in the order of their first devices. The list is empty if a process has none available.
    Raises:
      CallbackError, FloatingPointError: a process passed a `failure`. It raises that itself; the others raise an error
        with the same text.
    """
    firsts = first_devices(devices)
    text = b"" if failure is None else f"{type(failure).__name__}\n{failure}".encode()
    kind = _FAILED if failure is not None else _OK if bad is None else _KINDS.index(bad)
    size = -1 if arguments is None else sum([x.nbytes for x in arguments])
    # The checks are off meanwhile: these collectives carry arbitrary bytes, and a check of them would recurse.
    with config.debug_nans(False), config.debug_infs(False):
        # Collectives carry 32-bit numbers only: the size, up to 62 bits, is sent in two. -1 has a negative upper half.
        rows = gather_rows(firsts, np.array([kind, len(text), size >> 31, size & (2**31 - 1)], np.int32))
        kinds = rows[:, 0].tolist()
        if _FAILED in kinds:
            texts = _gather_bytes(firsts, text, rows[:, 1].tolist())
            if failure is not None:
                raise failure
            # The first process that failed, in the order of devices: all processes raise the same text.
            name, _, message = texts[kinds.index(_FAILED)].decode().partition("\n")
            error = FloatingPointError if name == "FloatingPointError" else getattr(errors, name, errors.CallbackError)
            raise error(message)
        if not any(kinds):
            return None
        what = _KINDS[next(k for k in kinds if k)]
        sizes = [(int(high) << 31) + int(low) for high, low in rows[:, 2:]]
        # Locating the source needs the arguments of every process, as each may contain the cause.
        if min(sizes) < 0:
            return what, []
        data = b"".join([np.ascontiguousarray(x).tobytes() for x in arguments or ()])
        return what, _gather_bytes(firsts, data, sizes)
