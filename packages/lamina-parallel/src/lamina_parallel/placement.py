"""Programs with `xmap` written positional, before they are compiled: its program batched over each of its axes, or cut into
loops over its turns.

The named program is what is differentiated, batched, printed and saved; how its axes are carried out is decided here, last, so
it cannot change a result. (On NumPy `xmap` runs as it is, by its meaning.)
"""
from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

from lamina_batching.extend import BatchAxis, batch_program, materialise
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, ShapeError, prims, shaped, subprograms
from lamina_ir.extend import stack_depth, typed_equation, without_needless
from lamina_tracing import lax
from lamina_tracing.extend import AxisFrame, bound_axes, eval_jaxpr, stage, typeof

from .contracting import contracted
from .turns import in_turns
from .resources import conflict, holds_divided, in_view_of_a_device, refuse_divided, without_sharing
from .scattering import scattered

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
    with stack_depth.roomy():
        return _written(closed, around)


def _holds(closed: ClosedJaxpr) -> bool:
    return closed.memo("holds xmap", lambda: any(
        e.primitive is prims.xmap_p or any(map(_holds, subprograms(e))) for e in closed.jaxpr.eqns if e.primitive.subprograms))


def _written(closed: ClosedJaxpr, around: Axes, mesh: Any = None) -> ClosedJaxpr:
    """The program, which stands in maps of the axes `around`, outermost first; they have those of a mesh over which an xmap
    around is divided."""
    if not _holds(closed):
        return closed

    def make() -> ClosedJaxpr:
        jaxpr = closed.jaxpr
        eqns = [_equation(e, around, mesh) if e.primitive.subprograms else e for e in jaxpr.eqns]
        made = ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, jaxpr.outvars), closed.consts)
        if "source" in closed.remembered():  # where the loop stands whose body it is
            source = closed.memo("source", lambda: None)
            made.memo("source", lambda: source)
        return made

    return closed.derived(("placed", around, mesh), make)


def _equation(e: Eqn, around: Axes, mesh: Any) -> Eqn:
    flow, params = e.primitive.flow, dict(e.params)
    if e.primitive is prims.xla_pmap_p or e.primitive is prims.shard_map_p:
        refuse_divided(f"{e.primitive.name.removeprefix('xla_')} of `{params['name']}`", params["call_jaxpr"])
    inside = (*around, *flow.axes(params))  # type: ignore[union-attr]
    divided = e.primitive is prims.xmap_p and params["axis_resources"]
    for name in e.primitive.subprograms:
        value = params[name]
        if divided and holds_divided(value) is not None:
            continue  # an xmap within is a part of this one's region, so it is written when this one is
        if isinstance(value, ClosedJaxpr):
            params[name] = _written(value, inside, mesh)
        elif isinstance(value, tuple):
            params[name] = tuple([_written(v, inside, mesh) for v in value])
    if e.primitive is not prims.xmap_p:
        return e if all(params[name] is e.params[name] for name in e.primitive.subprograms) else e.replace(params=params)
    avals = tuple([a.aval for a in e.invars])
    body = params["call_jaxpr"]
    key = ("positional", around, mesh, avals,
           *[params[p] for p in ("axis_sizes", "axis_resources", "here", "in_axes", "loops", "mesh", "out_axes")])
    if divided and mesh is None:
        made = body.derived(key, lambda: _divided(body, avals, params, around))
        return Eqn(prims.shard_map_p, e.invars, e.outvars, made, e.source)
    if divided:
        program = body.derived(key, lambda: _in_region(body, avals, params, around, mesh))
    elif params["loops"]:
        program = body.derived(key, lambda: _in_turns(
            without_needless(body, dict(params["axis_sizes"])), avals, avals, params, around))
    else:
        program = body.derived(key, lambda: _positional(body, avals, params, around))
    call = {**prims.xla_call_p.defaults, "call_jaxpr": program, "name": params["name"]}
    return Eqn(prims.xla_call_p, e.invars, e.outvars, call, e.source)


def _divided(body: ClosedJaxpr, avals: Sequence[Any], params: dict[str, Any], around: Axes) -> dict[str, Any]:
    """The params of the map over a mesh, where a device has a block of each dimension that is an axis with resources."""
    axes, resources = params["axis_sizes"], params["axis_resources"]
    names, sizes, _ = mesh = params["mesh"]
    lead, bound = f"xmap of `{params['name']}`", frozenset([name for name, _ in around])
    clash = [name for name in names if name in bound]
    if clash:
        raise ValueError(f"{lead}: axis_resources: the mesh axis {clash[0]!r} has the name of an axis that a map around binds. "
                         "Give them names of their own, and each mesh axis to one map")
    body = without_needless(body, dict(axes))
    if conflict(body, resources) is not None:
        # In a derivative axes may meet that never do in the program itself: cotangents of a value that two of them use. Then
        # the first has the mesh axis, and the others are whole on each device.
        resources = without_sharing(resources)
    devices, held, over = dict(zip(names, sizes)), dict(zip(names, params["here"] or sizes)), dict(resources)
    # Of what is whole inside a process has its part all the same, where others have theirs.
    own = {name: mine for name, mine in params["axis_resources"] if name in over or any(held[r] < devices[r] for r in mine)}
    _check_sharing(lead, (*params["in_axes"], *params["out_axes"]), own)
    ins, outs = [tuple([tuple([_split(kind, own) for kind in entry]) for entry in params[p]]) for p in ("in_axes", "out_axes")]
    blocks = []
    for a, entry in zip(avals, ins):
        mine = [() if kind is None else kind.names for kind in entry]
        shape = tuple([n // math.prod([held[r] for r in along]) for n, along in zip(a.shape, mine)])
        blocks.append(shaped(shape, a.dtype, a.weak_type).differing(a.over.union(*mine)))
    everywhere = (*around, *devices.items())
    view = {**params, "axis_resources": resources}
    if len(own) == len(over):
        block = _in_turns(body, avals, blocks, view, everywhere)
    else:
        away = {name: mine for name, mine in own.items() if name not in over}
        block = _with_parts(body, avals, blocks, view, everywhere, away)
    block = _written(block, everywhere, mesh)
    call = {"auto": (), "call_jaxpr": block, "donated_invars": (), "here": params["here"], "in_specs": ins, "mesh": mesh,
            "name": params["name"], "out_specs": outs}
    return typed_equation(prims.shard_map_p, avals, call, bound)[0]


def _check_sharing(lead: str, entries: Sequence[Any], own: dict[Hashable, tuple[Hashable, ...]]) -> None:
    """ValueError for an operand or result of which a device would have a block along two axes that share one of the mesh."""
    for entry in entries:
        along = [name for kind in entry if kind is not None for name in kind.names if name in own]
        for k, name in enumerate(along):
            both = [n for n in along[:k] if not {*own[n]}.isdisjoint(own[name])]
            if both:
                raise ValueError(f"{lead}: axis_resources: the axes {both[0]!r} and {name!r} share an axis of the mesh, and an "
                                 "argument, a result, or what a derivative keeps lies along both. Give them different ones")


def _with_parts(body: ClosedJaxpr, avals: Sequence[Any], blocks: Sequence[Any], params: dict[str, Any], around: Axes,
                away: dict[Hashable, tuple[Hashable, ...]]) -> ClosedJaxpr:
    """`_in_turns` on blocks that are divided over mesh axes along the axes in `away` too, which are whole inside: they are put
    together before, and of results each device has its block."""
    def run(*xs: Any) -> list[Any]:
        given = [_joined(x, entry, away) for x, entry in zip(xs, params["in_axes"])]
        found = eval_jaxpr(_in_turns(body, avals, [typeof(x) for x in given], params, around), given)
        return [_block(o, entry, away) for o, entry in zip(found, params["out_axes"])]

    with bound_axes(*[AxisFrame(*axis) for axis in around]):
        return stage(run, blocks)[0]


def _in_region(body: ClosedJaxpr, avals: Sequence[Any], params: dict[str, Any], around: Axes, mesh: Any) -> ClosedJaxpr:
    """The map over further axes of a mesh over which one around is divided. A device takes its block of what lies along an
    axis, and results are put together from the blocks of all."""
    if params["mesh"] != mesh:
        raise ValueError(f"xmap of `{params['name']}`: axis_resources: the mesh is another one than that of an xmap around, "
                         "over which the program is divided. Call both in the same block `with mesh:`")
    body = without_needless(body, dict(params["axis_sizes"]))
    resources = params["axis_resources"]
    if conflict(body, resources) is not None:
        resources = without_sharing(resources)
    view, over = {**params, "axis_resources": resources}, dict(resources)

    def run(*xs: Any) -> list[Any]:
        given = [_block(x, entry, over) for x, entry in zip(xs, params["in_axes"])]
        program = _written(_in_turns(body, avals, [typeof(x) for x in given], view, around), around, mesh)
        return [_joined(o, entry, over) for o, entry in zip(eval_jaxpr(program, given), params["out_axes"])]

    with bound_axes(*[AxisFrame(*axis) for axis in around]):
        return stage(run, avals)[0]


def _joined(x: Any, entry: Any, over: dict[Hashable, tuple[Hashable, ...]]) -> Any:
    """A device's block with those of the others, along the dimensions that are axes divided so."""
    for d, kind in enumerate(entry):
        split = _split(kind, over)
        if split is not None:
            x = lax.all_gather(x, split.names, axis=d, tiled=True)
    return x


def _block(x: Any, entry: Any, over: dict[Hashable, tuple[Hashable, ...]]) -> Any:
    """A device's block, along the dimensions that are axes divided so, of what it has whole."""
    for d, kind in enumerate(entry):
        split = _split(kind, over)
        if split is not None:
            n = typeof(x).shape[d] // lax.axis_size(split.names)
            x = lax.dynamic_slice_in_dim(x, lax.axis_index(split.names) * n, n, d)
    return x


def _in_turns(body: ClosedJaxpr, avals: Sequence[Any], blocks: Sequence[Any], params: dict[str, Any],
              around: Axes) -> ClosedJaxpr:
    """The map on a device's blocks of its operands: the turns of axes that have some, and in each the places within."""
    binds = prims.xmap_p.flow.binds  # type: ignore[union-attr]
    assert binds is not None
    marks = [a.over | binds.along(params, entry) for a, entry in zip(avals, params["in_axes"])]
    program, turns, within, own = in_view_of_a_device(body, marks, params["axis_sizes"], params["axis_resources"],
                                                      params["loops"], dict(around))

    def inside(entry: Any) -> Any:
        return tuple([kind and prims.Indexed(tuple([n for name in kind.names for n in own[name]])) for kind in entry])

    view = {**params, "axis_sizes": (*turns, *within), "loops": turns,
            **{p: tuple(map(inside, params[p])) for p in ("in_axes", "out_axes")}}
    return _positional(program, blocks, view, around)


def _split(kind: Any, over: dict[Hashable, tuple[Hashable, ...]]) -> Any:
    """What a device has of a dimension that is an axis."""
    if kind is None or not any(name in over for name in kind.names):
        return None
    if len(kind.names) > 1:
        raise ShapeError(f"xmap: a dimension that lies along several axes, {kind.names}, cannot be divided over a mesh: give "
                         "each a dimension of its own")
    return prims.Split(over[kind.names[0]])


def _positional(body: ClosedJaxpr, avals: Sequence[Any], params: dict[str, Any], around: Axes) -> ClosedJaxpr:
    """The map as a program of whole arrays. Inside, an array has the axes along which it lies in front, in the map's order.
    Those in `loops` are turns, the others are batches."""
    binds, axes = prims.xmap_p.flow.binds, params["axis_sizes"]  # type: ignore[union-attr]
    assert binds is not None
    turns = dict(params["loops"])
    ins = [binds.along(params, entry) for entry in params["in_axes"]]
    lie = [frozenset[Hashable]()] * len(body.out_avals)  # the axes that each result is found to lie along
    program = body
    for k, (name, size) in reversed(list(enumerate(axes))):
        with bound_axes(*[AxisFrame(*axis) for axis in (*around, *axes[:k])]):
            run_all: Any = batch_program
            if name in turns:
                run_all = partial(in_turns, inside=any(n in turns for n, _ in axes[:k]))
            made = run_all(program, BatchAxis(size, name), tuple([name in mine for mine in ins]))
        program = contracted(scattered(made.program))
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
