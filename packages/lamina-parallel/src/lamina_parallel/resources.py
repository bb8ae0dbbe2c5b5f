"""Axes divided over a mesh: which mesh axes a named axis takes, and its program in a device's view.

An axis of `n` positions over mesh axes of `d` devices together has the index (device, place within), the device slower, with
`n / d` places within. A collective over it is one over all of these: `psum` over `batch` becomes `psum` over
`("x", "y", "batch within")`, which collectives take under any mixture of maps.
"""
from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from lamina_ir import ClosedJaxpr, Eqn, eqn_axis_names, prims, rewrite, subprograms
from lamina_ir.extend import as_axis_name, typed_program

from .mesh import Mesh

__all__ = ["checked_resources", "conflict", "in_view_of_a_device", "without_sharing"]

Resources = tuple[tuple[Hashable, tuple[Hashable, ...]], ...]  # axis -> mesh axes, the first slowest
Sizes = Mapping[Hashable, int]


def checked_resources(lead: str, given: Mapping[Hashable, tuple[Hashable, ...]], sizes: Sizes, mesh: Mesh | None) -> Resources:
    """What each axis takes of a mesh, if it can.

    Args:
      lead: the call, for messages.
      given: axis -> resources.
      sizes: axis -> size.
      mesh: that in scope, or None.
    Raises:
      ValueError: there is no mesh, or it has no such axis; a size does not divide.
      NotImplementedError: the mesh has devices of several processes.
    """
    if mesh is None:
        name, mine = next(iter(given.items()))
        raise ValueError(f"{lead}: axis_resources gives the axis {name!r} {', '.join(map(repr, mine))}, and no mesh is in "
                         "scope. Call it in a block `with Mesh(devices, names):`")
    if mesh.is_multi_process:
        raise NotImplementedError(f"{lead}: axis_resources: {mesh} has devices of several processes, over which axes are not "
                                  "yet divided. Take mesh.local_mesh, or lamina.shard_map")
    for name, mine in given.items():
        for resource in mine:
            if resource not in mesh.shape:
                raise ValueError(f"{lead}: axis_resources gives the axis {name!r} {resource!r}, which is no axis of the mesh "
                                 f"in scope, {mesh}")
        devices = math.prod([mesh.shape[r] for r in mine])
        if sizes[name] % devices:
            parts = " and ".join([f"{r!r} of size {mesh.shape[r]}" for r in mine])
            raise ValueError(f"{lead}: the axis {name!r} of size {sizes[name]} cannot be divided evenly over {parts}. Choose "
                             f"a size that is a multiple of {devices}, or leave {name!r} out of axis_resources")
    return tuple([(name, tuple(mine)) for name, mine in given.items()])


def conflict(closed: ClosedJaxpr, resources: Resources) -> str | None:
    """In words, where two axes that share a mesh axis meet in one value, or in an op over one of them; None where none do. Then
    a device's block is of one of them, which the type of the value says."""
    users: dict[Hashable, list[Hashable]] = {}
    for name, mine in resources:
        for resource in mine:
            users.setdefault(resource, []).append(name)
    shared = {resource: frozenset(names) for resource, names in users.items() if len(names) > 1}
    todo, seen = [closed], {closed}
    for program in todo:
        for v in program.jaxpr.invars if program is closed and shared else ():
            text = _two(shared, v.aval.over, f"an argument is {v.aval.short()}")
            if text:
                return text
        for e in program.jaxpr.eqns:
            if e.primitive is prims.xmap_p and e.params["axis_resources"]:
                return f"the xmap of `{e.params['name']}` inside has axis_resources too{_at(e)}; one of the two may have them"
            if shared:
                names = frozenset[Any]().union(*[a.aval.over for a in (*e.invars, *e.outvars)])
                if e.primitive.axis_params:
                    names |= eqn_axis_names(e)
                text = _two(shared, names, f"`{e.primitive.name}`{_at(e)} gives "
                            f"{', '.join([v.aval.short() for v in e.outvars]) or 'nothing'}")
                if text:
                    return text
            if e.primitive.subprograms:
                fresh = [s for s in subprograms(e) if s not in seen]
                seen.update(fresh)
                todo += fresh
    return None


def without_sharing(resources: Resources) -> Resources:
    """The resources without those of axes that take a mesh axis which another has before."""
    taken: set[Hashable] = set()
    found = []
    for name, mine in resources:
        if taken.isdisjoint(mine):
            taken.update(mine)
            found.append((name, mine))
    return tuple(found)


def _two(shared: Mapping[Hashable, frozenset[Any]], names: frozenset[Any], where: str) -> str | None:
    for resource, users in shared.items():
        both = sorted(users & names, key=repr)
        if len(both) > 1:
            return (f"the axes {' and '.join(map(repr, both))} are both given the mesh axis {resource!r}, and meet in one "
                    f"value: {where}. Give them different mesh axes")
    return None


def _at(e: Eqn) -> str:
    return "" if e.source is None else f" at {e.source}"


def in_view_of_a_device(body: ClosedJaxpr, marks: Sequence[frozenset[Any]], axes: Sequence[tuple[Hashable, int]],
                        resources: Resources, bound: frozenset[Any]) -> tuple[ClosedJaxpr, list[tuple[Hashable, Hashable]]]:
    """A program of named axes as one of mesh axes and places within.

    Args:
      body: the program of one position.
      marks: for each argument, the axes over which it differs.
      axes: (name, size) of each axis.
      resources: which mesh axes each takes.
      bound: the names of the axes around.
    Returns:
      (the program, (axis, name of the places within) of each axis).
    """
    over = dict(resources)
    taken = {*bound, *[name for name, _ in axes], *[r for _, mine in resources for r in mine]}
    within: dict[Hashable, Hashable] = {}
    for name, _ in axes:
        label = f"{name} within"
        while label in taken:
            label += "'"
        taken.add(label)
        within[name] = label
    table = {name: (*over.get(name, ()), within[name]) for name, _ in axes}

    def renamed(e: Eqn) -> list[Eqn] | None:
        p = e.primitive
        if not p.axis_params or not any(name in table for name in eqn_axis_names(e)):
            return None
        params = dict(e.params)
        for param in p.axis_params:
            value = params[param]
            names = tuple([new for old in (value if type(value) is tuple else (value,)) for new in _names(table, old)])
            params[param] = names if param == "axes" else as_axis_name(names)
        return [e.replace(params=params)]

    def enters(e: Eqn) -> bool:
        return not any(name in table for name, _ in e.primitive.flow.axes(e.params))  # type: ignore[union-attr]

    program = rewrite(body, renamed, nested=enters)
    new = [frozenset([n for old in mine for n in (table[old] if old in table else (old,))]) for mine in marks]
    everywhere = bound.union(*table.values())
    return typed_program(program, new, everywhere), list(within.items())


def _names(table: Mapping[Hashable, tuple[Hashable, ...]], old: Any) -> tuple[Any, ...]:
    return table[old] if type(old) is not int and old in table else (old,)
