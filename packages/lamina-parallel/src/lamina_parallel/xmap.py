"""`xmap`: a program of named axes, given a positional face.

`XmapSpec` says what is named and stages it, once, in the view of one position: types carry names (`f32[3]{batch}`). The
result is one equation; how its axes are carried out is decided when a program is compiled (`placement.py`).
"""
from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, ProgramError, Var, prims, shaped, trees
from lamina_ir.extend import refuse_disagreement, stack_depth, typed_equation, typed_program, without_needless
from lamina_tracing import slots
from lamina_tracing.extend import (AxisFrame, JitSpec, PerFunction, Staged, bind, boundary, bound_axes,
                                   flat_results, now, result_path, stage, typeof)

from .axis_names import Mappings, Named, resources_of, sizes_of
from .map_spec import MapSpec, made_at
from .mesh import mesh_in_scope, sizes_here
from .phase_checkpoints import with_checkpoints
from .resources import checked_resources, conflict
from .serial import loops_in_scope
from .wholes import in_parts, wholes

__all__ = ["AxisName", "ResourceSet", "XmapSpec", "xmap"]

AxisName = Hashable
ResourceSet = Hashable | tuple[Hashable, ...]

_programs = PerFunction()


class XmapSpec(MapSpec):
    """A function of named axes and their positional face: what a dispatcher's `pmap` makes a callable of.

    Args:
      fun: the function of one position.
      in_axes, out_axes: which dimensions of arguments and results are named axes; trees of dicts and lists.
      axis_sizes: axis -> size, where no argument says it.
      axis_resources: axis -> resources.
      donate_argnums: positions of arguments whose memory may be reused.
      backend: platform name, or None.
    Raises:
      TypeError: `fun` cannot be called, or something is of the wrong kind.
      ValueError: an axis is not known, or named twice for an array.

    >>> import numpy as np
    >>> spec = XmapSpec(lambda x: x * 2, {0: "i"}, {0: "i"})
    >>> args = (np.arange(3.0, dtype=np.float32),)
    >>> print(spec.stage_call(args, {}, *spec.split(args, {})).closed.eqns[0].params["call_jaxpr"])
    { lambda ; a:f32[]{i}. let b:f32[]{i} = mul a 2.0:f32[] in (b,) }
    """

    call = "xmap"
    hint = ". Arguments are arrays and trees of them; close over other values"

    def __init__(self, fun: Callable[..., Any], in_axes: Any, out_axes: Any, *, axis_sizes: Any = None,
                 axis_resources: Any = None, donate_argnums: Any = (), backend: str | None = None) -> None:
        self._jit = JitSpec(fun, donate_argnums=donate_argnums, call="xmap")
        self.fun, self.name, self.known_as, self.statics = fun, self._jit.name, self._jit.known_as, self._jit.statics
        self.lead = lead = f"xmap of `{self.name}`"
        self.donate_argnums, self.backend = self._jit.donate_argnums, backend
        if backend is not None and not isinstance(backend, str):
            raise TypeError(f"{lead}: backend must be the name of a platform, as 'cpu'; got {type(backend).__name__}: "
                            f"{backend!r:.80}")
        self.ins, self.outs = Mappings(lead, "in_axes", in_axes, fun), Mappings(lead, "out_axes", out_axes, None)
        self.given_sizes = sizes_of(lead, axis_sizes)
        self.names = tuple(dict.fromkeys([*self.ins.names, *self.given_sizes]))
        for name in self.outs.names:
            if name not in self.names:
                raise ValueError(f"{lead}: out_axes names the axis {name!r}, which is in neither in_axes nor axis_sizes; those "
                                 f"are {', '.join(map(repr, self.names)) or 'none'}. Give its size in axis_sizes")
        self.resources = resources_of(lead, axis_resources, self.names)
        # Found again by another xmap of the same function.
        self.known_by = (self.ins.key, self.outs.key, tuple(self.given_sizes.items()), tuple(self.resources.items()),
                         self.donate_argnums, backend)
        self.programs: dict[Any, Staged] = _programs.of(self.known_as).setdefault(self.known_by, {})

    def split(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], Any, Any]:
        """(flat arguments, their tree, key of the static ones: there are none)."""
        if kwargs:
            raise TypeError(f"{self.lead}: keyword arguments are not supported, since in_axes says what positional arguments "
                            f"are; got {', '.join([f'`{k}`' for k in kwargs])}. Give them by position")
        return self._jit.split(args, kwargs)

    def share(self, flat: Sequence[Any] = ()) -> bool:
        """Whether some of these arguments lie in parts on devices of several processes: then all are seen whole, and so are
        results."""
        return bool(self.resources) and (wholes() or any(map(in_parts, flat)))

    def _stage(self, args: Sequence[Any], kwargs: dict[str, Any], avals: Sequence[Any], flat: Sequence[Any], tree: Any,
               static: Any, rows: int | None) -> Staged:
        for frame in now.axes:
            if frame.name in self.names:
                raise ValueError(f"{self.lead}: the axis name {frame.name!r} is bound already, by a map around, with size "
                                 f"{frame.size}. Give the axes names of their own")
        entries = self._entries(avals, tree)
        here = self._here(flat)
        sizes = self._sizes(avals, entries, tree, self._shares(here))
        axes = tuple(sizes.items())
        names = frozenset(sizes)
        parts = []
        for aval, entry in zip(avals, entries):
            mine = [kind.names[0] for kind in entry if kind is not None]
            shape = tuple([n for n, kind in zip(aval.shape, entry) if kind is None])
            parts.append(shaped(shape, aval.dtype, aval.weak_type).differing(aval.over.union(mine)))
        out_tree = None

        def run(*tracers: Any) -> list[Any]:
            nonlocal out_tree
            own, _ = trees.tree_unflatten(tree, tracers)
            leaves, out_tree = flat_results(self.call, self.name, self.fun(*own))
            return leaves

        # The program of one position. What it closes over (`outer`) leads its operands: it has no axis of this map.
        with bound_axes(*[AxisFrame(name, size) for name, size in axes]):
            closed, outer = stage(run, parts, (self.call, self.fun, tree, ()))
        found = self.outs.of(trees.tree_unflatten(out_tree, [_Shown(a) for a in closed.out_avals]))
        outs = tuple([self._placed(closed, i, mapping, names, out_tree) for i, mapping in enumerate(found)])
        whole = [Var(typeof(x)) for x in outer] + [Var(a) for a in avals]
        ins = (*[(None,) * v.aval.ndim for v in whole[:len(outer)]], *entries)
        mesh, resources, loops = self._resources(closed, sizes)
        if loops:
            closed = with_checkpoints(closed, frozenset(dict(loops)))
        params = dict(axis_resources=resources, axis_sizes=axes, backend=self.backend, call_jaxpr=closed, donated_invars=(),
                      here=here if mesh else (), in_axes=ins, loops=loops, mesh=mesh, name=self.name, out_axes=outs)
        with stack_depth.roomy():
            params, types = typed_equation(prims.xmap_p, [v.aval for v in whole], params, frozenset([f.name for f in now.axes]))
        results = [Var(a) for a in types]
        return Staged(ClosedJaxpr(Jaxpr([], whole, [Eqn(prims.xmap_p, whole, results, params)], results)), outer, out_tree)

    def _entries(self, avals: Sequence[Any], tree: Any) -> list[tuple[Any, ...]]:
        """For each flat argument what becomes of its dimensions."""
        args, _ = trees.tree_unflatten(tree, [_Shown(a) for a in avals])
        found = []
        for i, (aval, mapping) in enumerate(zip(avals, self.ins.of(args))):
            found.append(mapping.entry(aval.ndim, lambda i=i, aval=aval, mapping=mapping: (  # type: ignore[misc]
                f"{self.lead}: {self.ins.where(mapping)}", f"{self.argument(tree, i)}, {aval.long()}")))
        return found

    def _sizes(self, avals: Sequence[Any], entries: Sequence[tuple[Any, ...]], tree: Any,
               shares: Mapping[Hashable, tuple[int, int]]) -> dict[Hashable, int]:
        """Axis -> size: those that arguments have, in their order, then those of axis_sizes alone. Of the axes in `shares`
        arguments have this process's positions."""
        sizes: dict[Hashable, int] = {}
        said: dict[Hashable, tuple[int, int]] = {}  # argument and dimension that said it first
        for i, (aval, entry) in enumerate(zip(avals, entries)):
            for at, kind in enumerate(entry):
                if kind is None:
                    continue
                name, size = kind.names[0], aval.shape[at]
                own, every = shares.get(name, (1, 1))
                wanted = sizes.setdefault(name, self.given_sizes.get(name, size // own * every))
                first = said.setdefault(name, (i, at))
                if size and size * every == wanted * own:
                    continue
                words = self._long(tree, i, aval, at)
                if size == 0:
                    raise ValueError(f"{self.lead}: the axis {name!r} has size 0: {words}, so there is no position to compute; "
                                     "expected at least one")
                if size % own:
                    raise ValueError(f"{self.lead}: the axis {name!r}: {words}, which cannot be divided evenly over the {own} "
                                     "devices of this process along it. Give as many positions for each of them")
                if wanted % every:
                    continue  # as is said later
                told = f"axis_sizes says {wanted}" if name in self.given_sizes else self._long(tree, first[0], avals[first[0]],
                                                                                              first[1])
                if name in self.given_sizes and own < every:
                    told += (f" for all processes, so {wanted // every * own} for the {own} of {every} devices that are this "
                             "one's")
                raise ValueError(f"{self.lead}: the sizes of the axis {name!r} differ: {words}, and {told}")
        missing = [name for name in self.names if name not in sizes and name not in self.given_sizes]
        if missing:
            raise ValueError(f"{self.lead}: no argument has the axis {missing[0]!r}: the trees that in_axes gives it have no "
                             "arrays. Give its size in axis_sizes")
        return {**sizes, **{name: size for name, size in self.given_sizes.items() if name not in sizes}}

    def _long(self, tree: Any, i: int, aval: Any, at: int) -> str:
        return f"{self.argument(tree, i)}, {aval.long()}, has {aval.shape[at]} along dimension {at}"

    def _placed(self, closed: ClosedJaxpr, i: int, mapping: Named, names: frozenset[Any], out_tree: Any) -> tuple[Any, ...]:
        """What becomes of the dimensions of a result."""
        aval = closed.out_avals[i]
        left = sorted((aval.over & names).difference(mapping.names), key=repr)
        if left:
            raise ValueError(f"{self.lead}: {result_path(out_tree, i)} is {aval.short()}: it has the named axis "
                             f"{' and '.join(map(repr, left))}, which {self.outs.where(mapping)}, {mapping.given!r}, leaves out"
                             f"{made_at(closed, i)}. Name it there, or reduce over it inside, as lax.psum(x, {left[0]!r})")
        return mapping.entry(aval.ndim + len(mapping.names), lambda: (
            f"{self.lead}: {self.outs.where(mapping)}", f"{result_path(out_tree, i)}, {aval.short()} inside"))

    def _here(self, flat: Sequence[Any]) -> tuple[int, ...]:
        """How many places on each axis of the mesh in scope are this process's, where arguments are its part alone; else ()."""
        mesh = mesh_in_scope() if self.resources else None
        if mesh is None or not mesh.is_multi_process or self.share(flat):
            return ()
        named = [r for mine in self.resources.values() for r in mine if r in mesh.shape]
        return sizes_here(f"{self.lead}: axis_resources", mesh) if named else ()

    def _shares(self, here: tuple[int, ...]) -> dict[Hashable, tuple[int, int]]:
        """For each axis of which other processes have positions: (devices along it of this process, all of them)."""
        mesh, found = mesh_in_scope() if here else None, {}
        if mesh is not None:
            for name, mine in self.resources.items():
                grid = [(h, n) for r, h, n in zip(mesh.axis_names, here, mesh.devices.shape) if r in mine]
                found[name] = math.prod([h for h, _ in grid]), math.prod([n for _, n in grid])
        return {name: (few, every) for name, (few, every) in found.items() if few < every}

    @stack_depth.roomy()
    def _resources(self, closed: ClosedJaxpr, sizes: dict[Hashable, int]) -> tuple[Any, Any, Any]:
        """(the mesh, what each axis takes of it, in how many turns axes run), if axes have resources."""
        if not self.resources:
            return None, (), ()
        mesh, loops = mesh_in_scope(), loops_in_scope()
        resources, turns = checked_resources(self.lead, self.resources, sizes, mesh, loops)
        named = tuple([(name, tuple([r for r in mine if r in loops])) for name, mine in self.resources.items()])
        tiles = None if mesh is None else (mesh.axis_names, mesh.devices.shape, mesh.flat_devices)
        text = conflict(without_needless(closed, sizes), resources, named, tiles)
        if text is not None:
            raise ValueError(f"{self.lead}: axis_resources: {text}")
        if not resources:
            return None, (), turns
        divided = frozenset([name for name, _ in resources])  # members of other axes run together
        marks = [a.over & divided for a in closed.in_avals]
        try:
            refuse_disagreement(typed_program(closed, marks, divided.union(self.names, [f.name for f in now.axes])))
        except ProgramError as e:
            raise ValueError(f"{self.lead}: {e}") from None
        return tiles, resources, turns

    def argument(self, tree: Any, i: int) -> str:
        """What the user calls a flat argument, of this structure: `params['w'][0]`."""
        return self._jit.argument(tree, i)

    def rows(self, staged: Staged, tree: Any) -> str | None:
        """A map inside says how many rows it has."""
        return None

    def call_staged(self, staged: Staged, flat: Sequence[Any], donated: tuple[bool, ...] = ()) -> Any:
        """Apply a staged program as one `xmap`, through whatever transformations its arguments are in."""
        params = staged.closed.jaxpr.eqns[0].params
        if donated:
            params = {**params, "donated_invars": (*[False] * len(staged.outer), *donated)}
        return trees.tree_unflatten(staged.out_tree, bind(prims.xmap_p, *staged.outer, *flat, **params))


def _forget_devices(gone: Callable[[Any], bool]) -> None:
    """Forget the programs of meshes that are no more; `gone` says it of a device."""
    for table in _programs.tables():
        for programs in list(table.values()):
            for key, staged in list(programs.items()):
                mesh = staged.closed.jaxpr.eqns[0].params["mesh"]
                if mesh is not None and gone(mesh[2][0]):
                    programs.pop(key, None)


slots.on_devices_gone.append(_forget_devices)


class _Shown:
    """A type in the place of its array, for errors that show a tree."""

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return self.aval.short()


_Shown.__name__ = "value"  # as `explain_mismatch` names it


@boundary
def xmap(fun: Callable[..., Any], in_axes: Any, out_axes: Any, *, axis_sizes: Mapping[Hashable, int] | None = None,
         axis_resources: Mapping[Hashable, Any] | None = None, donate_argnums: int | Sequence[int] = (),
         backend: str | None = None) -> Callable[..., Any]:
    """Give a program of named axes a positional signature.

    Inside, an array has no dimension for a named axis: the function sees one position, and collectives such as `lax.psum` work
    along names. Values broadcast by name: what is made of two values has the names of both. A value that lacks a name is
    the same at each position. Each dimension that `in_axes` names is taken, and those that `out_axes` names are given back.

    Args:
      fun: function of arrays and trees of them, given by position.
      in_axes: for each array of the arguments a dict from dimension to axis name, or a list of the names of its leading
        dimensions that ends with `...` (without it, the list names all); a tree of these that is a prefix of the arguments.
      out_axes: likewise for the result; positions count in the array that is returned. An axis that the value lacks is
        repeated; one that it has must be named.
      axis_sizes: axis name -> size, needed for axes that no argument has.
      axis_resources: axis name -> an axis of the mesh in scope (`with mesh:`), a loop (`SerialLoop`, or the name of one in
        scope), or a tuple of these, the first slowest and loops behind the mesh, over which its positions are divided. It does
        not change results, which lie divided likewise.
      donate_argnums: positions of arguments whose memory may be reused for results.
      backend: platform name, as "cpu".
    Returns:
      A function of whole arrays. It has `lower`, `trace` and the other steps of a jitted function.
    Raises:
      TypeError: something is no mapping, no name, or no array; keyword arguments.
      ValueError: axes or sizes that do not fit; a result has an axis that `out_axes` leaves out; resources that no mesh or
        loop in scope has, that do not divide the size, or that two axes share which meet in one value. Names the argument.
      RuntimeError: no platform is called `backend`, or none of its devices can be used.

    >>> import numpy as np
    >>> from lamina_tracing import lax
    >>> x = np.arange(10, dtype=np.int32).reshape(2, 5)
    >>> xmap(lambda a, b: lax.dot(a, b), ({0: "left"}, {1: "right"}), ["left", "right", ...])(x, x.T)
    Array([[ 30,  80],
           [ 80, 255]], dtype=int32)
    """
    return slots.dispatcher.pmap(XmapSpec(fun, in_axes, out_axes, axis_sizes=axis_sizes, axis_resources=axis_resources,
                                          donate_argnums=donate_argnums, backend=backend))
