"""Check arguments, promote dtypes in the lattice and broadcast shapes.

Elementwise primitives accept a rank-0 operand with an operand of any shape, so a scalar is never broadcast. If both operands
have the same type, `pair` returns after two attribute reads.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeGuard, TypeVar

import numpy as np
from lamina_ir import DTypeError, ShapeError, config, dtypes, prims
from lamina_tracing import Array, lax
from lamina_tracing.extend import bind, EVALUATION, trace_state, Tracer, typeof, warn_user

__all__ = ["alike", "aval", "broadcast", "broadcast_shapes_of", "cast", "check_cast", "check_promotion", "convert", "equation",
           "ignore_strict_promotion",
           "inexact_dtype", "inexact_pair", "is_array", "is_staging", "literal", "make_constant", "need_real", "pair",
           "promote_all", "promote_pair", "refuse_out", "retype", "to_inexact", "work_dtype"]

F = TypeVar("F", bound=Callable[..., Any])
_PYTHON_SCALARS = frozenset((bool, int, float, complex))
_F32 = np.dtype("float32")
_HALF = frozenset((np.dtype("float16"), dtypes.bfloat16))
_I32 = np.dtype("int32")
_F64 = np.dtype("float64")
_I64 = np.dtype("int64")
_x64 = config.enable_x64


def aval(call: str, x: Any, position: int = 0) -> Any:
    """The type of one argument; TypeError naming the call when it is neither array nor number."""
    if isinstance(x, Tracer):
        return x.aval
    try:
        return typeof(x)
    except TypeError:
        raise TypeError(f"{call}: expected an array or a number at position {position}; got "
                        f"{type(x).__name__}. Convert it with lamina.numpy.asarray first") from None


def refuse_out(call: str, out: Any) -> None:
    """`out=` has no meaning for arrays that do not change."""
    if out is not None:
        raise NotImplementedError(f"{call}: out= is not supported, since arrays are immutable; use the result")


def need_real(call: str, x: Any) -> None:
    """DTypeError naming the call where an argument holds complex numbers."""
    a = typeof(x)
    if dtypes.is_complex(a.dtype):
        raise DTypeError(f"{call}: expected real numbers; got {a.str_long()}. Take real, imag or abs first")


def is_array(x: Any) -> TypeGuard[Array]:
    """Whether `x` is one of our arrays or a traced value."""
    return isinstance(x, Array)


def is_staging() -> bool:
    """Whether a program is being written down in this thread."""
    return trace_state.trace is not EVALUATION


def literal(value: Any, dtype: np.dtype) -> Any:
    """Return a constant for an operation with an operand of `dtype`: a weak Python number if `dtype` is the default one, so
    that weak operands stay weak."""
    wide = config.enable_x64.value
    if dtype is (_F64 if wide else _F32):
        return float(value)
    if dtype is (_I64 if wide else _I32):
        return int(value)
    return np.asarray(value).astype(dtype)[()]


def make_constant(value: Any, dtype: np.dtype) -> Any:
    """Return a constant of exactly this dtype."""
    return np.asarray(value).astype(dtype)[()]


# The raw `bind`, for what every program does many times: arithmetic, comparison, choice, broadcasts, sums, products and
# changes of shape. There a function of `lax` would cost a tenth to a quarter more tracing time (one frame more, and checks of
# what promotion has just settled). Everything else is written with `lax`.
equation = bind


def retype(x: Any, dtype: np.dtype, weak: bool) -> Any:
    """`x` in another dtype and weakness, as one equation; no function of `lax` makes weakly typed arrays."""
    return equation(prims.convert_element_type_p, x, new_dtype=dtype, weak_type=weak)


def convert(x: Any, dtype: np.dtype, weak: bool = False) -> Any:
    """`x` in another dtype; Python numbers change without an equation."""
    if type(x) in _PYTHON_SCALARS:
        if weak or dtype is _F32 and not config.enable_x64.value:
            kind = complex if dtypes.is_complex(dtype) else float if dtypes.is_float(dtype) else int
            return kind(x) if kind is complex or type(x) is not complex else x
        return np.asarray(x).astype(dtype)[()]
    return retype(x, dtype, weak)


def cast(x: Any, dtype: np.dtype, weak: bool = False) -> Any:
    """`convert` when the dtype or weakness differ; complex loses its imaginary part, as `astype` does."""
    a = typeof(x)
    if a.dtype == dtype and a.weak_type == weak:
        return x
    if dtypes.is_complex(a.dtype) and not dtypes.is_complex(dtype) and type(x) not in _PYTHON_SCALARS:
        x = lax.real(x) if dtype != dtypes.BOOL else lax.ne(x, literal(0, a.dtype))
        a = typeof(x)
        if a.dtype == dtype and a.weak_type == weak:
            return x
    if type(x) in _PYTHON_SCALARS and not dtypes.is_key(dtype):
        return np.asarray(x).astype(dtype)[()] if not weak else convert(x, dtype, weak)
    return retype(x, dtype, weak)


@lru_cache(maxsize=1024)
def inexact_dtype(dtype: np.dtype, x64: bool) -> np.dtype:
    """The float dtype that division and roots of `dtype` have; the answer depends on the setting, so the cache does."""
    return dtypes.inexact_dtype_for(dtype)


def work_dtype(d: np.dtype) -> np.dtype:
    """The dtype to compute with numbers of dtype `d` in, where roundings add up: float32 for half precision."""
    return _F32 if d in _HALF else d


def to_inexact(call: str, x: Any, weak: Callable[[np.dtype], bool] | None = None) -> Any:
    """`x`, in float when it holds integers or booleans; in weak float where `weak` is true of their dtype."""
    a = aval(call, x)
    if a.dtype is _F32:
        return x
    d = inexact_dtype(a.dtype, config.enable_x64.value)
    return x if d == a.dtype else convert(x, d, a.weak_type or weak is not None and weak(a.dtype))


def promote_pair(call: str, x: Any, y: Any) -> tuple[Any, Any, np.dtype]:
    """Return both operands in their common dtype, in one shape unless one has rank 0, and that dtype."""
    a = x.aval if isinstance(x, Tracer) else aval(call, x, 0)
    kind = type(y)
    if kind is float:  # the commonest constants need no look at the lattice
        if a.dtype is (_F64 if _x64.enabled_in_all_threads or _x64.ever_enabled and _x64.value else _F32):
            return x, y, a.dtype
    elif kind is int and a.dtype is _F32 and not _x64.value:
        return x, float(y), _F32
    b = y.aval if isinstance(y, Tracer) else aval(call, y, 1)
    d = a.dtype
    if a is b:
        return x, y, d
    if d is not b.dtype and d != b.dtype:
        d, weak = dtypes.promote((d, a.weak_type), (b.dtype, b.weak_type), call=call)
        if a.dtype != d:
            x = convert(x, d, weak)
        if b.dtype != d:
            y = convert(y, d, weak)
    if a.shape != b.shape and a.shape and b.shape:
        shape = broadcast_shapes_of(call, (a.shape, b.shape))
        return broadcast(x, a.shape, shape), broadcast(y, b.shape, shape), d
    return x, y, d


def pair(call: str, x: Any, y: Any) -> tuple[Any, Any]:
    """Both operands in their common dtype, and in one shape unless one has rank 0."""
    x, y, _ = promote_pair(call, x, y)
    return x, y


def inexact_pair(call: str, x: Any, y: Any) -> tuple[Any, Any]:
    """`pair`, in float. Integers are converted to float before promotion, so a negative integer keeps its sign in an
    operation with an unsigned array."""
    a, b = aval(call, x, 0), aval(call, y, 1)
    if a is not b and not dtypes.is_inexact(a.dtype) and not dtypes.is_inexact(b.dtype):
        d, weak = dtypes.promote((a.dtype, a.weak_type), (b.dtype, b.weak_type), call=call)
        d = inexact_dtype(d, _x64.value)
        x, y = convert(x, d, weak), convert(y, d, weak)
    x, y, known = promote_pair(call, x, y)
    if known is _F32:
        return x, y
    d = inexact_dtype(known, config.enable_x64.value)
    if d == known:
        return x, y
    return convert(x, d, a.weak_type), convert(y, d, a.weak_type)


def promote_all(call: str, xs: Any, first: int = 0) -> list[Any]:
    """Any number of operands in their common dtype; shapes stay."""
    avals = [aval(call, x, first + i) for i, x in enumerate(xs)]
    d, weak = dtypes.promote(*[(a.dtype, a.weak_type) for a in avals], call=call)
    return [x if a.dtype == d else convert(x, d, weak) for x, a in zip(xs, avals)]


def check_promotion(call: str, *xs: Any) -> None:
    """Raise DTypeError where `numpy_dtype_promotion` refuses to promote operands, which this function converts otherwise."""
    if config.numpy_dtype_promotion.value != "standard":
        dtypes.promote(*[(a.dtype, a.weak_type) for a in (aval(call, x, i) for i, x in enumerate(xs))], call=call)


def check_cast(call: str, x: Any, values: Any) -> None:
    """Raise DTypeError where `numpy_dtype_promotion` refuses to convert `values` to the dtype of the array `x`."""
    mode = config.numpy_dtype_promotion.value
    if mode == "standard":
        return
    a, b = typeof(x), typeof(values)
    found = dtypes.promote((a.dtype, a.weak_type), (b.dtype, b.weak_type), call=call)[0]
    if mode == "safe_integers" and found != a.dtype and dtypes.is_integer(a.dtype) and dtypes.is_integer(b.dtype):
        raise DTypeError(f"{call}: safe_integers dtype promotion refuses {b.dtype.name} values for an array of dtype "
                         f"{a.dtype.name}, which does not hold all of them; convert explicitly with "
                         f"values.astype({a.dtype.name!r}), or set config.numpy_dtype_promotion to 'standard'")


def alike(call: str, xs: Any) -> list[Any]:
    """Any number of operands in one dtype and one shape."""
    xs = promote_all(call, xs)
    shapes = [typeof(x).shape for x in xs]
    shape = broadcast_shapes_of(call, tuple(shapes))
    return [broadcast(x, s, shape) for x, s in zip(xs, shapes)]


def broadcast(x: Any, old: tuple[int, ...], new: tuple[int, ...]) -> Any:
    """One equation that repeats `x` along new and size-1 axes; none when the shapes agree."""
    if old == new:
        return x
    n = len(new)
    return equation(prims.broadcast_in_dim_p, x, shape=new, broadcast_dimensions=tuple(range(n - len(old), n)))


@lru_cache(maxsize=4096)
def _joined(shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...] | None:
    rank = max(map(len, shapes), default=0)
    out = []
    for sizes in zip(*((1,) * (rank - len(s)) + s for s in shapes)):
        wide = {d for d in sizes if d != 1}
        if len(wide) > 1:
            return None
        out.append(wide.pop() if wide else 1)
    return tuple(out)


def broadcast_shapes_of(call: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to."""
    shape = _joined(shapes)
    if shape is None:
        shown = ", ".join(map(str, shapes))
        raise ShapeError(f"{call}: incompatible shapes for broadcasting: {shown}; sizes of aligned axes must be equal "
                         "or 1")
    if config.numpy_rank_promotion.value != "allow" and len({len(s) for s in shapes if s}) > 1:
        text = f"{call}: operands of shapes {', '.join(map(str, shapes))} need rank promotion"
        if config.numpy_rank_promotion.value == "raise":
            raise ShapeError(text + "; reshape them, or set config numpy_rank_promotion to 'allow'")
        warn_user(text + "; reshape them, or set config numpy_rank_promotion to 'allow'")
    return shape


def ignore_strict_promotion(fun: F) -> F:
    """Mark a library function whose internal operations may promote ranks and dtypes even if the user's settings forbid it."""
    @wraps(fun)
    def run(*args: Any, **kwargs: Any) -> Any:
        if config.numpy_rank_promotion.value == "allow" and config.numpy_dtype_promotion.value == "standard":
            return fun(*args, **kwargs)
        with config.numpy_rank_promotion("allow"), config.numpy_dtype_promotion("standard"):
            return fun(*args, **kwargs)
    return run  # type: ignore[return-value]
