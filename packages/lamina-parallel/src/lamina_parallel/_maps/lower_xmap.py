"""Lower the `xmap` equations of a program to positional programs, before the program is compiled.

The body of an xmap is batched over each of its axes, or split into loops over serial axes.

Differentiation, batching, printing and saving operate on the program with named axes. How its axes are executed is
decided here, last, so it cannot change a result. (The NumPy evaluator runs `xmap` directly.)
"""
from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from functools import partial

from lamina_batching.extend import batch_program, BatchAxis, BatchedProgram, materialise
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, prims, shaped, ShapedArray, ShapeError
from lamina_ir.extend import collect_facts, infer_equation_types
from lamina_tracing import lax
from lamina_tracing.extend import AxisFrame, extend_axis_env, eval_jaxpr, stage, trace_state, typeof
from lamina_ir.typing import Params, Value
from lamina_ir.extend.unchecked import drop_redundant_collectives, record_annotated
from lamina_ir.prims import Indexed, Split

from .._serial_axis.checkpoint_phases import drop_derivative_rules
from .._serial_axis.contract_sums import contract_sums
from .._serial_axis.scan_phases import scan_over_axis
from .._mesh.axis_resources import (find_conflict, find_divided_xmap, expand_axes, check_no_divided_xmap,
                                    drop_shared_resources)
from .._serial_axis.scatter_sums import scatter_sums
from .._typing import Entry, MeshParam

__all__ = ["lower_program"]

Axes = tuple[tuple[Hashable, int], ...]


def lower_program(closed: ClosedJaxpr, around: Axes, mesh: MeshParam | None = None) -> ClosedJaxpr:
    """Lower a program inside of maps over the axes `around`, outermost first.

    `mesh` is the mesh over which an enclosing xmap is divided, whose axes `around` then includes; None if there is
    none.
    """
    if not collect_facts(closed).has_xmap:
        return closed

    def make() -> ClosedJaxpr:
        jaxpr = closed.jaxpr
        eqns = [_lower_equation(e, around, mesh) if e.primitive.subprograms else e for e in jaxpr.eqns]
        made = ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, jaxpr.outvars), closed.consts)
        # The source line of the loop whose body this is. It is no part of the program, but profiles show it.
        if "source" in closed.memo_keys():
            source = closed.memo("source", lambda: None)
            made.memo("source", lambda: source)
        return made

    return closed.memo_with_settings(("placed", around, mesh), make)


def _lower_equation(e: Eqn, around: Axes, mesh: MeshParam | None) -> Eqn:
    flow, params = e.primitive.region_signature, dict(e.params)
    if e.primitive is prims.xla_pmap_p or e.primitive is prims.shard_map_p:
        check_no_divided_xmap(f"{e.primitive.name.removeprefix('xla_')} of `{params['name']}`", params["call_jaxpr"])
    inside = (*around, *flow.axes(params))  # type: ignore[union-attr]
    divided = e.primitive is prims.xmap_p and params["axis_resources"]
    for name in e.primitive.subprograms:
        value = params[name]
        if divided and find_divided_xmap(value) is not None:
            continue  # a divided xmap inside runs in this one's region; it is lowered together with it
        if isinstance(value, ClosedJaxpr):
            params[name] = lower_program(value, inside, mesh)
        elif isinstance(value, tuple):
            params[name] = tuple([lower_program(v, inside, mesh) for v in value])
    if e.primitive is not prims.xmap_p:
        return e if all(params[name] is e.params[name] for name in e.primitive.subprograms) else e.replace(params=params)
    avals = tuple([a.aval for a in e.invars])
    body = params["call_jaxpr"]
    key = ("positional", around, mesh, avals,
           *[params[p] for p in ("axis_sizes", "axis_resources", "here", "in_axes", "loops", "mesh", "out_axes")])
    if divided and mesh is None:
        # Cached on the body, so that equal calls share one program object, which is then emitted and compiled once.
        made = body.memo_with_settings(key, lambda: _make_shard_map(body, avals, params, around))
        return Eqn(prims.shard_map_p, e.invars, e.outvars, made, e.source)
    if divided:
        program = body.memo_with_settings(key, lambda: _divide_inside(body, avals, params, around, mesh))
    elif params["loops"]:
        program = body.memo_with_settings(key, lambda: _run_on_blocks(
            drop_redundant_collectives(body, dict(params["axis_sizes"])), avals, avals, params, around))
    else:
        program = body.memo_with_settings(key, lambda: _make_positional(body, avals, params, around))
    call = {**prims.xla_call_p.defaults, "call_jaxpr": program, "name": params["name"]}
    return Eqn(prims.xla_call_p, e.invars, e.outvars, call, e.source)


def _make_shard_map(body: ClosedJaxpr, avals: Sequence[ShapedArray], params: Params, around: Axes) -> Params:
    """Return the params of the `shard_map` that runs an xmap over a mesh.

    Each device gets a block along every dimension that is an axis with resources.
    """
    axes, resources = params["axis_sizes"], params["axis_resources"]
    names, sizes, _ = mesh = params["mesh"]
    lead, bound = f"xmap of `{params['name']}`", frozenset([name for name, _ in around])
    clashes = [name for name in names if name in bound]
    if clashes:
        raise ValueError(f"{lead}: axis_resources: the mesh axis {clashes[0]!r} has the name of an axis of an enclosing "
                         "map. Use different names, and each mesh axis in one map")
    body = drop_redundant_collectives(body, dict(axes))
    if find_conflict(body, resources) is not None:
        # A derivative may contain a value along both axes of a pair that never occurs in the program itself: the
        # cotangent of a value that two axes share. Then the first axis keeps the mesh axis, and the others are not
        # divided.
        resources = drop_shared_resources(resources)
    devices, local_sizes, over = dict(zip(names, sizes)), dict(zip(names, params["here"] or sizes)), dict(resources)
    # Between processes an operand along such an undivided axis is still divided: each process holds its part.
    block_resources = {name: mine for name, mine in params["axis_resources"]
                       if name in over or any(local_sizes[r] < devices[r] for r in mine)}
    _check_sharing(lead, (*params["in_axes"], *params["out_axes"]), block_resources)
    ins, outs = [tuple([tuple([_split(kind, block_resources) for kind in entry]) for entry in params[p]])
                 for p in ("in_axes", "out_axes")]
    blocks = []
    for a, entry in zip(avals, ins):
        mine = [() if kind is None else kind.names for kind in entry]
        shape = tuple([n // math.prod([local_sizes[r] for r in along]) for n, along in zip(a.shape, mine)])
        blocks.append(shaped(shape, a.dtype, a.weak_type).with_varying_axes(a.varying_axes.union(*mine)))
    everywhere = (*around, *devices.items())
    view = {**params, "axis_resources": resources}
    if len(block_resources) == len(over):
        block = _run_on_blocks(body, avals, blocks, view, everywhere)
    else:
        gathered = {name: mine for name, mine in block_resources.items() if name not in over}
        block = _gather_and_run(body, avals, blocks, view, everywhere, gathered)
    # Divided xmaps inside were left for this point: only here the mesh axes are in scope.
    block = lower_program(block, everywhere, mesh)
    call = {"auto": (), "call_jaxpr": block, "donated_invars": (), "here": params["here"], "in_specs": ins, "mesh": mesh,
            "name": params["name"], "out_specs": outs}
    return infer_equation_types(prims.shard_map_p, avals, call, bound)[0]


def _check_sharing(lead: str, entries: Sequence[Entry], own: dict[Hashable, tuple[Hashable, ...]]) -> None:
    """Raise ValueError if an operand or result would be divided along two axes that share a mesh axis."""
    for entry in entries:
        along = [name for kind in entry if kind is not None for name in kind.names if name in own]
        for k, name in enumerate(along):
            both = [n for n in along[:k] if not {*own[n]}.isdisjoint(own[name])]
            if both:
                raise ValueError(f"{lead}: axis_resources: the axes {both[0]!r} and {name!r} share an axis of the mesh, and an "
                                 "argument, a result, or a value stored for a derivative is divided along both. Give them "
                                 "different ones")


def _gather_and_run(body: ClosedJaxpr, avals: Sequence[ShapedArray], blocks: Sequence[ShapedArray], params: Params,
                    around: Axes, gathered: dict[Hashable, tuple[Hashable, ...]]) -> ClosedJaxpr:
    """Run `_run_on_blocks` on operands that are also divided along the axes in `gathered`, which are not divided
    inside.

    The blocks of operands are gathered first. Of each result the device keeps its block.
    """
    def run(*xs: Value) -> list[Value]:
        given = [_gather_blocks(x, entry, gathered) for x, entry in zip(xs, params["in_axes"])]
        found = eval_jaxpr(_run_on_blocks(body, avals, [typeof(x) for x in given], params, around), given)
        return [_slice_block(o, entry, gathered) for o, entry in zip(found, params["out_axes"])]

    with extend_axis_env(*[AxisFrame(*axis) for axis in around]):
        return stage(run, blocks)[0]


def _divide_inside(body: ClosedJaxpr, avals: Sequence[ShapedArray], params: Params, around: Axes,
                   mesh: MeshParam | None) -> ClosedJaxpr:
    """Lower an xmap that is divided over further axes of the mesh of an enclosing xmap.

    A device slices its block from each operand that is mapped along a divided axis, and gathers the results of all
    devices.
    """
    if params["mesh"] != mesh:
        raise ValueError(f"xmap of `{params['name']}`: axis_resources: the mesh must be that of the enclosing xmap. Call "
                         "both in the same block `with mesh:`")
    body = drop_redundant_collectives(body, dict(params["axis_sizes"]))
    resources = params["axis_resources"]
    if find_conflict(body, resources) is not None:
        resources = drop_shared_resources(resources)
    view, over = {**params, "axis_resources": resources}, dict(resources)

    def run(*xs: Value) -> list[Value]:
        given = [_slice_block(x, entry, over) for x, entry in zip(xs, params["in_axes"])]
        program = lower_program(_run_on_blocks(body, avals, [typeof(x) for x in given], view, around), around, mesh)
        return [_gather_blocks(o, entry, over) for o, entry in zip(eval_jaxpr(program, given), params["out_axes"])]

    with extend_axis_env(*[AxisFrame(*axis) for axis in around]):
        return stage(run, avals)[0]


def _gather_blocks(x: Value, entry: Entry, over: dict[Hashable, tuple[Hashable, ...]]) -> Value:
    """Gather the blocks of all devices along the dimensions that are divided axes."""
    for d, kind in enumerate(entry):
        split = _split(kind, over)
        if split is not None:
            x = lax.all_gather(x, split.names, axis=d, tiled=True)
    return x


def _slice_block(x: Value, entry: Entry, over: dict[Hashable, tuple[Hashable, ...]]) -> Value:
    """Slice this device's block along the dimensions that are divided axes."""
    for d, kind in enumerate(entry):
        split = _split(kind, over)
        if split is not None:
            # Blocks have the order of the index along the mesh axes, as those that `all_gather` joins.
            n = typeof(x).shape[d] // lax.axis_size(split.names)
            x = lax.dynamic_slice_in_dim(x, lax.axis_index(split.names) * n, n, d)
    return x


def _run_on_blocks(body: ClosedJaxpr, avals: Sequence[ShapedArray], blocks: Sequence[ShapedArray], params: Params,
                   around: Axes) -> ClosedJaxpr:
    """Lower the map on a device's blocks: serial axes become loops, and the positions of each iteration batches."""
    binds = prims.xmap_p.region_signature.axis_binding  # type: ignore[union-attr]
    assert binds is not None
    marks = [a.varying_axes | binds.mapped_axes(params, entry) for a, entry in zip(avals, params["in_axes"])]
    program, serial_axes, local_axes, expanded = expand_axes(
        body, marks, params["axis_sizes"], params["axis_resources"], params["loops"], dict(around))

    def expand_entry(entry: Entry) -> Entry:
        return tuple([kind and prims.Indexed(tuple([n for name in kind.names for n in expanded[name]])) for kind in entry])

    view = {**params, "axis_sizes": (*serial_axes, *local_axes), "loops": serial_axes,
            **{p: tuple(map(expand_entry, params[p])) for p in ("in_axes", "out_axes")}}
    return _make_positional(program, blocks, view, around)


def _split(kind: Indexed | Split | None, over: dict[Hashable, tuple[Hashable, ...]]) -> Split | None:
    """Return how a dimension that is mapped along an axis is split over the mesh; None if it is not."""
    if kind is None or not any(name in over for name in kind.names):
        return None
    if len(kind.names) > 1:
        raise ShapeError(f"xmap: a dimension that is mapped along several axes, {kind.names}, cannot be divided over a mesh: "
                         "give each a dimension of its own")
    return prims.Split(over[kind.names[0]])


def _make_positional(body: ClosedJaxpr, avals: Sequence[ShapedArray], params: Params, around: Axes) -> ClosedJaxpr:
    """Lower the map to a program of unmapped arrays.

    Inside, each array has the axes along which it is mapped as leading dimensions, in the map's order. Axes in `loops`
    become scans, the others batch dimensions.
    """
    binds, axes = prims.xmap_p.region_signature.axis_binding, params["axis_sizes"]  # type: ignore[union-attr]
    assert binds is not None
    turns = dict(params["loops"])
    ins = [binds.mapped_axes(params, entry) for entry in params["in_axes"]]
    out_axes = [frozenset[Hashable]()] * len(body.out_avals)  # the axes along which each result turns out to be mapped
    program = drop_derivative_rules(body, frozenset([name for name, _ in axes]))
    # Innermost axis first: each step adds a leading dimension, so that the dimensions of the result have the order of
    # the axes.
    for k, (name, size) in reversed(list(enumerate(axes))):
        with extend_axis_env(*[AxisFrame(*axis) for axis in (*around, *axes[:k])]):
            run_all: Callable[[ClosedJaxpr, BatchAxis, tuple[bool, ...]], BatchedProgram] = batch_program
            if name in turns:
                run_all = partial(scan_over_axis, nested=any(n in turns for n, _ in axes[:k]))
            made = run_all(program, BatchAxis(size, name), tuple([name in mine for mine in ins]))
        program = contract_sums(scatter_sums(made.program))
        out_axes = [mine | {name} if on else mine for mine, on in zip(out_axes, made.batched_out)]

    def run(*xs: Value) -> list[Value]:
        given = [_split_operand(x, entry, axes) for x, entry in zip(xs, params["in_axes"])]
        outs = eval_jaxpr(program, given)
        return [_merge_result(o, mine, entry, axes) for o, mine, entry in zip(outs, out_axes, params["out_axes"])]

    with extend_axis_env(*[AxisFrame(*axis) for axis in around]):
        return record_annotated(stage(run, avals)[0], frozenset([f.name for f in trace_state.axes]))


def _split_operand(x: Value, entry: Entry, axes: Axes) -> Value:
    """Reshape an operand to the axes along which it is mapped, then the dimensions of a member."""
    sizes = dict(axes)
    shape: list[int] = []
    named: dict[Hashable, int] = {}  # axis -> its dimension
    rest: list[int] = []
    # A dimension that is mapped along several axes is split into one dimension per axis; the rest stays behind them.
    for kind, length in zip(entry, typeof(x).shape):
        for name in () if kind is None else kind.names:
            named[name] = len(shape)
            shape.append(sizes[name])
            length //= sizes[name]
        if type(kind) is not prims.Indexed:
            rest.append(len(shape))
            shape.append(length)
    return _transpose(_reshape(x, shape), [*[named[name] for name, _ in axes if name in named], *rest])


def _merge_result(o: Value, mine: frozenset[Hashable], entry: Entry, axes: Axes) -> Value:
    """Reshape a result with leading mapped axes to the form that `out_axes` asks for."""
    sizes, wanted = dict(axes), [name for kind in entry if kind is not None for name in kind.names]
    front = [name for name, _ in axes if name in mine]
    for name in [n for n in front if n not in wanted]:  # equal at all positions
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
    return _reshape(_transpose(o, order), shape)


def _transpose(x: Value, order: list[int]) -> Value:
    return x if order == sorted(order) else lax.transpose(x, tuple(order))


def _reshape(x: Value, shape: Sequence[int]) -> Value:
    return x if typeof(x).shape == tuple(shape) else lax.reshape(x, tuple(shape))
