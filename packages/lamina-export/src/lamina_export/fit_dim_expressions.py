"""Which expression of the names gives these numbers? For sizes and other numbers of programs, met at several samples.

An expression that is found gives every one of the numbers exactly, and is the only one of its form that does.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from .symbolic_dim import SymbolicDim, apply_function, evaluate, make_variable
from .symbolic_scope import SymbolicScope

__all__ = ["FORMS", "Fit", "count_samples"]

_DIVISORS = range(2, 65)
_DEPTH = 3  # forms within forms

# A number that is no integer may be one of these of an integer; the inverse of each says of which.
FORMS: dict[str, tuple[Callable[[int], float], Callable[[float], float]]] = {
    "number": (float, lambda x: x), "inverse": (lambda n: 1 / n, lambda x: 1 / x), "root": (math.sqrt, lambda x: x * x),
    "inverse root": (lambda n: 1 / math.sqrt(n), lambda x: 1 / (x * x))}


class Fit:
    """Finds expressions of the names of a scope.

    Args:
      samples: values of the names, as many as possible; scope: whose names they are.
      known: other expressions to build on, such as the sizes of arguments.
    """

    def __init__(self, samples: Sequence[Mapping[str, int]], scope: SymbolicScope, known: Sequence[Any] = ()) -> None:
        self.samples = samples
        self.scope = scope
        names = sorted(samples[0])
        of_names = [make_variable(name, scope) for name in names]
        self.basis = [*dict.fromkeys([*of_names, *[k for k in known if isinstance(k, SymbolicDim)]])]
        self.monomials = [*_iterate_monomials(of_names)]
        self.parts = [*self.basis]  # and what was found that is no polynomial
        self.depth = _DEPTH if len(names) == 1 else 2
        self.sums = [x + y for x, y in itertools.combinations(of_names, 2)] if len(names) < 4 else []
        self.found: dict[tuple[int, ...], Any] = {}
        self._values: dict[Any, list[int]] = {}

    def evaluate(self, e: Any) -> list[int]:
        """The numbers that an expression has at the samples."""
        known = self._values.get(e)
        if known is None:
            known = self._values[e] = [evaluate(e, s) for s in self.samples]
        return known

    def fit_ints(self, values: Sequence[int]) -> Any:
        """An expression with these values, or an int; None: none is found."""
        key = tuple(values)
        found = self.found.get(key)
        if found is None:  # what was not found may be now, by what was found since
            found = self.found[key] = self._fit_ints(key, self.depth)
            if isinstance(found, SymbolicDim) and any(not isinstance(a, str) for m in found._terms for a, _ in m):
                self.parts.append(found)
        return found

    def _fit_ints(self, values: tuple[int, ...], depth: int) -> Any:
        if len({*values}) == 1:
            return values[0]
        for form in (self._fit_polynomial, self._fit_quotient, self._fit_remainder):
            e = form(values)
            if e is not None:
                return e
        if depth:
            for e, rest in self._iterate_splits(values):
                inner = self._fit_ints(rest, depth - 1)
                if inner is not None and (found := e(inner)) is not None:
                    return found
        return None

    def _fit_polynomial(self, values: tuple[int, ...]) -> Any:
        """Up to the third degree."""
        for count in (len(self.basis) + 1, len(self.monomials)):
            terms = [1, *self.basis] if count == len(self.basis) + 1 else self.monomials
            if len(terms) + 2 > len(self.samples):
                continue
            solved = _solve_linear([*zip(*[self.evaluate(e) for e in terms])], values)
            if solved is None:
                continue
            over = math.lcm(*[c.denominator for c in solved])
            if over <= _DIVISORS[-1]:
                whole: Any = 0
                for c, e in zip(solved, terms):
                    whole = whole + int(c * over) * e
                return whole if over == 1 else apply_function("floordiv", whole, over, self.scope)
        return None

    def _iterate_bases(self) -> Iterator[tuple[Any, list[int]]]:
        products = [e for e in self.monomials if e not in self.basis and not isinstance(e, int)]
        for e in (*self.basis, *products, *self.sums):
            for k in (1, 2, 3, -1):
                yield e * k, [k * v for v in self.evaluate(e)]

    def _fit_quotient(self, values: tuple[int, ...]) -> Any:
        """`floordiv(e + c, q)`, where the samples leave one `c`."""
        for (e, of_e), q in itertools.product(self._iterate_bases(), _DIVISORS):
            low = max([q * v - n for v, n in zip(values, of_e)])
            high = min([q * v - n + q - 1 for v, n in zip(values, of_e)])
            if low == high:
                return apply_function("floordiv", e + low, q, self.scope)
        return None

    def _fit_remainder(self, values: tuple[int, ...]) -> Any:
        """`mod(e + c, q)`."""
        if min(values) < 0:
            return None
        top = max(values)
        for (e, of_e), q in itertools.product(self._iterate_bases(), _DIVISORS):
            if top == q - 1:  # a larger one would fit as well where no sample reaches it
                shifts = {(v - n) % q for v, n in zip(values, of_e)}
                if len(shifts) == 1:
                    return apply_function("mod", e + shifts.pop(), q, self.scope)
        return None

    def _iterate_splits(self, values: tuple[int, ...]) -> Iterator[tuple[Callable[[Any], Any], tuple[int, ...]]]:
        """What is left of the numbers when a part is taken off, and how the whole is made of that."""
        step = math.gcd(*[v - values[0] for v in values])
        if step > 1:
            rest = values[0] % step
            yield (lambda e: e * step + rest), tuple([(v - rest) // step for v in values])
        for b in self.parts:
            of_b = self.evaluate(b)
            if all(n and v % n == 0 for v, n in zip(values, of_b)):
                yield (lambda e, b=b: e * b), tuple([v // n for v, n in zip(values, of_b)])  # type: ignore[misc]
        for b in self.parts:
            less = tuple([v - n for v, n in zip(values, self.evaluate(b))])
            if max(map(abs, less)) < max(map(abs, values)):
                yield (lambda e, b=b: e + b), less  # type: ignore[misc]

    def fit_floats(self, values: Sequence[float], rounded: Callable[[float], float]) -> tuple[str, Any] | None:
        """A form and an expression of which these numbers are that; `rounded` gives the number of the dtype."""
        for name, (form, inverse) in FORMS.items():
            try:
                whole = [round(inverse(v)) for v in values]
                if all(rounded(form(n)) == v for n, v in zip(whole, values)):
                    e = self.fit_ints(whole)
                    if e is not None:
                        return name, e
            except (ZeroDivisionError, OverflowError, ValueError):
                pass
        return None


def _iterate_monomials(names: Sequence[Any]) -> Iterator[Any]:
    """1, and products of up to three names; of many names no cubes."""
    yield 1
    for degree in (1, 2, 3):
        for those in itertools.combinations_with_replacement(names, degree):
            if degree < 3 or len(names) < 3 or len({*map(str, those)}) == degree:
                yield math.prod(those[1:], start=those[0])


def count_samples(names: int) -> int:
    """How many samples decide on all polynomials, and leave some to confirm them."""
    scope = SymbolicScope()
    of_names: list[Any] = [make_variable(f"n{i}", scope) for i in range(names)]
    return max(len([*_iterate_monomials(of_names)]) + 3, 17)


def _solve_linear(rows: Sequence[Sequence[int]], values: Sequence[int]) -> list[Fraction] | None:
    """The one solution of the linear equations; None: there is none, or more than one."""
    m = [[Fraction(x) for x in row] + [Fraction(v)] for row, v in zip(rows, values)]
    width = len(rows[0])
    for column in range(width):
        pivot = next((i for i in range(column, len(m)) if m[i][column]), None)
        if pivot is None:
            return None
        m[column], m[pivot] = m[pivot], m[column]
        lead = m[column]
        inverse = 1 / lead[column]
        m[column] = lead = [x * inverse for x in lead]
        for i, row in enumerate(m):
            if i != column and row[column]:
                factor = row[column]
                m[i] = [x - factor * y for x, y in zip(row, lead)]
    if any(row[-1] for row in m[width:]):
        return None
    return [row[-1] for row in m[:width]]
