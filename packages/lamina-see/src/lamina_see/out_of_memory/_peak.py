"""The memory of a program at the peak of its schedule."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lamina_ir import ClosedJaxpr
from lamina_runtime.extend import MemoryRequest

from .._equations import Sources
from .._function import compiled_function, traced_function
from .._savings.chunks import dims_of

__all__ = ["LiveValue", "PeakMemory", "new_bytes", "peak_memory"]


class LiveValue(NamedTuple):
    """A value that is alive at the peak.

    Attributes:
      type, nbytes: of the value.
      held_by: `argument "x"`, `result`, `residual` (saved for the backward pass), `temporary` or `constant`.
      place: the source line; "": unknown.
      argument: the position of the argument in the compiled program, or None.
      dims: the sizes of the value.
      first: the position in the schedule where it is made.
    """

    type: str
    nbytes: int
    held_by: str
    place: str
    argument: int | None
    dims: tuple[int, ...]
    first: int = 0


class PeakMemory(NamedTuple):
    """The memory of a program at the peak of its schedule.

    Attributes:
      nbytes: all live bytes.
      values: the live values, the largest first.
      place: the source line that runs then; "": unknown.
      donated: bytes of arguments whose memory results could use, and do not.
      row: the facts of the function, as in a report.
    """

    nbytes: int
    values: Sequence[LiveValue]
    place: str
    donated: int
    row: dict[str, Any] = {}


def peak_memory(request: MemoryRequest) -> PeakMemory | None:
    """Return the memory of the program of a request; None if the program is unknown."""
    compiled = request.compiled
    program: ClosedJaxpr | None = compiled.source_program if compiled is not None else request.program
    if program is None:
        return None
    sources, problems = Sources(), list[str]()
    row = None
    if compiled is not None:
        row = compiled_function(compiled, program, sources, problems)
    if row is None or row["memory"] is None:
        row = traced_function(program, "program", sources, problems)
    if request.describe is not None:
        for i, k in enumerate(row["arguments"]):
            row["values"][k]["name"] = request.describe(i)
    memory, files = row["memory"], list(sources.numbers)
    at = memory["peak_at"]
    phases: dict[int, set[str]] = {}
    for e in row["equations"]:
        for i in e["instruction"]:
            phases.setdefault(i, set()).add(e["phase"])

    def place(fact: dict[str, Any]) -> str:
        return "" if fact["source"] is None else f"{files[fact['source']]}:{fact['line']}"

    kept = [i for i, used in enumerate(compiled.used_args) if used] if compiled is not None else [*range(len(row["arguments"]))]
    position = {value: i for i, value in enumerate(row["arguments"])}
    values = []
    for b in memory["buffers"]:
        if not b["first"] <= at <= b["last"]:
            continue
        argument = position.get(b["value"]) if b["kind"] == "argument" else None
        held_by = b["kind"]
        if argument is not None:
            name = request.describe(argument) if request.describe is not None else str(argument)
            held_by = f"argument {name}"
        elif held_by == "temporary" and phases.get(b["first"]) == {"forward"} and phases.get(b["last"], set()) - {"forward"}:
            held_by = "residual"  # made by the forward pass and read by the backward pass
        values.append(LiveValue(b["type"], b["bytes"], held_by, place(b), argument, dims_of(b["type"]), b["first"]))
    values.sort(key=lambda v: -v.nbytes)
    where = place(memory["instructions"][at]) if memory["instructions"] else ""
    return PeakMemory(memory["peak"], values, where, _donatable(program, compiled, kept), row)


def _donatable(program: ClosedJaxpr, compiled: Any, kept: Sequence[int]) -> int:
    """Return the bytes of arguments that have the type of a result, and are not donated."""
    given = () if compiled is None else compiled.placement.donated
    free = [a for a in program.out_avals]
    for i, is_donated in enumerate(given):
        if is_donated:
            _take(free, program.in_avals[i])
    return sum([a.size * a.dtype.itemsize for i, a in enumerate(program.in_avals)
                if i in kept and not (i < len(given) and given[i]) and _take(free, a)])


def _take(free: list[Any], aval: Any) -> bool:
    for k, a in enumerate(free):
        if a.shape == aval.shape and a.dtype == aval.dtype:
            del free[k]
            return True
    return False


def new_bytes(peak: PeakMemory) -> int:
    """Return the bytes at the peak besides the arguments, which exist before the call."""
    return max(0, peak.nbytes - sum([v.nbytes for v in peak.values if v.argument is not None]))
