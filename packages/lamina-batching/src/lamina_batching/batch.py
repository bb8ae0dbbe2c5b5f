"""`BatchTrace`: values that carry an extra axis, the batch, while the function sees them without it."""
from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from lamina_ir import ClosedJaxpr, Primitive, Source, config, shaped
from lamina_ir.extend import typed_program
from lamina_tracing import lax
from lamina_tracing.extend import (AxisFrame, BatchedSource, Trace, Tracer, bound_axes, deeper, deepest, eager_lines,
                                   eval_jaxpr, now, stage, staged_source, typeof)

from .tables import batching_rules

__all__ = ["BatchAxis", "BatchTrace", "BatchTracer", "Batched", "batch_program", "materialise", "move_to", "run_batched"]


class BatchAxis(NamedTuple):
    """The axis that is being mapped: the first argument of a row.

    Attributes:
      size: how many examples there are.
      name: its name, or None.

    >>> BatchAxis(8)
    BatchAxis(size=8, name=None)
    """

    size: int
    name: Hashable = None


class BatchTracer(Tracer):
    """One example of the batch `val`, whose axis `dim` is the batch."""

    __slots__ = ("val", "dim")

    def __init__(self, trace: Trace, val: Any, dim: int) -> None:
        self._trace = trace
        # The function sees one example: the type without the batch axis.
        full = val.aval if isinstance(val, Tracer) else typeof(val)
        shape = full.shape
        self.aval = shaped(shape[:dim] + shape[dim + 1:], full.dtype, full.weak_type)
        over = trace.over  # type: ignore[attr-defined]
        if over or full.over:
            self.aval = self.aval.differing(full.over | over)
        self.val = val
        self.dim = dim

    def _behind(self) -> Any:
        return self.val


class BatchTrace(Trace):
    """Applies batching rows."""

    def __init__(self, level: int, axis: BatchAxis) -> None:
        self.level = level
        self.axis = axis
        # What carries the batch differs over the axis, if others can name it.
        self.over: frozenset[Any] = frozenset() if axis.name is None else frozenset((axis.name,))

    def custom(self, call: Any, args: Sequence[Any]) -> list[Any]:
        return call.batch(self, args, self.heeds_rules(args))

    def heeds_rules(self, args: Sequence[Any]) -> bool:
        vals = [a.val if type(a) is BatchTracer and a._trace is self else a for a in args]
        return deepest(vals).heeds_rules(vals)

    def process(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        vals: list[Any] = []
        dims: list[int | None] = []
        for a in args:
            if type(a) is BatchTracer and a._trace is self:
                vals.append(a.val)
                dims.append(a.dim)
            else:
                vals.append(a)
                dims.append(None)
        if eager_lines:
            out, dim = self._noted(prim, vals, dims, params)
        elif prim.subprograms:  # the row derives programs, which are kept: the line of this call is not theirs
            line, now.source = now.source, staged_source(2, True)
            try:
                out, dim = batching_rules[prim](self.axis, vals, dims, **params)
            finally:
                now.source = line
        else:
            out, dim = batching_rules[prim](self.axis, vals, dims, **params)
        if prim.multiple:
            return tuple([o if d is None else BatchTracer(self, o, d) for o, d in zip(out, dim)])
        return out if dim is None else BatchTracer(self, out, dim)

    def _noted(self, prim: Primitive, vals: list[Any], dims: list[Any], params: dict[str, Any]) -> tuple[Any, Any]:
        """The row, with a line in force that knows where the result carries the batch: NaNs are looked for."""
        line, source = now.source, staged_source(3, True)
        noted = BatchedSource.of(source, prim, self.axis) if isinstance(source, Source) else source
        now.source = noted
        try:
            out, dim = batching_rules[prim](self.axis, vals, dims, **params)
        except FloatingPointError as error:
            if isinstance(noted, BatchedSource) and hasattr(error, "told"):
                # Once more without looking for NaNs, to learn where the result carries the batch; then the error can tell the
                # example.
                with config.debug_nans(False), config.debug_infs(False):
                    self._note(noted, prim, *batching_rules[prim](self.axis, vals, dims, **params))
                error.args = (error.told(),)
            raise
        finally:
            now.source = line
        self._note(noted, prim, out, dim)
        return out, dim

    def _note(self, source: Any, prim: Primitive, out: Any, dim: Any) -> None:
        if isinstance(source, BatchedSource) and not prim.multiple and dim is not None:
            source.result[:] = typeof(out).shape, dim


def move_to(x: Any, src: int, dst: int) -> Any:
    """An array with one axis moved.

    Args:
      x: the array.
      src: where the axis is, counted from the front.
      dst: where it goes.
    Returns:
      An array; `x` itself if the axis is there already.

    >>> import numpy as np
    >>> move_to(np.zeros((2, 3, 4)), 2, 0).shape
    (4, 2, 3)
    """
    if src == dst:
        return x
    order = [i for i in range(typeof(x).ndim) if i != src]
    order.insert(dst, src)
    return lax.transpose(x, tuple(order))


def materialise(x: Any, dim: int | None, size: int, at: int = 0) -> Any:
    """An array with its batch axis in one place; an unbatched value is repeated there.

    Args:
      x: the array.
      dim: where its batch axis is; None: it has none.
      size: how many examples there are.
      at: where the axis goes.
    Returns:
      An array with the batch at axis `at`.

    >>> import numpy as np
    >>> materialise(np.zeros(4), None, 3).shape, materialise(np.zeros((4, 3)), 1, 3).shape
    ((3, 4), (3, 4))
    """
    if dim is not None:
        return move_to(x, dim, at)
    shape = typeof(x).shape
    return lax.broadcast_in_dim(x, shape[:at] + (size,) + shape[at:],
                                tuple(i for i in range(len(shape) + 1) if i != at))


def run_batched(fun: Callable[..., Sequence[Any]], axis: BatchAxis, args: Sequence[Any],
                dims: Sequence[int | None]) -> tuple[list[Any], list[int | None]]:
    """A function on the examples of batches, op by op on whole ones: the stock's strategy.

    Args:
      fun: function of flat arguments with a list of flat results.
      axis: size and name of the batch.
      args: flat arguments.
      dims: for each of them which axis is the batch; None: it is passed on as it is.
    Returns:
      (flat results, for each where it carries the batch or None).

    >>> import numpy as np
    >>> run_batched(lambda x, y: [lax.mul(x, y)], BatchAxis(3), [np.arange(3.0), 2.0], [0, None])
    ([Array([0., 2., 4.], dtype=float32)], [0])
    """
    trace = BatchTrace(now.depth + 1, axis)
    if axis.name is None:
        with deeper(trace):
            return _examples(fun, trace, args, dims)
    # The frame lets collectives over the name find this trace.
    with deeper(trace), bound_axes(AxisFrame(axis.name, axis.size, trace)):
        return _examples(fun, trace, args, dims)


def _examples(fun: Callable[..., Sequence[Any]], trace: BatchTrace, args: Sequence[Any],
              dims: Sequence[int | None]) -> tuple[list[Any], list[int | None]]:
    ins = [a if d is None else BatchTracer(trace, a, d) for a, d in zip(args, dims)]
    outs: list[Any] = []
    out_dims: list[int | None] = []
    for o in fun(*ins):
        if type(o) is BatchTracer and o._trace is trace:
            outs.append(o.val)
            out_dims.append(o.dim)
        else:
            outs.append(o)
            out_dims.append(None)
    return outs, out_dims


class Batched(NamedTuple):
    """A program over whole batches. Every result that depends on the batch carries it at axis 0.

    Attributes:
      program: takes the arguments of the program of one example, those that are batched with the batch at axis 0.
      batched_out: for each result, whether it carries the batch.

    >>> from lamina_ir import parse
    >>> closed = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = sin a d:f32[] = cos b in (c, d) }")
    >>> batch_program(closed, BatchAxis(3), (True, False)).batched_out
    (True, False)
    """

    program: ClosedJaxpr
    batched_out: tuple[bool, ...]


def batch_program(closed: ClosedJaxpr, axis: BatchAxis, batched: tuple[bool, ...],
                  all_out: bool | tuple[bool, ...] = False) -> Batched:
    """A program mapped over a batch carried at axis 0 of the marked arguments; remembered with the program.

    Args:
      closed: the program of one example.
      axis: size and name of the batch.
      batched: which arguments carry the batch.
      all_out: carry the batch in every result (or those marked), repeating those that do not depend on it.
    Returns:
      A program and which results carry the batch: see `Batched`.
    Raises:
      MissingRuleError: an op in it has no batching rule.

    >>> from lamina_ir import parse
    >>> print(batch_program(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"), BatchAxis(3), (True,)).program)
    { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }
    """
    def make() -> Batched:
        flags: list[bool] = []

        def run(*args: Any) -> list[Any]:
            outs, dims = run_batched(lambda *xs: eval_jaxpr(closed, xs), axis, args, [0 if b else None for b in batched])
            # Rows may leave the batch anywhere; programs that are nested and shared agree on axis 0.
            wanted = all_out if isinstance(all_out, tuple) else (all_out,) * len(dims)
            flags[:] = [w or d is not None for d, w in zip(dims, wanted)]
            return [materialise(o, d, axis.size) if on else o for o, d, on in zip(outs, dims, flags)]

        # Whole batches differ over the axes further out only.
        mine, further = frozenset([axis.name]), frozenset([f.name for f in now.axes]) - {axis.name}
        overs = [a.over - mine for a in closed.in_avals]
        avals = [(shaped((axis.size, *a.shape), a.dtype, a.weak_type) if b else a).differing(over)
                 for a, b, over in zip(closed.in_avals, batched, overs)]
        program, outer = stage(run, avals)
        assert not outer
        if now.axes:
            program = typed_program(program, overs, further)
        return Batched(program, tuple(flags))

    return closed.derived(("vmap", axis, batched, all_out), make)


