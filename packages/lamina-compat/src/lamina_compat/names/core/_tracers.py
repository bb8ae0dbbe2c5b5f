"""Traces and tracers: base classes for transformations of programs, in both forms of JAX, and the state of tracing.

Until 0.4.35 a trace is made of a `MainTrace` (`new_main`), and its `process_primitive` gets tracers. Later it has no main
trace, `set_current_trace` makes it the current one, and `process_primitive` gets values. A trace that was made with a main
trace has the first form.
"""
from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from lamina_ir import Primitive, UnnamedAxis, errors
from lamina_ir.extend import unbound_axis_error
from lamina_ir.typing import AxisName, Outputs, Params, Tree, Value
from lamina_tracing import ensure_compile_time_eval, hooks, lax
from lamina_tracing.extend import (EVALUATION, AxisFrame, CustomCall, find_top_trace, get_concrete_value, new_trace_level,
                                    trace_state, typeof)
from lamina_tracing.extend import Trace as _Trace
from lamina_tracing.extend import Tracer as _Tracer
from lamina_tracing.extend import extend_axis_env as _extend_axis_env
from lamina_tracing.linear_util import wrap_init
from typing_extensions import override

from ..._class_views import ClassView
from ..._vocabulary import to_jax_equation, xla_pmap_p
from ._primitives import custom_jvp_call_p, custom_vjp_call_p
from ._programs import function_of_program

__all__ = ["AxisEnv", "EvalTrace", "MainTrace", "OpaqueTraceState", "Sublevel", "Trace", "TraceTag", "Tracer", "axis_frame",
           "cur_sublevel", "current_trace_is", "ensure_compile_time_eval", "escaped_tracer_error", "eval_context", "eval_trace",
           "extend_axis_env", "extend_axis_env_nd", "find_cur_trace", "find_top_trace", "full_lower", "get_axis_env",
           "get_opaque_trace_state", "is_tracer", "new_base_main", "new_main", "new_sublevel", "nonempty_axis_env",
           "reset_trace_state", "set_current_trace", "take_current_trace", "thread_local_state", "trace_ctx",
           "trace_state_clean", "unsafe_am_i_under_a_jit_DO_NOT_USE", "unsafe_am_i_under_a_vmap_DO_NOT_USE",
           "unsafe_get_axis_names", "unsafe_get_axis_names_DO_NOT_USE", "unsafe_get_current_trace_DO_NOT_USE"]

EvalTrace = type(EVALUATION)
eval_trace = EVALUATION
AxisEnv = tuple


class Tracer(_Tracer, metaclass=ClassView, of=_Tracer):
    """The base class of tracers of programs. A subclass defines the property `aval`. Lamina's tracers are instances too.

    Args:
      trace: the trace that handles primitives of this tracer.
    """

    def __init__(self, trace: Any) -> None:
        self._trace = trace

    def __class_getitem__(cls, item: object) -> type:
        """Return the class: types of traces have no effect."""
        return cls

    def full_lower(self) -> Any:
        """Return the tracer, or a value of an outer trace that represents it."""
        return self

    def is_concrete(self) -> bool:
        """Return whether the value is known."""
        return get_concrete_value(self) is not None


class MainTrace:
    """A level of tracing in the form of JAX until 0.4.35: `new_main` makes it.

    Attributes:
      level: the depth.
      trace_type: the class of its trace.
      payload: keyword arguments of that class.
    """

    def __init__(self, level: int, trace_type: type, **payload: Any) -> None:
        self.level, self.trace_type, self.payload = level, trace_type, payload
        self._trace: Any = None

    def with_cur_sublevel(self) -> Any:
        """Return the trace of this level."""
        if self._trace is None:
            self._trace = self.trace_type(self, 0, **self.payload)
        return self._trace

    @override
    def __repr__(self) -> str:
        return f"MainTrace({self.level},{self.trace_type.__name__})"


class Trace(_Trace, metaclass=ClassView, of=_Trace):
    """The base class of traces of programs; see the module for its two forms. Lamina's traces are instances too.

    Args:
      main: the level; None in the form of JAX from 0.4.36 on.
      sublevel: ignored.
      payload: stored as attributes.
    """

    level = 0
    main: Any = None
    sublevel = 0

    def __init__(self, main: MainTrace | None = None, sublevel: int | None = None, **payload: Any) -> None:
        vars(self).update(payload)
        if main is not None:
            self.main, self.level = main, main.level
            if main._trace is None:
                main._trace = self

    def __class_getitem__(cls, item: object) -> type:
        """Return the class: types of tracers have no effect."""
        return cls

    # --- for subclasses
    def pure(self, val: Value) -> Any:
        """Return the tracer of a value that depends on no argument."""
        raise NotImplementedError(f"{type(self).__name__} must define `pure`")

    def lift(self, tracer: Any) -> Any:
        """Return the tracer of a tracer of an outer trace."""
        return self.pure(tracer)

    def sublift(self, tracer: Any) -> Any:
        """Return the tracer itself: lamina has no sublevels."""
        return tracer

    sink = lift

    def process_primitive(self, primitive: Primitive, tracers: Sequence[Any], params: Params) -> Any:
        """Handle a primitive with its params in JAX's vocabulary."""
        raise NotImplementedError(f"{type(self).__name__} must define `process_primitive`")

    def invalidate(self) -> None:
        """End the trace."""
        self.end()

    is_valid = property(lambda self: self.alive)

    # --- for lamina
    def full_raise(self, val: Any) -> Any:
        """Return a value as a tracer of this trace. Without a main trace, as in JAX from 0.4.36 on, return the value itself."""
        if self.main is None:
            return val
        if not isinstance(val, _Tracer):
            return self.pure(val)
        trace = val._trace
        if trace is self or trace.main is self.main:
            return val
        if trace.level > self.level:
            raise errors.LeakedTracerError(f"Can't lift level {val!r} to {self!r}: the tracer belongs to an inner "
                                               "transformation that has not ended")
        return self.lift(val)

    def to_val(self, val: Any) -> Any:
        """Return a value as an argument of `process_primitive`."""
        return val if self.main is None else self.full_raise(val)

    @override
    def owns(self, x: Value) -> bool:
        return isinstance(x, _Tracer) and (x._trace is self or self.main is not None and x._trace.main is self.main)

    @override
    def process(self, prim: Primitive, args: tuple[Value, ...], params: Params) -> Outputs:
        """Call `process_primitive`."""
        shown, params, operands = to_jax_equation(prim, params, args)
        values = list(map(self.to_val, operands))
        if shown is xla_pmap_p and hasattr(self, "process_map"):
            return tuple(map(full_lower, _process_map(self.process_map, params, values)))
        made = self.process_primitive(shown, values, params)
        if not prim.multiple:
            return full_lower(made)
        if not isinstance(made, tuple | list):
            raise TypeError(f"process_primitive of {type(self).__name__}: must return a sequence of results of `{shown.name}`; "
                            f"got {type(made).__name__}: {made!r:.60}")
        return tuple(map(full_lower, made))

    @override
    def process_custom_call(self, call: CustomCall, args: Sequence[Value]) -> list[Value]:
        """Call `process_custom_jvp_call` or `process_custom_vjp_call`; other custom calls are one equation."""
        kind = getattr(getattr(call, "f", None), "kind", None)
        if kind not in ("custom_jvp", "custom_vjp"):
            return call.bind(args)
        method = getattr(self, f"process_{kind}_call", None)
        if method is None:
            raise NotImplementedError(f"{type(self).__name__} must define `process_{kind}_call` to handle a {kind} function")
        values = list(map(self.to_val, args))
        made = _process_jvp(method, call, values) if kind == "custom_jvp" else _process_vjp(method, call, values)
        return list(map(full_lower, made))


def _process_map(method: Callable[..., Any], params: Params, values: list[Value]) -> Any:
    """Call `process_map` with the mapped function in place of its program."""
    rest = {k: v for k, v in params.items() if k not in ("call_jaxpr", "out_axes", "global_arg_shapes")}
    return method(xla_pmap_p, wrap_init(function_of_program(params["call_jaxpr"])), values, rest
                  | {"out_axes_thunk": lambda: params["out_axes"]})


def _process_jvp(method: Callable[..., Any], call: Any, values: list[Value]) -> list[Value]:
    def jvp(*flat: Value) -> list[Value]:
        half = len(flat) // 2
        primals, tangents = flat[:half], list(flat[half:])
        outs, out_tangents = call.rule(list(primals), tangents)
        return [*outs, *[lax.full_like(o, 0) if t is None else t for o, t in zip(outs, out_tangents)]]
    return list(method(custom_jvp_call_p, wrap_init(call.run), wrap_init(jvp), values, symbolic_zeros=False))


def _process_vjp(method: Callable[..., Any], call: Any, values: list[Value]) -> list[Value]:
    found: dict[str, Any] = {}

    def fwd(*flat: Value) -> list[Value]:
        # Pairs of a value and whether it is perturbed
        primals = flat[::2] if len(flat) == 2 * len(values) else flat
        outs, residuals, found["tree"] = call.forward(list(primals), [True] * len(primals))
        found.update(count=len(residuals), outs=[typeof(o) for o in outs], ins=[typeof(p) for p in primals])
        return [*residuals, *outs]

    def bwd(*flat: Value) -> list[Value]:
        n = found["count"]
        made = call.backward(found["tree"], list(flat[:n]), list(flat[n:]), found["outs"], found["ins"])
        return [lax.full(a.shape, 0, a.dtype) if ct is None else ct for ct, a in zip(made, found["ins"])]

    def out_trees() -> tuple[Tree, Tree]:
        return call.out_tree, found["tree"]
    return list(method(custom_vjp_call_p, wrap_init(call.run), wrap_init(fwd), bwd, values, out_trees=out_trees,
                       symbolic_zeros=False))


def full_lower(val: Any) -> Any:
    """Return a value without those tracers of programs that represent values of outer traces."""
    return val.full_lower() if isinstance(val, _Tracer) and hasattr(val, "full_lower") else val


def is_tracer(x: object) -> bool:
    """Return whether a value is traced."""
    return isinstance(x, _Tracer)


# --- the form until 0.4.35 ------------------------------------------------------------------------------------------
@contextmanager
def new_main(trace_type: type, dynamic: bool = False, **payload: Any) -> Iterator[MainTrace]:
    """Begin a level of tracing.

    Use it as `with new_main(MyTrace) as main: trace = main.with_cur_sublevel()`.

    Args:
      trace_type: a subclass of `Trace`.
      dynamic: whether its trace also handles primitives without tracers among their operands.
      payload: keyword arguments of the trace.
    """
    holder = _Trace(trace_state.depth + 1)
    main = MainTrace(holder.level, trace_type, **payload)
    with new_trace_level(holder):
        if not dynamic:
            yield main
            return
        with _current(main.with_cur_sublevel()):
            yield main


new_base_main = new_main


@contextmanager
def new_sublevel() -> Iterator[None]:
    """Do nothing: lamina has no sublevels."""
    yield


class Sublevel(int):
    """The number of a sublevel."""


def cur_sublevel() -> Sublevel:
    """Return the sublevel, which is always 0."""
    return Sublevel(0)


class _TraceStack:
    """The levels of this thread, as far as programs read them: the outermost, and the current one."""

    @property
    def stack(self) -> list[Any]:
        base = SimpleNamespace(level=0, trace_type=EvalTrace)
        return [base] if not trace_state.depth else [
            base, SimpleNamespace(level=trace_state.depth, trace_type=type(trace_state.trace))]

    dynamic = property(lambda self: trace_state.trace.main)


class _TraceState:
    trace_stack = _TraceStack()
    substack = (Sublevel(0),)
    axis_env = property(lambda self: [f for f in trace_state.axes if type(f.name) is not UnnamedAxis])


thread_local_state = SimpleNamespace(trace_state=_TraceState())


def _notify() -> None:
    """Inform the runtime, whose fast calls of jitted functions are valid only while nothing is staged."""
    for hook in hooks.on_staging:
        hook(trace_state.trace is not EVALUATION or bool(trace_state.axes))


# --- the form from 0.4.36 on ----------------------------------------------------------------------------------------
@contextmanager
def _current(trace: Any) -> Iterator[None]:
    before = trace_state.trace, trace_state.depth
    try:
        trace_state.trace, trace_state.depth = trace, max(before[1], trace.level)
        _notify()
        yield
    finally:
        trace_state.trace, trace_state.depth = before
        _notify()


@contextmanager
def take_current_trace() -> Iterator[Any]:
    """Give the block the current trace, which handles primitives without tracers."""
    yield trace_state.trace


@contextmanager
def set_current_trace(trace: Any, check_leaks: bool = False) -> Iterator[None]:
    """Make a trace the current one inside of the block: it handles all primitives.

    Args:
      trace: a `Trace`, or the result of `take_current_trace`.
      check_leaks: accepted without effect.
    """
    if trace is None:
        trace = EVALUATION
    if isinstance(trace, Trace) and "level" not in vars(trace):
        trace.level = trace_state.depth + 1
    with _current(trace):
        yield


class TraceTag:
    """A marker by which a trace recognizes its tracers."""


def find_cur_trace() -> Any:
    """Return the current trace."""
    return trace_state.trace


unsafe_get_current_trace_DO_NOT_USE = find_cur_trace


class _TraceContext:
    trace = property(lambda self: trace_state.trace)
    axis_env = property(lambda self: get_axis_env())

    def is_top_level(self) -> bool:
        return trace_state_clean()


trace_ctx = _TraceContext()


def current_trace_is(trace: object) -> bool:
    """Return whether this is the current trace."""
    return trace_state.trace is trace


class OpaqueTraceState:
    """The state of tracing, comparable with `==`: whether two values may be used together."""

    __slots__ = ("_state",)

    def __init__(self) -> None:
        trace = trace_state.trace
        self._state = (trace if trace is EVALUATION else weakref.ref(trace), trace_state.depth)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._state == other._state

    @override
    def __hash__(self) -> int:
        return hash(self._state[1])

    @override
    def __repr__(self) -> str:
        return f"OpaqueTraceState(depth={self._state[1]})"


def get_opaque_trace_state(convention: str = "flax") -> OpaqueTraceState:
    """Return the state of tracing."""
    return OpaqueTraceState()


# --- state ----------------------------------------------------------------------------------------------------------
def trace_state_clean() -> bool:
    """Return whether no transformation is active in this thread."""
    return trace_state.trace is EVALUATION and not trace_state.depth and not trace_state.axes


def reset_trace_state() -> bool:
    """Return whether no transformation was active; else end them."""
    if trace_state_clean():
        return True
    trace_state.trace, trace_state.depth, trace_state.axes, trace_state.source, trace_state.scope = EVALUATION, 0, (), None, ""
    _notify()
    return False


@contextmanager
def eval_context() -> Iterator[None]:
    """Evaluate primitives on concrete values at once inside of the block, also inside of a staged function."""
    with _current(EVALUATION):
        yield


def escaped_tracer_error(tracer: Tracer, detail: str | None = None) -> errors.LeakedTracerError:
    """Return the error for a tracer that was used after its transformation had ended."""
    return errors.LeakedTracerError(f"Encountered an unexpected tracer: {tracer!r}. It was used after its transformation "
                                        f"had ended{'. ' + detail if detail else ''}. Return it from the function")


# --- mapped axes ----------------------------------------------------------------------------------------------------
def axis_frame(axis_name: AxisName, main_trace: object = None) -> Any:
    """Return the mapped axis of this name, with `name`, `size`; NameError if there is none."""
    for frame in reversed(trace_state.axes):
        if frame.name == axis_name:
            return frame
    raise unbound_axis_error(axis_name, unsafe_get_axis_names())


def _frames() -> list[AxisFrame]:
    return [f for f in trace_state.axes if type(f.name) is not UnnamedAxis]


def unsafe_get_axis_names(*_: object) -> list[AxisName]:
    """Return the names of the mapped axes."""
    return [f.name for f in _frames()]


unsafe_get_axis_names_DO_NOT_USE = unsafe_get_axis_names


def nonempty_axis_env() -> bool:
    """Return whether there are mapped axes with a name."""
    return bool(_frames())


unsafe_am_i_under_a_vmap_DO_NOT_USE = nonempty_axis_env


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    """Return whether a function is being staged."""
    return trace_state.trace is not EVALUATION


class _AxisSizes:
    """The mapped axes in the form of JAX from 0.4.36 on."""

    axis_sizes = property(lambda self: {f.name: f.size for f in _frames()})

    def axis_exists(self, name: AxisName) -> bool:
        return name in self.axis_sizes

    def axis_size(self, name: AxisName) -> int:
        return axis_frame(name).size

    def axis_names(self) -> list[AxisName]:
        return unsafe_get_axis_names()


def get_axis_env() -> Any:
    """Return the mapped axes: `axis_sizes`, `axis_exists(name)`, `axis_size(name)`."""
    return _AxisSizes()


@contextmanager
def extend_axis_env(axis_name: AxisName, size: int, tag: object = None) -> Iterator[None]:
    """Bring a mapped axis into scope inside of the block, as `axis_env` of `jax.make_jaxpr`."""
    with _extend_axis_env(AxisFrame(axis_name, size)):
        yield


@contextmanager
def extend_axis_env_nd(axes: Sequence[tuple[AxisName, int]], tag: object = None) -> Iterator[None]:
    """Bring several mapped axes into scope inside of the block."""
    with _extend_axis_env(*[AxisFrame(name, size) for name, size in axes]):
        yield


