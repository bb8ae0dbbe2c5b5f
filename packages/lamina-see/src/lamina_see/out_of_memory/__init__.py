"""Explain errors of exhausted memory: the largest live values, what holds them, and the changes that would have fitted.

lamina-runtime imports this module when memory is exhausted. The sizes come from the compiler's assignment of values to
memory. The changes of a program of at most 300 equations are compiled, the smallest change first, until one fits; those of
others are estimated from that assignment. Nothing is run again.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina_runtime import live_arrays
from lamina_runtime.extend import MemoryRequest, set_memory_explainer

from ._changes import Change, available_bytes, find_changes, format_size
from ._compiled_changes import find_compiled_changes, reason_not_compiled
from ._peak import LiveValue, PeakMemory, new_bytes, peak_memory

__all__ = ["Change", "LiveValue", "PeakMemory", "available_bytes", "explain", "find_changes", "peak_memory"]

_SHOWN = 5
_MARGIN = 32  # a part of the available memory that is left free, because it is in pieces
_MAX_EQUATIONS = 200_000  # of a program whose memory is examined


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
                     f"peak{at}, {format_size(new_bytes(peak))} of it besides its arguments{free}. The largest live values:")
        lines += [f"  {format_size(v.nbytes):>9}  {v.type}  {v.held_by}{f', {v.place}' if v.place else ''}"
                  for v in peak.values[:_SHOWN]]
        rest = peak.values[_SHOWN:]
        if rest:
            lines.append(f"  {format_size(sum([v.nbytes for v in rest])):>9}  in {len(rest)} other values")
    elif available is not None:
        lines.append(f"{format_size(available)} can be allocated.")
    lines += _describe_others(request)
    if peak is not None and available is not None:
        lines += _describe_changes(request, peak, available, device)
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


def _describe_changes(request: MemoryRequest, peak: PeakMemory, available: int, device: Any) -> list[str]:
    """Return the lines on the smallest change that fits: of the changes that were compiled, else of the estimated ones."""
    if new_bytes(peak) <= available:
        return ["This would fit into the memory that can be allocated now: other threads used it then, or it is in small "
                "pieces."]
    available -= available // _MARGIN
    reason, problems = reason_not_compiled(request), list[str]()
    compiled = [] if reason else list(find_compiled_changes(request, peak, available, problems))
    if compiled and compiled[-1].fits:
        return [f"What would have fitted: {_describe(compiled[-1])}, as compiled.", *_describe_not_enough(compiled[:-1])]
    more = 0
    if device is not None and device.platform != "cpu":  # virtual CPU devices share the memory of the process
        more = len(device.client.devices())
    devices = 1 if request.compiled is None else len(request.compiled.placement.devices)
    least = {c.kind: min([d.nbytes for d in compiled if d.kind == c.kind]) for c in compiled}
    estimated = [c for c in find_changes(peak, available, devices, more)
                 if c.kind not in least or c.kind != "chunk" and c.nbytes < least[c.kind]]
    why = reason or (problems[0].partition(", because ")[2].rstrip(".") if problems else "")
    note = f" (estimated{f', because {why}' if why else ''})"
    fitting = next((c for c in estimated if c.fits), None)
    if fitting is not None:
        smaller = estimated[:estimated.index(fitting)]
        return [f"What should have fitted: {_describe(fitting)}{note}.", *_describe_not_enough([*compiled, *smaller])]
    if not compiled and not estimated:
        return ["No donation, checkpoint, split or placement would have fitted: use smaller types or arguments."]
    return ["No single change would have fitted.", *_describe_not_enough([*compiled, *estimated])]


def _describe(change: Change) -> str:
    return f"{change.how}; this needs {format_size(change.nbytes)}"


def _describe_not_enough(changes: Sequence[Change]) -> list[str]:
    return [f"Not enough: {_describe(c)}." for c in changes]


set_memory_explainer(explain)
