"""Axis resources: which mesh axes and serial loops a named axis of `xmap` uses, and the rewrite of a program to these
axes.

An axis of `n` positions may use mesh axes of `d` devices in total and loops of `k` iterations in total. Its index is
(device, iteration, local position). The device varies slowest, and there are `n / d / k` local positions. A collective
over the axis is a collective over all of these: `psum` over `batch` becomes `psum` over `("x", "y", "batch turn",
"batch within")`. Collectives accept such a tuple under any mixture of maps.
"""
from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from lamina_ir import Atom, ClosedJaxpr, Eqn, eqn_axis_names, Literal, Primitive, prims, shaped, subprograms, Var
from lamina_ir.extend import as_axis_name, collect_facts, check_axis_names
from lamina_ir.typing import AxisName, ParamValue
from lamina_ir.extend.unchecked import annotate_varying_axes, rewrite

from .mesh import Mesh
from .serial_loop import SerialLoop
from .._typing import MeshParam

__all__ = ["check_no_divided_xmap", "check_resources", "drop_shared_resources", "expand_axes", "find_conflict",
           "find_divided_xmap"]

Resources = tuple[tuple[Hashable, tuple[Hashable, ...]], ...]  # axis -> mesh axes, the first slowest
Sizes = Mapping[Hashable, int]
Axes = tuple[tuple[Hashable, int], ...]


def check_resources(lead: str, given: Mapping[Hashable, tuple[Hashable, ...]], sizes: Sizes, mesh: Mesh | None,
                      loops: Sizes) -> tuple[Resources, Axes]:
    """Return the mesh axes of each axis, and the number of iterations of each serial axis with more than one.

    Args:
      lead: the call, for messages.
      given: axis -> resources.
      sizes: axis -> size.
      mesh: the mesh in scope, or None.
      loops: name -> number of iterations, for the loops in scope.
    Raises:
      ValueError: no mesh is in scope, a name is unknown or names both a mesh axis and a loop, or a size does not divide.
    """
    over, serial_axes = [], []
    for name, mine in given.items():
        devices = tuple([r for r in mine if not isinstance(r, SerialLoop) and r not in loops])
        if devices:
            _check_mesh(lead, name, devices, mesh, loops)
            over.append((name, devices))
        parts = {r: mesh.shape[r] for r in devices}  # type: ignore[union-attr]
        # What is neither a mesh axis nor unknown is a loop: `_check_mesh` has refused other names.
        own = {r: r.length if isinstance(r, SerialLoop) else loops[r] for r in mine if r not in parts}
        both = [r for r in own if mesh is not None and not isinstance(r, SerialLoop) and r in mesh.shape]
        if both:
            raise ValueError(f"{lead}: axis_resources gives the axis {name!r} {both[0]!r}, which names an axis of {mesh} and a "
                             "serial_loop, both in scope. Give them different names")
        total = math.prod([*parts.values(), *own.values()])
        if sizes[name] % total:
            words = [f"{r!r} of size {n}" for r, n in parts.items()]
            words += [repr(r) if isinstance(r, SerialLoop) else f"the loop {r!r} of {n} iterations" for r, n in own.items()]
            raise ValueError(f"{lead}: the axis {name!r} of size {sizes[name]} cannot be divided evenly over "
                             f"{' and '.join(words)}. Choose a size that is a multiple of {total}, or leave {name!r} out of "
                             "axis_resources")
        if math.prod(own.values()) > 1:
            serial_axes.append((name, math.prod(own.values())))
    return tuple(over), tuple(serial_axes)


def _check_mesh(lead: str, name: Hashable, devices: tuple[Hashable, ...], mesh: Mesh | None, loops: Sizes) -> None:
    loops_text = f" (loops in scope: {', '.join(map(repr, loops))})" if loops else ""
    if mesh is None:
        raise ValueError(f"{lead}: axis_resources gives the axis {name!r} {', '.join(map(repr, devices))}, and no mesh is in "
                         f"scope{loops_text}. Call it in a block `with Mesh(devices, names):` or "
                         "`with serial_loop(name, length):`")
    for resource in devices:
        if resource not in mesh.shape:
            raise ValueError(f"{lead}: axis_resources gives the axis {name!r} {resource!r}, which is not an axis of the mesh "
                             f"in scope, {mesh}{loops_text}")


def find_conflict(closed: ClosedJaxpr, resources: Resources, loops: Resources = (),
                  mesh: MeshParam | None = None) -> str | None:
    """Describe the first conflict between the resources of a program; None if there is none.

    Two axes that share a mesh axis or a loop must not occur in the type of one value, nor in an equation over one of
    them. A device's block belongs to only one of the two. A nested map that needs devices itself is a conflict, too.
    `mesh` is the mesh of the resources, if a nested xmap may have another one.
    """
    users: dict[str, list[Hashable]] = {}
    for what, given in (("mesh axis", resources), ("loop", loops)):
        for name, mine in given:
            for resource in mine:
                users.setdefault(f"{what} {resource!r}", []).append(name)
    shared = {resource: frozenset(names) for resource, names in users.items() if len(names) > 1}
    # A shared body is visited once: without `seen`, nested calls of shared functions would take exponential time.
    todo, seen = [closed], {closed}
    for program in todo:
        for v in program.jaxpr.invars if program is closed and shared else ():
            text = _explain_sharing(shared, v.aval.varying_axes, f"an argument is {v.aval.str_short()}")
            if text:
                return text
        for e in program.jaxpr.eqns:
            if resources and e.primitive is prims.xla_pmap_p:
                return (f"the pmap of `{e.params['name']}` inside{_at(e)} uses one device for each of its rows, but the "
                        "devices of the mesh already divide this xmap. Use vmap there, or call them one after the other")
            if resources and e.primitive is prims.xmap_p and e.params["axis_resources"]:
                text = _explain_nested(e, resources, mesh)
                if text:
                    return text
            if shared:
                names = frozenset[Any]().union(*[a.aval.varying_axes for a in (*e.invars, *e.outvars)])
                if e.primitive.axis_params:
                    names |= eqn_axis_names(e)
                text = _explain_sharing(shared, names, f"`{e.primitive.name}`{_at(e)} gives "
                            f"{', '.join([v.aval.str_short() for v in e.outvars]) or 'nothing'}")
                if text:
                    return text
            if e.primitive.subprograms:
                fresh = [s for s in subprograms(e) if s not in seen]
                seen.update(fresh)
                todo += fresh
    return None


def _explain_nested(e: Eqn, resources: Resources, mesh: MeshParam | None) -> str | None:
    """Explain why a divided xmap cannot be nested in one with these resources; None if it can."""
    lead = f"the inner xmap of `{e.params['name']}` has axis_resources too{_at(e)}"
    users = {resource: name for name, mine in resources for resource in mine}
    for name, mine in e.params["axis_resources"]:
        for resource in mine:
            if resource in users:
                return (f"{lead}, which give the axis {name!r} the mesh axis {resource!r}; here that is given to "
                        f"{users[resource]!r}. Give each mesh axis to one of the two")
    if e.params["here"]:
        return f"{lead}, and the mesh has devices of several processes. Name all axes in one xmap"
    if mesh is not None and e.params["mesh"] != mesh:
        return f"{lead}, of another mesh. Call both in the same block `with mesh:`"
    return None


def find_divided_xmap(closed: ClosedJaxpr) -> Eqn | None:
    """Return the equation of the first xmap in a program that is divided over a mesh; None if there is none."""
    return closed.memo("divided", lambda: _first_divided(closed))[0] if collect_facts(closed).has_xmap else None


def _first_divided(closed: ClosedJaxpr) -> tuple[Eqn | None]:
    todo, seen = [closed], {closed}
    for program in todo:
        for e in program.jaxpr.eqns:
            if e.primitive is prims.xmap_p and e.params["axis_resources"]:
                return (e,)
            if e.primitive.subprograms:
                fresh = [s for s in subprograms(e) if s not in seen]
                seen.update(fresh)
                todo += fresh
    return (None,)


def check_no_divided_xmap(lead: str, body: ClosedJaxpr) -> None:
    """Raise ValueError if the body of a map over devices contains an xmap that is divided over a mesh."""
    e = find_divided_xmap(body)
    if e is not None:
        raise ValueError(f"{lead}: the inner xmap of `{e.params['name']}` has axis_resources{_at(e)}, but the enclosing map "
                         "already uses one device per member. Remove axis_resources, or merge both into one xmap")


def drop_shared_resources(resources: Resources) -> Resources:
    """Drop the resources of each axis that shares a mesh axis with an earlier axis."""
    taken: set[Hashable] = set()
    found = []
    for name, mine in resources:
        if taken.isdisjoint(mine):
            taken.update(mine)
            found.append((name, mine))
    return tuple(found)


def _explain_sharing(shared: Mapping[str, frozenset[AxisName]], names: frozenset[AxisName], where: str) -> str | None:
    for resource, users in shared.items():
        both = sorted(users & names, key=repr)
        if len(both) > 1:
            return (f"the axes {' and '.join(map(repr, both))} are both given the {resource}, and meet in one value: {where}. "
                    "Give them different ones")
    return None


def _at(e: Eqn) -> str:
    return "" if e.source is None else f" at {e.source}"


def expand_axes(body: ClosedJaxpr, marks: Sequence[frozenset[AxisName]], axes: Axes, resources: Resources,
                serial_axes: Axes,
                around: Sizes) -> tuple[ClosedJaxpr, Axes, Axes, dict[Hashable, tuple[Hashable, ...]]]:
    """Rewrite a program of named axes to one of mesh axes, serial axes, and axes of local positions.

    Args:
      body: the program of one position.
      marks: for each argument, the axes over which it differs.
      axes: (name, size) of each axis.
      resources: which mesh axes each takes.
      serial_axes: (name, number of iterations) of the axes with loops.
      around: name -> size of the enclosing axes, including those of the mesh.
    Returns:
      The program, (name, number of iterations) of the new serial axes, (name, size) of the new local axes, and for each
      old axis the names of its new ones.
    """
    over = dict(resources)
    serial_name, local_name, local_sizes, new_names = _name_new_axes(axes, over, dict(serial_axes), around)
    table = {name: (*over.get(name, ()), *new_names[name]) for name, _ in axes}
    sizes: dict[Hashable, int] = {**around, **{serial_name[name]: n for name, n in serial_axes}}
    sizes.update({local_name[name]: n for name, n in local_sizes.items()})

    def rename_axes(e: Eqn) -> list[Eqn] | None:
        p = e.primitive
        if not p.axis_params or not any(name in table for name in eqn_axis_names(e)):
            return None
        params = dict(e.params)
        if p is prims.axis_index_p:
            new = [n for old in check_axis_names("axis_index", params["axis_name"]) for n in _expand_name(table, old)]
            # The index is a sum of products of sizes, so all sizes but the first must be known here.
            if all(n in sizes for n in new[1:]):  # an axis bound by a nested map is not split
                return _indices(e, new, sizes)
        for param in p.axis_params:
            value = params[param]
            # The new names are in the order of the index (device, iteration, local position). So groups and results
            # of a collective keep the order of positions.
            names = tuple([new for old in (value if type(value) is tuple else (value,)) for new in _expand_name(table, old)])
            params[param] = names if param == "axes" else as_axis_name(names)
        return [e.replace(params=params)]

    def enters(e: Eqn) -> bool:
        return not any(name in table for name, _ in e.primitive.region_signature.axes(e.params))  # type: ignore[union-attr]

    # A nested map that binds the same name shadows it, so its body is left alone.
    program = rewrite(body, rename_axes, nested=enters)
    new = [frozenset([n for old in mine for n in (table[old] if old in table else (old,))]) for mine in marks]
    new_serial = tuple([(serial_name[name], n) for name, n in serial_axes])
    new_local = tuple([(local_name[name], n) for name, n in local_sizes.items() if local_name[name] in new_names[name]])
    if new_serial or new_local:  # these are read from the types; without any, the caller stages the program again
        program = annotate_varying_axes(program, new, frozenset(around).union(*table.values()))
    return program, new_serial, new_local, new_names


def _name_new_axes(axes: Axes, over: Mapping[Hashable, tuple[Hashable, ...]], loops: Sizes, around: Sizes) -> tuple[
        dict[Hashable, str], dict[Hashable, str], dict[Hashable, int], dict[Hashable, tuple[Hashable, ...]]]:
    """Return, for each axis, the names of its serial and of its local axis, its local size, and the names it becomes."""
    # Names of the user may look like generated ones, so these are made unique.
    taken = {*around, *[name for name, _ in axes]}

    def label(name: Hashable, what: str) -> str:
        text = f"{name} {what}"
        while text in taken:
            text += "'"
        taken.add(text)
        return text

    serial_name = {name: label(name, "turn") for name, _ in axes if name in loops}
    local_name = {name: label(name, "within") for name, _ in axes}
    # The positions that are left for one device and one iteration.
    local_sizes = {name: size // math.prod([loops.get(name, 1), *[around[r] for r in over.get(name, ())]])
                   for name, size in axes}
    # With one local position per device or iteration there is no local axis: batching over it would cost a pass, and XLA
    # chooses any layout along an axis of length 1, and inserts copies.
    new_names: dict[Hashable, tuple[Hashable, ...]] = {
        name: (*([serial_name[name]] if name in serial_name else []),
               *([local_name[name]] if local_sizes[name] > 1 or not (over.get(name) or name in serial_name) else []))
        for name, _ in axes}
    return serial_name, local_name, local_sizes, new_names


def _indices(e: Eqn, names: Sequence[Hashable], sizes: Sizes) -> list[Eqn]:
    """Emit the index along several axes from the index along each. A loop replaces the `axis_index` of its own name."""
    eqns: list[Eqn] = []

    def put(prim: Primitive, ins: list[Atom], out: Var, **params: ParamValue) -> Var:
        eqns.append(Eqn(prim, ins, [out], params, e.source))
        return out

    # Horner's rule: total = (index_0 * size_1 + index_1) * size_2 + index_2 ...
    aval, total = e.outvars[0].aval, None
    for k, name in enumerate(names):
        out = e.outvars[0] if k == len(names) - 1 else Var(aval)
        index = put(prims.axis_index_p, [], out if total is None else Var(aval), axis_name=as_axis_name((name,)))
        if total is not None:
            scaled = put(prims.mul_p, [total, Literal(np.int32(sizes[name]), shaped((), aval.dtype))], Var(aval))
            index = put(prims.add_p, [scaled, index], out)
        total = index
    return eqns


def _expand_name(table: Mapping[Hashable, tuple[Hashable, ...]], old: Hashable) -> tuple[Hashable, ...]:
    return table[old] if type(old) is not int and old in table else (old,)
