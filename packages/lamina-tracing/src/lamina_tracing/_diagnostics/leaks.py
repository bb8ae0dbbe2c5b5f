"""Implement `checking_leaks`: find traced values that outlive the function they were made in, and where each was made.

While the setting is on, every trace records the source line of each value it makes, and is listed when it ends. When
the enclosing public call returns, no frame between them exists any more, so a traced value that is still referenced has
leaked.
"""
from __future__ import annotations

import gc
import threading
import weakref
from types import FrameType

from lamina_ir import config, LeakedTracerError, Primitive
from lamina_ir.typing import Params, Value

from .._core import trace as _trace
from .._core.source_lines import find_user_source
from .._core.trace import Trace
from .._core.tracer import Tracer
from .._typing import Outputs

__all__ = ["check_leaks", "ended_traces", "forget_ended_traces"]

ended_traces: list[tuple[int, weakref.ref[Trace]]] = []  # (thread, trace) for traces whose enclosing public call still runs
_check = config.check_tracer_leaks


def _note_origins(trace: Trace) -> None:
    """Make `trace` record, for each value it makes, the primitive and its source line."""
    if not (_check.ever_enabled and _check.value) or trace.outlives_transformation:
        return
    process, origins = trace.process, {}

    def process_and_record(prim: Primitive, args: tuple[Value, ...], params: Params) -> Outputs:
        out = process(prim, args, params)
        for x in out if prim.multiple else (out,):
            if isinstance(x, Tracer):
                # Weak, because a record must not keep a value alive that would otherwise be freed.
                origins[id(x)] = weakref.ref(x), prim.name, find_user_source(2)
        return out

    trace.set_handler(process_and_record)
    trace.origins = origins  # type: ignore[attr-defined]


def _note_end(trace: Trace) -> None:
    if hasattr(trace, "origins"):
        ended_traces.append((threading.get_ident(), weakref.ref(trace)))


def forget_ended_traces() -> None:
    """Drop this thread's ended traces after a failed public call: the exception's frames may reference their values."""
    here = threading.get_ident()
    ended_traces[:] = [entry for entry in ended_traces if entry[0] != here]


def check_leaks() -> None:
    """Raise LeakedTracerError if a value of a trace that ended in this thread is still referenced."""
    here = threading.get_ident()
    refs = [ref for thread, ref in ended_traces if thread == here]
    forget_ended_traces()
    if not refs or not _check.value:
        return
    # Tracers in reference cycles are garbage, not leaks.
    gc.collect()
    texts = [_describe(x) for trace in filter(None, [ref() for ref in refs]) for x in gc.get_referrers(trace)
             if isinstance(x, Tracer)]
    if texts:
        more = f", and {len(texts) - 3} more" if len(texts) > 3 else ""
        raise LeakedTracerError("checking_leaks: traced values outlive the function they were made in: "
                                f"{'; '.join(texts[:3])}{more}. They were stored in a global, an attribute or a "
                                "closure; return them instead")


def _describe(x: Value) -> str:
    ref, op, line = x._trace.origins.get(id(x), (None, "", None))
    if ref is None or ref() is not x:
        made = "an argument or an internal value"
    else:
        made = f"the result of `{op}`" + (f" at {line}" if line is not None else "")
    # Frames are those of this function and of its callers.
    holders = {type(h).__name__ for h in gc.get_referrers(x) if not isinstance(h, FrameType)}
    return f"{x.aval.str_long()}, {made} (held by {', '.join(sorted(holders)) or 'an object unknown to the collector'})"


_trace.on_trace_begin.append(_note_origins)
_trace.on_trace_end.append(_note_end)
