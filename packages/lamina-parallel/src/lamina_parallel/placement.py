"""Programs with `xmap` written positional, before they are compiled: its program batched over each of its axes in turn.

The named program is what is differentiated, batched, printed and saved; how its axes are carried out is decided here, last, so
it cannot change a result. (On NumPy `xmap` runs as it is, by its meaning.)
"""
from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from lamina_batching.extend import BatchAxis, batch_program, materialise
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, prims, subprograms
from lamina_tracing import lax
from lamina_tracing.extend import AxisFrame, bound_axes, eval_jaxpr, stage, typeof

__all__ = ["placed"]

Axes = tuple[tuple[Hashable, int], ...]


def placed(closed: ClosedJaxpr, around: Axes = ()) -> ClosedJaxpr:
    """A program without `xmap` that computes the same.

    Args:
      closed: the program.
      around: (name, size) of the axes that are bound around it, outermost first.
    Returns:
      A program, remembered with `closed`; itself where there is nothing to do.

    >>> from lamina_ir import parse
    >>> body = "{ lambda ; a:f32[]{i}. let b:f32[]{i} = sin a in (b,) }"
    >>> call = f"xmap[ axis_sizes=(('i', 3),) call_jaxpr={body} in_axes=((Indexed(names=('i',)),),) name=f "
    >>> call += "out_axes=((Indexed(names=('i',)),),) ] a"
    >>> program = placed(parse("{ lambda ; a:f32[3]. let b:f32[3] = %s in (b,) }" % call))
    >>> program.eqns[0].params["call_jaxpr"]
    { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }
    """
    return _written(closed, around)


def _holds(closed: ClosedJaxpr) -> bool:
    return closed.memo("holds xmap", lambda: any(
        e.primitive is prims.xmap_p or any(map(_holds, subprograms(e))) for e in closed.jaxpr.eqns if e.primitive.subprograms))


def _written(closed: ClosedJaxpr, around: Axes) -> ClosedJaxpr:
    """The program, which stands in maps of the axes `around`, outermost first."""
    if not _holds(closed):
        return closed

    def make() -> ClosedJaxpr:
        jaxpr = closed.jaxpr
        eqns = [_equation(e, around) if e.primitive.subprograms else e for e in jaxpr.eqns]
        made = ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, jaxpr.outvars), closed.consts)
        if "source" in closed.remembered():  # where the loop stands whose body it is
            source = closed.memo("source", lambda: None)
            made.memo("source", lambda: source)
        return made

    return closed.derived(("placed", around), make)


def _equation(e: Eqn, around: Axes) -> Eqn:
    flow, params = e.primitive.flow, dict(e.params)
    inside = (*around, *flow.axes(params))  # type: ignore[union-attr]
    for name in e.primitive.subprograms:
        value = params[name]
        if isinstance(value, ClosedJaxpr):
            params[name] = _written(value, inside)
        elif isinstance(value, tuple):
            params[name] = tuple([_written(v, inside) for v in value])
    if e.primitive is not prims.xmap_p:
        return e if all(params[name] is e.params[name] for name in e.primitive.subprograms) else e.replace(params=params)
    avals = tuple([a.aval for a in e.invars])
    body = params["call_jaxpr"]
    key = ("positional", around, avals, params["axis_sizes"], params["in_axes"], params["out_axes"])
    program = body.derived(key, lambda: _positional(body, avals, params, around))
    call = {**prims.xla_call_p.defaults, "call_jaxpr": program, "name": params["name"]}
    return Eqn(prims.xla_call_p, e.invars, e.outvars, call, e.source)


def _positional(body: ClosedJaxpr, avals: Sequence[Any], params: dict[str, Any], around: Axes) -> ClosedJaxpr:
    """The map as a program of whole arrays. Inside, an array has the axes along which it lies in front, in the map's order."""
    binds, axes = prims.xmap_p.flow.binds, params["axis_sizes"]  # type: ignore[union-attr]
    assert binds is not None
    ins = [binds.along(params, entry) for entry in params["in_axes"]]
    lie = [frozenset[Hashable]()] * len(body.out_avals)  # the axes that each result is found to lie along
    program = body
    for k, (name, size) in reversed(list(enumerate(axes))):
        with bound_axes(*[AxisFrame(*axis) for axis in (*around, *axes[:k])]):
            made = batch_program(program, BatchAxis(size, name), tuple([name in mine for mine in ins]))
        program = made.program
        lie = [mine | {name} if on else mine for mine, on in zip(lie, made.batched_out)]

    def run(*xs: Any) -> list[Any]:
        given = [_taken_apart(x, entry, axes) for x, entry in zip(xs, params["in_axes"])]
        outs = eval_jaxpr(program, given)
        return [_put_together(o, mine, entry, axes) for o, mine, entry in zip(outs, lie, params["out_axes"])]

    with bound_axes(*[AxisFrame(*axis) for axis in around]):
        return stage(run, avals)[0]


def _taken_apart(x: Any, entry: Any, axes: Axes) -> Any:
    """A whole operand with the axes along which it lies in front, and then what a member has of it."""
    sizes = dict(axes)
    shape: list[int] = []
    named: dict[Hashable, int] = {}  # axis -> its dimension
    rest: list[int] = []
    for kind, length in zip(entry, typeof(x).shape):
        for name in () if kind is None else kind.names:
            named[name] = len(shape)
            shape.append(sizes[name])
            length //= sizes[name]
        if type(kind) is not prims.Indexed:
            rest.append(len(shape))
            shape.append(length)
    return _transposed(_shaped(x, shape), [*[named[name] for name, _ in axes if name in named], *rest])


def _put_together(o: Any, mine: frozenset[Hashable], entry: Any, axes: Axes) -> Any:
    """The whole result, from one with the axes along which it was found to lie in front."""
    sizes, wanted = dict(axes), [name for kind in entry if kind is not None for name in kind.names]
    front = [name for name, _ in axes if name in mine]
    for name in [n for n in front if n not in wanted]:  # the same at each place
        o = lax.index_in_dim(o, 0, front.index(name), False)
        front.remove(name)
    for name in [n for n in wanted if n not in front]:
        o = materialise(o, None, sizes[name])
        front.insert(0, name)
    own = iter(range(len(front), typeof(o).ndim))
    order: list[int] = []
    shape: list[int] = []
    for kind in entry:
        length = 1
        for name in () if kind is None else kind.names:
            order.append(front.index(name))
            length *= sizes[name]
        if type(kind) is not prims.Indexed:
            order.append(next(own))
            length *= typeof(o).shape[order[-1]]
        shape.append(length)
    return _shaped(_transposed(o, order), shape)


def _transposed(x: Any, order: list[int]) -> Any:
    return x if order == sorted(order) else lax.transpose(x, tuple(order))


def _shaped(x: Any, shape: Sequence[int]) -> Any:
    return x if typeof(x).shape == tuple(shape) else lax.reshape(x, tuple(shape))
