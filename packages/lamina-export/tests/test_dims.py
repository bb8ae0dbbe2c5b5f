"""Symbolic sizes: arithmetic agrees with that of integers, and a decided comparison holds for all sizes."""
import copy
import pickle

import numpy as np
import pytest
from lamina_export import (InconclusiveDimensionOperation, SymbolicScope, is_symbolic_dim, symbolic_args_specs,
                           symbolic_dim_bounds, symbolic_shape)
from lamina_export.symbolic_dim import evaluate
from lamina_export.symbolic_scope import parse_dim

EXPRESSIONS = ["a + b", "a - b", "2*a + 3 - a", "a*b - b*a + 1", "(a + 1)*(b - 2)", "a^3 - a", "-a + 7", "floordiv(a*b + 3, 4)",
               "mod(2*a + b, 5)", "max(a, b) - min(a, b)", "floordiv(6*a + 4, 2)", "mod(8*a + b, 4)", "max(a, 0)", "mod(-a, 8)"]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_parsed_size_evaluates_as_its_text(text):
    scope = SymbolicScope()
    size = parse_dim(text, scope)
    names = {"floordiv": lambda x, y: x // y, "mod": lambda x, y: x % y, "max": max, "min": min}
    for values in ({"a": 1, "b": 1}, {"a": 5, "b": 3}, {"a": 2, "b": 17}):
        assert evaluate(size, values) == eval(text.replace("^", "**"), names, dict(values))
    again = parse_dim(str(size), scope)
    assert again == size and hash(again) == hash(size) and str(again) == str(size)


@pytest.mark.parametrize("of", [lambda a, b: a + 2 * b - 3, lambda a, b: 7 - a, lambda a, b: a // 3 + (-b) // 2, lambda a,
                                b: a % 4,
                                lambda a, b: 10 // a, lambda a, b: divmod(a, 4)[1] * b, lambda a, b: a ** 2 * b, lambda a,
                                b: -a])
def test_arithmetic_of_symbolic_sizes(of):
    a, b = symbolic_shape("a, b")
    for n, m in ((1, 1), (5, 9), (8, 2)):
        assert evaluate(of(a, b), {"a": n, "b": m}) == of(n, m)


def test_comparisons_are_decided_or_inconclusive():
    a, b = symbolic_shape("a, b", constraints=["a >= 4", "b <= 10", "a >= b + 1"])
    assert a >= 1 and a > 3 and b < 11 and a > b and a != b and a != 5 and not a < 2 and a + b >= 5 and bool(a) and a == a
    assert a - a == 0 and 2 * a - a == a and max(a, 2) == a and a * b >= 4
    for decide in (lambda: a > 4, lambda: b >= 5, lambda: a > 2 * b, lambda: bool(a - 5), lambda: int(a), lambda: float(a),
                lambda: a / 2,
                lambda: 1 / a, lambda: a ** b, lambda: max(a, 6)):
        with pytest.raises(InconclusiveDimensionOperation):
            decide()
    with pytest.raises(TypeError, match="symbolic size"):
        range(a)
    with pytest.raises(TypeError):
        a + 1.5
    with pytest.raises(ZeroDivisionError):
        a // 0


def test_equality_constraint_replaces_the_name():
    a, b, c = symbolic_shape("a, b, mod(a, 8)", constraints=["b == 2*a + 1", "mod(a, 8) == 0"])
    assert str(b) == "2*a + 1" and c == 0 and b % 2 == 1 and is_symbolic_dim(b) and not is_symbolic_dim(c)


def test_symbolic_shapes_are_parsed():
    assert symbolic_shape("(a, 3)") [1] == 3 and symbolic_shape("") == () and symbolic_shape(None, like=(2, 3)) == (2, 3)
    assert symbolic_shape("_, a, ...", like=(2, 3, 4, 5))[2:] == (4, 5)
    assert [str(n) for n in symbolic_shape("(a + 1)*2, (b)")] == ["2*a + 2", "b"]
    specs = symbolic_args_specs({"x": [0.5, 1], "y": 2}, {"x": "", "y": None})
    assert [s.shape for s in specs["x"]] == [(), ()]


@pytest.mark.parametrize("text, more, words", [
    ("a, (", {}, "expected a name"), ("a b", {}, "expected ','"), ("a, _", {}, "is missing"), ("a, $", {}, "is not understood"),
    ("a, 3", {"like": (2, 4)}, "does not fit like"), ("a", {"like": (2, 4)}, "has 1 sizes"), ("a, -3", {}, "below 0"),
    ("floordiv(a)", {}, "expected ','"), ("a^b", {}, "int as power"), ("a", {"constraints": ["a"]}, "must hold one of"),
    ("a", {"constraints": ["a >= 4", "a <= 3"]}, "no size is left"), ("a", {"constraints": ["1 >= 2"]}, "never holds")])
def test_invalid_shape_text_is_refused(text, more, words):
    with pytest.raises(ValueError, match=words):
        symbolic_shape(text, **more)


def test_sizes_of_two_scopes_are_refused():
    (a,), (b,) = symbolic_shape("a"), symbolic_shape("b")
    with pytest.raises(ValueError, match="two scopes"):
        a + b
    with pytest.raises(ValueError, match="belong to a scope"):
        symbolic_shape("a", scope=a.scope, constraints=["a >= 2"])
    with pytest.raises(TypeError, match="sequence of texts"):
        SymbolicScope("a >= 2")
    with pytest.raises(TypeError, match="must be a SymbolicScope"):
        symbolic_shape("a", scope=3)
    assert str(copy.copy(a)) == "a" and str(pickle.loads(pickle.dumps(a + 1))) == "a + 1"


def test_bounds_follow_from_constraints():
    a, b = symbolic_shape("a, b", constraints=["a >= 3", "b <= 10"])
    assert symbolic_dim_bounds(a) == (3, float("inf")) and symbolic_dim_bounds(b) == (1, 10)
    assert symbolic_dim_bounds(2 * a - b) == (-4, float("inf")) and symbolic_dim_bounds(np.int64(5)) == (5, 5)
    assert all(isinstance(bound, int) for bound in symbolic_dim_bounds(b + 1))
    with pytest.raises(TypeError, match="symbolic_dim_bounds: dimension must be a symbolic size or an integer; got float: 2.5"):
        symbolic_dim_bounds(2.5)
