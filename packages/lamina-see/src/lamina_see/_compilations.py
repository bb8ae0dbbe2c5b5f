"""The history of compilations: each with its times, the caches, and the reason why no cached program was found."""
from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, ClassVar

from lamina_ir import LaminaError, Source
from lamina_tracing.extend import Staging, find_user_source, hide_frames_of, watching_staging

from ._runtime import has_runtime

__all__ = ["CompilationLimitError", "History", "format_compilations", "max_compiles"]

Row = dict[str, Any]

hide_frames_of(__file__.rsplit("/", 1)[0])  # the lines in facts are those of the user


class CompilationLimitError(LaminaError, RuntimeError):
    """More programs were compiled than `max_compiles` allows.

    Fix: pass arguments of equal types and equal static values, or raise the limit.

    Attributes:
      compilations: the rows of the compilations, as in a report.
    """

    code: ClassVar[str] = "LAM1507"

    def __init__(self, text: str, compilations: Sequence[Row] = ()) -> None:
        super().__init__(text)
        self.compilations = list(compilations)


class History:
    """Context that records compilations, in all threads.

    Args:
      limit: raise CompilationLimitError at the compilation after this many; None: no limit.
      on_program: called before the first launch of each compiled function, whose programs are then kept.

    Attributes:
      rows: one per compilation, as in a report, with `file` in place of `source`.
      programs: if they are kept, the compiled programs of functions, without those of single operations, with the staging
        that made them.
    """

    def __init__(self, limit: int | None = None, on_program: Callable[[], object] | None = None) -> None:
        self.limit, self._on_program = limit, on_program
        self.rows: list[Row] = []
        self.programs: list[tuple[Any, Staging | None]] = []
        self._staged: dict[tuple[int, str], Staging] = {}
        self._stack = ExitStack()

    def __enter__(self) -> History:
        self._stack.enter_context(watching_staging(self._note_staging))
        if has_runtime():
            from lamina_runtime.extend import watching_compilations  # noqa: PLC0415 (absent on the NumPy-only install)
            self._stack.enter_context(watching_compilations(self._note_compilation))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self._stack.close()

    def _note_staging(self, staging: Staging) -> None:
        self._staged[threading.get_ident(), staging.name] = staging
        if len(self._staged) > 10_000:
            self._staged.clear()

    def _note_compilation(self, compilation: Any) -> None:
        from lamina_runtime import compilation_cache  # noqa: PLC0415 (absent on the NumPy-only install)
        name, source = compilation.name, compilation.source
        staging = self._staged.pop((threading.get_ident(), name), None)
        reasons = [*(staging.reasons if staging is not None else ()), *compilation.reasons]
        place: Source | None = staging.source if staging is not None and staging.source is not None else find_user_source(2)
        is_eager = compilation.call == "evaluation"
        self.rows.append({
            "function": name, "kind": "eager" if is_eager else compilation.call,
            "file": "" if place is None else place.file, "line": 0 if place is None else place.line,
            "signature": ", ".join([a.str_long() for a in compilation.program.in_avals]),
            "trace": None if staging is None else int(staging.seconds * 1e9), "lower": int(compilation.lower_seconds * 1e9),
            "xla": None if source == "memory" else int(compilation.compile_seconds * 1e9),
            "memory_cache": "hit" if source == "memory" else "miss",
            "disk_cache": "off" if not compilation_cache.is_enabled() else None if source == "memory" else
            "hit" if source == "disk" else "miss",
            "reason": "; ".join(reasons) or ("first use of this operation with these types" if is_eager else None)})
        if self._on_program is not None and not is_eager:
            self.programs.append((compilation.program, staging))
            self._on_program()
        if self.limit is not None and source != "memory":
            made = [row for row in self.rows if row["memory_cache"] == "miss"]
            if len(made) > self.limit:
                raise CompilationLimitError(
                    f"max_compiles: at most {self.limit} compilation{'s' * (self.limit != 1)} must happen in this block; got "
                    f"{len(made)}. Pass arguments of equal types, or raise the limit:\n{format_compilations(made)}", made)


def format_compilations(rows: list[Row]) -> str:
    """Return a table of compilations as text."""
    table = [["function", "line", "signature", "trace", "lower", "XLA", "reason"]]
    for row in rows:
        times = ["" if row[phase] is None else f"{row[phase] / 1e6:.1f} ms" for phase in ("trace", "lower", "xla")]
        file = row.get("file", "")
        where = f"{file.rpartition('/')[2]}:{row['line']}" if row["line"] else ""
        table.append([f"{row['kind']} {row['function']}", where, _shorten(row["signature"], 48), *times, row["reason"] or ""])
    widths = [max(map(len, column)) for column in list(zip(*table))[:-1]]
    return "\n".join([f"  {'  '.join([text.ljust(w) for text, w in zip(line, widths)])}  {line[-1]}".rstrip()
                      for line in table])


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit - 3] + "..."


class max_compiles(History):
    """Context that limits the compilations in its block, in all threads.

    Programs loaded from the disk count, because whether they are there depends on earlier processes. Programs found in
    memory do not count. Single operations outside of `jit` are programs, too.

    Args:
      n: the number of compilations that may happen.
    Raises:
      TypeError, ValueError: `n` is not an integer of at least 0.
      CompilationLimitError: at the compilation after `n`, with a table of all and their reasons.

    >>> from lamina_tracing import jit
    >>> f = jit(lambda x: x * 2 + 3)
    >>> with max_compiles(1) as history:
    ...     y = f(1.0), f(2.0)
    >>> [row["function"] for row in history.rows]
    ['<lambda>']
    """

    def __init__(self, n: int) -> None:
        if not isinstance(n, int) or isinstance(n, bool):
            raise TypeError(f"max_compiles: n must be an integer; got {type(n).__name__}")
        if n < 0:
            raise ValueError(f"max_compiles: n must be at least 0; got {n}")
        super().__init__(n)
