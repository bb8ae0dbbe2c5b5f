"""Static and donated arguments of a function: check their positions and names and convert them to one form."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from lamina_ir import StaticArgumentError
from lamina_ir.typing import Function, StaticValue, Tree

from .signature import count_positional, function_name, get_parameters, parameter_names, Parameters
from .tracer import Tracer
from .._typing import ArgSelection, StaticKey

__all__ = ["StaticArgs", "as_tuple", "hashable_remedy"]

T = TypeVar("T")


def as_tuple(call: str, what: str, value: ArgSelection, kind: type[T]) -> tuple[T, ...]:
    """Convert one value or a sequence of values to a tuple of `kind`.

    Args:
      call: the function whose argument it is, for the message.
      what: the argument's name.
      value: one value, a sequence of them, or None for an empty tuple.
      kind: their type; for `int`, any object with `__index__` is accepted.
    Returns:
      A tuple.
    Raises:
      TypeError: an element is of another type.

    >>> as_tuple("jit", "static_argnums", 2, int), as_tuple("jit", "static_argnames", ["a", "b"], str)
    ((2,), ('a', 'b'))
    """
    if value is None or type(value) is tuple and not value:
        return ()
    if isinstance(value, kind):
        return (value,)
    if kind is int and hasattr(value, "__index__"):
        return (value.__index__(),)
    try:
        found = tuple(value)
    except TypeError:
        found = (value,)
    for v in found:
        if not isinstance(v, kind) and not (kind is int and hasattr(v, "__index__")):
            raise TypeError(f"{call}: {what} expects {kind.__name__} or a sequence of them; got {value!r}")
    return found


def _check_names(call: str, fun: Function, what: str, names: Sequence[str], known: Parameters | None) -> None:
    """Raise ValueError if a name is not a parameter of `fun`, and `fun` has no `**kwargs`; `known`: its parameters."""
    if known is None or known[3]:
        return
    for name in names:
        if name not in known[1]:
            raise ValueError(f"{call}: {what} {name!r} is no parameter of `{function_name(fun)}`; it has "
                             f"{', '.join(known[1]) or 'none'}")


def hashable_remedy(kind: str) -> str:
    """Return what to pass instead of an unhashable static argument whose type is named `kind`.

    >>> hashable_remedy("list")
    'Pass a tuple, or make the argument dynamic'
    """
    instead = {"list": "Pass a tuple", "bytearray": "Pass bytes", "set": "Pass a frozenset",
               "dict": "Pass a tuple of its items"}.get(kind)
    if kind in ("Array", "ArrayImpl", "HostArray", "ndarray"):
        return "Make the argument dynamic"
    if instead is None:
        return "Make the argument dynamic, or define __hash__ and __eq__ of its class"
    return f"{instead}, or make the argument dynamic"


class StaticArgs:
    """Static arguments of a function: `nums` are positions, `names` are names, `any` is whether there are any.

    `name` is the function's name for messages.

    If only positions or only names are given, the others follow from the signature.
    """

    def __init__(self, call: str, fun: Function, argnums: ArgSelection, argnames: ArgSelection) -> None:
        self.call, self.fun, self.name = call, fun, function_name(fun)
        what = "static_broadcasted_argnums" if call in ("pmap", "padded") else "static_argnums"
        nums = as_tuple(call, what, argnums, int)
        names = as_tuple(call, "static_argnames", argnames, str)
        if nums or names:
            known = get_parameters(fun)
            _check_names(call, fun, "static_argnames", names, known)
            positional = () if known is None else known[0]
            count = None if known is None or known[2] else len(positional)
            nums = tuple([self._from_front(what, n, count) for n in nums])
            if argnames is None:
                names = tuple([positional[n] for n in nums if n < len(positional)])
            elif argnums is None:
                nums = tuple([positional.index(n) for n in names if n in positional])
        self.nums = frozenset(nums)
        self.names = frozenset(names)
        self.any = bool(self.nums or self.names)

    def _from_front(self, what: str, n: int, count: int | None) -> int:
        """Check a position and return it as a non-negative integer."""
        if count is not None and not -count <= n < count:
            names = ", ".join((get_parameters(self.fun) or ((),))[0])
            raise ValueError(f"{self.call}: {what} {n} is out of range: `{self.name}` takes {count} "
                             f"positional arguments" + (f" ({names})" if names else ""))
        return n + count if n < 0 and count is not None else n

    def donated(self, argnums: ArgSelection, argnames: ArgSelection) -> frozenset[int]:
        """Return the positions of arguments donated by position or by name. ValueError if one is also static."""
        if (argnums is None or type(argnums) is tuple and not argnums) and argnames is None:
            return frozenset()
        nums = as_tuple(self.call, "donate_argnums", argnums, int)
        names = as_tuple(self.call, "donate_argnames", argnames, str)
        if nums:
            count = count_positional(self.fun)
            nums = tuple(self._from_front("donate_argnums", n, count) for n in nums)
        if names:
            _check_names(self.call, self.fun, "donate_argnames", names, get_parameters(self.fun))
            known = parameter_names(self.fun) or ()
            nums += tuple(known.index(n) for n in names if n in known)
        both = self.nums.intersection(nums)
        if both:
            raise ValueError(f"{self.call}: {self.describe(min(both))} is both static and donated; choose one")
        return frozenset(nums)

    def describe(self, where: int | str) -> str:
        """Return the text for an argument in messages: `argument 1 ('n')`."""
        known = get_parameters(self.fun)
        if isinstance(where, str) or known is None or where >= len(known[0]):
            return f"argument {where!r}"
        return f"argument {where} ({known[0][where]!r})"

    def position(self, name: str) -> int:
        known = parameter_names(self.fun) or ()
        return known.index(name) if name in known else -1

    def split(self, args: Sequence[Tree],
              kwargs: dict[str, Tree]) -> tuple[tuple[Tree, ...], dict[str, Tree], StaticKey]:
        """Return (dynamic positional, dynamic keyword, key of the static arguments).

        Raises StaticArgumentError if a static argument is traced or not hashable. The key holds the type of each value,
        because `1 == 1.0 == True` would otherwise share a program.
        """
        dynamic: list[Tree] = []
        static: list[tuple[int | str, StaticValue]] = []
        rest = {}
        for i, a in enumerate(args):
            if i in self.nums:
                static.append((i, a))
            else:
                dynamic.append(a)
        for name, value in kwargs.items():
            if name in self.names:
                static.append((name, value))
            else:
                rest[name] = value
        for where, value in static:
            if isinstance(value, Tracer):
                raise StaticArgumentError(f"{self.call} of `{self.name}`: static {self.describe(where)} is a "
                                          f"traced value {value.aval.str_long()}; a static argument must be a known Python "
                                          f"value.{value._describe_provenance()}")
            try:
                hash(value)
            except TypeError as e:
                raise StaticArgumentError(
                    f"{self.call} of `{self.name}`: static {self.describe(where)} must be hashable; got "
                    f"{type(value).__name__}: {value!r:.60}. {hashable_remedy(type(value).__name__)}") from e
        if len(static) > 1:
            static.sort(key=lambda p: str(p[0]))
        return tuple(dynamic), rest, tuple([(w, type(v), v) for w, v in static])

    def join(self, dynamic: Sequence[Tree], kwargs: dict[str, Tree],
             static: StaticKey) -> tuple[list[Tree], dict[str, Tree]]:
        """The inverse of `split`."""
        by_position: dict[Any, StaticValue] = {}
        named: dict[Any, Tree] = dict(kwargs)
        for where, _, value in static:
            (by_position if isinstance(where, int) else named)[where] = value
        if not by_position:
            return list(dynamic), named
        rest, count = iter(dynamic), len(dynamic) + len(by_position)
        return [by_position[i] if i in by_position else next(rest) for i in range(count)], named
