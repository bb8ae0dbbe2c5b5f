"""`xmap`: give a program of named axes a positional signature.

`XmapSpec` describes the named axes and traces the function once, for one position: types contain names
(`f32[3]{batch}`). The result is one equation. How its axes are executed is decided when a program is compiled
(`lower_xmap`).
"""
from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence

from typing_extensions import override
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, prims, ProgramError, shaped, ShapedArray, trees, Var
from lamina_ir.extend import stack_depth, infer_equation_types
from lamina_tracing import hooks
from lamina_tracing.extend import (AxisFrame, FunctionCache, StagedProgram, bind, api_boundary,
                                   extend_axis_env, trace_state, result_path, typeof)
from lamina_ir.typing import Device, Function, StaticValue, Tree, Value
from lamina_ir.trees import PyTreeDef
from lamina_ir.extend.unchecked import (
    annotate_varying_axes, check_uniform_control_flow, drop_redundant_collectives, record_annotated)

from .._mesh.axis_mappings import AxisMappings, AxisMapping, check_axis_resources, check_axis_sizes
from .base import MapSpec, describe_origin
from .._mesh.mesh import mesh_in_scope, local_mesh_shape
from .._serial_axis.checkpoint_phases import checkpoint_phases
from .._mesh.axis_resources import Axes, check_resources, find_conflict, Resources
from .._mesh.serial_loop import loops_in_scope
from .global_view import is_global_array, in_global_view
from .._typing import Entry, MeshParam

__all__ = ["AxisName", "ResourceSet", "XmapSpec", "xmap"]

AxisName = Hashable
ResourceSet = Hashable | tuple[Hashable, ...]

_programs = FunctionCache()


class XmapSpec(MapSpec):
    """A function of named axes and its positional signature, from which a dispatcher's `pmap` makes a callable.

    Args:
      fun: the function of one position.
      in_axes, out_axes: which dimensions of arguments and results are named axes; trees of dicts and lists.
      axis_sizes: axis -> size, needed for axes that no argument has.
      axis_resources: axis -> resources.
      donate_argnums: positions of arguments whose memory may be reused.
      backend: platform name, or None.
    Raises:
      TypeError: `fun` is not callable, or another argument is of the wrong kind.
      ValueError: an axis is unknown, or named twice for an array.

    >>> import numpy as np
    >>> spec = XmapSpec(lambda x: x * 2, {0: "i"}, {0: "i"})
    >>> args = (np.arange(3.0, dtype=np.float32),)
    >>> print(spec.trace_call(args, {}, *spec.split(args, {})).closed.eqns[0].params["call_jaxpr"])
    { lambda ; a:f32[]{i}. let b:f32[]{i} = mul a 2.0:f32[] in (b,) }
    """

    hint = ". Arguments are arrays and trees of them; close over other values"

    def __init__(self, fun: Function, in_axes: Tree, out_axes: Tree, *,
                 axis_sizes: Mapping[Hashable, int] | None = None,
                 axis_resources: Mapping[Hashable, object] | None = None, donate_argnums: int | Sequence[int] = (),
                 backend: str | None = None) -> None:
        super().__init__("xmap", fun, donate_argnums=donate_argnums)
        self.backend, lead = backend, self.error_prefix
        if backend is not None and not isinstance(backend, str):
            raise TypeError(f"{lead}: backend must be the name of a platform, as 'cpu'; got {type(backend).__name__}: "
                            f"{backend!r:.80}")
        self.ins, self.outs = AxisMappings(lead, "in_axes", in_axes, fun), AxisMappings(lead, "out_axes", out_axes, None)
        self.given_sizes = check_axis_sizes(lead, axis_sizes)
        self.names = tuple(dict.fromkeys([*self.ins.names, *self.given_sizes]))
        for name in self.outs.names:
            if name not in self.names:
                raise ValueError(f"{lead}: out_axes names the axis {name!r}, which is in neither in_axes nor axis_sizes; those "
                                 f"are {', '.join(map(repr, self.names)) or 'none'}. Give its size in axis_sizes")
        self.resources = check_axis_resources(lead, axis_resources, self.names)
        self._share_programs(_programs, (self.ins.key, self.outs.key, tuple(self.given_sizes.items()),
                                         tuple(self.resources.items()), self.donate_argnums, backend))

    @override
    def split(self, args: Sequence[Tree], kwargs: dict[str, Tree]) -> tuple[list[Value], PyTreeDef, StaticValue]:
        """Return the flat arguments, their tree, and the (empty) key of static arguments."""
        if kwargs:
            raise TypeError(f"{self.error_prefix}: keyword arguments are not supported, since in_axes describes positional "
                            f"arguments; got {', '.join([f'`{k}`' for k in kwargs])}. Give them by position")
        return super().split(args, kwargs)

    @override
    def share(self, flat: Sequence[Value] = ()) -> bool:
        """Return whether some argument is a global array; then all arguments and results are global."""
        return bool(self.resources) and (in_global_view() or any(map(is_global_array, flat)))

    @override
    def _trace_map(self, args: Sequence[Tree], kwargs: dict[str, Tree], flat: Sequence[Value], rows: int | None,
                   avals: Sequence[ShapedArray], tree: PyTreeDef, static: StaticValue) -> StagedProgram:
        for frame in trace_state.axes:
            if frame.name in self.names:
                raise ValueError(f"{self.error_prefix}: the axis name {frame.name!r} is already bound by an "
                                 f"enclosing map, with size {frame.size}. Use different names for the axes")
        entries = self._entries(avals, tree)
        here = self._local_block(flat)
        sizes = self._sizes(avals, entries, tree, self._process_shares(here))
        axes = tuple(sizes.items())
        names = frozenset(sizes)
        parts = []
        for aval, entry in zip(avals, entries):
            mine = [kind.names[0] for kind in entry if kind is not None]
            shape = tuple([n for n, kind in zip(aval.shape, entry) if kind is None])
            parts.append(shaped(shape, aval.dtype, aval.weak_type).with_varying_axes(aval.varying_axes.union(mine)))

        # The program of one position. Values that it closes over (`outer`) are its first operands; they have no axis
        # of this map.
        with extend_axis_env(*[AxisFrame(name, size) for name, size in axes]):
            closed, outer, out_tree = self.stage_function(parts, tree)
        bound = frozenset([f.name for f in trace_state.axes])
        record_annotated(closed, names | bound)
        found = self.outs.broadcast_to(trees.tree_unflatten(out_tree, [_Shown(a) for a in closed.out_avals]))
        outs = tuple([self._result_entry(closed, i, mapping, names, out_tree) for i, mapping in enumerate(found)])
        whole = [Var(typeof(x)) for x in outer] + [Var(a) for a in avals]
        ins = (*[(None,) * v.aval.ndim for v in whole[:len(outer)]], *entries)
        mesh, resources, loops = self._check_resources(closed, sizes)
        if loops:
            closed = checkpoint_phases(closed, frozenset(dict(loops)))
        params = dict(axis_resources=resources, axis_sizes=axes, backend=self.backend, call_jaxpr=closed, donated_invars=(),
                      here=here if mesh else (), in_axes=ins, loops=loops, mesh=mesh, name=self.name, out_axes=outs)
        with stack_depth.with_recursion_limit():
            params, types = infer_equation_types(prims.xmap_p, [v.aval for v in whole], params, bound)
        results = [Var(a) for a in types]
        eqn = Eqn(prims.xmap_p, whole, results, params)
        return StagedProgram(ClosedJaxpr(Jaxpr([], whole, [eqn], results)), outer, out_tree)

    def _entries(self, avals: Sequence[ShapedArray], tree: PyTreeDef) -> list[Entry]:
        """Return, for each flat argument, the entry of each of its dimensions."""
        args, _ = trees.tree_unflatten(tree, [_Shown(a) for a in avals])
        found = []
        for i, (aval, mapping) in enumerate(zip(avals, self.ins.broadcast_to(args))):
            found.append(mapping.entry(aval.ndim, lambda i=i, aval=aval, mapping=mapping: (  # type: ignore[misc]
                f"{self.error_prefix}: {self.ins.path_text(mapping)}", f"{self.argument_path(tree, i)}, {aval.str_long()}")))
        return found

    def _sizes(self, avals: Sequence[ShapedArray], entries: Sequence[Entry], tree: PyTreeDef,
               shares: Mapping[Hashable, tuple[int, int]]) -> dict[Hashable, int]:
        """Return axis -> size: first the axes of arguments, in order, then those of `axis_sizes` alone.

        Along the axes in `shares` an argument contains only this process's positions.
        """
        sizes: dict[Hashable, int] = {}
        first_use: dict[Hashable, tuple[int, int]] = {}  # first argument and dimension with the axis
        for i, (aval, entry) in enumerate(zip(avals, entries)):
            for at, kind in enumerate(entry):
                if kind is None:
                    continue
                name, size = kind.names[0], aval.shape[at]
                own, total = shares.get(name, (1, 1))
                wanted = sizes.setdefault(name, self.given_sizes.get(name, size // own * total))
                first = first_use.setdefault(name, (i, at))
                if size and size * total == wanted * own:
                    continue
                found_text = self._describe_dim(tree, i, aval, at)
                if size == 0:
                    raise ValueError(f"{self.error_prefix}: the axis {name!r} has size 0: {found_text}, so there is no "
                                     "position to compute; expected at least one")
                if size % own:
                    raise ValueError(f"{self.error_prefix}: the axis {name!r}: {found_text}, which cannot be divided "
                                     f"evenly over the {own} devices of this process along it. Give as many positions "
                                     "for each of them")
                if wanted % total:
                    continue  # reported when resources are checked
                other = (f"axis_sizes says {wanted}" if name in self.given_sizes
                         else self._describe_dim(tree, first[0], avals[first[0]], first[1]))
                if name in self.given_sizes and own < total:
                    other += (f" for all processes, so {wanted // total * own} for the {own} of {total} devices that are this "
                             "one's")
                raise ValueError(f"{self.error_prefix}: the sizes of the axis {name!r} differ: {found_text}, and {other}")
        missing = [name for name in self.names if name not in sizes and name not in self.given_sizes]
        if missing:
            raise ValueError(f"{self.error_prefix}: no argument has the axis {missing[0]!r}: the trees that in_axes "
                             "gives it have no arrays. Give its size in axis_sizes")
        return {**sizes, **{name: size for name, size in self.given_sizes.items() if name not in sizes}}

    def _describe_dim(self, tree: PyTreeDef, i: int, aval: ShapedArray, at: int) -> str:
        return f"{self.argument_path(tree, i)}, {aval.str_long()}, has {aval.shape[at]} along dimension {at}"

    def _result_entry(self, closed: ClosedJaxpr, i: int, mapping: AxisMapping, names: frozenset[AxisName],
                      out_tree: PyTreeDef) -> Entry:
        """Return the entry of each dimension of a result."""
        aval = closed.out_avals[i]
        left = sorted((aval.varying_axes & names).difference(mapping.names), key=repr)
        if left:
            raise ValueError(f"{self.error_prefix}: {result_path(out_tree, i)} is {aval.str_short()}: it has the named axis "
                             f"{' and '.join(map(repr, left))}, which {self.outs.path_text(mapping)}, {mapping.given!r}, "
                             f"leaves out{describe_origin(closed, i)}. Name it there, or reduce over it inside, as "
                             f"lax.psum(x, {left[0]!r})")
        return mapping.entry(aval.ndim + len(mapping.names), lambda: (
            f"{self.error_prefix}: {self.outs.path_text(mapping)}", f"{result_path(out_tree, i)}, {aval.str_short()} inside"))

    def _local_block(self, flat: Sequence[Value]) -> tuple[int, ...]:
        """Return the extent of this process's block of the mesh in scope if arguments are only its part; else ()."""
        mesh = mesh_in_scope() if self.resources else None
        if mesh is None or not mesh.is_multi_process or self.share(flat):
            return ()
        named = [r for mine in self.resources.values() for r in mine if r in mesh.shape]
        return local_mesh_shape(f"{self.error_prefix}: axis_resources", mesh) if named else ()

    def _process_shares(self, here: tuple[int, ...]) -> dict[Hashable, tuple[int, int]]:
        """Return, for each axis that spans processes, its number of devices in this process and in all."""
        mesh, found = mesh_in_scope() if here else None, {}
        if mesh is not None:
            for name, mine in self.resources.items():
                grid = [(h, n) for r, h, n in zip(mesh.axis_names, here, mesh.devices.shape) if r in mine]
                found[name] = math.prod([h for h, _ in grid]), math.prod([n for _, n in grid])
        return {name: (few, every) for name, (few, every) in found.items() if few < every}

    @stack_depth.with_recursion_limit()
    def _check_resources(self, closed: ClosedJaxpr,
                         sizes: dict[Hashable, int]) -> tuple[MeshParam | None, Resources, Axes]:
        """Return the mesh, the mesh axes of each axis, and the number of iterations of serial axes; empty without
        resources."""
        if not self.resources:
            return None, (), ()
        mesh, loops = mesh_in_scope(), loops_in_scope()
        resources, turns = check_resources(self.error_prefix, self.resources, sizes, mesh, loops)
        named = tuple([(name, tuple([r for r in mine if r in loops])) for name, mine in self.resources.items()])
        tiles = None if mesh is None else (mesh.axis_names, mesh.devices.shape, mesh.flat_devices)
        text = find_conflict(drop_redundant_collectives(closed, sizes), resources, named, tiles)
        if text is not None:
            raise ValueError(f"{self.error_prefix}: axis_resources: {text}")
        if not resources:
            return None, (), turns
        divided = frozenset([name for name, _ in resources])  # members along undivided axes always take the same branch
        marks = [a.varying_axes & divided for a in closed.in_avals]
        try:
            bound = divided.union(self.names, [f.name for f in trace_state.axes])
            check_uniform_control_flow(annotate_varying_axes(closed, marks, bound))
        except ProgramError as e:
            raise ValueError(f"{self.error_prefix}: {e}") from None
        return tiles, resources, turns

    @override
    def bind_program(self, staged: StagedProgram, flat: Sequence[Value], donated: tuple[bool, ...] = ()) -> Tree:
        """Bind a traced program as one `xmap` equation, under the transformations of its arguments."""
        params = staged.closed.jaxpr.eqns[0].params
        if donated:
            params = {**params, "donated_invars": (*[False] * len(staged.outer), *donated)}
        return trees.tree_unflatten(staged.out_tree, bind(prims.xmap_p, *staged.outer, *flat, **params))


def _forget_devices(is_closed: Callable[[Device], bool]) -> None:
    """Drop programs of meshes on closed clients; `is_closed` reports whether a device belongs to one."""
    for table in _programs.tables():
        for programs in list(table.values()):
            for key, staged in list(programs.items()):
                mesh = staged.closed.jaxpr.eqns[0].params["mesh"]
                if mesh is not None and is_closed(mesh[2][0]):
                    programs.pop(key, None)


hooks.on_devices_closed.append(_forget_devices)


class _Shown:
    """A placeholder that shows the type of an array in errors about trees."""

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @override
    def __repr__(self) -> str:
        return self.aval.str_short()


_Shown.__name__ = "value"  # as `explain_mismatch` names it


@api_boundary
def xmap(fun: Function, in_axes: Tree, out_axes: Tree, *, axis_sizes: Mapping[Hashable, int] | None = None,
         axis_resources: Mapping[Hashable, object] | None = None, donate_argnums: int | Sequence[int] = (),
         backend: str | None = None) -> Function:
    """Give a function of named axes a positional signature.

    Inside, an array has no dimension for a named axis: the function sees one position, and collectives such as
    `lax.psum` refer to axes by name. Values broadcast by name: the result of two operands has the names of both. A
    value without a name is equal at every position of that axis. Dimensions in `in_axes` are removed from arguments,
    and those in `out_axes` are added to results.

    Args:
      fun: function of arrays and trees of them, as positional arguments.
      in_axes: for each array of the arguments a dict from dimension to axis name, or a list of the names of its leading
        dimensions that ends with `...`. Without the `...` the list names all. Or a tree of these that is a prefix of
        the arguments.
      out_axes: the same for the result; dimensions count in the returned array. Along an axis that the value lacks it is
        repeated; every axis that it has must be named.
      axis_sizes: axis name -> size, needed for axes that no argument has.
      axis_resources: axis name -> an axis of the mesh in scope (`with mesh:`), a loop (`SerialLoop`, or the name of one in
        scope), or a tuple of these, over which its positions are divided. The first varies slowest, and loops vary faster
        than mesh axes. It does not change the values of results, which are sharded in the same way.
      donate_argnums: positions of arguments whose memory may be reused for results.
      backend: platform name, as "cpu".
    Returns:
      A function of unmapped arrays. It has `lower`, `trace` and the other steps of a jitted function.
    Raises:
      TypeError: a mapping, a name or an array is of the wrong type, or keyword arguments are passed.
      ValueError: axes or sizes do not fit; a result has an axis that `out_axes` leaves out. Or resources are not in
        scope, do not divide the size, or are shared by two axes of one value. The message names the argument.
      RuntimeError: no platform is called `backend`, or none of its devices can be used.

    >>> import numpy as np
    >>> from lamina_tracing import lax
    >>> x = np.arange(10, dtype=np.int32).reshape(2, 5)
    >>> xmap(lambda a, b: lax.dot(a, b), ({0: "left"}, {1: "right"}), ["left", "right", ...])(x, x.T)
    Array([[ 30,  80],
           [ 80, 255]], dtype=int32)
    """
    return hooks.dispatcher.pmap(XmapSpec(fun, in_axes, out_axes, axis_sizes=axis_sizes, axis_resources=axis_resources,
                                          donate_argnums=donate_argnums, backend=backend))
