"""Describe a program that is about to be launched by several processes: a digest to compare, and text for errors."""
from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import ClassVar

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, LaminaError, Literal, Source, subprograms
from lamina_tracing.extend import find_user_source
from lamina_runtime.extend.processes import MultiProcessProgram

from .peer_sockets import TOKEN_BYTES
from .._typing import Message

__all__ = ["MAX_DESCRIPTIONS", "MAX_WITH_TEXT", "AgreementError", "CollectiveTimeoutError", "describe_launch", "digest",
           "make_error"]

MAX_DESCRIPTIONS = 64   # descriptions that are forwarded
MAX_WITH_TEXT = 8       # up to so many, each contains the text of its program
_MAX_COLLECTIVES = 12   # collectives shown of a program
_MAX_TEXT = 1 << 14     # characters of a program that are compared for the error


class AgreementError(LaminaError, RuntimeError):
    """Processes were about to launch different programs over their devices.

    None of the data has been exchanged, and all these processes raise the error. The next launch that is the same in
    all of them works.

    Fix: make the processes call the same functions in the same order; the message shows where they differ.

    >>> raise AgreementError("pmap of `step`: the processes launch different programs")
    Traceback (most recent call last):
    lamina_distributed._group.launch_description.AgreementError: pmap of `step`: the processes launch different programs
    """

    code: ClassVar[str] = "LAM1601"


class CollectiveTimeoutError(LaminaError, RuntimeError, TimeoutError):
    """Some processes have not come to a launch within `config.collective_timeout_seconds`.

    All processes that waited raise this, and so does a process that comes late. It is a RuntimeError like the other
    errors of several processes, and a TimeoutError. The text says where each process is: its line of code, and the
    launch that it is in or waits for.

    Fix: look at the line of the named processes; if they are only slow, raise `collective_timeout_seconds`.

    >>> raise CollectiveTimeoutError("pmap of `step`: process 1 has not come within 5 s")
    Traceback (most recent call last):
    lamina_distributed._group.launch_description.CollectiveTimeoutError: pmap of `step`: process 1 has not come within 5 s
    """

    code: ClassVar[str] = "LAM1602"


# --- one launch ---------------------------------------------------------------------------------------------------
_CONSTANT = re.compile(r"stablehlo\.constant dense(_resource)?<[^>]*>")
# Parameters whose values differ between processes though the program is the same
_PER_PROCESS = frozenset(("axis_size", "devices", "global_arg_shapes", "here", "sharding"))


def digest(program: MultiProcessProgram) -> bytes:
    """Return 16 bytes that are the same for the same program in all processes.

    They depend on the module; on the operations with their literals, axes and groups; on the devices and the donated
    arguments. Arrays in the closure of a function count by their types, as arguments do: they are data, and may differ
    between processes. Nothing depends on the process: no source line, no address, no name except those in the module.
    """
    place = program.placement
    # Printing large constants would cost time, and all constants are removed below: they are data, and may differ.
    asm = program.lowered.module.operation.get_asm(enable_debug_info=False, large_elements_limit=16)
    hasher = blake2b(_CONSTANT.sub("constant", asm).encode(), digest_size=TOKEN_BYTES)
    devices = [(int(d.process_index), int(d.id)) for d in place.devices]
    has_two_tiers = getattr(program.loaded, "switch", None) is not None  # they depend on settings of each process
    hasher.update(repr((program.call, place.grid, place.one_member_per_device, devices, place.donated,
                        *["two tiers"] * has_two_tiers)).encode())
    # Names of axes are arbitrary objects of the user; their `repr` may contain an address.
    for name, size in place.axes:
        hasher.update(f"{_stable_text(name)} {size}".encode())
    # The constants were removed from the module, so the literals and parameters of the equations are added.
    if program.source_program is not None:
        # In the order of the program, with each nested program once, at its first use: the same in all processes.
        for e, _ in _iter_equations(program.source_program):
            literals = [_stable_text(v.val) for v in e.invars if type(v) is Literal]
            params = [f"{n}={_stable_text(v)}" for n, v in sorted(e.params.items()) if n not in _PER_PROCESS]
            hasher.update(f"{e.primitive.name}{literals}{params}".encode())
    return hasher.digest()


def _stable_text(x: object) -> str:
    """Format a value without anything that differs between processes, such as addresses or the order of sets."""
    if isinstance(x, (str, bytes, int, float, complex, bool, type(None), type(Ellipsis), np.dtype)):
        return repr(x)
    if isinstance(x, (tuple, list, frozenset, set)):
        parts = [_stable_text(n) for n in x]
        # Sets are sorted by text: their order depends on hashes, which Python randomizes per process.
        return f"({', '.join(parts if isinstance(x, (tuple, list)) else sorted(parts))})"
    if isinstance(x, (np.generic, np.ndarray)):
        return repr(x.item()) if x.ndim == 0 else f"{x.dtype}{x.shape}"
    # Any other object counts by its type only: its text may contain an address.
    return type(x).__qualname__


def _format_axes(e: Eqn) -> str:
    axes = [e.params[p] for p in e.primitive.axis_params]
    flat = [n for a in axes for n in (a if isinstance(a, tuple) else (a,))]
    return ", ".join(map(_stable_text, flat))


def _iter_equations(closed: ClosedJaxpr) -> Iterator[tuple[Eqn, str]]:
    """Yield (equation, its line and enclosing primitives) of a program and its subprograms, each subprogram once."""
    seen = {closed}
    todo: list[tuple[ClosedJaxpr, str, Source | None]] = [(closed, "", None)]
    while todo:
        program, inside, line = todo.pop()
        later = []
        for e in program.jaxpr.eqns:
            at = e.source or line
            yield e, (f", {at.file}:{at.line}" if at is not None else "") + inside
            if e.primitive.subprograms:
                name = e.primitive.name
                within = inside if name in ("xla_call", "xla_pmap") else f"{inside or ', in'} {name}"
                for s in subprograms(e):
                    if s not in seen:
                        seen.add(s)
                        later.append((s, within, at))
        todo += reversed(later)


def describe_launch(program: MultiProcessProgram) -> Message:
    """Return a JSON object that describes a launch in the error of processes whose launches differ."""
    closed, place = program.source_program, program.placement
    collectives: list[str] = []
    text = ""
    if closed is not None:
        for e, where in _iter_equations(closed):
            if not e.primitive.axis_params or not e.invars:
                continue
            operands = ", ".join([v.aval.str_long() for v in e.invars])
            more = "".join([f", {p}={e.params[p]!r:.80}" for p in ("axis_index_groups", "perm")
                            if e.params.get(p) is not None])
            collectives.append(f"{e.primitive.name} over {_format_axes(e)} of {operands:.200}{more}{where}")
        text = f"{closed}"[:_MAX_TEXT]
    at = find_user_source(1)
    left_out = len(collectives) - _MAX_COLLECTIVES
    return {"call": f"{program.call} of `{program.name}`", "processes": list(program.processes),
            "devices": [int(d.id) for d in place.devices][:64], "count": len(place.devices),
            "at": "" if at is None else f"{at.file}:{at.line}", "digest": _hex_digest(program),
            "types": "" if closed is None else ", ".join([a.str_short() for a in closed.in_avals])[:400],
            "collectives": collectives[:_MAX_COLLECTIVES] + ([f"and {left_out} more"] if left_out > 0 else []),
            "text": text}


def _hex_digest(program: MultiProcessProgram) -> str:
    return str(program.launch_group[1].hex())


# --- all of them --------------------------------------------------------------------------------------------------
def make_error(kind: str, descriptions: dict[int, Message], own: int, late: list[int],
               roll_call: str = "") -> Exception:
    """Return the error of a launch that was not agreed: the same in all processes that have the same descriptions.

    Args:
      kind: "differ", "timeout", "interrupted" or "deadlock".
      descriptions: process -> its launch, see `describe_launch`.
      own: this process.
      late: processes that have not come to the launch, or that wait in the deadlock.
      roll_call: where each process is, for "timeout".
    """
    ranks = sorted(descriptions)
    wanted = {r for s in descriptions.values() for r in s["processes"]}
    absent = sorted(wanted - set(ranks))
    text = "\n".join(_format_launches(descriptions, absent))
    if kind == "timeout":
        s = descriptions[own]
        what = f" ({s['collectives'][0]})" if s["collectives"] else ""
        where = f"\nWhere each process is:\n{roll_call}" if roll_call else ""
        return CollectiveTimeoutError(
            f"{s['call']}{what}: {_format_ranks(late)} did not come to this launch within collective_timeout_seconds; "
            f"none of its data has been exchanged\n{text}\nA late process raises this error too; the next launch "
            f"of all processes works{where}")
    if kind == "interrupted":
        call = descriptions[own]["call"]
        return AgreementError(f"{call}: a process was interrupted while it waited for the others to launch this; none "
                              f"of its data has been exchanged\n{text}")
    if kind == "deadlock":
        return AgreementError(
            f"{_format_ranks(late)} wait for one another in different launches, so none can start; "
            f"none of their data has been exchanged\n{text}\n{_FIX}")
    return AgreementError(
        f"{_format_ranks(ranks)} launch different programs over their devices; none of their data has been exchanged\n"
        f"{text}\n{_FIX}")


_FIX = ("Every process must launch the same programs over several processes, in one order. The next launch that is the "
        "same in all processes works")


def _format_ranks(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:16])) + (f" and {len(ranks) - 16} more" if len(ranks) > 16 else "")
    return f"process {shown}" if len(ranks) == 1 else f"processes {shown}"


def _format_launches(descriptions: dict[int, Message], absent: list[int]) -> Iterator[str]:
    """Yield the lines of the error: equal launches once, with their collectives and the difference from the first."""
    equal: dict[tuple[object, ...], list[int]] = {}
    for r in sorted(descriptions):
        s = descriptions[r]
        # The number of the launch counts too: the same program in another position is another launch.
        equal.setdefault((s["digest"], s["at"], s["number"], s["call"]), []).append(r)
    for at, ranks in enumerate(equal.values()):
        s = descriptions[ranks[0]]
        devices = f"{s['count']} devices of {_format_ranks(s['processes'])}"
        line = f"  {_format_ranks(ranks)}: launch {s['number']}, {s['call']}({s['types']}) over {devices}"
        yield line + (f", at {s['at']}" if s["at"] else "")
        for c in s["collectives"] or ["no collectives of its own; the compiler may put some in"]:
            yield f"      {c}"
        if at:
            first = descriptions[min(descriptions)]
            if s["digest"] != first["digest"] and s["collectives"] == first["collectives"]:
                yield from _format_difference(min(descriptions), first, ranks[0], s)
    if absent:
        yield f"  {_format_ranks(absent)}: not there"


def _format_difference(one: int, a: Message, other: int, b: Message) -> Iterator[str]:
    """Yield lines that show where two programs with equal collectives differ."""
    if a["devices"] != b["devices"]:
        yield f"      devices: process {one} names {a['devices']}, process {other} {b['devices']}"
    lines = zip((a.get("text") or "").splitlines(), (b.get("text") or "").splitlines())
    for x, y in lines:
        if x != y:
            yield f"      first difference: process {one} `{x.strip():.160}`"
            yield f"                        process {other} `{y.strip():.160}`"
            return
    if a["devices"] == b["devices"]:
        yield (f"      their collectives are the same, but not all else: numbers, donated arguments, names "
               f"(digests {a['digest'][:8]}, {b['digest'][:8]})")
