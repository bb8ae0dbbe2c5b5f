"""The changes of a program that would fit, found by compiling it with each change, the smallest change first."""
from __future__ import annotations

from collections.abc import Iterator, Sequence

from lamina_runtime import process_count
from lamina_runtime.extend import MemoryRequest

from .._savings.find import MAX_EQUATIONS, find_variants, peak_of
from ._changes import Change, available_bytes, find_parts
from ._peak import PeakMemory

__all__ = ["find_compiled_changes", "reason_not_compiled"]

_COMPILER_BYTES = 1 << 30  # of the host: a compiler without memory may abort the process


def reason_not_compiled(request: MemoryRequest) -> str:
    """Return why the changes of a program are estimated rather than compiled; "" if they are compiled."""
    compiled = request.compiled
    if compiled is None or compiled.source_program is None:
        return "the program is not compiled"
    if len(compiled.source_program.eqns) > MAX_EQUATIONS:
        return f"the program has more than {MAX_EQUATIONS} equations"
    if process_count() > 1:
        return "there are several processes"
    if (available_bytes() or 0) < _COMPILER_BYTES:
        return "the process has too little memory for the compiler"
    return ""


def find_compiled_changes(request: MemoryRequest, peak: PeakMemory, available: int,
                          problems: list[str]) -> Iterator[Change]:
    """Compile changes of a program, the smallest change first, and yield the memory that each needs, until one fits.

    Args:
      request: with a compiled program.
      peak: its memory.
      available: the bytes that can be allocated.
      problems: collects sentences on changes that were not found.
    """
    program, closed = request.compiled, request.compiled.source_program
    held = int(program.executable.get_compiled_memory_stats().argument_size_in_bytes)
    parts: Sequence[int] = find_parts(peak, available)
    for variant in find_variants(program, closed, peak.row, lambda: list(request.arguments), None, problems, parts):
        try:
            # Kept on the program, because a caller may repeat the call and its error often.
            nbytes = closed.memo(("see: peak of a change", variant.kind, variant.what, variant.how),
                                 lambda compile=variant.compile: peak_of(compile()))
        except Exception as e:
            problems.append(f"{variant.title} is unknown, because compiling it raised {type(e).__name__}")
            continue
        needed = max(0, nbytes - held)
        change = Change(variant.kind, variant.how, needed, needed <= available)
        yield change
        if change.fits:
            return
