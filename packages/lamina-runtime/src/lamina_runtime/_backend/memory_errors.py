"""Errors of exhausted memory: find the program that needed it, and let a higher package explain where the memory went.

On a CPU, XLA allocates when a program runs, after the call returned. The error is then reported by the array that is read,
and names the size of the allocation. The program is found by that size among the compiled ones.
"""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from lamina_ir import ClosedJaxpr, OutOfMemoryError, ShapedArray
from lamina_ir.typing import Value

from . import client_state

__all__ = ["MemoryRequest", "is_memory_error", "make_memory_error", "set_memory_explainer"]

_PACKAGE, _EXPLAINER = "lamina_see", "lamina_see.out_of_memory"  # a higher package: imported by name, if it is installed
_NOT_INSTALLED = "Install lamina-see: then this error lists the largest live values, and the changes that would fit"


class MemoryRequest(NamedTuple):
    """A failed request for memory.

    Attributes:
      nbytes: the size of the allocation that failed; None if unknown.
      compiled: the compiled program that needed it (`CompiledProgram`); None if unknown, or if the compiler failed.
      program: the program, if it is known.
      arguments: the flat arguments of the call, if they are known.
      describe: returns the name of an argument by its flat index; None: unknown.
    """

    nbytes: int | None
    compiled: Any = None
    program: ClosedJaxpr | None = None
    arguments: Sequence[Value] = ()
    describe: Callable[[int], str] | None = None


_explain: Callable[[MemoryRequest], str] | None = None


def set_memory_explainer(explain: Callable[[MemoryRequest], str] | None) -> None:
    """Set the function that explains errors of exhausted memory.

    Args:
      explain: returns the text that follows the first line of the error. It must need little memory. If it raises, the
        error has no explanation.
    """
    global _explain
    _explain = explain


def is_memory_error(error: BaseException) -> bool:
    """Return whether an error of jaxlib reports exhausted memory."""
    text = str(error)
    return "RESOURCE_EXHAUSTED: " in text or "Out of memory" in text and "INTERNAL: " in text


def _allocation_size(error: BaseException) -> int | None:
    found = re.search(r"llocat\w+ (\d+) bytes", str(error))
    return int(found[1]) if found else None


def make_memory_error(call: str, error: BaseException, program: ClosedJaxpr | None = None, result: ShapedArray | None = None,
                      arguments: Sequence[Value] = (), describe: Callable[[int], str] | None = None,
                      is_transfer: bool = False) -> OutOfMemoryError:
    """Return the error to raise for exhausted memory, with an explanation if lamina-see is installed.

    Args:
      call: the call that failed, such as "jit of `f`".
      error: that of jaxlib.
      program: the program, if it is known.
      result: the type of the array whose computation failed; None: unknown.
      arguments, describe: as in `MemoryRequest`.
      is_transfer: whether no program needed the memory.
    """
    nbytes = _allocation_size(error)
    text = f"{call}: out of memory: {str(error)[:500]}"
    try:
        compiled = None if is_transfer else _find_compiled(program, nbytes, result)
        explanation = _explain_request(MemoryRequest(nbytes, compiled, program, arguments, describe))
    except Exception:  # also MemoryError: the first line must come through
        explanation = ""
    return OutOfMemoryError(f"{text}\n{explanation}" if explanation else text)


def _explain_request(request: MemoryRequest) -> str:
    if _explain is None:
        try:
            import_module(_EXPLAINER)  # sets the explainer
        except ModuleNotFoundError as e:
            if e.name not in (_PACKAGE, _EXPLAINER):
                raise
            return _NOT_INSTALLED
    return "" if _explain is None else _explain(request)


def _compiled_programs() -> Iterator[tuple[Any, ClosedJaxpr, Any]]:
    """Iterate over (executable, program, compiled program) in the memory cache, the latest first."""
    for loaded in reversed(list(client_state.current.executables.values())):
        for program, keys in list(loaded.memo_keys.items()):
            for key in keys:
                if key in program.memo_keys():
                    yield loaded, program, program.memo(key, _absent)


def _absent() -> None:
    raise LookupError("the program was evicted")


def _find_compiled(program: ClosedJaxpr | None, nbytes: int | None, result: ShapedArray | None) -> Any:
    """Return the compiled program that needed the memory; None if it is not known.

    Of several programs with an allocation of that size, it is the latest that gives `result`. If none gives it, the array
    was computed from the results of the program.
    """
    exact = sized = None
    for loaded, source, compiled in _compiled_programs():
        if source is program:
            return compiled
        if nbytes is None or exact is not None:
            continue
        stats = loaded.executable.get_compiled_memory_stats()
        sizes = {stats.temp_size_in_bytes, stats.output_size_in_bytes, *[a.size * a.dtype.itemsize for a in source.out_avals]}
        if nbytes in sizes:
            sized = sized or compiled
            if result is not None and any(a.shape == result.shape and a.dtype == result.dtype for a in source.out_avals):
                exact = compiled
    return exact or sized
