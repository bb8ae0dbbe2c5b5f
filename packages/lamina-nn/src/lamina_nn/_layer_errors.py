"""Rename errors of layers: messages start with the name of the layer's constructor."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from lamina_tracing.extend import rename_errors

__all__ = ["Layer", "check_input_shape", "layer"]

Layer: TypeAlias = tuple[Callable[[Any, Any], tuple[Any, Any]], Callable[..., Any]]
F = TypeVar("F", bound=Callable[..., Layer])


def layer(maker: F, name: str = "") -> F:
    """Mark a constructor of layers, whose errors start with `name` or its own name.

    Combinators are not marked: an error starts with the name of the inner layer that raised it."""
    name = name or maker.__name__

    @functools.wraps(maker)
    def make(*args: Any, **kwargs: Any) -> Layer:
        init, apply = maker(*args, **kwargs)
        return rename_errors(init, name), rename_errors(apply, name)
    return make  # type: ignore[return-value]


def check_input_shape(call: str, shape: Any) -> tuple[int, ...]:
    """A shape of inputs, as `init` is given it."""
    if isinstance(shape, (tuple, list)) and all(hasattr(n, "__index__") for n in shape):
        return tuple(shape)
    raise TypeError(f"{call}: input_shape must be a sequence of integers; got {shape!r:.80}")
