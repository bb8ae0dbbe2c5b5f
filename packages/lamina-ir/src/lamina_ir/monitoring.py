"""Events for monitoring: `record_event` and `record_event_duration_secs` call all listeners.

For each program that is compiled, the runtime records `/lamina/compile/backend_compile_duration`, in seconds.
"""
from __future__ import annotations

from collections.abc import Callable

__all__ = ["clear_event_listeners", "record_event", "record_event_duration_secs", "register_event_duration_secs_listener",
           "register_event_listener"]

_listeners: list[Callable[..., None]] = []
duration_listeners: list[Callable[..., None]] = []


def record_event(event: str, **kwargs: str | int) -> None:
    """Call the listeners for an event.

    Args:
      event: the name of the event, a path.
      kwargs: further data.

    >>> register_event_listener(lambda event, **facts: print(event, facts))
    >>> record_event("/shop/sold", number=2)
    /shop/sold {'number': 2}
    >>> clear_event_listeners()
    """
    for listener in list(_listeners):
        listener(event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: str | int) -> None:
    """Call the listeners for an event with a duration.

    Args:
      event: the name of the event, a path.
      duration: seconds.
      kwargs: further data.
    """
    for listener in list(duration_listeners):
        listener(event, duration, **kwargs)


def _check_callable(call: str, callback: Callable[..., None]) -> Callable[..., None]:
    if not callable(callback):
        raise TypeError(f"{call}: expected a function; got {type(callback).__name__}")
    return callback


def register_event_listener(callback: Callable[..., None]) -> None:
    """Register `callback(event, **data)` for all events.

    Args:
      callback: the function.
    Raises:
      TypeError: it is not callable.
    """
    _listeners.append(_check_callable("register_event_listener", callback))


def register_event_duration_secs_listener(callback: Callable[..., None]) -> None:
    """Register `callback(event, seconds, **data)` for all events with a duration.

    Args:
      callback: the function.
    Raises:
      TypeError: it is not callable.
    """
    duration_listeners.append(_check_callable("register_event_duration_secs_listener", callback))


def clear_event_listeners() -> None:
    """Remove all listeners."""
    _listeners.clear()
    duration_listeners.clear()
