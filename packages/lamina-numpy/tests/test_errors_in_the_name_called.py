"""Mistakes in calls of the library, drawn: what they raise begins with the name that was called, other names included."""
import inspect
import operator
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
            "frompyfunc", "fromiter", "array_repr", "array_str", "promote_types"}
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


BINARY = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "true_divide": operator.truediv,
          "floor_divide": operator.floordiv, "remainder": operator.mod, "divmod": divmod, "power": operator.pow,
          "matmul": operator.matmul, "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
          "left_shift": operator.lshift, "right_shift": operator.rshift, "equal": operator.eq, "not_equal": operator.ne,
          "less": operator.lt, "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge}
METHODS = ("all any argmax argmin argpartition argsort astype clip compress conj conjugate cumprod cumsum diagonal dot flatten "
           "max mean min nonzero partition prod ptp ravel repeat reshape round searchsorted sort squeeze std sum swapaxes take "
           "to_device trace transpose var view").split()
AT = "add apply divide get max min multiply power set subtract".split()


def make_eager_and_jitted(fun):
    """A function of an array, at once and traced."""
    return fun, jit(fun)


@pytest.mark.parametrize("name", BINARY)
def test_operators_speak_as_their_functions(name):
    for call in make_eager_and_jitted(lambda x: BINARY[name](x, jnp.ones((4, 5), x.dtype))):
        with pytest.raises((TypeError, ValueError), match=rf"^{name}: "):
            call(jnp.ones((2, 3), int))
    if "equal" not in name:
        for bad in ("a", [1, 2], None):
            with pytest.raises(TypeError, match="^(unsupported operand|'[<>]=?' not supported)"):
                BINARY[name](jnp.ones(3, int), bad)


@pytest.mark.parametrize("name", METHODS)
def test_methods_speak_of_themselves(name):
    seen = 0
    for bad in [{}, np.array(["a"]), (1.5,), object(), 3 + 1j]:
        for call in make_eager_and_jitted(lambda x: getattr(x, name)(bad)):
            try:
                call(jnp.ones((2, 3)))
            except ConcretizationError:
                pass
            except Exception as error:
                seen += 1
                assert re.match(rf"_?(\w+\.)?{name}\b", str(error)), (bad, error)
    assert seen


@pytest.mark.parametrize("name", AT)
def test_changes_speak_of_themselves(name):
    for call in make_eager_and_jitted(lambda x: getattr(x.at[0], name)(*[] if name == "get" else [np.ones((4, 5))],
                                                                       mode=[1])):
        with pytest.raises((TypeError, ValueError), match=rf"^x.at\[index\].{name}"):
            call(jnp.ones((2, 3)))


SIZES = """tril_indices(n) tril_indices(3, k=) tril_indices(3, m=) triu_indices(n) triu_indices(3, k=) triu_indices(3, m=)
diag_indices(n) diag_indices(3, ndim=) mask_indices(3, jnp.triu, k=) tril_indices_from(M, k=) triu_indices_from(M, k=) eye(N)
eye(3, M=) eye(3, k=) identity(n) tri(N) tri(3, k=) tril(M, k=) triu(M, k=) diag(V, k=) diagflat(V, k=) diagonal(M, offset=)
trace(M, offset=) linspace(0, 1, num=) vander(V, N=) diff(V, n=) polyder(V, m=) polyint(V, m=) round(V, decimals=)
bincount(np.arange(3), length=) bincount(np.arange(3), minlength=) unpackbits(np.ones(3, 'uint8'), count=) nonzero(V, size=)
argwhere(V, size=) where(V, size=) fft.fft(V, n=) fft.ifft(V, n=) fft.fftfreq(n) fft.rfftfreq(n) linalg.matrix_power(M, n=)
rot90(M, k=) zeros(shape) repeat(V, repeats=) partition(V, kth=) bartlett(M) hanning(M) kaiser(M, 2.)"""


def test_sizes_are_integers():
    scope = {"jnp": jnp, "np": np, "V": X, "M": np.ones((4, 4), np.float32)}
    wrong, tried = [], 0
    for text in re.findall(r"[\w.]+\((?:[^()]|\([^()]*\))*\)", SIZES):
        name = text.split("(")[0].split(".")[-1]
        window = name in ("bartlett", "hanning", "kaiser")  # as NumPy, these take any real number
        for bad in ["None", "'a'", "3j", "object()", "{}", "np.array([1., 2.])", *([] if window else ["1.5", "np.float32(2)"])]:
            if bad == "None" and re.search(r"[mMNn]=|length=|size=|count=", text):
                continue  # not given
            call = text.replace("=)", f"={bad})") if "=)" in text else re.sub(r"\(\w+", f"({bad}", text, count=1)
            if name == "repeat" and bad.startswith("np.array"):
                continue
            tried += 1
            try:
                eval("jnp." + call, scope)
                wrong.append(f"{call}: accepted")
            except TypeError as error:
                if not str(error).startswith(name):
                    wrong.append(f"{call}: {error}")
            except Exception as error:
                wrong.append(f"{call}: {type(error).__name__}: {error}")
    assert tried > 200
    assert not wrong, "\n".join(wrong)
