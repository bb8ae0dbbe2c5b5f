"""Shared helpers: convert real arguments to one dtype and shape, compute half precision in float32, define derivatives.

The derivative in an argument is only computed if that argument is differentiated, so that a derivative that is NaN or not
defined does not affect the others.
"""
from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, NoReturn, Protocol, TypeVar

import lamina_numpy as lnp
from lamina_autodiff import SymbolicZero, custom_jvp, jvp
from lamina_ir import DTypeError, config, dtypes
from lamina_ir.extend import docstring_entries
from lamina_numpy.extend import alike, ignore_strict_promotion, public_api, to_inexact, work_dtype
from lamina_tracing import Array, ArrayLike, jit, lax
from lamina_tracing.extend import as_int, rename_errors, typeof

__all__ = ["SPECIAL", "SPECIAL_PAIR", "call_real", "call_with_counts", "check_count", "check_promotion",
           "check_whole_number", "define_by_forward", "derivatives", "guard", "horner", "make_real_function",
           "name_method_errors", "pick", "promote_separately", "refuse_derivative", "to_common_inexact", "to_floats"]

SPECIAL = docstring_entries("""
    x: real array of any shape; integers and booleans become float.
    result: Float array of the shape of `x`.
    TypeError: `x` is neither an array nor a number.
    DTypeError: `x` is complex.
    """)
SPECIAL_PAIR = docstring_entries("""
    a, b: real arrays that broadcast to each other; integers and booleans become float.
    p, q: real arrays that broadcast to each other; integers and booleans become float.
    n: real array of integers, not negative.
    x: real array that broadcasts with the first argument; integers and booleans become float.
    result: Float array of the common shape.
    TypeError: an argument is neither an array nor a number.
    DTypeError: an argument is complex.
    ShapeError: the shapes do not broadcast.
    NotImplementedError: the derivative in `n` is requested.
    """)

C = TypeVar("C", bound=type)


def check_promotion(call: str, *xs: Any) -> None:
    """Raise DTypeError where `numpy_dtype_promotion` refuses to mix these operands."""
    if config.numpy_dtype_promotion.value != "standard":
        dtypes.promote(*[(t.dtype, t.weak_type) for t in map(typeof, xs)], call=call)


def to_common_inexact(call: str, *xs: Any) -> list[Any]:
    """Convert numbers to one inexact dtype and one shape; integers become float."""
    read = [to_inexact(call, x) for x in xs]  # refuses what is no number
    if not any(dtypes.is_inexact(typeof(x).dtype) for x in xs):
        check_promotion(call, *xs)
        xs = tuple(read)
    return [lnp.asarray(x) for x in alike(call, [to_inexact(call, x) for x in alike(call, xs)])]


def to_floats(call: str, *xs: Any) -> list[Any]:
    """Return the result of `to_common_inexact`; raise DTypeError for complex numbers."""
    for x in xs:
        t = typeof(to_inexact(call, x))
        if dtypes.is_complex(t.dtype):
            raise DTypeError(f"{call}: expected real numbers; got {t.str_long()}. Take real, imag or abs first")
    return to_common_inexact(call, *xs)


def call_real(call: str, core: Callable[..., Any], *xs: Any) -> Any:
    """Call `core` with the arguments converted by `to_floats`; compute half precision in float32."""
    args = to_floats(call, *xs)
    dtype = typeof(args[0]).dtype
    work = work_dtype(dtype)
    core = ignore_strict_promotion(core)
    if work != dtype:
        return lnp.astype(core(*[lnp.astype(x, work) for x in args]), dtype)
    out = core(*args)
    if typeof(out).weak_type and not all(typeof(x).weak_type for x in xs):
        return lax.convert_element_type(out, dtype)  # of Python numbers alone comes a weak result
    return out


class RealFunction(Protocol):
    """The type of functions of one real array that tables make."""

    def __call__(self, x: ArrayLike) -> Array: ...


def make_real_function(name: str, core: Callable[..., Any], says: str, derivative: str, source: str, example: str,
                       returns: str = "Float array of the shape of `x`.") -> RealFunction:
    """Return the public function that calls `call_real` with `core`; the other arguments are parts of its docstring."""
    def op(x: ArrayLike) -> Array:
        return call_real(name, core, x)
    doc = (f"{says}\n\nArgs: {{x}}\nReturns:\n  {returns}\nRaises: {{TypeError, DTypeError}}\n\n"
           f"Derivative: {derivative}.\nSource: {source}.\n\n{example}")
    return public_api(name=name, doc=doc, entries=SPECIAL)(op)


def promote_separately(call: str, *xs: Any) -> tuple[Any, list[Any]]:
    """Return the result dtype of real numbers, and these in the dtype for the computation. Their shapes are unchanged."""
    for x in xs:
        to_floats(call, x)
    final = typeof(to_common_inexact(call, lnp.zeros((), lnp.result_type(*xs)))[0]).dtype
    return final, [lnp.astype(lnp.asarray(x), work_dtype(final)) for x in xs]


def call_with_counts(call: str, core: Callable[..., Any], *xs: Any) -> Any:
    """Call `call_real` with counts among the arguments: integers are converted to the dtype of the float parameters."""
    whole = any(type(x) is int or getattr(getattr(x, "dtype", None), "kind", "") in ("i", "u") for x in xs)
    return (ignore_strict_promotion(call_real) if whole else call_real)(call, core, *xs)


def derivatives(*given: Callable[..., Any], seconds: Mapping[tuple[int, int], Callable[..., Any]] | None = None
           ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Define the derivatives of a function of arrays: the one in each argument is `derivative(result, *arguments)`.

    The second derivative in a pair of arguments in `seconds` is `second(plain, result, *arguments)`, where `plain` is the
    derivative of the first derivative."""
    curves = seconds or {}

    def make_second(i: int, j: int) -> Callable[..., Any]:
        def rule(_: Any, out: Any, *args: Any) -> Any:
            plain = jvp(lambda out, s: given[i](out, *args[:j], s, *args[j + 1:]), (out, args[j]),
                        (given[j](out, *args), lnp.ones_like(out)))[1]
            curve = curves.get((min(i, j), max(i, j)))
            return curve(plain, out, *args) if curve else plain
        return rule

    def make_first(i: int) -> Callable[..., Any]:
        # The result is one of its arguments, whose derivatives contain those of the result.
        own = [make_second(i, j) for j in range(len(given))] if any(i in pair for pair in curves) else []
        return derivatives(lambda derivative, *_: lnp.zeros_like(derivative), *own)(given[i]) if own else given[i]

    firsts = [make_first(i) for i in range(len(given))]

    def mark(fun: Callable[..., Any]) -> Callable[..., Any]:
        # Compiled, where a derivative is taken of known numbers too: numbers that a choice leaves out are not looked at.
        ruled = custom_jvp(jit(fun, inline=True))
        compiled = [jit(derivative, inline=True) for derivative in firsts]

        def rule(primals: Any, tangents: Any) -> Any:
            out = ruled(*primals)
            total: Any = None
            for derivative, t in zip(compiled, tangents):
                if not isinstance(t, SymbolicZero):
                    share = lnp.multiply(derivative(out, *primals), t)
                    total = share if total is None else lnp.add(total, share)
            return out, lnp.zeros_like(out) if total is None else total
        ruled.defjvp(rule, symbolic_zeros=True)
        return ruled
    return mark


def define_by_forward(fun: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Define the derivatives of a function of `count` arrays by forward mode, in every order. They work for loops of unknown
    length too."""
    def derivative(i: int) -> Callable[..., Any]:
        def push_forward(*args: Any) -> Any:
            return jvp(lambda s: fun(*args[:i], s, *args[i + 1:]), (args[i],), (lnp.ones_like(args[i]),))[1]
        return lambda out, *args: define_by_forward(push_forward, count)(*args)
    return derivatives(*[derivative(i) for i in range(count)])(fun)


def refuse_derivative(call: str, argument: str) -> Callable[..., NoReturn]:
    """Return a derivative that raises NotImplementedError, for an argument without derivative."""
    def refuse(*_: Any) -> NoReturn:
        raise NotImplementedError(f"{call}: no derivative in `{argument}` is defined; hold it with "
                                  "lamina.lax.stop_gradient, or close over it")
    return refuse


def horner(x: Any, coefficients: Sequence[float]) -> Any:
    """Evaluate a polynomial whose coefficients are ordered from the highest power down."""
    total: Any = coefficients[0]
    for c in coefficients[1:]:
        total = total * x + c
    return total


def pick(x: Any, narrow: Any, wide: Any) -> Any:
    """Return `narrow` for float32 and `wide` for float64."""
    return wide if typeof(x).dtype.itemsize > 4 else narrow


def guard(condition: Any, x: Any, otherwise: float) -> Any:
    """Return `x` where `condition` holds, else `otherwise`, for which the value and derivatives of the formula are finite."""
    return lnp.where(condition, x, otherwise)


def check_whole_number(call: str, argument: str, value: Any) -> int:
    """Return an argument that must be a known, non-negative integer."""
    try:
        n = int(value) if isinstance(value, float) and value.is_integer() else operator.index(value)
    except TypeError:
        raise TypeError(f"{call}: `{argument}` must be a whole number that is known when the program is traced; got "
                        f"{type(value).__name__}. Give an int, or name it in static_argnames of jit") from None
    if n < 0:
        raise ValueError(f"{call}: `{argument}` must not be negative; got {n}")
    return n


def check_count(call: str, argument: str, value: Any, least: int = 0) -> int:
    """Return an argument that must be a known integer of at least `least`."""
    n = as_int(call, argument, value)
    if n < least:
        raise ValueError(f"{call}: {argument} must be at least {least}; got {n}")
    return n


def name_method_errors(cls: C) -> C:
    """Decorate a class, so that errors of its public methods start with their names: `Rotation.apply`."""
    for name, method in list(vars(cls).items()):
        plain = getattr(method, "__func__", method)
        if name in ("__init__", "__call__") or not name.startswith("_") and isinstance(plain, FunctionType):
            named: Any = rename_errors(plain, cls.__name__ if name.startswith("_") else f"{cls.__name__}.{name}")
            setattr(cls, name, type(method)(named) if plain is not method else named)
    return cls
