"""Events for monitoring. Each `record_...` function calls the listeners of its kind, in the order of registration.

| kind | listeners are called with |
| --- | --- |
| event | `(event, **data)` |
| event with a duration | `(event, seconds, **data)` |
| event with a time span | `(event, start, end, **data)`, in seconds since the epoch |
| scalar | `(event, value, **data)` |

For each program that is compiled, the runtime records `/lamina/compile/backend_compile_duration`, in seconds.
"""
from __future__ import annotations

from collections.abc import Callable

__all__ = ["clear_event_listeners", "record_event", "record_event_duration_secs", "record_event_time_span", "record_scalar",
           "register_event_duration_secs_listener", "register_event_listener", "register_event_time_span_listener",
           "register_scalar_listener", "unregister_event_duration_listener", "unregister_event_listener",
           "unregister_event_time_span_listener", "unregister_scalar_listener"]

_listeners: list[Callable[..., None]] = []
duration_listeners: list[Callable[..., None]] = []
_time_span_listeners: list[Callable[..., None]] = []
_scalar_listeners: list[Callable[..., None]] = []


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


def record_event_time_span(event: str, start_time: float, end_time: float, **kwargs: str | int) -> None:
    """Call the listeners for an event with a time span.

    Args:
      event: the name of the event, a path.
      start_time, end_time: seconds since the epoch.
      kwargs: further data.

    >>> register_event_time_span_listener(lambda event, start, end, **data: print(event, end - start))
    >>> record_event_time_span("/shop/open", 10.0, 12.5)
    /shop/open 2.5
    >>> clear_event_listeners()
    """
    for listener in list(_time_span_listeners):
        listener(event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float | int, **kwargs: str | int) -> None:
    """Call the listeners for a number.

    Args:
      event: the name of the event, a path.
      value: the number.
      kwargs: further data.

    >>> register_scalar_listener(lambda event, value, **data: print(event, value))
    >>> record_scalar("/shop/customers", 3)
    /shop/customers 3
    >>> clear_event_listeners()
    """
    for listener in list(_scalar_listeners):
        listener(event, value, **kwargs)


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


def register_event_time_span_listener(callback: Callable[..., None]) -> None:
    """Register `callback(event, start_time, end_time, **data)` for all events with a time span.

    Args:
      callback: the function.
    Raises:
      TypeError: it is not callable.
    """
    _time_span_listeners.append(_check_callable("register_event_time_span_listener", callback))


def register_scalar_listener(callback: Callable[..., None]) -> None:
    """Register `callback(event, value, **data)` for all scalars.

    Args:
      callback: the function.
    Raises:
      TypeError: it is not callable.
    """
    _scalar_listeners.append(_check_callable("register_scalar_listener", callback))


def _unregister(call: str, listeners: list[Callable[..., None]], callback: Callable[..., None]) -> None:
    if callback not in listeners:
        raise ValueError(f"{call}: callback must be a registered listener; got {callback!r:.60}")
    listeners.remove(callback)


def unregister_event_listener(callback: Callable[..., None]) -> None:
    """Remove a listener of `register_event_listener`.

    Args:
      callback: the function.
    Raises:
      ValueError: it is not registered.

    >>> register_event_listener(print)
    >>> unregister_event_listener(print)
    >>> record_event("/shop/sold")
    """
    _unregister("unregister_event_listener", _listeners, callback)


def unregister_event_duration_listener(callback: Callable[..., None]) -> None:
    """Remove a listener of `register_event_duration_secs_listener`; ValueError if it is not registered."""
    _unregister("unregister_event_duration_listener", duration_listeners, callback)


def unregister_event_time_span_listener(callback: Callable[..., None]) -> None:
    """Remove a listener of `register_event_time_span_listener`; ValueError if it is not registered."""
    _unregister("unregister_event_time_span_listener", _time_span_listeners, callback)


def unregister_scalar_listener(callback: Callable[..., None]) -> None:
    """Remove a listener of `register_scalar_listener`; ValueError if it is not registered."""
    _unregister("unregister_scalar_listener", _scalar_listeners, callback)


def clear_event_listeners() -> None:
    """Remove all listeners, of all kinds."""
    for listeners in (_listeners, duration_listeners, _time_span_listeners, _scalar_listeners):
        listeners.clear()
