"""Random wrong calls of `lax` functions: the error begins with the name of the called function."""
import dataclasses
import inspect
import random
import re

import numpy as np
import pytest

from lamina_ir import ConcretizationError, StaticArgumentError, UnboundAxisError
from lamina_tracing import jit, lax
from lamina_tracing.extend import rename_errors

pytestmark = pytest.mark.filterwarnings("ignore")
X = np.float32([0.5, 1.5, 2.])
BAD = [None, "a", 1.5, -1, 7, {}, np.array(["a"]), np.ones((2, 3, 5, 7), np.float32), np.zeros(0, np.float32), [[1, 2], [3]],
       object()]
USUAL = {"shape": (2, 3), "axis": 0, "axis_name": "i", "dimension": 0, "dtype": "float32", "k": 2}
# not functions of arrays, or functions that call user functions
LEFT_OUT = {"while_loop", "platform_dependent", "fori_loop", "scan", "map", "associative_scan", "cond", "switch", "reduce",
            "reduce_window", "linear_call", "RandomAlgorithm", "custom_call", "infeed", "outfeed", "create_token"}


def calls(name, fun, draw):
    """Yield calls of a function with one wrong argument."""
    parameters = [p for p in inspect.signature(fun).parameters.values() if p.default is p.empty and p.kind in (0, 1)]
    for at in range(len(parameters)):
        for bad in draw.sample(BAD, 4):
            yield [bad if i == at else USUAL.get(p.name, X) for i, p in enumerate(parameters)]


def begins_with(name, error):
    return re.match(rf"{name}\b", str(error)) is not None


FUNCTIONS = {n: getattr(lax, n) for n in lax.__all__ if inspect.isroutine(getattr(lax, n)) and n not in LEFT_OUT}


@pytest.mark.parametrize("jitted", [False, True])
def test_errors_begin_with_name_of_called_function(jitted):
    draw, bad, seen = random.Random(jitted), [], 0
    for name, fun in FUNCTIONS.items():
        for args in calls(name, fun, draw):
            arrays = [i for i, a in enumerate(args) if a is X]
            try:
                if jitted and arrays:
                    jit(lambda *xs: fun(*[xs[arrays.index(i)] if i in arrays else a for i, a in enumerate(args)]))(
                        *[X] * len(arrays))
                elif not jitted:
                    fun(*args)
            except ConcretizationError:  # a traced value instead of a known number has its own error
                pass
            except (TypeError, ValueError, AttributeError, IndexError) as error:
                seen += 1
                if not begins_with(name, error):
                    bad.append((name, args, error))
    assert seen > 400
    assert not bad, "\n".join(f"{n}: {e!r:.150} {a!r:.100}" for n, a, e in bad)


@pytest.mark.parametrize("call", [
    lambda: lax.conv_general_dilated(X[None, None], X[None, None], (1,), "VALID", feature_group_count=2),
    lambda: lax.conv_general_dilated(X, X, (1, 1), "SAME"),
    lambda: lax.conv_dimension_numbers((1,), (1, 2), None),
    lambda: lax.conv_transpose(X, X[0], (1,), "SAME"),
    lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), (1, 1), "SAME"),
    lambda: lax.dot_general(X, X, (((0,), (5,)), ((), ()))),
    lambda: lax.gather(X, np.zeros((2, 1), np.int32), lax.GatherDimensionNumbers((0, 1), (0,), (0,)), (1, 1))])
def test_shape_errors_hold_no_codes_of_specifications_and_no_internal_records(call):
    with pytest.raises(ValueError, match="; got") as e:
        call()
    assert not re.search(r"StableHLO|\bC\d+\b|DimensionNumbers\(", str(e.value))


def test_primitive_errors_name_public_function():
    with pytest.raises(TypeError, match="^bitwise_and: expected integers"):
        lax.bitwise_and(X, X)
    with pytest.raises(ValueError, match="^betainc: operands need one shape"):
        lax.betainc(X, X[:2], X)
    with pytest.raises(ValueError, match="^conv: lhs and rhs need equally many axes"):
        lax.conv(X, X, (1,), "SAME")
    with pytest.raises(UnboundAxisError, match="^pmean: axis name 'i' is not bound"):
        lax.pmean(X, "i")


def test_errors_of_user_functions_are_unchanged():
    def mine(x):
        raise ValueError("thine: no")
    renamed = rename_errors(lambda f: f(1), "outer")
    with pytest.raises(ValueError, match="^thine: no$"):
        renamed(mine)


@pytest.mark.parametrize("file", ["<stdin>", "<string>", "<python-input-0>", "<console>"])
def test_errors_of_functions_at_a_prompt_are_unchanged(file):
    names = {}
    exec(compile("def mine(x):\n    raise ValueError('thine: no')", file, "exec"), names)
    for call in (rename_errors(lambda f: f(1), "outer"), lambda f: jit(f)(1)):
        with pytest.raises(ValueError, match="^thine: no$") as caught:
            call(names["mine"])
        assert not hasattr(caught.value, "code")


def test_unhashable_option_is_named():
    def size_of(x, sizes):
        return jit(lambda x, sizes: x, static_argnums=1)(x, sizes)
    with pytest.raises(ValueError, match="sizes must be known and hashable|must be hashable"):
        rename_errors(size_of)(X, [1])


@dataclasses.dataclass
class Pair:
    first: object
    second: object


def test_unregistered_dataclass_error_names_register_dataclass():
    for call in (lambda: jit(lambda pair: pair.first)(Pair(1.0, 2.0)), lambda: jit(lambda x: Pair(x, x))(1.0),
                 lambda: lax.sin(Pair(1.0, 2.0))):
        with pytest.raises(TypeError, match="Decorate the dataclass Pair with tree_util.register_dataclass") as found:
            call()
        assert "static_argnums" not in str(found.value)


@pytest.mark.parametrize("value, words", [([1], "list.*Pass a tuple"), ({1: 2}, "dict.*Pass a tuple of its items"),
                                          ({1}, "set.*Pass a frozenset"), (X, "ndarray.*Make the argument dynamic(?m:$)")])
def test_unhashable_static_argument_error_names_function_argument_and_remedy(value, words):
    def model(x, n):
        return x

    words = rf"jit of `model`: static argument 1 .'n'. must be hashable; got {words}"
    for error in (TypeError, ValueError, StaticArgumentError):
        with pytest.raises(error, match=words):
            jit(model, static_argnums=1)(1.0, value)
