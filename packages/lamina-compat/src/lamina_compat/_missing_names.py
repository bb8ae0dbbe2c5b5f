"""Record the names of JAX that a program asked for and lamina does not have."""
from __future__ import annotations

import sys
from types import FrameType
from typing import NamedTuple

__all__ = ["MissingName", "format_report", "missing_names", "note_missing"]

_MAX_NAMES = 10_000


class MissingName(NamedTuple):
    """A name that was asked for: where first, and how often."""

    name: str
    caller: str
    times: int


_missing: dict[str, MissingName] = {}


def note_missing(name: str) -> None:
    """Record that the caller outside of this package and of the import system asked for `name`."""
    found = _missing.get(name)
    if found is not None:
        _missing[name] = found._replace(times=found.times + 1)
    elif len(_missing) < _MAX_NAMES:
        _missing[name] = MissingName(name, _find_caller(), 1)


def _find_caller() -> str:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        module, file = frame.f_globals.get("__name__", ""), frame.f_code.co_filename
        if not module.startswith(("lamina_compat", "importlib")) and not file.startswith("<frozen "):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return "unknown"


def missing_names() -> list[MissingName]:
    """List the missing names, the first one asked for first.

    Returns:
      One `MissingName` (name, caller as "file:line", times) for each name. A name may have been asked for by `hasattr`: a
      program that has another way does not need it.
    """
    return list(_missing.values())


def format_report() -> str:
    """Return a table of the missing names with their callers; "" if there are none."""
    if not _missing:
        return ""
    width = max(len(m.name) for m in _missing.values())
    lines = [f"  {m.name:{width}}  {m.caller}" + (f"  ({m.times} times)" if m.times > 1 else "") for m in _missing.values()]
    return "\n".join(["names of jax that lamina does not have, with the first caller:", *lines])
