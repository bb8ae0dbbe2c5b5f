"""`bind` and `Trace`: how an operation finds the transformation that handles it.

Each running transformation is a `Trace` with a level, its depth in the dynamic nest. `bind` hands an op to the deepest
trace among its arguments and the current staging trace; that trace applies its row, which binds again one level
further out, until the evaluator is left. Per thread, `now` holds the current staging trace, the depth and the bound
axis names; nothing else is global.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, NamedTuple

from lamina_ir import Primitive, UnnamedAxis, config, errors
from lamina_ir.extend import axis_names_of, bound_by, checked_axis_name, set_axis_sizes, stack_depth, unbound_axis

from .blame import calling, ill_formed, in_its_call
from .tracer import Tracer, stands_for_array, typeof

__all__ = ["AxisFrame", "EVALUATION", "Trace", "axis_frame", "bind", "bound_axes", "counts_once", "deeper", "now", "on_begin",
           "on_end", "on_operands", "on_staging", "refuse_axis_twice", "scoped", "settle", "staged_for", "tell_staging"]


class Trace:
    """One running transformation.

    A subclass defines `process`, and whatever tracers it makes. `kept` says that its tracers outlive it by design, as parts
    of a program. `alive` ends with the function being transformed.

    Args:
      level: larger than the level of every trace it runs inside of: `now.depth + 1`.

    >>> class Naming(Trace):
    ...     def process(self, prim, args, params):
    ...         return prim.name
    >>> from lamina_ir import aval_of, prims
    >>> trace = Naming(now.depth + 1)
    >>> with deeper(trace):
    ...     bind(prims.add_p, Tracer(trace, aval_of(1.0)), 2.0)
    'add'
    """

    kept = False
    alive = True
    sources: dict[int, Any] | None = None  # the lines of a program that is being written, see `lines.user_source`

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

    def heeds_rules(self, args: Sequence[Any]) -> bool:
        """Whether such a call's rules matter to this trace or to one further out."""
        return True

    def end(self) -> None:
        """The function being transformed has returned: a tracer that is still used has leaked."""
        if self.alive:
            for tell in on_end:
                tell(self)
            self.alive = False
        self.hand_to(_refuse)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(level={self.level})"


def _refuse(prim: Primitive, args: Any, params: Any) -> Any:
    """The handler of a trace that has ended. No method of it: a trace that held one would wait for the collector."""
    leaked = next((a for a in args if isinstance(a, Tracer) and not a._trace.alive), None)
    raise leak_error(leaked, f"`{prim.name}`")


def leak_error(tracer: Any, use: str) -> errors.LeakedTracerError:
    kind = "value"
    if tracer is not None:
        names = sorted(map(repr, tracer.aval.over))
        kind = tracer.aval.long() + (f" with the named axis {' and '.join(names)}" if names else "")
    return errors.LeakedTracerError(
        f"{use} was given a traced {kind} whose trace has ended: it was kept in a global, an attribute or a closure of "
        "the transformed function. Return such values from the function instead; checking_leaks() says where it was made.")


class _Evaluation(Trace):
    """The end of every walk: run the op on concrete values. Ops are handed to what `slots.set_evaluator` was given."""

    def custom(self, call: Any, args: Sequence[Any]) -> list[Any]:
        return call.run(*args)

    def heeds_rules(self, args: Sequence[Any]) -> bool:
        return False

    def end(self) -> None:
        raise RuntimeError("the evaluation trace does not end")

    def __reduce__(self) -> str:
        return "EVALUATION"


EVALUATION = _Evaluation(0)


class AxisFrame(NamedTuple):
    """A mapped axis in scope.

    Attributes:
      name: its name, anything hashable but an integer or a boolean.
      size: how many members it has.
      trace: the trace that maps it; None under `pmap`, where its program is staged.

    >>> with bound_axes(AxisFrame("i", 4)):
    ...     axis_frame("i").size
    4
    """

    name: Hashable
    size: int
    trace: Trace | None = None


class _Now(threading.local):
    trace: Trace = EVALUATION
    depth: int = 0
    axes: tuple[AxisFrame, ...] = ()
    scope: str = ""
    # Whose line equations get, while rows and derived programs run; None while a user's own code does, where the line is
    # looked up among the frames. See lines.py.
    source: Any = None

    def __reduce__(self) -> str:
        return "now"  # functions that are pickled by value find the one of the process they come to


now = _Now()


set_axis_sizes(lambda: [(frame.name, frame.size) for frame in now.axes])


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

    >>> import numpy as np
    >>> from lamina_ir import prims
    >>> bind(prims.mul_p, np.float32(2), np.float32(3))
    Array(6., dtype=float32)
    """
    trace = now.trace
    for a in args:
        if isinstance(a, Tracer) and a._trace.level > trace.level:
            trace = a._trace
    if prim.may_read_axes:  # a collective, or a call with collectives inside: the traces that map its axes count as arguments
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
            in_its_call(error, prim)
            raise
        in_its_call(better, prim)
        raise better from None


def _bind_by_name(prim: Primitive, /, *args: Any, **params: Any) -> Any:
    """`Primitive.bind`: as `bind`, and an op that was told by `def_impl` how it runs does so where nothing is traced."""
    if prim.own_impl is not None and now.trace is EVALUATION and not any(isinstance(a, Tracer) for a in args):
        return prim.own_impl(*args, **params)
    return bind(prim, *args, **params)


bound_by(_bind_by_name)


def axis_frame(name: Hashable) -> AxisFrame:
    """The innermost axis of this name. UnboundAxisError when there is none."""
    for frame in reversed(now.axes):
        if frame.name == name:
            return frame
    raise unbound_axis(name, [f.name for f in now.axes], calling()[0])


def counts_once(name: Hashable) -> bool:
    """Whether, in derivatives, a value that is the same on all members of this axis is one value.

    Args:
      name: of an axis in scope.
    Returns:
      What `config.replicated_counts_once` says of it.

    >>> with config.replicated_counts_once(frozenset("i")):
    ...     counts_once("i"), counts_once("j")
    (True, False)
    """
    axes = config.replicated_counts_once.value
    return bool(axes) and type(name) is not UnnamedAxis and (axes is True or name in axes)


def refuse_axis_twice(call: str, name: Hashable) -> None:
    """Refuse a map inside of another one of its name under `config.replicated_counts_once`.

    There, types say over which axes a value differs, and they know axes by name.

    Args:
      call: the map, for the message.
      name: of its axis.
    Raises:
      ValueError: an axis of this name is bound already, and the setting is on.

    >>> refuse_axis_twice("vmap of `f`", "i")
    """
    if now.axes and config.replicated_counts_once.value is True and any(f.name == name for f in now.axes):
        raise ValueError(f"{call}: the axis name {name!r} is bound already by a map around; with config.replicated_counts_once "
                         "types say by name over which axes a value differs, so the two cannot be told apart. Give the axes "
                         "names of their own")


on_staging: list[Callable[[bool], None]] = []
on_begin: list[Callable[[Trace], None]] = []  # told of each trace before the function it transforms runs
on_end: list[Callable[[Trace], None]] = []  # and after
# Each gives a block in which a function of these operands is staged: traced values do not tell what arrays they stand for.
on_operands: list[Callable[[Sequence[Any]], AbstractContextManager[object]]] = []
_NOTHING = nullcontext()


def staged_for(operands: Sequence[Any]) -> AbstractContextManager[object]:
    """The block in which a function that is to run on these operands is staged: arrays may say what traced values do not.

    Args:
      operands: arrays, traced values, numbers.
    Returns:
      A context manager; it does nothing unless `slots.on_operands` has hooks.

    >>> with staged_for([2.0]):
    ...     now.trace is EVALUATION
    True
    """
    if not on_operands:
        return _NOTHING
    blocks = ExitStack()
    for hook in on_operands:
        blocks.enter_context(hook(operands))
    return blocks


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
      TypeError: one is named by an integer, a boolean, or what is not hashable.

    >>> with bound_axes(AxisFrame("i", 4), AxisFrame("j", 2)):
    ...     [frame.name for frame in now.axes]
    ['i', 'j']
    """

    __slots__ = ("_frames", "_old")

    def __init__(self, *frames: AxisFrame) -> None:
        for f in frames:
            checked_axis_name("a map", f.name)
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


class deeper:
    """A block that is the body of a transformation: traces made inside get higher levels.

    Args:
      trace: the transformation; it ends with the block, and values it traced that are used afterwards have leaked.

    >>> class Counting(Trace):
    ...     def process(self, prim, args, params):
    ...         return f"{prim.name} at level {self.level}"
    >>> from lamina_ir import aval_of, prims
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
            if trace.level > stack_depth.ENOUGH:
                stack_depth.enter(trace.level, self)
            now.depth = trace.level
            for tell in on_begin:
                tell(trace)
        except BaseException:
            self._leave()
            raise

    def _leave(self) -> None:
        now.depth = self._old
        trace = self._trace
        if trace.level > stack_depth.ENOUGH:
            stack_depth.leave(self)
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
