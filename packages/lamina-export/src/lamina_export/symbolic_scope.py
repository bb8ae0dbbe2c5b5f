"""Shapes written as text, `"batch, 2*d + 1, ..."`, and what is known of the names in them."""
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import override
from lamina_ir import ShapeDtypeStruct, dtypes, trees

from .symbolic_dim import Size, SymbolicDim, apply_function, compute_interval, evaluate, find_variables, make_variable

__all__ = ["SymbolicScope", "parse_dim", "symbolic_args_specs", "symbolic_shape"]

_INFINITE = float("inf")
_TOKENS = re.compile(r"\s*(\.\.\.|[A-Za-z_]\w*|\d+|>=|<=|==|[-+*^(),])")
_FUNCTIONS = ("floordiv", "mod", "max", "min")


class SymbolicScope:
    """Names of symbolic sizes that may be used together, and their constraints.

    Each name is an integer of at least 1.

    Args:
      constraints_str: texts `left >= right`, `left <= right` or `left == right`. Where the left of an equality is a name, or
        one of `floordiv(...)`, `mod(...)`, `max(...)`, `min(...)`, the right replaces it everywhere.
    Raises:
      ValueError: a text is none of these, or no size is left.

    >>> scope = SymbolicScope(["a >= 4", "mod(b, 8) == 0"])
    >>> a, b = symbolic_shape("a, b", scope=scope)
    >>> a > 3, b % 8
    (True, 0)
    """

    def __init__(self, constraints_str: Sequence[str] = ()) -> None:
        if isinstance(constraints_str, str) or not all(isinstance(c, str) for c in constraints_str):
            raise TypeError(f"SymbolicScope: constraints_str must be a sequence of texts such as 'a >= 4'; got "
                            f"{constraints_str!r}")
        self.constraints = tuple(constraints_str)
        self.known: dict[Any, Any] = {}
        self._at_least: list[tuple[str, SymbolicDim]] = []  # of at least 0
        self._equal: list[tuple[str, Any, Any]] = []
        self._names: dict[str, tuple[float, float]] = {}
        for text in self.constraints:
            self._add(text)

    def _add(self, text: str) -> None:
        reader = _Reader(text, self, f"constraint {text!r}")
        left = reader.parse_sum()
        sign = reader.advance()
        if sign not in (">=", "<=", "=="):
            raise ValueError(f"SymbolicScope: the constraint {text!r} must hold one of >=, <= and ==, with a size on either "
                             "side")
        right = reader.parse_sum()
        reader.expect_end()
        if sign == "==":
            self._equal.append((text, left, right))
            if isinstance(left, SymbolicDim) and len(left._terms) == 1:
                ((m, c),) = left._terms.items()
                if c == 1 and len(m) == 1 and m[0][1] == 1 and not ({m[0][0]} & find_variables([right])):
                    self.known[m[0][0]] = right
            return
        more = left - right if sign == ">=" else right - left
        if not isinstance(more, SymbolicDim):
            if more < 0:
                raise ValueError(f"SymbolicScope: the constraint {text!r} never holds")
            return
        self._at_least.append((text, more))
        rest = more._terms.get((), 0)
        linear = {m: c for m, c in more._terms.items() if m}
        if len(linear) == 1:
            ((m, c),) = linear.items()
            if len(m) == 1 and m[0][1] == 1 and isinstance(m[0][0], str):
                low, high = self._names.get(m[0][0], (1, _INFINITE))
                low, high = (max(low, -(rest // c)), high) if c > 0 else (low, min(high, rest // -c))
                if low > high:
                    raise ValueError(f"SymbolicScope: with the constraint {text!r} no size is left for {m[0][0]!r}")
                self._names[m[0][0]] = low, high

    def bounds(self, size: Any) -> tuple[float, float]:
        """Return bounds of a size from its expression and the constraints."""
        low, high = compute_interval(size, self._names)
        if isinstance(size, SymbolicDim):
            for _, more in self._at_least:
                for k in {c // more._terms[m] for m, c in size._terms.items() if m in more._terms and c % more._terms[m] == 0}:
                    if k > 0:
                        low = max(low, compute_interval(size - more * k, self._names)[0])
                    elif k < 0:
                        high = min(high, compute_interval(size - more * k, self._names)[1])
        return low, high

    def find_broken(self, values: Mapping[str, int]) -> str | None:
        """The first constraint that does not hold for these values of all names; None: all hold."""
        for name, n in values.items():
            if n < 1:
                return f"{name} >= 1"
        for text, more in self._at_least:
            if find_variables([more]) <= {*values} and evaluate(more, values) < 0:
                return text
        for text, left, right in self._equal:
            if find_variables([left, right]) <= {*values} and evaluate(left, values) != evaluate(right, values):
                return text
        return None

    @override
    def __repr__(self) -> str:
        return f"SymbolicScope({list(self.constraints)})" if self.constraints else f"SymbolicScope() at {id(self):#x}"


class _Reader:
    """Reads sizes off a text."""

    def __init__(self, text: str, scope: SymbolicScope, where: str) -> None:
        self.text, self.scope, self.where = text, scope, where
        self.tokens: list[str] = []
        at = 0
        while text[at:].strip():
            found = _TOKENS.match(text, at)
            if found is None:
                raise ValueError(f"{where}: {text[at:].strip()!r} is not understood. Sizes are made of names, ints, + - * ^, "
                                 f"parentheses, and {', '.join(_FUNCTIONS)} of two sizes")
            self.tokens.append(found[1])
            at = found.end()
        self.at = 0

    def peek(self) -> str | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def advance(self) -> str | None:
        self.at += 1
        return self.tokens[self.at - 1] if self.at <= len(self.tokens) else None

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def make_error(self, expected: str) -> ValueError:
        found = self.peek()
        return ValueError(f"{self.where}: expected {expected}; got {'the end' if found is None else repr(found)}")

    def expect_end(self) -> None:
        if self.peek() is not None:
            raise self.make_error("the end")

    def parse_sum(self) -> Any:
        found = -self.parse_product() if self.accept("-") else self.parse_product()
        while self.peek() in ("+", "-"):
            found = found + self.parse_product() if self.advance() == "+" else found - self.parse_product()
        return found

    def parse_product(self) -> Any:
        found = self.parse_power()
        while self.accept("*"):
            found = found * self.parse_power()
        return found

    def parse_power(self) -> Any:
        found = self.parse_factor()
        if self.accept("^"):
            power = self.advance()
            if power is None or not power.isdigit():
                self.at -= 1
                raise self.make_error("an int as power")
            found = found ** int(power)
        return found

    def parse_factor(self) -> Any:
        token = self.peek()
        if token is None:
            raise self.make_error("a name, an int or a parenthesis")
        if token.isdigit():
            self.at += 1
            return int(token)
        if self.accept("-"):
            return -self.parse_factor()
        if self.accept("("):
            found = self.parse_sum()
            if not self.accept(")"):
                raise self.make_error("')'")
            return found
        if not token.isidentifier() or token == "_":
            raise self.make_error("a name, an int or a parenthesis")
        self.at += 1
        if token not in _FUNCTIONS or self.peek() != "(":
            return make_variable(token, self.scope)
        self.at += 1
        x = self.parse_sum()
        if not self.accept(","):
            raise self.make_error("','")
        y = self.parse_sum()
        if not self.accept(")"):
            raise self.make_error("')'")
        return apply_function(token, x, y, self.scope)


def parse_dim(text: str, scope: SymbolicScope) -> Any:
    """One size, read off its text."""
    reader = _Reader(text, scope, f"size {text!r}")
    found = reader.parse_sum()
    reader.expect_end()
    return found


def symbolic_shape(shape_spec: str | None, *, constraints: Sequence[str] = (), scope: SymbolicScope | None = None,
                   like: Sequence[int | None] | None = None) -> tuple[Size, ...]:
    """A shape with sizes that are not known yet, read off a text.

    Args:
      shape_spec: sizes with commas between them, in parentheses or not: names, ints, `+ - * ^`, `floordiv(x, y)`, `mod(x, y)`,
        `max(x, y)`, `min(x, y)`. `_` is the size that `like` has there, `...` all that are left of it; None is all of it.
      constraints: what is known of the names, see `SymbolicScope`. scope: in which the names are; None: a new one.
      like: a shape, None where a size is not known.
    Returns:
      A tuple of ints and symbolic sizes.
    Raises:
      ValueError: the text is not understood, or does not fit `like`; both constraints and a scope.

    >>> symbolic_shape("batch, 2*n + 1, 3")
    (batch, 2*n + 1, 3)
    >>> symbolic_shape("batch, ...", like=(8, 3, 3))
    (batch, 3, 3)
    """
    call = "symbolic_shape"
    if scope is None:
        scope = SymbolicScope(constraints)
    elif not isinstance(scope, SymbolicScope):
        raise TypeError(f"{call}: scope must be a SymbolicScope; got {type(scope).__name__}: {scope!r}")
    elif constraints:
        raise ValueError(f"{call}: constraints belong to a scope: give them to SymbolicScope(...) where a scope is given")
    if shape_spec is None:
        shape_spec = "..."
    if not isinstance(shape_spec, str):
        raise TypeError(f"{call}: expected a text such as 'batch, 3'; got {type(shape_spec).__name__}: {shape_spec!r}")
    return _parse_shape(call, shape_spec, scope, None if like is None else tuple(like))


def _parse_shape(call: str, text: str, scope: SymbolicScope, like: tuple[int | None, ...] | None) -> tuple[Size, ...]:
    bare = text.strip()
    if bare.startswith("(") and bare.endswith(")") and _closes_last(bare):
        bare = bare[1:-1].strip()
    reader = _Reader(bare, scope, f"{call}: {text!r}")
    found: list[Size] = []

    def get_known_size(i: int, token: str) -> int:
        if like is None:
            raise ValueError(f"{call}: {text!r}: {token!r} refers to sizes of `like`, which is missing")
        n = like[i] if i < len(like) else None
        if n is None:
            raise ValueError(f"{call}: {text!r}: {token!r} refers to size {i} of like, {like}, which has no such size")
        return int(n)

    while reader.peek() is not None:
        if reader.accept("..."):
            end = len(like) if like is not None else len(found) + 1
            found += [get_known_size(i, "...") for i in range(len(found), end)]
            reader.accept(",")
            reader.expect_end()
            break
        found.append(get_known_size(len(found), "_") if reader.accept("_") else reader.parse_sum())
        if reader.peek() is not None and not reader.accept(","):
            raise reader.make_error("','")
    if like is not None:
        if len(found) != len(like):
            raise ValueError(f"{call}: {text!r} has {len(found)} sizes; like, {like}, has {len(like)}")
        wrong = [f"size {i} is {n} there and {m} in like" for i, (n, m) in enumerate(zip(found, like))
                 if m is not None and type(n) is int and n != m]
        if wrong:
            raise ValueError(f"{call}: {text!r} does not fit like, {like}: {'; '.join(wrong)}")
    if any(type(n) is int and n < 0 for n in found):
        raise ValueError(f"{call}: {text!r} has a size below 0")
    return tuple(found)


def _closes_last(text: str) -> bool:
    """Whether the first parenthesis is closed by the last."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return i == len(text) - 1
    return False


def symbolic_args_specs(args: Any, shapes_specs: Any, constraints: Sequence[str] = (), scope: SymbolicScope | None = None,
                        symbolic_constraints: Sequence[str] = (), symbolic_scope: SymbolicScope | None = None) -> Any:
    """Arguments as `export` takes them, with shapes read off texts.

    Args:
      args: a tree of arrays, or of anything with shape and dtype.
      shapes_specs: a tree of texts, see `symbolic_shape`, or a prefix of that; None leaves shapes as they are.
      constraints: what is known of the names. scope: in which the names are; None: a new one for all of them.
      symbolic_constraints, symbolic_scope: the same under older names.
    Returns:
      A tree of `ShapeDtypeStruct`.
    Raises:
      ValueError: a text does not fit its argument.

    >>> symbolic_args_specs({"x": np.zeros((8, 3), np.float32), "w": np.zeros(3, np.float32)}, {"x": "batch, _", "w": None})
    {'w': ShapeDtypeStruct(shape=(3,), dtype=float32), 'x': ShapeDtypeStruct(shape=(batch, 3), dtype=float32)}
    """
    call = "symbolic_args_specs"
    constraints = constraints or symbolic_constraints
    scope = scope or symbolic_scope
    if scope is None:
        scope = SymbolicScope(constraints)
    elif constraints:
        raise ValueError(f"{call}: constraints belong to a scope: give them to SymbolicScope(...) where a scope is given")

    def is_spec(x: Any) -> bool:
        return x is None or isinstance(x, str)

    flat, tree = trees.tree_flatten(args)
    texts = trees.broadcast_prefix(shapes_specs, args, is_leaf=is_spec)
    found = []
    for x, text in zip(flat, texts):
        shape = tuple(x.shape) if hasattr(x, "shape") else np.shape(x)
        dtype = dtypes.canonicalize(x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype)
        if text is not None and not isinstance(text, str):
            raise TypeError(f"{call}: shapes_specs must hold texts and None; got {type(text).__name__}: {text!r}")
        found.append(ShapeDtypeStruct(_parse_shape(call, text if text is not None else "...", scope, shape), dtype))
    return tree.unflatten(found)

