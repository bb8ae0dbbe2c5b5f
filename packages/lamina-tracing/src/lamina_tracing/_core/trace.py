"""`bind` and `Trace`: dispatch of primitives to transformations.

Each running transformation is a `Trace` with a level, its dynamic nesting depth. `bind` passes a primitive to the trace
of the highest level among its operands and the current staging trace. That trace applies its rule, which binds
primitives of the next lower level, until the evaluator runs them on concrete values. The thread-local `trace_state`
holds the current staging trace, the depth and the bound axis names; there is no other global state.
"""
from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, NamedTuple, NoReturn

from typing_extensions import override
from lamina_ir import config, errors, Primitive, Source, UnnamedAxis
from lamina_ir.extend import (find_axis_names, set_bind, check_axis_name, set_axis_size_reader, stack_depth,
                              unbound_axis_error)
from lamina_ir.typing import ParamValue, Params, Value

from .error_context import find_lax_call, find_type_error, prefix_lax_function
from .tracer import Tracer, has_jax_array, load_conversion_errors, read_jax_array, typeof
from .._typing import Outputs, SourceState, StagedFunctionInfo

__all__ = ["AxisFrame", "EVALUATION", "StateChange", "Trace", "axis_frame", "bind", "check_axis_name_unbound",
           "extend_axis_env", "extend_name_stack", "is_counted_once", "new_trace_level", "notify_staging_hooks", "on_staging",
           "on_trace_begin", "on_trace_end", "reset_trace_state", "staging_context", "staging_context_hooks",
           "trace_state"]

_check_leaks = config.check_tracer_leaks


class Trace:
    """One running transformation.

    A subclass defines `process`, and usually a tracer class; `owns` recognizes its tracers. `outlives_transformation`
    is True if its tracers stay valid after the function has returned, as parts of a program. `alive` is True until the
    transformed function has returned. For errors about its tracers a subclass may define `verb`,
    `transformed_arguments` and `find_arguments`, and set `function_info`.

    Args:
      level: `trace_state.depth + 1`, greater than the level of every enclosing trace.

    >>> class Naming(Trace):
    ...     def process(self, prim, args, params):
    ...         return prim.name
    >>> from lamina_ir import aval_of, prims
    >>> trace = Naming(trace_state.depth + 1)
    >>> with new_trace_level(trace):
    ...     bind(prims.add_p, Tracer(trace, aval_of(1.0)), 2.0)
    'add'
    """

    outlives_transformation = False
    alive = True
    # For errors: (call, the user's function, tree of `(args, kwargs)` or None, positions that are not in the tree).
    function_info: StagedFunctionInfo | None = None
    verb = "traced"  # for errors: what the transformation does to the function
    transformed_arguments: Collection[int] = ()  # numbers of the flat arguments that are tracers of an eager trace
    sources: dict[int, Source] | None = None  # `Source`s of the program being staged, see `find_user_source`

    # The trace itself: programs written for early JAX compare `tracer._trace.main` by identity.
    main = property(lambda self: self)

    def __init__(self, level: int) -> None:
        self.level = level

    def process(self, prim: Primitive, args: tuple[Value, ...], params: Params) -> Outputs:
        """Handle a primitive and return its result, a tuple if `prim.multiple`."""
        raise NotImplementedError(f"{type(self).__name__} defines no `process`")

    def set_handler(self, handler: Callable[[Primitive, tuple[Value, ...], Params], Outputs] | None) -> None:
        """Call `handler` instead of `process` from now on; None: restore `process`.

        The handler is an instance attribute that shadows the method, so `bind` needs no check of the trace's state.
        """
        if handler is None:
            vars(self).pop("process", None)
        else:
            self.process = handler  # type: ignore[method-assign, assignment]

    def owns(self, x: Value) -> bool:
        """Return whether `x` is a tracer of this trace.

        The operands that `process` gets, and the results of the transformed function, are tracers of this trace or values
        that do not depend on its arguments: numbers, arrays, and tracers of outer traces.

        >>> Trace(1).owns(2.0), EVALUATION.owns(Tracer(EVALUATION, typeof(2.0)))
        (False, True)
        """
        return isinstance(x, Tracer) and x._trace is self

    def process_custom_call(self, call: Any, args: Sequence[Value]) -> list[Value]:
        """Handle the call of a function with custom rules (`CustomCall`). By default, bind it as one equation."""
        return call.bind(args)

    def uses_custom_rules(self, args: Sequence[Value]) -> bool:
        """Return whether this trace or an outer one uses the rules of such a call."""
        return True

    def find_arguments(self, tracer: Tracer) -> list[int]:
        """Return the numbers of the flat arguments that may be this tracer, for errors; [] if it is a result."""
        return []

    def end(self) -> None:
        """End the trace after the transformed function has returned: later uses of its tracers raise an error."""
        if self.alive:
            if _check_leaks.ever_enabled:
                for hook in on_trace_end:
                    hook(self)
            self.alive = False
        self.set_handler(_raise_leak_error)

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}(level={self.level})"


def _raise_leak_error(prim: Primitive, args: Sequence[Value], params: Params) -> NoReturn:
    """Handle primitives for an ended trace. Not a bound method: that would be a reference cycle with the trace."""
    leaked = next((a for a in args if isinstance(a, Tracer) and not a._trace.alive), None)
    name = params.get("name") if prim.subprograms else None
    raise leak_error(leaked, f"the call of `{name}`" if type(name) is str else f"`{prim.name}`")


def leak_error(tracer: Tracer | None, use: str) -> errors.LeakedTracerError:
    """Return the error for `use` of a value whose trace has ended."""
    return errors.LeakedTracerError(load_conversion_errors().leak_text(tracer, use))


class _Evaluation(Trace):
    """The trace of level 0, which runs primitives on concrete values. `set_evaluator` sets its handler."""

    @override
    def process_custom_call(self, call: Any, args: Sequence[Value]) -> list[Value]:
        return call.run(*args)

    @override
    def uses_custom_rules(self, args: Sequence[Value]) -> bool:
        return False

    @override
    def end(self) -> None:
        raise RuntimeError("the evaluation trace does not end")

    @override
    def __reduce__(self) -> str:
        return "EVALUATION"


EVALUATION = _Evaluation(0)


class AxisFrame(NamedTuple):
    """A mapped axis in scope.

    Attributes:
      name: its name, anything hashable but an integer or a boolean.
      size: the number of members.
      trace: the trace that maps it; None while the program of a `pmap` is staged.

    >>> with extend_axis_env(AxisFrame("i", 4)):
    ...     axis_frame("i").size
    4
    """

    name: Hashable
    size: int
    trace: Trace | None = None


class _TraceState(threading.local):
    trace: Trace = EVALUATION
    depth: int = 0
    axes: tuple[AxisFrame, ...] = ()
    map_level: int = 0  # level of the innermost `vmap` that is running; 0: none
    scope: str = ""
    # The source line of equations bound by rules and derived programs; None while user code runs. See source_lines.py.
    source: SourceState = None

    @override
    def __reduce__(self) -> str:
        return "trace_state"  # functions pickled by value refer to the state of the process that loads them


trace_state = _TraceState()


set_axis_size_reader(lambda: [(frame.name, frame.size) for frame in trace_state.axes])


def _is_bound_by_caller(objects: Sequence[Value]) -> bool:
    """Return whether a rule that is running was called by a `bind` of one of these objects."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code is bind.__code__ and any(a is b for a in objects for b in frame.f_locals["args"]):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def bind(prim: Primitive, /, *args: Value, **params: ParamValue) -> Outputs:
    """Apply a primitive to concrete values, or pass it to the top-level trace among its operands.

    Args:
      prim: the primitive.
      *args: its operands: arrays, traced values, numbers.
      **params: all of its params, in their normalized form.
    Returns:
      The result; a tuple if the primitive has several results.
    Raises:
      TypeError, ValueError: the types or params are invalid; the message names the primitive and the operand.
      UnboundAxisError: it names an axis that is not in scope.
      LeakedTracerError: an operand's trace has ended.

    >>> import numpy as np
    >>> from lamina_ir import prims
    >>> bind(prims.mul_p, np.float32(2), np.float32(3))
    Array(6., dtype=float32)
    """
    trace = trace_state.trace
    for a in args:
        if isinstance(a, Tracer) and a._trace.level > trace.level:
            trace = a._trace
    if prim.may_read_axes:  # a collective, or a call that contains one: the traces that map its axes handle it too
        for name in find_axis_names(prim, params):
            mapper = axis_frame(name).trace
            if mapper is not None and mapper.level > trace.level:
                trace = mapper
    try:
        return trace.process(prim, args, params)
    except (TypeError, ValueError, NotImplementedError) as error:
        # Only after a failure: objects with `__jax_array__` are rare, and a test before would slow every operation.
        found = [a for a in args if has_jax_array(a)]
        if found:
            # The array may be traced by a trace whose rule got the object. So the first call converts it.
            if _is_bound_by_caller(found):
                raise
            return bind(prim, *[read_jax_array(a) if has_jax_array(a) else a for a in args], **params)
        # If the operands violate the primitive's own type rule, report that, not the failure of a transformation's
        # rule.
        better = find_type_error(prim, map(typeof, args), params)
        if better is None or str(better) == str(error):
            prefix_lax_function(error, prim)
            raise
        prefix_lax_function(better, prim)
        raise better from None


def _bind_by_name(prim: Primitive, /, *args: Value, **params: ParamValue) -> Outputs:
    """Implement `Primitive.bind`: as `bind`, but several results are a list, and without a traced operand an
    implementation set with `def_impl` runs."""
    if prim.custom_impl is not None and trace_state.trace is EVALUATION and not any(isinstance(a, Tracer) for a in args):
        outs = prim.custom_impl(*args, **params)
    else:
        outs = bind(prim, *args, **params)
    return list(outs) if prim.multiple else outs


set_bind(_bind_by_name)


def axis_frame(name: Hashable) -> AxisFrame:
    """Return the innermost axis of this name; UnboundAxisError if there is none."""
    # Innermost first: it hides an outer axis of the same name.
    for frame in reversed(trace_state.axes):
        if frame.name == name:
            return frame
    raise unbound_axis_error(name, [f.name for f in trace_state.axes], find_lax_call()[0])


def is_counted_once(name: Hashable) -> bool:
    """Return whether derivatives treat a value that is replicated over this axis as a single value.

    Args:
      name: name of an axis in scope.
    Returns:
      True if the setting `config.replicated_counts_once` includes the axis.

    >>> with config.replicated_counts_once(frozenset("i")):
    ...     is_counted_once("i"), is_counted_once("j")
    (True, False)
    """
    axes = config.replicated_counts_once.value
    return bool(axes) and type(name) is not UnnamedAxis and (axes is True or name in axes)


def check_axis_name_unbound(call: str, name: Hashable) -> None:
    """Check that no enclosing map has the same axis name, if `config.replicated_counts_once` is on.

    With that setting, types record by name the axes over which a value varies, so nested axes need distinct names.

    Args:
      call: the map, for the message.
      name: the name of its axis.
    Raises:
      ValueError: an axis of this name is already bound, and the setting is on.

    >>> check_axis_name_unbound("vmap of `f`", "i")
    """
    if trace_state.axes and config.replicated_counts_once.value is True and any(f.name == name for f in trace_state.axes):
        raise ValueError(f"{call}: the axis name {name!r} is already bound by an enclosing map; with "
                         "config.replicated_counts_once, types record varying axes by name, so axis names must differ. "
                         "Use different names for the axes")


on_staging: list[Callable[[bool], None]] = []
on_trace_begin: list[Callable[[Trace], None]] = []  # called with each trace, before the function that it transforms runs
on_trace_end: list[Callable[[Trace], None]] = []  # called with each trace after that function has returned
# Each returns a context manager for staging a function of these operands. It may read properties of concrete arrays,
# such as their devices, which the tracers of the staged function do not have.
staging_context_hooks: list[Callable[[Sequence[Value]], AbstractContextManager[object]]] = []
_NULL_CONTEXT = nullcontext()


def staging_context(operands: Sequence[Value]) -> AbstractContextManager[object]:
    """Return the context in which a function of these operands must be staged.

    Args:
      operands: arrays, traced values, numbers.
    Returns:
      A context manager; it does nothing unless `staging_context_hooks` has entries.

    >>> with staging_context([2.0]):
    ...     trace_state.trace is EVALUATION
    True
    """
    if not staging_context_hooks:
        return _NULL_CONTEXT
    stack = ExitStack()
    for hook in staging_context_hooks:
        stack.enter_context(hook(operands))
    return stack


def notify_staging_hooks() -> None:
    """Call the `on_staging` hooks with True if this thread stages a program or has mapped axes in scope, else False."""
    state = trace_state.trace is not EVALUATION or bool(trace_state.axes)
    for hook in on_staging:
        hook(state)


# A KeyboardInterrupt (Ctrl-C) may be raised between any two bytecodes. Therefore state is changed inside `try`,
# restoring it may run twice, and context managers are classes: an interrupted generator would restore old state at an
# arbitrary later time, when it is collected. An interrupt before the first line of `__exit__` is repaired by the
# enclosing context manager, and at the latest by the outermost public call (`api_boundary`).
class StateChange:
    """A context manager that changes the state of this thread; the block restores it, also if it is interrupted."""

    __slots__ = ("_old",)

    def _read(self) -> Any:
        """Return the state that the block restores."""
        raise NotImplementedError

    def _change(self) -> None:
        """Change the state; may be interrupted."""
        raise NotImplementedError

    def _leave(self) -> None:
        """Restore the state; may run twice."""
        raise NotImplementedError

    def __enter__(self) -> None:
        self._old = self._read()
        try:
            self._change()
        except BaseException:
            self._leave()
            raise

    def __exit__(self, *error: object) -> None:
        try:
            self._leave()
        except BaseException:
            self._leave()
            raise


class extend_axis_env(StateChange):
    """Bring mapped axes into scope inside the block.

    Args:
      *frames: the axes, outermost first.
    Raises:
      TypeError: an axis name is an integer, a boolean, or not hashable.

    >>> with extend_axis_env(AxisFrame("i", 4), AxisFrame("j", 2)):
    ...     [frame.name for frame in trace_state.axes]
    ['i', 'j']
    """

    __slots__ = ("_frames",)

    def __init__(self, *frames: AxisFrame) -> None:
        for f in frames:
            check_axis_name("a map", f.name)
        self._frames = frames

    @override
    def _read(self) -> tuple[AxisFrame, ...]:
        return trace_state.axes

    @override
    def _change(self) -> None:
        trace_state.axes = self._old + self._frames
        notify_staging_hooks()

    @override
    def _leave(self) -> None:
        trace_state.axes = self._old
        notify_staging_hooks()


class new_trace_level(StateChange):
    """Run the body of a transformation inside the block: traces made inside get higher levels.

    Args:
      trace: the transformation. It ends with the block; using its tracers afterwards is an error.

    >>> class Counting(Trace):
    ...     def process(self, prim, args, params):
    ...         return f"{prim.name} at level {self.level}"
    >>> from lamina_ir import aval_of, prims
    >>> trace = Counting(trace_state.depth + 1)
    >>> with new_trace_level(trace):
    ...     bind(prims.sin_p, Tracer(trace, aval_of(1.0)))
    'sin at level 1'
    """

    __slots__ = ("_trace",)

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    @override
    def _read(self) -> int:
        return trace_state.depth

    @override
    def _change(self) -> None:
        trace = self._trace
        if trace.level > stack_depth.USUAL_LEVELS:
            stack_depth.raise_limit(trace.level, self)
        trace_state.depth = trace.level
        if _check_leaks.ever_enabled:
            for hook in on_trace_begin:
                hook(trace)

    @override
    def _leave(self) -> None:
        trace_state.depth = self._old
        trace = self._trace
        if trace.level > stack_depth.USUAL_LEVELS:
            stack_depth.restore_limit(self)
        trace.end()


def reset_trace_state() -> None:
    """Reset this thread's state to the one without any transformation."""
    trace_state.trace, trace_state.depth, trace_state.axes, trace_state.source = EVALUATION, 0, (), None
    notify_staging_hooks()


@contextmanager
def extend_name_stack(name: str) -> Iterator[None]:
    """Append `name` to the name stack of equations staged in the block."""
    old = trace_state.scope
    try:
        trace_state.scope = f"{old}/{name}" if old else name
        yield
    finally:
        trace_state.scope = old
