"""Values of equation params and their program text; registration of further types."""
from __future__ import annotations

import dataclasses
import enum
import re
from typing import TypeVar

import numpy as np
from typing_extensions import override

from . import dtypes
from .._util.short_repr import short_repr
from ..typing import ParamValue

__all__ = ["UnnamedAxis", "dtype_names", "find_param_type", "format_param", "get_field_values", "register_param_type"]

_Type = TypeVar("_Type", bound=type)
_TYPES: dict[str, type] = {}
_WORD = r"[A-Za-z_]\w*\Z|<\w+>\Z"
dtype_names = frozenset([d.name for d in map(dtypes.from_short_name, dtypes.SHORT_NAMES) if d.names is None])
_RESERVED = dtype_names | {"None", "True", "False", "inf", "nan", "lambda", "float0", "frozenset", "Ellipsis"}


class UnnamedAxis:
    """The name of a mapped axis without a user-given name: `<axis 0x7f...>`, compared by identity."""

    __slots__ = ("label", "__weakref__")

    def __init__(self, label: str | None = None) -> None:
        self.label = label

    @override
    def __repr__(self) -> str:
        return f"<axis {self.label or hex(id(self))}>"


def register_param_type(kind: _Type) -> _Type:
    """Class decorator: allow values of this type in params, where they can be printed, parsed, saved and loaded.

    Args:
      kind: an enum, a named tuple or a dataclass, hashable, whose fields are themselves valid param values.
    Returns:
      The class itself.
    Raises:
      TypeError: it is none of the three.
      ValueError: another class is registered under its name.

    >>> import enum
    >>> @register_param_type
    ... class Rounding(enum.Enum):
    ...     UP = 1
    >>> format_param(Rounding.UP)
    'Rounding.UP'
    """
    if not isinstance(kind, type) or not (issubclass(kind, enum.Enum) or hasattr(kind, "_fields")
                                          or dataclasses.is_dataclass(kind)):
        raise TypeError(f"register_param_type: expected an Enum, named tuple or dataclass; got {short_repr(kind)}")
    if _TYPES.setdefault(kind.__name__, kind) is not kind:
        raise ValueError(f"register_param_type: another type is already named {kind.__name__}")
    return kind


def find_param_type(name: str) -> type | None:
    """Return the registered type with this name; None if absent."""
    return _TYPES.get(name)


def get_field_values(value: ParamValue) -> list[tuple[str, ParamValue]] | None:
    """Return `[(field, value), ...]` of a named tuple or dataclass; None for other values."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    return None


def format_param(value: ParamValue) -> str:
    """Return the program text of a param value; `printer` handles nested programs. Only an outermost string is
    unquoted.

    >>> format_param("dot"), format_param((np.dtype("float32"), "dot", 3, None))
    ('dot', "(float32, 'dot', 3, None)")
    """
    if type(value) is str and re.match(_WORD, value) and value not in _RESERVED:
        return value
    return _inner_text(value)


def _inner_text(value: ParamValue) -> str:
    kind = type(value)
    if kind is tuple:
        inner = ", ".join([_inner_text(v) for v in value])
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if kind is str:
        return repr(value)
    if kind is int or value is None or kind is bool or kind is float:
        return repr(value)
    if isinstance(value, np.dtype):
        return value.name if value != dtypes.float0 else "float0"
    if isinstance(value, enum.Enum):
        return f"{kind.__name__}.{value.name}"
    fields = get_field_values(value)
    if fields is not None:
        return f"{kind.__name__}({', '.join([f'{n}={_inner_text(v)}' for n, v in fields])})"
    if kind is list:
        return f"[{', '.join([_inner_text(v) for v in value])}]"
    if kind is dict:
        return "{" + ", ".join([f"{_inner_text(k)}: {_inner_text(v)}" for k, v in value.items()]) + "}"
    if isinstance(value, np.generic):
        return repr(value.item())
    if kind is frozenset:
        return f"frozenset([{', '.join(sorted(_inner_text(v) for v in value))}])"
    return repr(value)
