"""`checking_leaks`: which traced values outlive the function they were made in, and where each was made.

While the setting is on, every trace notes the line of each value it makes, and is put down when it ends. When the public
call it ran in returns, all frames in between are gone: a value that is still held then has leaked.
"""
from __future__ import annotations

import gc
import threading
import weakref
from types import FrameType
from typing import Any

from lamina_ir import LeakedTracerError, config

from . import trace as _trace
from .lines import user_source
from .trace import Trace
from .tracer import Tracer

__all__ = ["ended", "forget", "refuse_leaks"]

ended: list[tuple[int, weakref.ref[Trace]]] = []  # (thread, trace) of those that ended under a public call still running
_check = config.check_tracer_leaks


def _note_origins(trace: Trace) -> None:
    """Have `trace` remember which op made each of its values, and at which line."""
    if not _check.value or trace.kept:
        return
    process, origins = trace.process, {}

    def noting(prim: Any, args: Any, params: Any) -> Any:
        out = process(prim, args, params)
        for x in out if prim.multiple else (out,):
            if isinstance(x, Tracer):
                origins[id(x)] = weakref.ref(x), prim.name, user_source(2)
        return out

    trace.hand_to(noting)
    trace.origins = origins  # type: ignore[attr-defined]


def _note_end(trace: Trace) -> None:
    if hasattr(trace, "origins"):
        ended.append((threading.get_ident(), weakref.ref(trace)))


def forget() -> None:
    """The public call failed: its exception may hold frames, so nothing is said about what they hold."""
    here = threading.get_ident()
    ended[:] = [entry for entry in ended if entry[0] != here]


def refuse_leaks() -> None:
    """LeakedTracerError when something still holds a value of a trace that ended in this thread."""
    here = threading.get_ident()
    found = [ref for thread, ref in ended if thread == here]
    forget()
    if not found or not _check.value:
        return
    gc.collect()
    texts = [_said(x) for trace in filter(None, [ref() for ref in found]) for x in gc.get_referrers(trace)
             if isinstance(x, Tracer)]
    if texts:
        more = f", and {len(texts) - 3} more" if len(texts) > 3 else ""
        raise LeakedTracerError("checking_leaks: traced values outlive the function they were made in: "
                                f"{'; '.join(texts[:3])}{more}. They were kept in a global, an attribute or a closure; "
                                "return them instead")


def _said(x: Any) -> str:
    ref, op, line = x._trace.origins.get(id(x), (None, "", None))
    if ref is None or ref() is not x:
        made = "an argument or a value of our own"
    else:
        made = f"the result of `{op}`" + (f" at {line}" if line is not None else "")
    holders = {type(h).__name__ for h in gc.get_referrers(x) if not isinstance(h, FrameType)}
    return f"{x.aval.long()}, {made} (held by {', '.join(sorted(holders)) or 'nothing the collector knows'})"


_trace.on_begin.append(_note_origins)
_trace.on_end.append(_note_end)
