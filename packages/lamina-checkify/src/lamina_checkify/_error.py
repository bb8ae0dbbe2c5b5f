"""`Error`: an error as a value, a pytree of arrays; and its static part, the table of checks that may have failed.

An error has three kinds of leaves. `code` is 0 if all checks passed, else the number of the first failed check, from 1.
`trail` says where that was: for each enclosing loop or map, outermost first, the number of its label in the table and
the iteration or member. The slots hold the values in the message; checks share slots of the same type.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from typing_extensions import override
from lamina_ir import ConcretizationError, trees
from lamina_ir.extend import axis_positions, format_axes, register_param_type
from lamina_ir.typing import Value
from lamina_tracing.extend import EVALUATION, Tracer, trace_state

from ._check import UNNAMED, Axes, CheckText, JaxRuntimeError, check_p, format_first_member

__all__ = ["Error", "ErrorText", "Label", "Site", "Table", "check_error", "init_error"]


@dataclasses.dataclass(frozen=True)
class Label:
    """A loop or a map around checks.

    Attributes:
      name: the name of the primitive, such as `scan`.
      source: its source line, as text; empty if unknown.
      axes: the axes that it maps; empty for a loop.
      last: the last iteration, if a loop runs from the last slice to the first; else None.
    """

    name: str
    source: str
    axes: Axes = ()
    last: int | None = None

    def format(self, number: int) -> str:
        """Return the text for an iteration or a member, which begins with a comma."""
        place = f"the {self.name}" + (f" at {self.source}" if self.source else "")
        if self.axes:
            member = "member" if self.name == "xmap" else "device"  # an xmap may run several members on a device
            return f", {format_axes(axis_positions(self.axes, number))}, {member} {number} of {place}"
        return f", at index {number if self.last is None else self.last - number} of {place}"


@dataclasses.dataclass(frozen=True)
class Site:
    """A condition that an equation must satisfy, for one value or for each element of an array.

    Attributes:
      text: the message.
      source: the source line, as text; empty if unknown.
      shape: the shape of the array. If it is not (), the first slot holds the index of the first failed element.
      part: what the array is, for messages.
      axes: if its dimensions are mapped axes: these.
      slots: the slots with the values in the message.
    """

    text: CheckText
    source: str
    shape: tuple[int, ...]
    part: str
    axes: Axes
    slots: tuple[int, ...]

    def format(self, slots: Sequence[np.ndarray]) -> str:
        """Return the message for these values of all slots."""
        values = [slots[i] for i in self.slots]
        place = f", at {self.source}" if self.source else ""
        if self.shape:
            position = int(values.pop(0))
            index = ", ".join(map(str, np.unravel_index(position, self.shape)))
            if self.axes:
                place += format_first_member(self.axes, position)
            else:
                place = f", at index {index} of {self.part}{place}"
        return self.text.format(values) + place


@dataclasses.dataclass(frozen=True)
class Table:
    """The static part of an `Error`: all checks that may have failed, and the loops and maps around them."""

    sites: tuple[Site, ...] = ()
    labels: tuple[Label, ...] = ()

    def format(self, code: int, trail: np.ndarray, slots: Sequence[np.ndarray]) -> str:
        """Return the message of one error."""
        places = [self.labels[label].format(int(number)) for label, number in reversed(trail) if label >= 0]
        return self.sites[code - 1].format(slots) + "".join(places)


class Error:
    """The result of the checks of a function, as a value: it passes through `jit`, `vmap`, `pmap` and control flow.

    `checkify` makes errors. Under `vmap` or `pmap` an error is batched: it holds one result per member.

    >>> init_error.get() is None
    True
    """

    __slots__ = ("_leaves", "_table")

    def __init__(self, leaves: Sequence[Value], table: Table) -> None:
        self._leaves, self._table = tuple(leaves), table

    def get(self) -> str | None:
        """Return the message of the first failed check, or None if all passed.

        The message of a batched error has a line for each member with a failed check.

        Raises:
          ConcretizationError: the error is traced, so that its value is not known.
        """
        found = self._messages()
        if not found:
            return None
        return "\n".join([f"at mapped index {', '.join(map(str, i))}: {text}" if i else text for i, text in found])

    def _messages(self) -> list[tuple[tuple[int, ...], str]]:
        if self._is_traced():
            raise ConcretizationError("Error.get: the error is traced, so its value is not known here. Return it from "
                                      "the compiled function, or call check_error(err) in a function that checkify "
                                      "transforms")
        code, trail, *slots = map(np.asarray, self._leaves)
        return [(i, self._table.format(int(code[i]), trail[i], [s[i] for s in slots]))
                for i in map(tuple, np.argwhere(code).tolist())]

    def _is_traced(self) -> bool:
        return any(isinstance(x, Tracer) for x in self._leaves)

    def get_exception(self) -> JaxRuntimeError | None:
        """Return the exception that `throw` raises, or None if all checks passed."""
        text = self.get()
        return None if text is None else JaxRuntimeError(text)

    def throw(self) -> None:
        """Raise the first error, if there is one. In a traced function, see `check_error`.

        Raises:
          JaxRuntimeError: a check failed.
        """
        check_error(self)

    @override
    def __repr__(self) -> str:
        return f"Error({'<traced>' if self._is_traced() else repr(self.get())})"


trees.register_pytree_node(Error, lambda e: (e._leaves, e._table), lambda table, leaves: Error(leaves, table))


@register_param_type
@dataclasses.dataclass(frozen=True)
class ErrorText:
    """The message of `check_error`: that of the error it checks."""

    table: Table

    def format(self, payload: Sequence[np.ndarray]) -> str:
        """Return the message of the error with these leaves."""
        code, trail, *slots = payload
        return self.table.format(int(code), trail, slots)


def check_error(error: Error) -> None:
    """Raise an error value; in a function transformed by `checkify`, make it an error of that function.

    Args:
      error: an `Error`, batched or not.
    Returns:
      None.
    Raises:
      JaxRuntimeError: a check failed.
      TypeError: `error` is not an `Error`.

    Source: jax.experimental.checkify.check_error

    >>> check_error(init_error)
    """
    if not isinstance(error, Error):
        raise TypeError(f"check_error takes an Error as argument, got type {type(error)} instead. Pass the first "
                        "result of checkify(f)(...)")
    if trace_state.trace is EVALUATION and not error._is_traced():
        exception = error.get_exception()
        if exception is not None:
            raise exception
    elif error._table.sites:
        code = error._leaves[0]
        check_p.bind(code == 0, *error._leaves, text=ErrorText(error._table), debug=False,
                     axes=tuple([(UNNAMED, n) for n in code.shape]))


# The error value without a failed check.
init_error = Error([np.int32(0), np.zeros((0, 2), np.int32)], Table())
