"""Explain errors of exhausted memory: the largest live values, what holds them, and the changes that would have fitted.

lamina-runtime imports this module when memory is exhausted. The sizes come from the compiler's assignment of values to
memory, so nothing is compiled or run again.
"""
from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lamina_ir import ClosedJaxpr
from lamina_runtime import live_arrays
from lamina_runtime.extend import MemoryRequest, set_memory_explainer

from ._equations import Sources
from ._function import compiled_function, traced_function

__all__ = ["Change", "LiveValue", "PeakMemory", "available_bytes", "explain", "find_changes", "peak_memory"]

_SHOWN = 5
_MAX_EQUATIONS = 200_000  # of a program whose memory is examined


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
    """

    nbytes: int
    values: Sequence[LiveValue]
    place: str
    donated: int


class Change(NamedTuple):
    """A change of a program that needs less memory.

    Attributes:
      kind: `donate`, `checkpoint`, `chunk` or `placement`.
      how: what to do, as "donate ...".
      nbytes: the new memory that a call then needs, besides its arguments.
      fits: whether that is available.
    """

    kind: str
    how: str
    nbytes: int
    fits: bool


def format_size(n: int) -> str:
    """Return a size as text, such as `1.5 GiB`."""
    size, units = float(n), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.0f} {units[0]}" if units[0] == "B" else f"{size:.3g} {units[0]}"


# --- what is alive ----------------------------------------------------------------------------------------------------
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
        values.append(LiveValue(b["type"], b["bytes"], held_by, place(b), argument, _dims(b["type"]), b["first"]))
    values.sort(key=lambda v: -v.nbytes)
    where = place(memory["instructions"][at]) if memory["instructions"] else ""
    return PeakMemory(memory["peak"], values, where, _donatable(program, compiled, kept))


def _dims(text: str) -> tuple[int, ...]:
    inside = text.partition("[")[2].partition("]")[0]
    return tuple([int(n) for n in inside.split(",") if n.strip().isdigit()])


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


# --- what is available ------------------------------------------------------------------------------------------------
def available_bytes(device: Any = None) -> int | None:
    """Return the bytes that can be allocated now, on a device or, for a CPU, in this process; None if unknown."""
    stats = device.memory_stats() if device is not None and device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0))
    found = []
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                found.append(int(line.split()[1]) * 1024)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        import resource  # noqa: PLC0415 (Unix only)
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            found.append(max(0, limit - pages * os.sysconf("SC_PAGE_SIZE")))
        limit_text = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        if limit_text != "max":
            used = int(Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii"))
            found.append(max(0, int(limit_text) - used))
    except (OSError, ValueError, ImportError):
        pass  # another system, or no such limit
    return min(found) if found else None


def _new_bytes(peak: PeakMemory) -> int:
    """Return the bytes at the peak besides the arguments, which exist before the call."""
    return max(0, peak.nbytes - sum([v.nbytes for v in peak.values if v.argument is not None]))


# --- what would have fitted -------------------------------------------------------------------------------------------
def find_changes(peak: PeakMemory, available: int, devices: int = 1, more_devices: int = 0) -> list[Change]:
    """Return the changes that reduce the memory of a program, the smallest change of the program first.

    Args:
      peak: its memory.
      available: the bytes that can be allocated.
      devices: the number of devices on which it runs.
      more_devices: the number of devices with memory of their own that it could use; 0: no more.
    """
    needed = _new_bytes(peak)
    changes = []
    if peak.donated:
        changes.append(("donate", f"donate the {format_size(peak.donated)} of arguments that have the type of a result "
                        "(donate_argnums)", needed - peak.donated))
    residuals = sorted([v for v in peak.values if v.held_by == "residual"], key=lambda v: v.first)
    groups, kept = _group([v.nbytes for v in residuals])
    if groups:
        place = max(residuals, key=lambda v: v.nbytes).place
        changes.append(("checkpoint", f"save {groups} of the {len(residuals)} residuals and recompute the others "
                        f"(lamina.checkpoint of {groups} consecutive parts of the function{f' at {place}' if place else ''})",
                        needed - sum([v.nbytes for v in residuals]) + kept))
    chunk = _chunk(peak, needed, available)
    if chunk is not None:
        changes.append(chunk)
    if more_devices > devices:
        share = more_devices // devices
        changes.append(("placement", f"split the arguments over {more_devices} devices (NamedSharding)", needed // share))
    return [Change(kind, how, max(0, n), n <= available) for kind, how, n in changes]


def _group(sizes: Sequence[int]) -> tuple[int, int]:
    """Divide residuals, in the order in which they are made, into groups that need the least memory.

    The last one of each group is saved. The others are recomputed group by group, so one group of them is alive at a time.

    Returns:
      (number of groups, bytes); (0, 0) if no division saves memory.
    """
    best = 0, sum(sizes)
    for length in range(2, len(sizes) + 1):
        groups = [sizes[i:i + length] for i in range(0, len(sizes), length)]
        nbytes = sum([g[-1] for g in groups]) + max([sum(g[:-1]) for g in groups])
        if nbytes < best[1]:
            best = len(groups), nbytes
    return best if best[0] else (0, 0)


def _chunk(peak: PeakMemory, needed: int, available: int) -> tuple[str, str, int] | None:
    """Return the split of the axis that most live bytes have, into as few parts as fit."""
    inside = [v for v in peak.values if v.argument is None and v.held_by != "constant"]
    given = {n for v in peak.values if v.argument is not None for n in v.dims}
    sizes = {n for v in inside for n in set(v.dims) if n > 1 and (n in given or not given)}
    if not sizes:
        return None
    with_axis = {n: sum([v.nbytes for v in inside if n in v.dims and v.held_by != "result"]) for n in sizes}
    most = max(with_axis.values())
    if not most:
        return None
    # Of axes that divide nearly as much, that of a batch: it leads arguments, and few of them have it.
    arguments = [v.dims for v in peak.values if v.argument is not None]
    axis = max([n for n in sizes if with_axis[n] >= 0.7 * most],
               key=lambda n: (any(d[:1] == (n,) for d in arguments), -sum([n in d for d in arguments]), n))
    rest = needed - with_axis[axis]
    # The smallest number of parts that fits; if none does, one row at a time.
    parts = next((k for k in _divisors(axis) if rest + with_axis[axis] // k <= available), axis)
    how = (f"compute the axis of size {axis:,} in {parts:,} parts: SerialLoop({parts}) as its resource in xmap, or "
           f"lax.map(..., batch_size={axis // parts})")
    return "chunk", how, rest + with_axis[axis] // parts


def _divisors(n: int) -> list[int]:
    small = [k for k in range(2, int(n ** 0.5) + 1) if n % k == 0]
    return sorted({*small, *[n // k for k in small], n})


# --- the text ---------------------------------------------------------------------------------------------------------
def explain(request: MemoryRequest) -> str:
    """Return the explanation of a failed request, in some lines; "" if nothing is known.

    Args:
      request: the size, the program and the arguments, as far as they are known.
    """
    compiled = request.compiled
    program = compiled.source_program if compiled is not None else request.program
    if program is not None and len(program.eqns) > _MAX_EQUATIONS:
        return ""
    device = None if compiled is None else compiled.placement.devices[0]
    available = available_bytes(device)
    free = "" if available is None else f"; {format_size(available)} can be allocated"
    lines = []
    peak = peak_memory(request)
    if peak is not None:
        at = f" at {peak.place}" if peak.place else ""
        lines.append(f"`{compiled.name if compiled is not None else 'the program'}` needs {format_size(peak.nbytes)} at its "
                     f"peak{at}, {format_size(_new_bytes(peak))} of it besides its arguments{free}. The largest live values:")
        lines += [f"  {format_size(v.nbytes):>9}  {v.type}  {v.held_by}{f', {v.place}' if v.place else ''}"
                  for v in peak.values[:_SHOWN]]
        rest = peak.values[_SHOWN:]
        if rest:
            lines.append(f"  {format_size(sum([v.nbytes for v in rest])):>9}  in {len(rest)} other values")
    elif available is not None:
        lines.append(f"The program is not known{free}.")
    lines += _describe_others(request)
    if peak is not None and available is not None:
        lines += _describe_changes(peak, available, device, 1 if compiled is None else len(compiled.placement.devices))
    return "\n".join(lines)


def _describe_others(request: MemoryRequest) -> list[str]:
    """Return the line on arrays outside of the call."""
    given = {id(x) for x in request.arguments}
    others = sorted([(int(x.nbytes), x.aval.str_long()) for x in live_arrays() if id(x) not in given], reverse=True)
    if not others:
        return []
    largest = ", ".join([f"{text} ({format_size(n)})" for n, text in others[:3]])
    what = "Other arrays" if request.arguments else "Arrays of the process, with the arguments"
    return [f"{what}: {len(others)}, {format_size(sum([n for n, _ in others]))}; the largest: {largest}."]


def _describe_changes(peak: PeakMemory, available: int, device: Any, devices: int) -> list[str]:
    more = 0
    if device is not None and device.platform != "cpu":  # virtual CPU devices share the memory of the process
        more = len(device.client.devices())
    changes = find_changes(peak, available, devices, more)
    if _new_bytes(peak) <= available:
        return ["This would fit into the memory that can be allocated now: other threads used it then, or it is in small "
                "pieces."]
    fitting = next((c for c in changes if c.fits), None)
    if fitting is not None:
        smaller = changes[:changes.index(fitting)]
        not_enough = [f"Not enough: {c.how}; this needs {format_size(c.nbytes)}." for c in smaller]
        return [f"What would have fitted: {fitting.how}; this needs {format_size(fitting.nbytes)}.", *not_enough]
    if not changes:
        return ["No donation, checkpoint, split or placement would have fitted: use smaller types or arguments."]
    return ["No single change would have fitted.",
            *[f"Not enough: {c.how}; this needs {format_size(c.nbytes)}." for c in changes]]


set_memory_explainer(explain)
