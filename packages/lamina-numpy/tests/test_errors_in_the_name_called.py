"""Mistakes in calls of the library, drawn: what they raise begins with the name that was called, other names included."""
import inspect
import random
import re

import lamina_numpy as jnp
import numpy as np
import pytest

from lamina_ir import ConcretizationError
from lamina_tracing import jit

pytestmark = pytest.mark.filterwarnings("ignore")
X = np.float32([0.5, 1.5, 2.])
BAD = [None, "a", 1.5, -1, 7, {}, np.array(["a"]), np.ones((2, 3, 5, 7), np.float32), np.zeros(0, np.float32), [[1, 2], [3]],
       object()]
USUAL = {"shape": (2, 3), "axis": 0, "n": 2, "N": 2, "M": 2, "num": 3, "k": 1, "dtype": "float32", "func": jnp.negative,
         "func1d": jnp.sum, "function": jnp.add, "mask_func": jnp.triu}
LEFT_OUT = {"save", "savez", "load", "fromfile", "get_printoptions", "set_printoptions", "printoptions", "iterable",
            "ComplexWarning", "isscalar", "vectorize", "apply_along_axis", "apply_over_axes", "fromfunction", "piecewise",
            "frompyfunc", "fromiter", "einsum_path", "array_repr", "array_str", "promote_types"}
SECOND = {"absolute": "abs", "acos": "arccos", "amax": "max", "around": "round", "bitwise_invert": "invert",
          "concat": "concatenate",
          "divide": "true_divide",
          "mod": "remainder", "permute_dims": "transpose", "pow": "power", "radians": "deg2rad"}


def functions():
    for module in (jnp, jnp.linalg, jnp.fft):
        for name in dir(module):
            value = getattr(module, name, None)
            if not name.startswith("_") and callable(value) and not isinstance(value, type) and name not in LEFT_OUT \
                    and hasattr(value, "__name__") and name in module.__all__:
                yield name, value


def calls(fun, draw):
    """Calls of a function with one argument that does not fit, by position or by keyword."""
    try:
        parameters = inspect.signature(fun).parameters.values()
    except ValueError:
        return
    needed = [p for p in parameters if p.default is p.empty and p.kind in (0, 1)]
    settings = [p.name for p in parameters if p.default is not p.empty and p.kind in (1, 3)]
    usual = [USUAL.get(p.name, X) for p in needed]
    for at in range(len(needed)):
        for bad in draw.sample(BAD, 2):
            yield [bad if i == at else a for i, a in enumerate(usual)], {}
    for name in settings:
        yield usual, {name: draw.choice(BAD)}


@pytest.mark.parametrize("jitted", [False, True])
def test_errors_begin_with_the_name_called(jitted):
    draw, wrong, seen = random.Random(jitted), [], 0
    for name, fun in functions():
        for args, settings in calls(fun, draw):
            arrays = [i for i, a in enumerate(args) if a is X]
            try:
                if not jitted:
                    fun(*args, **settings)
                elif arrays:
                    jit(lambda *xs: fun(*[xs[arrays.index(i)] if i in arrays else a for i, a in enumerate(args)], **settings))(
                        *[X] * len(arrays))
            except ConcretizationError:  # a traced value where a number must be known says that of itself
                pass
            except Exception as error:
                seen += 1
                if not re.match(rf"[\w.]*{name}\b", str(error)) and type(error).__name__ != "UFuncTypeError":
                    wrong.append(f"{name}: {args!r:.80} {settings!r:.80} {type(error).__name__}: {error!s:.100}")
    assert seen > 600
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", SECOND)
def test_a_second_name_is_a_function_of_its_own(name):
    shown, first = getattr(jnp, name), getattr(jnp, SECOND[name])
    assert shown.__name__ == name and first.__name__ == SECOND[name] and shown.__doc__ == first.__doc__
    assert inspect.signature(shown) == inspect.signature(first)
    args = [X] * sum(p.default is p.empty for p in inspect.signature(first).parameters.values())
    if name not in ("concat", "bitwise_invert"):
        np.testing.assert_array_equal(shown(*args), first(*args))
    with pytest.raises(TypeError, match=f"^{name}: "):
        shown(*[{}] * len(args))
