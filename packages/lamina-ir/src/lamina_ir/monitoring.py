"""Events for programs that watch lamina: `record_event` and `record_event_duration_secs` tell all listeners.

The runtime tells `/lamina/compile/backend_compile_duration`, in seconds, of each program that the compiler is given.
"""
from __future__ import annotations

from collections.abc import Callable

__all__ = ["clear_event_listeners", "record_event", "record_event_duration_secs", "register_event_duration_secs_listener",
           "register_event_listener"]

_listeners: list[Callable[..., None]] = []
_duration_listeners: list[Callable[..., None]] = []


def record_event(event: str, **kwargs: str | int) -> None:
    """Tell the listeners that something happened.

    Args:
      event: its name, as a path.
      kwargs: what else is known of it.

    >>> register_event_listener(lambda event, **facts: print(event, facts))
    >>> record_event("/shop/sold", number=2)
    /shop/sold {'number': 2}
    >>> clear_event_listeners()
    """
    for listener in list(_listeners):
        listener(event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: str | int) -> None:
    """Tell the listeners how long something took.

    Args:
      event: its name, as a path.
      duration: seconds.
      kwargs: what else is known of it.
    """
    for listener in list(_duration_listeners):
        listener(event, duration, **kwargs)


def _callable(call: str, callback: Callable[..., None]) -> Callable[..., None]:
    if not callable(callback):
        raise TypeError(f"{call}: expected a function; got {type(callback).__name__}")
    return callback


def register_event_listener(callback: Callable[..., None]) -> None:
    """Have `callback(event, **facts)` called at each event.

    Args:
      callback: the function.
    Raises:
      TypeError: it is none.
    """
    _listeners.append(_callable("register_event_listener", callback))


def register_event_duration_secs_listener(callback: Callable[..., None]) -> None:
    """Have `callback(event, seconds, **facts)` called at each event that took some time.

    Args:
      callback: the function.
    Raises:
      TypeError: it is none.
    """
    _duration_listeners.append(_callable("register_event_duration_secs_listener", callback))


def clear_event_listeners() -> None:
    """Forget all listeners."""
    _listeners.clear()
    _duration_listeners.clear()
