"""`check_p`, the primitive of a check, its rules in all tables, and the functions `check` and `debug_check`.

Outside of `checkify` a check on arrays runs at once and raises. A compiled program cannot raise, so the lowering rule
refuses a check that `checkify` has not removed.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
from lamina_autodiff.extend import jvp_rules
from lamina_batching.extend import BatchAxis, batching_rules, materialise
from lamina_ir import CheckError, Primitive, UnnamedAxis, dtypes, trees
from lamina_ir.extend import axis_positions, format_axes, register_param_type, register_primitive
from lamina_ir.typing import ParamValue, Tree, Value
from lamina_lowering.extend import lowering_rules
from lamina_tracing.extend import Tracer, typeof

__all__ = ["Axes", "CheckText", "JaxRuntimeError", "UNNAMED", "UserText", "check", "check_p", "debug_check",
           "format_first_member"]

Axes = tuple[tuple[Hashable, int], ...]  # (name, size) of mapped axes, outermost first
UNNAMED = UnnamedAxis("map")  # replaces the names of unnamed axes, which are compared by identity


class JaxRuntimeError(CheckError, ValueError):
    """A check failed. Programs written for JAX catch a ValueError.

    Fix: correct the values that the message shows, or handle the error value with `err.get()` instead of `err.throw()`.
    """

    code: ClassVar[str] = "LAM1504"


class CheckText(Protocol):
    """The message of a check: a hashable value, which is a param of the equation."""

    def format(self, payload: Sequence[np.ndarray]) -> str:
        """Return the message for the values of one failed check."""


@register_param_type
@dataclasses.dataclass(frozen=True)
class UserText:
    """The message of `check`: a format string and the tree of its arguments.

    >>> UserText("x = {x}", trees.tree_structure(((), {"x": 0}))).format([np.float32(3)])
    'x = 3.0 (`check` failed)'
    """

    message: str
    tree: Any

    def format(self, payload: Sequence[np.ndarray]) -> str:
        """Return the message for these values of the arguments."""
        args, kwargs = trees.tree_unflatten(self.tree, payload)
        return f"{self.message.format(*args, **kwargs)} (`check` failed)"


def _infer(pred: Any, /, *payload: Any, **_: ParamValue) -> tuple[()]:
    return ()


def _evaluate(pred: Value, /, *payload: Value, text: CheckText, axes: Axes, debug: bool) -> tuple[()]:
    """Raise if a check failed: for the first member of the mapped axes for which it did."""
    bad = ~np.asarray(pred)
    if bad.any() and not debug:
        k = int(bad.reshape(-1).argmax())
        values = [np.asarray(x).reshape(-1, *np.shape(x)[bad.ndim:])[k] for x in payload]
        raise JaxRuntimeError(text.format(values) + format_first_member(axes, k))
    return ()


def format_first_member(axes: Axes, position: int) -> str:
    """Return where a check failed on mapped axes, as the end of a sentence.

    >>> format_first_member((("i", 4),), 3), format_first_member((), 0)
    (", index 3 of axis 'i' of 4", '')
    """
    return f", {format_axes(axis_positions(axes, position))}" if axes else ""


# Operands: `pred` and the values in the message; all have the mapped `axes` in front, outermost first. A `debug` check
# does nothing outside of `checkify`.
check_p = register_primitive(Primitive("check", params=("axes", "debug", "text"), infer=_infer, numpy=_evaluate,
                                       multiple=True, effectful=True, is_check=True, family="checks"))
check_p.custom_impl = _evaluate


def _lower(ctx: Any, *operands: Any, text: CheckText, axes: Axes, debug: bool) -> tuple[()]:
    if debug:
        return ()
    shown = text.message if isinstance(text, UserText) else "check_error"
    raise ValueError(f"check: Cannot abstractly evaluate a checkify.check which was not functionalized: {shown!r}. A "
                     "compiled program cannot raise. Transform the function: err, out = checkify(f)(x). If the check "
                     "is in a derivative rule, differentiate inside: checkify(grad(f)). lamina.debug.check needs no "
                     "checkify")


def _batch(axis: BatchAxis, args: Sequence[Value], dims: Sequence[int | None], /, *, axes: Axes,
           **params: ParamValue) -> tuple[tuple[()], list[int]]:
    name = UNNAMED if axis.name is None or type(axis.name) is UnnamedAxis else axis.name
    moved = [materialise(a, d, axis.size) for a, d in zip(args, dims)]
    check_p.bind(*moved, axes=((name, axis.size), *axes), **params)
    return (), []


def _jvp(primals: Sequence[Value], tangents: Sequence[Value], /, **params: ParamValue) -> tuple[Any, list[Value]]:
    return check_p.bind(*primals, **params), []


lowering_rules.define(check_p, _lower)
batching_rules.define(check_p, _batch)
jvp_rules.define(check_p, _jvp)


# --- the functions ------------------------------------------------------------------------------------------------
def _is_array(x: Value) -> bool:
    return isinstance(x, (bool, int, float, complex, Tracer)) or hasattr(x, "dtype")


def _check_arguments(call: str, pred: Value, message: str, args: Tree) -> tuple[list[Value], UserText]:
    """Return the values in the message, and the message; raise if they are invalid."""
    got = typeof(pred) if _is_array(pred) else None
    if got is None or got.shape or not dtypes.is_bool(got.dtype):
        fix = "use pred.all() or pred.any()" if got and dtypes.is_bool(got.dtype) else "compare a number, as in x > 0"
        shown = got.str_long() if got else repr(pred)[:80]
        raise TypeError(f"{call} takes a scalar pred as argument, got {shown}. pred must be a bool[]; {fix}")
    if not isinstance(message, str):
        raise TypeError(f"{call}: msg must be a format string; got {type(message).__name__}: {message!r:.60}")
    leaves, tree = trees.tree_flatten(args)
    for leaf in leaves:
        if not _is_array(leaf):
            raise TypeError(f"{call}: Formatting arguments to checkify.check need to be PyTrees of arrays; got "
                            f"{type(leaf).__name__}: {leaf!r:.60}. Write text that is not an array into msg")
        if dtypes.is_key(typeof(leaf).dtype):
            raise TypeError(f"{call}: formatting arguments must be arrays of numbers; got PRNG keys. Pass "
                            "random.key_data(keys)")
    text = UserText(message, tree)
    try:
        text.format([np.zeros(typeof(x).shape, typeof(x).dtype) for x in leaves])
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{call}: msg {message!r:.80} does not fit the {len(args[0])} positional arguments and the "
                         f"keywords {sorted(args[1])}: {type(error).__name__}: {error}") from None
    return leaves, text


def check(pred: Value, msg: str, *fmt_args: Tree, debug: bool = False, **fmt_kwargs: Tree) -> None:
    """Require that a predicate holds; `checkify` turns the failure into an error value.

    On arrays, outside of compiled code, a failed check raises at once.

    Args:
      pred: a bool[] that must be true.
      msg: a format string, as of `str.format`.
      *fmt_args: arrays, and trees of them, for the fields of `msg`.
      debug: whether to do nothing unless the function is transformed by `checkify`.
      **fmt_kwargs: the same, by name.
    Returns:
      None.
    Raises:
      JaxRuntimeError: `pred` is a false array.
      TypeError: `pred` is not one bool, `msg` is not text, or a formatting argument is not an array.
      ValueError: `msg` does not fit its arguments. Compiled without `checkify`, the check raises a ValueError too.

    Source: jax.experimental.checkify.check

    >>> check(1 < 2, "one is {}", 1)
    >>> check(np.bool_(False), "the value was {x:.1f}", x=np.float32(0.25))
    Traceback (most recent call last):
    lamina_checkify._check.JaxRuntimeError: the value was 0.2 (`check` failed)
    """
    _bind_check("debug_check" if debug else "check", pred, msg, (fmt_args, fmt_kwargs), debug)


def debug_check(pred: Value, msg: str, *fmt_args: Tree, **fmt_kwargs: Tree) -> None:
    """Require that a predicate holds, in functions transformed by `checkify`; elsewhere do nothing.

    Args:
      pred: a bool[] that must be true.
      msg: a format string, as of `str.format`.
      *fmt_args: arrays, and trees of them, for the fields of `msg`.
      **fmt_kwargs: the same, by name.
    Returns:
      None.
    Raises:
      TypeError, ValueError: as `check`, for invalid arguments.

    Source: jax.experimental.checkify.debug_check

    >>> debug_check(np.bool_(False), "not raised here")
    """
    _bind_check("debug_check", pred, msg, (fmt_args, fmt_kwargs), True)


def _bind_check(call: str, pred: Value, msg: str, args: Tree, debug: bool) -> None:
    leaves, text = _check_arguments(call, pred, msg, args)
    check_p.bind(np.bool_(pred) if isinstance(pred, bool) else pred, *leaves, text=text, axes=(), debug=debug)
