"""Explain errors of exhausted memory: the largest live values, what holds them, and the changes that would have fitted.

lamina-runtime imports this module when memory is exhausted. The sizes come from the compiler's assignment of values to
memory, so nothing is compiled or run again.
"""
from __future__ import annotations

from typing import Any

from lamina_runtime import live_arrays
from lamina_runtime.extend import MemoryRequest, set_memory_explainer

from ._changes import Change, available_bytes, find_changes, format_size
from ._peak import LiveValue, PeakMemory, new_bytes, peak_memory

__all__ = ["Change", "LiveValue", "PeakMemory", "available_bytes", "explain", "find_changes", "peak_memory"]

_SHOWN = 5
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
    if new_bytes(peak) <= available:
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
