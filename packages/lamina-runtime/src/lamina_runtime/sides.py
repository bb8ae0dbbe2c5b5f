"""What a process says of a program that it is about to launch with others: a digest, and words for those who launch another."""
from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np
from lamina_ir import ClosedJaxpr, LaminaError, Literal, subprograms
from lamina_tracing.extend import user_source

from .peers import TOKEN

__all__ = ["MOST", "WITH_TEXT", "AgreementError", "CollectiveTimeoutError", "digest", "error", "side"]

MOST = 64       # sides that are told on
WITH_TEXT = 8   # sides whose program is told on
_LINES = 12     # collectives that are shown of a program
_TEXT = 1 << 14  # characters of a program that are compared for the error


class AgreementError(LaminaError, RuntimeError):
    """Processes were about to launch different programs over their devices. None of the data has been exchanged, each of them
    raises this, and the next launch that is the same in all of them works.

    >>> raise AgreementError("pmap of `step`: the processes launch different programs")
    Traceback (most recent call last):
    lamina_runtime.sides.AgreementError: pmap of `step`: the processes launch different programs
    """


class CollectiveTimeoutError(LaminaError, RuntimeError, TimeoutError):
    """Some processes have not come to a launch within `config.collective_timeout_seconds`. Whoever waited raises this, and who
    comes late. As the other faults of several processes it is a RuntimeError; being about time it is a TimeoutError too.

    >>> raise CollectiveTimeoutError("pmap of `step`: process 1 has not come within 5 s")
    Traceback (most recent call last):
    lamina_runtime.sides.CollectiveTimeoutError: pmap of `step`: process 1 has not come within 5 s
    """


# --- one side -----------------------------------------------------------------------------------------------------
_CONSTANT = re.compile(r"stablehlo\.constant dense(_resource)?<[^>]*>")
_OWN = frozenset(("axis_size", "devices", "global_arg_shapes", "here", "sharding"))  # as one process sees them


def digest(program: Any) -> bytes:
    """16 bytes that are the same for the same program in all processes.

    Of the module; the operations with their numbers, axes, groups; the devices; what is donated. Arrays that a function closes
    over count by their types, as arguments do: they are data, which each process may have its own of. Nothing depends on the
    process: no line of a file, no address, and no name but those in the module.
    """
    place = program.placement
    asm = program.lowered.module.operation.get_asm(enable_debug_info=False, large_elements_limit=16)
    made = blake2b(_CONSTANT.sub("constant", asm).encode(), digest_size=TOKEN)
    devices = [(int(d.process_index), int(d.id)) for d in place.devices]
    made.update(repr((program.call, place.grid, place.members, devices, place.donated)).encode())
    for name, size in place.axes:
        made.update(f"{_plain(name)} {size}".encode())
    if program.staged is not None:
        for e, _ in _equations(program.staged):
            numbers = [_plain(v.val) for v in e.invars if type(v) is Literal]
            params = [f"{n}={_plain(v)}" for n, v in sorted(e.params.items()) if n not in _OWN]
            made.update(f"{e.primitive.name}{numbers}{params}".encode())
    return made.digest()


def _plain(x: Any) -> str:
    """A value as text, without what tells objects of one process from those of another."""
    if isinstance(x, (str, bytes, int, float, complex, bool, type(None), type(Ellipsis), np.dtype)):
        return repr(x)
    if isinstance(x, (tuple, list, frozenset, set)):
        parts = [_plain(n) for n in x]
        return f"({', '.join(parts if isinstance(x, (tuple, list)) else sorted(parts))})"
    if isinstance(x, (np.generic, np.ndarray)):
        return repr(x.item()) if x.ndim == 0 else f"{x.dtype}{x.shape}"
    return type(x).__qualname__


def _axes(e: Any) -> str:
    found = [e.params[p] for p in e.primitive.axis_params]
    flat = [n for f in found for n in (f if isinstance(f, tuple) else (f,))]
    return ", ".join(map(_plain, flat))


def _equations(closed: ClosedJaxpr) -> Iterator[tuple[Any, str]]:
    """(equation, where: its line and what it stands in); programs that are called several times, once."""
    seen = {closed}
    todo: list[tuple[ClosedJaxpr, str, Any]] = [(closed, "", None)]
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


def side(program: Any) -> dict[str, Any]:
    """What a process says of itself where launches differ."""
    closed, place = program.staged, program.placement
    found: list[str] = []
    text = ""
    if closed is not None:
        for e, where in _equations(closed):
            if not e.primitive.axis_params or not e.invars:
                continue
            operands = ", ".join([v.aval.long() for v in e.invars])
            more = "".join([f", {p}={e.params[p]!r:.80}" for p in ("axis_index_groups", "perm")
                            if e.params.get(p) is not None])
            found.append(f"{e.primitive.name} over {_axes(e)} of {operands:.200}{more}{where}")
        text = f"{closed}"[:_TEXT]
    at = user_source(1)
    return {"call": f"{program.call} of `{program.name}`", "processes": list(program.processes),
            "devices": [int(d.id) for d in place.devices][:64], "count": len(place.devices),
            "at": "" if at is None else f"{at.file}:{at.line}", "digest": _hex(program),
            "types": "" if closed is None else ", ".join([a.short() for a in closed.in_avals])[:400],
            "collectives": found[:_LINES] + ([f"and {len(found) - _LINES} more"] if len(found) > _LINES else []), "text": text}


def _hex(program: Any) -> str:
    return str(program.pact[1].hex())


# --- all of them --------------------------------------------------------------------------------------------------
def error(kind: str, found: dict[int, dict[str, Any]], own: int, late: list[int]) -> Exception:
    """The error of a launch that was not agreed, the same in all that know the same sides; `late` have not come to
    it, or wait in a circle."""
    ranks = sorted(found)
    wanted = {r for s in found.values() for r in s["processes"]}
    absent = sorted(wanted - set(ranks))
    text = "\n".join(_shown(found, absent))
    if kind == "timeout":
        s = found[own]
        what = f" ({s['collectives'][0]})" if s["collectives"] else ""
        return CollectiveTimeoutError(
            f"{s['call']}{what}: {_processes(late)} did not come to this launch within collective_timeout_seconds; none of its "
            f"data has been exchanged\n{text}\nWho comes late raises this too; the next launch that all come to works")
    if kind == "interrupted":
        return AgreementError(f"{found[own]['call']}: a process was interrupted while it waited for the others to launch this; "
                              f"none of its data has been exchanged\n{text}")
    if kind == "circle":
        return AgreementError(
            f"{_processes(late)} wait for one another, each to come to its launch: none of these can begin, and none of their "
            f"data has been exchanged\n{text}\n{_ORDER}")
    return AgreementError(
        f"{_processes(ranks)} launch different programs over their devices; none of their data has been exchanged\n{text}\n"
        f"{_ORDER}")


_ORDER = ("Every process must launch the same programs over several processes, in one order. The next launch that is the same "
          "in all of them works")


def _processes(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:16])) + (f" and {len(ranks) - 16} more" if len(ranks) > 16 else "")
    return f"process {shown}" if len(ranks) == 1 else f"processes {shown}"


def _shown(found: dict[int, dict[str, Any]], absent: list[int]) -> Iterator[str]:
    alike: dict[Any, list[int]] = {}
    for r in sorted(found):
        s = found[r]
        alike.setdefault((s["digest"], s["at"], s["number"], s["call"]), []).append(r)
    for at, ranks in enumerate(alike.values()):
        s = found[ranks[0]]
        devices = f"{s['count']} devices of {_processes(s['processes'])}"
        line = f"  {_processes(ranks)}: launch {s['number']}, {s['call']}({s['types']}) over {devices}"
        yield line + (f", at {s['at']}" if s["at"] else "")
        for c in s["collectives"] or ["no collectives of its own; the compiler may put some in"]:
            yield f"      {c}"
        if at:
            first = found[min(found)]
            if s["digest"] != first["digest"] and s["collectives"] == first["collectives"]:
                yield from _difference(min(found), first, ranks[0], s)
    if absent:
        yield f"  {_processes(absent)}: not there"


def _difference(one: int, a: dict[str, Any], other: int, b: dict[str, Any]) -> Iterator[str]:
    """Where programs whose collectives look the same differ."""
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
