"""`bind`, `Trace`, `Tracer`: how an operation finds the transformation that handles it.

Each running transformation is a `Trace` with a level, its depth in the dynamic nest. `bind` hands an op to the deepest
trace among its arguments and the current staging trace; that trace applies its row, which binds again one level
further out, until the evaluator is left. Per thread, `now` holds the current staging trace, the depth and the bound
axis names; nothing else is global.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import Primitive, ShapedArray, aval_of, errors
from lamina_ir.extend import axis_names_of, room

from .blame import ill_formed, no_array

__all__ = ["AxisFrame", "EVALUATION", "Trace", "Tracer", "axis_frame", "bind", "bound_axes", "deeper",
           "known_value", "now", "on_begin", "on_end", "on_error", "on_staging", "scoped", "settle", "stands_for_array",
           "tell_staging", "typeof"]


class Trace:
    """One running transformation.

    A subclass defines `process`, and whatever tracers it makes. `kept` says that its tracers outlive it by design, as parts
    of a program. `alive` ends with the function being transformed.

    Args:
      level: larger than the level of every trace it runs inside of: `now.depth + 1`.

    >>> class Naming(Trace):
    ...     def process(self, prim, args, params):
    ...         return prim.name
    >>> from lamina_ir import prims
    >>> trace = Naming(now.depth + 1)
    >>> with deeper(trace):
    ...     bind(prims.add_p, Tracer(trace, aval_of(1.0)), 2.0)
    'add'
    """

    kept = False
    alive = True

    def __init__(self, level: int) -> None:
        self.level = level

    def process(self, prim: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """The op's result, a tuple when `prim.multiple`."""
        raise NotImplementedError(f"{type(self).__name__} defines no `process`")

    def hand_to(self, handler: Callable[[Primitive, tuple[Any, ...], dict[str, Any]], Any] | None) -> None:
        """Have `handler` called instead of `process` from now on; None: `process` again.

        The handler stands in front of the method, so `bind` asks no trace in what state it is.
        """
        if handler is None:
            vars(self).pop("process", None)
        else:
            self.process = handler  # type: ignore[method-assign, assignment]

    def custom(self, call: Any, args: Sequence[Any]) -> list[Any]:
        """Handle the call of a function with rules of its own (see custom.py): here, as one equation."""
        return call.bind(args)

    def minds(self, args: Sequence[Any]) -> bool:
        """Whether such a call's rules matter to this trace or to one further out."""
        return True

    def end(self) -> None:
        """The function being transformed has returned: a tracer that is still used has leaked."""
        if self.alive:
            for tell in on_end:
                tell(self)
            self.alive = False
        self.hand_to(self._refuse)

    def _refuse(self, prim: Primitive, args: Any, params: Any) -> Any:
        leaked = next((a for a in args if isinstance(a, Tracer) and a._trace is self), None)
        raise leak_error(leaked, f"`{prim.name}`")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(level={self.level})"


def leak_error(tracer: Any, use: str) -> errors.LeakedTracerError:
    kind = tracer.aval.long() if tracer is not None else "value"
    return errors.LeakedTracerError(
        f"{use} was given a traced {kind} whose trace has ended: it was kept in a global, an attribute or a closure of "
        "the transformed function. Return such values from the function instead; checking_leaks() says where it was made.")


class _Evaluation(Trace):
    """The end of every walk: run the op on concrete values. Ops are handed to what `slots.set_evaluator` was given."""

    def custom(self, call: Any, args: Sequence[Any]) -> list[Any]:
        return call.run(*args)

    def minds(self, args: Sequence[Any]) -> bool:
        return False

    def end(self) -> None:
        raise RuntimeError("the evaluation trace does not end")


EVALUATION = _Evaluation(0)


class AxisFrame(NamedTuple):
    """A mapped axis in scope.

    Attributes:
      name: its name, anything hashable but an integer.
      size: how many members it has.
      trace: the trace that maps it; None under `pmap`, where its program is staged.
      differs: tells whether a traced value may differ between its members (None: it cannot tell).

    >>> with bound_axes(AxisFrame("i", 4)):
    ...     axis_frame("i").size
    4
    """

    name: Hashable
    size: int
    trace: Trace | None = None
    differs: Callable[[Tracer], bool | None] | None = None


class _Now(threading.local):
    trace: Trace = EVALUATION
    depth: int = 0
    axes: tuple[AxisFrame, ...] = ()
    scope: str = ""
    # Whose line equations get, while rows and derived programs run; None while a user's own code does, where the line is
    # looked up among the frames. See lines.py.
    source: Any = None


now = _Now()


def bind(prim: Primitive, /, *args: Any, **params: Any) -> Any:
    """Apply an op: to values, or, where an argument is traced, in the deepest transformation among them.

    Args:
      prim: the op.
      *args: its operands: arrays, traced values, numbers.
      **params: its params, all of them, in the form that the op's facts name.
    Returns:
      The result; of an op with several a tuple.
    Raises:
      TypeError, ValueError: the op's own complaint about types or params, in words that name the op and the operand.
      UnboundAxisError: it names an axis that is not in scope.
      LeakedTracerError: an operand's trace has ended.

    >>> from lamina_ir import prims
    >>> bind(prims.mul_p, np.float32(2), np.float32(3))
    Array(6., dtype=float32)
    """
    trace = now.trace
    level = trace.level
    for a in args:
        if isinstance(a, Tracer):
            t = a._trace
            if t.level > level:
                trace = t
                level = t.level
    if prim.named:  # a collective, or a call with collectives inside: the traces that map its axes count as arguments
        for name in axis_names_of(prim, params):
            mapper = axis_frame(name).trace
            if mapper is not None and mapper.level > trace.level:
                trace = mapper
    try:
        return trace.process(prim, args, params)
    except (TypeError, ValueError, NotImplementedError) as error:
        if any(map(stands_for_array, args)):
            return bind(prim, *[a.__jax_array__() if stands_for_array(a) else a for a in args], **params)
        # Operands that do not fit the op at all are told in its own words, whichever row stumbled over them.
        better = ill_formed(prim, map(typeof, args), params)
        if better is None or str(better) == str(error):
            raise
        raise better from None


def axis_frame(name: Hashable) -> AxisFrame:
    """The innermost axis of this name. UnboundAxisError when there is none."""
    for frame in reversed(now.axes):
        if frame.name == name:
            return frame
    bound = ", ".join(repr(f.name) for f in now.axes) or "none"
    raise errors.UnboundAxisError(f"axis name {name!r} is not bound; bound here: {bound}. Give it to vmap, pmap or xmap as "
                                  "axis_name, or to make_jaxpr in axis_env")


on_staging: list[Callable[[bool], None]] = []
on_error: list[Callable[[Tracer], str]] = []  # says where a traced value comes from, see origins.py
on_begin: list[Callable[[Trace], None]] = []  # told of each trace before the function it transforms runs
on_end: list[Callable[[Trace], None]] = []  # and after


def tell_staging() -> None:
    """Tell the hooks whether this thread stages now (or has mapped axes in scope, which programs depend on as well)."""
    state = now.trace is not EVALUATION or bool(now.axes)
    for hook in on_staging:
        hook(state)


# An interrupt (Ctrl-C) may strike between any two lines. So state is changed inside of `try`, ways back may be taken twice,
# and blocks are classes: a generator that was interrupted on its way out would put old state back whenever it is collected.
# What strikes before the first line of `__exit__` is mended by the block around, and by the outermost public call
# (`tracebacks.boundary`).
class bound_axes:
    """A block with these mapped axes in scope.

    Args:
      *frames: the axes, outermost first.
    Raises:
      TypeError: one is named by an integer.

    >>> with bound_axes(AxisFrame("i", 4), AxisFrame("j", 2)):
    ...     [frame.name for frame in now.axes]
    ['i', 'j']
    """

    __slots__ = ("_frames", "_old")

    def __init__(self, *frames: AxisFrame) -> None:
        for f in frames:
            if isinstance(f.name, int):  # and booleans, which Python takes for 0 and 1
                raise TypeError(f"axis_name: {f.name!r} cannot name a mapped axis: an integer says which axis of an array "
                                "is meant, and a collective could not tell the two apart. Use a string")
        self._frames = frames

    def __enter__(self) -> None:
        old = self._old = now.axes
        try:
            now.axes = old + self._frames
            tell_staging()
        except BaseException:
            self._leave()
            raise

    def _leave(self) -> None:
        now.axes = self._old
        tell_staging()

    def __exit__(self, *error: Any) -> None:
        try:
            self._leave()
        except BaseException:
            self._leave()
            raise


def differs_over(x: Any, name: Hashable) -> bool | None:
    """Whether a value may differ between the members of a mapped axis.

    Args:
      x: the value.
      name: the axis.
    Returns:
      A truth value; None where that cannot be told.
    Raises:
      UnboundAxisError: the axis is not in scope.

    >>> with bound_axes(AxisFrame("i", 4)):
    ...     differs_over(3.0, "i")
    False
    """
    frame = axis_frame(name)
    while isinstance(x, Tracer):
        # What comes from further out than the map is the same for all members, what the map carries differs; of the rest the
        # one who bound the axis may know, or the value beneath tells.
        mapping = frame.trace
        if mapping is not None and x._trace.level <= mapping.level:
            return x._trace is mapping
        told = frame.differs(x) if frame.differs is not None else None
        if told is not None:
            return told
        x = x._beneath()
        if x is None:
            return None
    return False


class deeper:
    """A block that is the body of a transformation: traces made inside get higher levels.

    Args:
      trace: the transformation; it ends with the block, and values it traced that are used afterwards have leaked.

    >>> class Counting(Trace):
    ...     def process(self, prim, args, params):
    ...         return f"{prim.name} at level {self.level}"
    >>> from lamina_ir import prims
    >>> trace = Counting(now.depth + 1)
    >>> with deeper(trace):
    ...     bind(prims.sin_p, Tracer(trace, aval_of(1.0)))
    'sin at level 1'
    """

    __slots__ = ("_trace", "_old")

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __enter__(self) -> None:
        trace = self._trace
        self._old = now.depth
        try:
            if trace.level > room.ENOUGH:
                room.enter(trace.level, self)
            now.depth = trace.level
            for tell in on_begin:
                tell(trace)
        except BaseException:
            self._leave()
            raise

    def _leave(self) -> None:
        now.depth = self._old
        trace = self._trace
        if trace.level > room.ENOUGH:
            room.leave(self)
        trace.end()

    def __exit__(self, *error: Any) -> None:
        try:
            self._leave()
        except BaseException:
            self._leave()
            raise


def settle() -> None:
    """Put this thread back to where no transformation runs."""
    now.trace, now.depth, now.axes, now.source = EVALUATION, 0, (), None
    tell_staging()


@contextmanager
def scoped(name: str) -> Iterator[None]:
    """Put `name` behind the names that equations staged in the block remember."""
    old = now.scope
    try:
        now.scope = f"{old}/{name}" if old else name
        yield
    finally:
        now.scope = old


def stands_for_array(x: Any) -> bool:
    """Whether an object of another library gives an array when asked for it.

    Asked once all else has failed, so that arrays, numbers and tracers pay nothing for it.

    Args:
      x: the object.
    Returns:
      A truth value.

    >>> class Table:
    ...     def __jax_array__(self):
    ...         return np.ones(2)
    >>> stands_for_array(Table()), stands_for_array(2.0)
    (True, False)
    """
    return hasattr(type(x), "__jax_array__")


def typeof(x: Any) -> ShapedArray:
    """The type of a traced value, array or number.

    Args:
      x: the value.
    Returns:
      Its shape, dtype and weakness. Python's numbers are weak: beside an array they take its dtype.
    Raises:
      TypeError: it is nothing of the kind.

    >>> typeof(3)
    ShapedArray(int32[], weak_type=True)
    """
    if isinstance(x, Tracer):
        return x.aval
    try:
        return aval_of(x)
    except (TypeError, ValueError) as error:
        if stands_for_array(x):
            return typeof(x.__jax_array__())
        raise no_array(x, error) from None


def known_value(x: Any) -> Any:
    """The concrete value that `x` is, or that a traced `x` stands beside.

    Differentiation without `jit` walks through the function with its values: they are known there, tangents are not part of
    them, and what is computed from them is a constant to the derivative. A value that is staged or mapped has no number.

    Args:
      x: a tracer, array or number.
    Returns:
      An array or number; None where nothing is known of its numbers.

    >>> known_value(2.0), known_value(Tracer(EVALUATION, aval_of(1.0)))
    (2.0, None)
    """
    return x._number() if isinstance(x, Tracer) else x


def _origin(x: Tracer) -> str:
    return "".join([say(x) for say in on_error])


class Tracer:
    """A value that stands for an array while a function is transformed. Behaves like an array; has no numbers.

    Args:
      trace: the transformation that handles ops on it.
      aval: the type of the array.

    >>> x = Tracer(EVALUATION, ShapedArray((2, 3), np.dtype("float32")))
    >>> x.shape, x.ndim, len(x)
    ((2, 3), 2, 2)
    >>> float(x)
    Traceback (most recent call last):
    lamina_ir.errors.ConcretizationError: a traced float32[2,3] has no known number, but a Python float was asked for. ...
    """

    __slots__ = ("_trace", "aval", "__weakref__")
    __array_priority__ = 1000

    def __init__(self, trace: Trace, aval: ShapedArray) -> None:
        self._trace = trace
        self.aval = aval

    def _beneath(self) -> Any:
        """The value that this one stands for one transformation further out; None where there is none."""
        return None

    def _number(self) -> Any:
        """The concrete value beside which this one carries something more (a tangent); None where there is none."""
        return None

    def __hash__(self) -> int:
        raise TypeError(f"a traced {self.aval.long()} has no known value, so it is no dictionary key and no static argument "
                        f"(a size, an axis, a dtype, a flag).{_origin(self)} Make it static where it comes from "
                        "(static_argnums)")

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: len(self.aval.shape))
    size = property(lambda self: self.aval.size)
    weak_type = property(lambda self: self.aval.weak_type)
    itemsize = property(lambda self: self.aval.dtype.itemsize)
    nbytes = property(lambda self: self.aval.dtype.itemsize * self.aval.size)

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError(f"len() of a rank-0 traced value {self.aval.long()}")
        return self.aval.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.aval.shape:
            raise TypeError(f"iteration over a rank-0 traced value {self.aval.long()}; where it is a size, a shape or an "
                            "axis, pass it as a static argument (static_argnums)")
        return (self[i] for i in range(self.aval.shape[0]))  # type: ignore[index]

    def __contains__(self, value: Any) -> bool:
        number = self._number()
        if number is not None:
            return value in number
        raise errors.TracerBoolError(self._known("a Python truth value for `in`", "lamina.numpy.any(x == value)"))

    def _known(self, use: str, remedy: str) -> str:
        where = _origin(self) or f" It belongs to a {type(self._trace).__name__}."
        if self._number() is not None:
            return (f"{use} of a {self.aval.long()} that is being differentiated would lose its derivative.{where} Use "
                    f"{remedy}, or lax.stop_gradient(x) first where a constant is meant.")
        return (f"a traced value {self.aval.long()} has no known number, but {use} was asked for.{where} Use {remedy}, or pass "
                "the value as a static argument (static_argnums) where that is meant.")

    def __bool__(self) -> bool:
        if self.aval.shape and self.aval.size != 1:
            raise ValueError(f"the truth value of an array with several elements is ambiguous; got {self.aval.long()}. "
                             "Use .any() or .all()")
        number = self._number()
        if number is not None:
            return bool(number)
        raise errors.TracerBoolError(self._known("a Python truth value (`if`, `while`, `and`, `not`)",
                                                 "lamina.numpy.where or lax.select"))

    def __int__(self) -> int:
        number = self._number()
        if number is not None:
            return int(number)
        raise errors.TracerIntegerError(self._known("a Python int", "x.astype(int)"))

    def __float__(self) -> float:
        raise errors.ConcretizationError(self._known("a Python float", "x.astype(float)"))

    def __complex__(self) -> complex:
        raise errors.ConcretizationError(self._known("a Python complex", "x.astype(complex)"))

    def __index__(self) -> int:
        raise errors.TracerIntegerError(self._known(
            "a Python integer (a length, a shape, an axis, `range`, a place in a list)",
            "x[i] on an array or lax.dynamic_index_in_dim to pick by it, lax.fori_loop to count to it"))

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise errors.TracerArrayError(self._known("a NumPy array", "the lamina.numpy function of the same name"))

    def item(self, *args: Any) -> Any:
        number = self._number()
        if number is not None:
            return number.item(*args) if hasattr(number, "item") else np.asarray(number).item(*args)
        raise errors.ConcretizationError(self._known("a Python number (item)", "the array itself"))

    def tolist(self) -> Any:
        raise errors.ConcretizationError(self._known("a Python list (tolist)", "the array itself"))

    def block_until_ready(self) -> Any:
        return self

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError("arrays are immutable: instead of `x[i] = v` write `x = x.at[i].set(v)`")

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __repr__(self) -> str:
        return f"Traced<{self.aval!r}>with<{self._trace!r}>"

    def __format__(self, spec: str) -> str:
        try:
            return format(repr(self), spec)
        except ValueError:
            raise TypeError(f"a traced value {self.aval.long()} has no known number to format as {spec!r}; print it where "
                            "the program runs, with debug.print, or leave the format out") from None
