"""Sizes that are not known yet: expressions of named integers, kept as polynomials, compared as far as that can be decided.

A `SymbolicDim` is a size in shapes of specifications, and of arguments and results of exported functions. No program computes
with one: programs are traced for sizes that are numbers (`shape_polymorphism`).
"""
from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol

import numpy as np

from typing_extensions import override
from lamina_ir import LaminaError
from lamina_ir.errors import mark_builtin_error

__all__ = ["InconclusiveDimensionOperation", "Size", "SymbolicDim", "evaluate", "find_variables", "is_symbolic_dim",
           "symbolic_dim_bounds"]

Atom = Any  # a name, or (function, argument, argument)
Monomial = tuple[tuple[Atom, int], ...]
_INFINITE = float("inf")


class Scope(Protocol):
    """What sizes ask of the scope of their names; `SymbolicScope` is one.

    Attributes:
      known: what stands for a name, or for a function of two sizes, wherever it is met.
    """

    known: dict[Any, Any]

    def bounds(self, size: Any) -> tuple[float, float]:
        """Return bounds of a size."""
        ...


class InconclusiveDimensionOperation(LaminaError, ValueError):
    """The result of an operation on a symbolic size differs among the sizes that it may be.

    Fix: declare more about the sizes in `constraints=` of `symbolic_shape`, or use a size that is a number.
    """

    code: ClassVar[str] = "LAM1702"


class SymbolicDim:
    """A size that is an expression of named integers, each at least 1.

    Made by `symbolic_shape`; `+ - * // % **`, `divmod` and comparisons give others, numbers, or the truth where that is the
    same for all sizes.

    Attributes:
      scope: whose names they are, and what is known of them.

    >>> from lamina_export import symbolic_shape
    >>> a, b = symbolic_shape("a, b")
    >>> 2 * (a + b) - a, a * b // 2, a - a, a >= 1
    (a + 2*b, floordiv(a*b, 2), 0, True)
    """

    __slots__ = ("_terms", "scope", "_hash")

    def __init__(self, terms: Mapping[Monomial, int], scope: Scope) -> None:
        self._terms = dict(terms)
        self.scope = scope
        self._hash = hash(frozenset(self._terms.items()))

    # --- arithmetic ---------------------------------------------------------------------------------------------------
    def __add__(self, other: Any) -> Any:
        terms = _get_terms(self, other, "+")
        if terms is None:
            return NotImplemented
        found = dict(self._terms)
        for m, c in terms.items():
            found[m] = found.get(m, 0) + c
        return _make_dim(found, self.scope)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return _make_dim({m: -c for m, c in self._terms.items()}, self.scope)

    def __pos__(self) -> Any:
        return self

    def __sub__(self, other: Any) -> Any:
        return NotImplemented if _get_terms(self, other, "-") is None else self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        terms = _get_terms(self, other, "*")
        if terms is None:
            return NotImplemented
        found: dict[Monomial, int] = {}
        for (m, c), (n, d) in itertools.product(self._terms.items(), terms.items()):
            both = _multiply_monomials(m, n)
            found[both] = found.get(both, 0) + c * d
        return _make_dim(found, self.scope)

    __rmul__ = __mul__

    def __pow__(self, power: Any) -> Any:
        if type(power) is not int or power < 0:
            raise InconclusiveDimensionOperation(f"{self} ** {power!r}: the power of a symbolic size must be an int of at "
                                                 "least 0")
        found: Any = 1
        for _ in range(power):
            found = found * self
        return found

    def __floordiv__(self, other: Any) -> Any:
        return self._apply("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._apply("floordiv", other, self)

    def __mod__(self, other: Any) -> Any:
        return self._apply("mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._apply("mod", other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def _apply(self, name: str, x: Any, y: Any) -> Any:
        if _get_terms(self, y if x is self else x, name) is None:
            return NotImplemented
        return apply_function(name, x, y, self.scope)

    def __truediv__(self, other: Any) -> Any:
        raise InconclusiveDimensionOperation(f"{self} / {other}: the quotient of symbolic sizes is no size; use // for the "
                                             "size, or divide inside of the exported function, where sizes are numbers")

    def __rtruediv__(self, other: Any) -> Any:
        return self.__truediv__(other)

    # --- what is asked of them ----------------------------------------------------------------------------------------
    @override
    def __eq__(self, other: Any) -> bool:
        """Whether the two are the same for all sizes."""
        if isinstance(other, SymbolicDim):
            return self is other or (self.scope is other.scope and self._terms == other._terms)
        return False

    @override
    def __hash__(self) -> int:
        return self._hash

    def __ge__(self, other: Any) -> bool:
        return self._decide(self - other, ">=", other)

    def __le__(self, other: Any) -> bool:
        return self._decide(other - self, "<=", other)

    def __gt__(self, other: Any) -> bool:
        return self._decide(self - other - 1, ">", other)

    def __lt__(self, other: Any) -> bool:
        return self._decide(other - self - 1, "<", other)

    def _decide(self, difference: Any, sign: str, other: Any) -> bool:
        """Whether `difference` is at least 0."""
        low, high = self.scope.bounds(difference)
        if low >= 0:
            return True
        if high < 0:
            return False
        raise InconclusiveDimensionOperation(
            f"{self} {sign} {other} holds for some sizes only. Restrict the sizes with "
            f"symbolic_shape(..., constraints=['{self} {'>=' if '>' in sign else '<='} ...'])")

    def __bool__(self) -> bool:
        low, high = self.scope.bounds(self)
        if low > 0 or high < 0:
            return True
        raise InconclusiveDimensionOperation(f"bool({self}): whether this size is 0 is not known")

    def _raise_no_number(self, *_: Any) -> Any:
        raise InconclusiveDimensionOperation(f"{self} is a symbolic size, and a number is needed here. Only export gives it "
                                             "numbers: trace the function by lamina.export.export(jit(f))(...)")

    __int__ = __float__ = _raise_no_number

    def __index__(self) -> int:  # TypeError: what asks for it takes that for an answer
        raise TypeError(f"{self} is a symbolic size, and a number is needed here. Only export gives it numbers: trace the "
                        "function by lamina.export.export(jit(f))(...)")

    # --- text -----------------------------------------------------------------------------------------------------------
    @override
    def __repr__(self) -> str:
        text = ""
        for m, c in sorted(self._terms.items(), key=lambda term: _sort_key(term[0])):
            factors = [f"{_format_atom(a)}^{p}" if p > 1 else _format_atom(a) for a, p in m]
            if abs(c) != 1 or not factors:
                factors.insert(0, str(abs(c)))
            sign = "-" if c < 0 else "+"
            text += f" {sign} {'*'.join(factors)}" if text else f"{'-' if c < 0 else ''}{'*'.join(factors)}"
        return text

    __str__ = __repr__

    @override
    def __reduce__(self) -> Any:
        return SymbolicDim, (self._terms, self.scope)


Size = int | SymbolicDim


def _sort_key(m: Monomial) -> Any:
    """Higher powers first, then by name; the number last."""
    return -sum([p for _, p in m]), [(_format_atom(a), -p) for a, p in m]


def _format_atom(a: Atom) -> str:
    return a if isinstance(a, str) else f"{a[0]}({a[1]}, {a[2]})"


def _get_terms(x: SymbolicDim, other: Any, sign: str) -> Mapping[Monomial, int] | None:
    """Of another operand; None where it is no size."""
    if isinstance(other, SymbolicDim):
        if other.scope is not x.scope:
            raise ValueError(f"{x} {sign} {other}: the names are of two scopes, {x.scope} and {other.scope}. Make all shapes "
                             "of one function with one scope: symbolic_shape(..., scope=...), or symbolic_args_specs")
        return other._terms
    return {(): int(other)} if _is_int(other) else None


def _is_int(x: Any) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def _make_dim(terms: Mapping[Monomial, int], scope: Scope) -> Any:
    """A size of these terms: an int where it is a number."""
    terms = {m: c for m, c in terms.items() if c}
    if not terms:
        return 0
    if len(terms) == 1 and () in terms:
        return terms[()]
    return SymbolicDim(terms, scope)


def make_variable(name: str, scope: Scope) -> SymbolicDim:
    """The size of this name."""
    return scope.known.get(name) or SymbolicDim({((name, 1),): 1}, scope)


def apply_function(name: str, x: Any, y: Any, scope: Scope) -> Any:
    """`floordiv`, `mod`, `max` or `min` of two sizes."""
    if not isinstance(x, SymbolicDim) and not isinstance(y, SymbolicDim):
        return _FUNCTIONS[name](x, y)
    if x == y:
        return {"floordiv": 1, "mod": 0}.get(name, x)
    if name in ("max", "min"):
        low, high = scope.bounds(x - y)
        if low >= 0 or high <= 0:
            return x if (low >= 0) == (name == "max") else y
        x, y = sorted((x, y), key=str)
    elif type(y) is int and y:  # what the divisor divides leaves nothing
        terms = x._terms
        even, rest = {m: c for m, c in terms.items() if c % y == 0}, {m: c for m, c in terms.items() if c % y}
        if name == "mod" and even:
            return apply_function("mod", _make_dim(rest, scope), y, scope)
        if name == "floordiv" and even:
            whole = _make_dim({m: c // y for m, c in even.items()}, scope)
            return whole + apply_function("floordiv", _make_dim(rest, scope), y, scope)
    elif type(y) is int:
        raise mark_builtin_error(ZeroDivisionError(f"{name}: the divisor must not be 0; got {name}({x}, 0)"))
    known = scope.known.get((name, x, y))
    return SymbolicDim({(((name, x, y), 1),): 1}, scope) if known is None else known


_FUNCTIONS: dict[str, Any] = {"floordiv": lambda x, y: x // y, "mod": lambda x, y: x % y, "max": max, "min": min}


def _multiply_monomials(m: Monomial, n: Monomial) -> Monomial:
    powers: dict[Atom, int] = dict(m)
    for a, p in n:
        powers[a] = powers.get(a, 0) + p
    return tuple(sorted(powers.items(), key=lambda factor: _format_atom(factor[0])))


# --- what they are made of ------------------------------------------------------------------------------------------------
def symbolic_dim_bounds(dimension: Size) -> tuple[float, float]:
    """Return bounds of a size that hold for all values of its names; they may not be tight.

    Args:
      dimension: a symbolic size or an integer.
    Returns:
      (lower, upper), both included. A bound that is not known is `-inf` or `inf`.
    Raises:
      TypeError: it is neither.

    >>> from lamina_export import symbolic_shape
    >>> a, b = symbolic_shape("a, b", constraints=["a <= 10"])
    >>> symbolic_dim_bounds(2 * a + b), symbolic_dim_bounds(3)
    ((3, inf), (3, 3))
    """
    if isinstance(dimension, SymbolicDim):
        low, high = dimension.scope.bounds(dimension)
        return int(low) if low > -_INFINITE else low, int(high) if high < _INFINITE else high
    try:
        number = operator.index(dimension)
    except TypeError:
        raise TypeError("symbolic_dim_bounds: dimension must be a symbolic size or an integer; got "
                        f"{type(dimension).__name__}: {dimension!r:.60}") from None
    return number, number


def is_symbolic_dim(p: Any) -> bool:
    """Whether a size is symbolic, not a number.

    Args:
      p: an entry of a shape.
    Returns:
      A truth value.

    >>> from lamina_export import symbolic_shape
    >>> [is_symbolic_dim(n) for n in symbolic_shape("a, 3")]
    [True, False]
    """
    return isinstance(p, SymbolicDim)


def find_variables(sizes: Iterable[Any]) -> set[str]:
    """The names in these sizes."""
    found: set[str] = set()
    for size in sizes:
        for m in size._terms if isinstance(size, SymbolicDim) else ():
            for a, _ in m:
                found |= {a} if isinstance(a, str) else find_variables(a[1:])
    return found


def evaluate(size: Any, values: Mapping[str, int]) -> int:
    """The number that a size is where its names have these values."""
    if not isinstance(size, SymbolicDim):
        return int(size)
    total = 0
    for m, c in size._terms.items():
        for a, p in m:
            c *= (values[a] if isinstance(a, str) else
                  _FUNCTIONS[a[0]](evaluate(a[1], values), evaluate(a[2], values))) ** p
        total += c
    return total


Interval = tuple[float, float]


def compute_interval(size: Any, of_names: Mapping[str, Interval]) -> Interval:
    """Return bounds of a size from bounds of its names; not always the tightest."""
    if not isinstance(size, SymbolicDim):
        return size, size
    low, high = 0.0, 0.0
    for m, c in size._terms.items():
        part: Interval = (c, c)
        for a, p in m:
            of_atom = of_names.get(a, (1, _INFINITE)) if isinstance(a, str) else _interval_of_function(a, of_names)
            for _ in range(p):
                part = _multiply_intervals(part, of_atom)
        low, high = low + part[0], high + part[1]
    return low, high


def _multiply_intervals(x: Interval, y: Interval) -> Interval:
    found = [0 if 0 in (a, b) else a * b for a in x for b in y]
    return min(found), max(found)


def _interval_of_function(a: Any, of_names: Mapping[str, Interval]) -> Interval:
    name, (x, y) = a[0], [compute_interval(part, of_names) for part in a[1:]]
    if name in ("max", "min"):
        pick = _FUNCTIONS[name]
        return pick(x[0], y[0]), pick(x[1], y[1])
    if y[0] <= 0:
        return -_INFINITE, _INFINITE
    if name == "mod":
        return 0, y[1] - 1
    ends = [n if abs(n) == _INFINITE else 0 if d == _INFINITE and n >= 0 else -1 if d == _INFINITE else n // d
            for n in x for d in y]
    return min(ends), max(ends)
