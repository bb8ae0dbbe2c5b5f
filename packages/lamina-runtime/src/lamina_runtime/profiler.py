"""Recording what runs when: `with trace(folder):` writes a profile that TensorBoard and Perfetto read."""
from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from . import _jaxlib

__all__ = ["StepTraceAnnotation", "TraceAnnotation", "annotate_function", "start_trace", "stop_trace", "trace"]

_lock = threading.Lock()
_session: tuple[Any, str] | None = None

TraceAnnotation, _Session = _jaxlib.load_profiler()
"""Context manager: names what runs inside it in the profile, with further facts as keywords."""


class StepTraceAnnotation(TraceAnnotation):  # type: ignore[misc, valid-type]
    """Context manager for one training step: `with StepTraceAnnotation("train", step_num=i):`."""

    def __init__(self, name: str, **facts: Any) -> None:
        super().__init__(name, _r=1, **facts)


def start_trace(log_dir: str | os.PathLike[str]) -> None:
    """Begin recording. RuntimeError while another recording runs."""
    global _session
    with _lock:
        if _session is not None:
            raise RuntimeError("start_trace: a profile is being recorded already; call stop_trace first")
        _session = _Session(), os.fspath(log_dir)


def stop_trace() -> None:
    """End recording and write `plugins/profile/<time>/` under the folder given to `start_trace`."""
    global _session
    with _lock:
        if _session is None:
            raise RuntimeError("stop_trace: no profile is being recorded; call start_trace first")
        session, folder = _session
        _session = None
    session.stop_and_export(folder)


@contextmanager
def trace(log_dir: str | os.PathLike[str]) -> Iterator[None]:
    """A block that is recorded. Block on results inside it, or their work may end after the recording."""
    start_trace(log_dir)
    try:
        yield
    finally:
        stop_trace()


def annotate_function(fun: Callable[..., Any], name: str | None = None, **facts: Any) -> Callable[..., Any]:
    """`fun`, named in profiles.

    >>> annotate_function(lambda x: x + 1, name="next")(1)
    2
    """
    label = name or getattr(fun, "__qualname__", type(fun).__name__)

    @functools.wraps(fun)
    def annotated(*args: Any, **kwargs: Any) -> Any:
        with TraceAnnotation(label, **facts):
            return fun(*args, **kwargs)

    return annotated
