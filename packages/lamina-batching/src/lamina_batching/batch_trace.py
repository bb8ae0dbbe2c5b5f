"""`BatchTrace`: values have an extra batch axis, and the function sees one example, without that axis."""
from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from typing_extensions import override
from lamina_ir import ClosedJaxpr, Primitive, Source, config, shaped
from lamina_ir.extend import annotate_varying_axes
from lamina_tracing import lax
from lamina_tracing.extend import (
    AxisFrame, BatchedSource, CustomCall, eager_source_requests, eval_jaxpr, extend_axis_env, find_top_trace,
    get_equation_source, new_trace_level, stage, Trace, trace_state, Tracer, typeof)
from lamina_ir.typing import AxisName, Params, Value

from .tables import batching_rules
from ._typing import OutDims, Outputs, RuleResult

__all__ = ["BatchAxis", "BatchTrace", "BatchTracer", "BatchedProgram", "batch_program", "materialise", "move_axis",
           "run_batched"]


class BatchAxis(NamedTuple):
    """The mapped axis; the first argument of a batching rule.

    Attributes:
      size: number of examples.
      name: its name, or None.

    >>> BatchAxis(8)
    BatchAxis(size=8, name=None)
    """

    size: int
    name: Hashable = None


class BatchTracer(Tracer):
    """One example of `val`, whose axis `dim` is the batch axis.

    Args:
      trace: its trace.
      val: the batch.
      dim: the batch axis; `batch_dim` is an alias.
      made_by: the primitive that made it, for errors; None if unknown.

    >>> import numpy as np
    >>> run_batched(lambda x: print(x.shape, x.val.shape, x.dim) or [x], BatchAxis(3), [np.zeros((2, 3))], [1])[1]
    (2,) (2, 3) 1
    [1]
    """

    __slots__ = ("val", "dim", "made_by")

    def __init__(self, trace: BatchTrace, val: Value, dim: int, made_by: Primitive | None = None) -> None:
        self._trace = trace
        # The function sees one example, so the aval leaves out the batch axis.
        full = val.aval if isinstance(val, Tracer) else typeof(val)
        shape = full.shape
        self.aval = shaped(shape[:dim] + shape[dim + 1:], full.dtype, full.weak_type)
        over = trace.varying_axes
        if over or full.varying_axes:
            self.aval = self.aval.with_varying_axes(full.varying_axes | over)
        self.val = val
        self.dim = dim
        self.made_by = made_by

    batch_dim = property(lambda self: self.dim)  # the name of JAX

    @override
    def underlying_value(self) -> Value:
        return self.val


class BatchTrace(Trace):
    """Apply batching rules.

    Args:
      level: the depth in the nest of transformations.
      axis: size and name of the batch.

    >>> import numpy as np
    >>> run_batched(lambda x: print(x._trace.axis) or [x], BatchAxis(3), [np.zeros(3)], [0])[1]
    BatchAxis(size=3, name=None)
    [0]
    """

    verb = "mapped"
    arguments: tuple[Sequence[Value], Sequence[int | None]] = ((), ())  # the batches and their batch axes

    def __init__(self, level: int, axis: BatchAxis) -> None:
        self.level = level
        self.axis = axis
        # Batched values vary over the axis if it has a name.
        self.varying_axes: frozenset[AxisName] = frozenset() if axis.name is None else frozenset((axis.name,))

    @property
    @override
    def transformed_arguments(self) -> list[int]:  # type: ignore[override]
        return [i for i, d in enumerate(self.arguments[1]) if d is not None]

    @override
    def find_arguments(self, tracer: Tracer) -> list[int]:
        return [i for i, (a, d) in enumerate(zip(*self.arguments)) if isinstance(tracer, BatchTracer)
                and a is tracer.val and d == tracer.dim]

    @override
    def process_custom_call(self, call: CustomCall, args: Sequence[Value]) -> list[Value]:
        return call.batch(self, args, self.uses_custom_rules(args))

    @override
    def uses_custom_rules(self, args: Sequence[Value]) -> bool:
        # This trace does not use the rules itself; what matters are the traces of the batches that it wraps.
        vals = [a.val if type(a) is BatchTracer and a._trace is self else a for a in args]
        return find_top_trace(vals).uses_custom_rules(vals)

    @override
    def process(self, prim: Primitive, args: Sequence[Value], params: Params) -> Outputs:
        vals: list[Value] = []
        dims: list[int | None] = []
        for a in args:
            # A tracer of an outer `vmap` is an unbatched value here.
            if type(a) is BatchTracer and a._trace is self:
                vals.append(a.val)
                dims.append(a.dim)
            else:
                vals.append(a)
                dims.append(None)
        if eager_source_requests:
            out, dim = self._process_with_source(prim, vals, dims, params)
        elif prim.subprograms:  # the rule may cache derived programs: they must not get the line of this call
            line, trace_state.source = trace_state.source, get_equation_source(2, True)
            try:
                out, dim = batching_rules[prim](self.axis, vals, dims, **params)
            finally:
                trace_state.source = line
        else:
            out, dim = batching_rules[prim](self.axis, vals, dims, **params)
        if prim.multiple:
            return tuple([o if d is None else BatchTracer(self, o, d, prim) for o, d in zip(out, dim)])
        return out if dim is None else BatchTracer(self, out, dim, prim)

    def _process_with_source(self, prim: Primitive, vals: list[Value], dims: list[int | None],
                             params: Params) -> RuleResult:
        """Apply the rule with a source line that records the batch axis of the result, for reports of NaNs."""
        line, source = trace_state.source, get_equation_source(3, True)
        batched_source = BatchedSource.of(source, prim, self.axis) if isinstance(source, Source) else source
        trace_state.source = batched_source
        try:
            out, dim = batching_rules[prim](self.axis, vals, dims, **params)
        except FloatingPointError as error:
            if isinstance(batched_source, BatchedSource) and hasattr(error, "format_message"):
                # Run the rule again without NaN checks to find the batch axis of the result, so that the error can name
                # the example.
                with config.debug_nans(False), config.debug_infs(False):
                    self._record_result_dim(batched_source, prim, *batching_rules[prim](self.axis, vals, dims, **params))
                error.args = (error.format_message(),)
            raise
        finally:
            trace_state.source = line
        self._record_result_dim(batched_source, prim, out, dim)
        return out, dim

    def _record_result_dim(self, source: object, prim: Primitive, out: Outputs, dim: OutDims) -> None:
        if isinstance(source, BatchedSource) and not prim.multiple and dim is not None:
            source.result[:] = typeof(out).shape, dim


def move_axis(x: Value, src: int, dst: int) -> Value:
    """Move one axis of an array.

    Args:
      x: the array.
      src: current position of the axis, nonnegative.
      dst: new position.
    Returns:
      An array; `x` itself if `src == dst`.

    >>> import numpy as np
    >>> move_axis(np.zeros((2, 3, 4)), 2, 0).shape
    (4, 2, 3)
    """
    if src == dst:
        return x
    order = [i for i in range(typeof(x).ndim) if i != src]
    order.insert(dst, src)
    return lax.transpose(x, tuple(order))


def materialise(x: Value, dim: int | None, size: int, at: int = 0) -> Value:
    """Return an array with its batch axis at a given position; an unbatched value is repeated along it.

    Args:
      x: the array.
      dim: its batch axis, or None if it is unbatched.
      size: number of examples.
      at: new position of the batch axis.
    Returns:
      An array with the batch at axis `at`.

    >>> import numpy as np
    >>> materialise(np.zeros(4), None, 3).shape, materialise(np.zeros((4, 3)), 1, 3).shape
    ((3, 4), (3, 4))
    """
    if dim is not None:
        return move_axis(x, dim, at)
    shape = typeof(x).shape
    return lax.broadcast_in_dim(x, shape[:at] + (size,) + shape[at:],
                                tuple(i for i in range(len(shape) + 1) if i != at))


def run_batched(fun: Callable[..., Sequence[Value]], axis: BatchAxis, args: Sequence[Value],
                dims: Sequence[int | None]) -> tuple[list[Value], list[int | None]]:
    """Apply a function of one example to batches with the batching rules; the default implementation of `vmap`.

    Args:
      fun: function of flat arguments with a list of flat results.
      axis: size and name of the batch.
      args: flat arguments.
      dims: the batch axis of each argument, or None; an unbatched argument is passed unchanged.
    Returns:
      (flat results, batch axis or None for each).

    >>> import numpy as np
    >>> run_batched(lambda x, y: [lax.mul(x, y)], BatchAxis(3), [np.arange(3.0), 2.0], [0, None])
    ([Array([0., 2., 4.], dtype=float32)], [0])
    """
    trace = BatchTrace(trace_state.depth + 1, axis)
    if axis.name is None:
        with new_trace_level(trace):
            return _run_examples(fun, trace, args, dims)
    # Through the axis frame, collectives over the name find this trace.
    with new_trace_level(trace), extend_axis_env(AxisFrame(axis.name, axis.size, trace)):
        return _run_examples(fun, trace, args, dims)


def _run_examples(fun: Callable[..., Sequence[Value]], trace: BatchTrace, args: Sequence[Value],
              dims: Sequence[int | None]) -> tuple[list[Value], list[int | None]]:
    trace.arguments = args, dims
    trace.function_info = getattr(fun, "function_info", None)
    ins = [a if d is None else BatchTracer(trace, a, d) for a, d in zip(args, dims)]
    # Other values are unbatched: the function sees them as they are.
    outs: list[Value] = []
    out_dims: list[int | None] = []
    for o in fun(*ins):
        # A result of another trace does not depend on this batch.
        if type(o) is BatchTracer and o._trace is trace:
            outs.append(o.val)
            out_dims.append(o.dim)
        else:
            outs.append(o)
            out_dims.append(None)
    return outs, out_dims


class BatchedProgram(NamedTuple):
    """A batched program. Results that depend on the batch have it at axis 0.

    Attributes:
      program: takes the arguments of the per-example program; batched ones have the batch at axis 0.
      batched_out: for each result, whether it is batched.

    >>> from lamina_ir import parse
    >>> closed = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a d:f32[] = cos b in (c, d) }")
    >>> batch_program(closed, BatchAxis(3), (True, False)).batched_out
    (True, False)
    """

    program: ClosedJaxpr
    batched_out: tuple[bool, ...]


def batch_program(closed: ClosedJaxpr, axis: BatchAxis, batched: tuple[bool, ...],
                  all_out: bool | tuple[bool, ...] = False) -> BatchedProgram:
    """Batch a program over axis 0 of the marked arguments; cached on the program.

    Args:
      closed: the per-example program.
      axis: size and name of the batch.
      batched: which arguments are batched.
      all_out: whether all results (or the marked ones) must be batched; results that do not depend on the batch are
        repeated.
    Returns:
      A program and which results are batched: see `BatchedProgram`.
    Raises:
      MissingRuleError: a primitive in it has no batching rule.

    >>> from lamina_ir import parse
    >>> print(batch_program(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"), BatchAxis(3), (True,)).program)
    { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }
    """
    def make() -> BatchedProgram:
        flags: list[bool] = []

        def run(*args: Value) -> list[Value]:
            outs, dims = run_batched(lambda *xs: eval_jaxpr(closed, xs), axis, args, [0 if b else None for b in batched])
            # Rules return the batch at any axis; cached programs always have it at axis 0.
            required = all_out if isinstance(all_out, tuple) else (all_out,) * len(dims)
            flags[:] = [r or d is not None for d, r in zip(dims, required)]
            return [materialise(o, d, axis.size) if on else o for o, d, on in zip(outs, dims, flags)]

        # A batched value holds all examples, so it varies over the outer axes only.
        own, outer_axes = frozenset([axis.name]), frozenset([f.name for f in trace_state.axes]) - {axis.name}
        overs = [a.varying_axes - own for a in closed.in_avals]
        avals = [(shaped((axis.size, *a.shape), a.dtype, a.weak_type) if b else a).with_varying_axes(over)
                 for a, b, over in zip(closed.in_avals, batched, overs)]
        program, outer = stage(run, avals)
        assert not outer
        if trace_state.axes:
            program = annotate_varying_axes(program, overs, outer_axes)
        return BatchedProgram(program, tuple(flags))

    return closed.memo_with_settings(("vmap", axis, batched, all_out), make)


