"""`shard_map`: map a function of one device's blocks over a mesh of devices.

`ShardMapSpec` describes how arrays are split and traces the function; the dispatcher in `lamina_tracing.hooks` makes
the callable.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from typing_extensions import override
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, prims, ProgramError, shaped, ShapedArray, trees, Var
from lamina_ir.extend import explain_mismatch, infer_equation_types
from lamina_tracing import hooks
from lamina_tracing.extend import (AxisFrame, FunctionCache, StagedProgram, argument_name,
                                   api_boundary, extend_axis_env, trace_state, result_path, typeof)
from lamina_ir.typing import Device, Function, StaticValue, Tree, Value
from lamina_ir.trees import PyTreeDef
from lamina_ir.extend.unchecked import (
    annotate_varying_axes, check_uniform_control_flow, drop_redundant_collectives, record_annotated)

from .base import MapSpec, describe_origin
from .._mesh.abstract_mesh import AbstractMesh, AxisType
from .._mesh.mesh import Mesh, mesh_in_scope, with_axis_types
from .._mesh.partition_spec import PartitionSpec, check_spec
from .._mesh.axis_resources import check_no_divided_xmap
from .._typing import Entry

__all__ = ["ShardMapSpec", "shard_map"]

_programs = FunctionCache()
_MISSING: Any = object()


def _is_spec(x: object) -> bool:
    return x is None or isinstance(x, PartitionSpec)


class ShardMapSpec(MapSpec):
    """A function of blocks and how arrays are split into them, from which a dispatcher's `pmap` makes a callable.

    Args:
      fun: the function of one device's blocks.
      mesh: the mesh; None for the mesh in scope when it is called.
      in_specs, out_specs: trees of `PartitionSpec`s that are prefixes of the arguments and of the result.
      check: whether to verify that a result is replicated over the axes that its spec leaves out.
      auto: mesh axes that are left to the compiler.
      names: the mesh axes that are not; () for all but `auto`.

    >>> from lamina_parallel.testing import fake_devices
    >>> mesh = Mesh(fake_devices(2), "x")
    >>> spec = ShardMapSpec(lambda a: a * 2, mesh, (PartitionSpec("x"),), PartitionSpec("x"))
    >>> args = (np.arange(4.0, dtype=np.float32),)
    >>> print(spec.trace_call(args, {}, *spec.split(args, {})).closed.eqns[0].params["call_jaxpr"])
    { lambda ; a:f32[2]{x}. let b:f32[2]{x} = mul a 2.0:f32[] in (b,) }
    """

    def __init__(self, fun: Function, mesh: Mesh | AbstractMesh | None, in_specs: Tree, out_specs: Tree, check: bool = True,
                 auto: frozenset[Hashable] = frozenset(), names: frozenset[Hashable] = frozenset()) -> None:
        super().__init__("shard_map", fun)
        self.mesh = mesh
        self.in_specs = tuple(in_specs) if isinstance(in_specs, list) else in_specs
        self.out_specs, self.check, self.auto, self.names = out_specs, check, auto, names
        for what, specs in (("in_specs", self.in_specs), ("out_specs", out_specs)):
            for path, x in trees.tree_leaves_with_path(specs, is_leaf=_is_spec):
                if not _is_spec(x):
                    raise TypeError(f"{self.error_prefix}: {what}{trees.keystr(path)}: expected a PartitionSpec, as "
                                    "P('x', None), "
                                    f"or P() for a replicated array; got {type(x).__name__}: {x!r:.60}")
        if mesh is not None:
            self._axes(mesh)
        leaves = [part for specs in (self.in_specs, out_specs)
                  for leaves, tree in [trees.tree_flatten(specs, _is_spec)] for part in (tuple(leaves), tree)]
        self._share_programs(_programs, (mesh, *leaves, check, auto, names))

    @override
    def share(self, flat: Sequence[Value] = ()) -> Mesh:
        """Return the mesh of a call."""
        if isinstance(self.mesh, Mesh):
            return self.mesh
        found = mesh_in_scope()
        if self.mesh is not None and (found is None or found.abstract_mesh != self.mesh):
            raise ValueError(f"{self.error_prefix}: mesh: the mesh in scope must have the axes of {self.mesh}; "
                             f"{'there is none' if found is None else f'got {found}'}. Call it in a block `with mesh:`")
        if found is None:
            raise ValueError(f"{self.error_prefix}: no mesh is given, and none is in scope. Pass mesh=Mesh(devices, names), or "
                             "call it in a block `with mesh:`")
        return found

    @override
    def split(self, args: Sequence[Tree], kwargs: dict[str, Tree]) -> tuple[list[Value], PyTreeDef, StaticValue]:
        """Return the flat arguments, their tree, and ()."""
        if kwargs:
            raise TypeError(f"{self.error_prefix}: in_specs are by position; got the keyword arguments "
                            f"{', '.join(kwargs)}. Give "
                            "them by position, or bind them with functools.partial")
        return super().split(args, kwargs)

    def _axes(self, mesh: Mesh | AbstractMesh) -> tuple[dict[Hashable, int], tuple[Hashable, ...]]:
        """Return name -> size of the axes that the function sees, and the axes left to the compiler."""
        for what, names in (("auto", self.auto), ("axis_names", self.names)):
            for name in names:
                if name not in mesh.shape:
                    raise ValueError(f"{self.error_prefix}: {what} names the axis {name!r}, which {mesh} does not "
                                     "have. Its axes are "
                                     f"{', '.join(map(repr, mesh.axis_names))}")
        auto = tuple([name for name in mesh.axis_names if name in self.auto or self.names and name not in self.names])
        return {name: n for name, n in mesh.shape.items() if name not in auto}, auto

    def _entry(self, what: str, spec: PartitionSpec | None, ndim: int, mesh: Mesh, auto: Sequence[Hashable],
               aval: ShapedArray) -> Entry:
        if spec is None:
            raise TypeError(f"{self.error_prefix}: {what}: expected a PartitionSpec; got None. Write P() for a "
                            "replicated array")
        dims = check_spec(mesh, spec, f"{self.error_prefix}: {what}")
        if len(dims) > ndim:
            raise ValueError(f"{self.error_prefix}: {what}: {spec!r} has {len(dims)} entries, one for each dimension; "
                             f"{aval.str_long()} has "
                             f"{ndim} dimension{'s' * (ndim != 1)}. Leave out entries, or reshape the array")
        for names in dims:
            if names is None:
                raise ValueError(f"{self.error_prefix}: {what}: {spec!r} leaves a dimension to the compiler; a "
                                 "device's block has "
                                 "a shape. "
                                 "Write None for a dimension that is not split, or leave an axis of the mesh out with auto=")
            for name in names:
                if name in auto:
                    raise ValueError(f"{self.error_prefix}: {what}: {spec!r} names the axis {name!r}, which is left to the "
                                     "compiler. Take it out of `auto`, or into `axis_names`")
        return (*[prims.Split(names) if names else None for names in dims], *[None] * (ndim - len(dims)))

    def _of_arguments(self, flat: Sequence[Value], tree: PyTreeDef) -> list[PartitionSpec | None]:
        args = trees.tree_unflatten(tree, list(flat))[0]
        specs = self.in_specs
        try:
            return trees.broadcast_prefix(specs, args, is_leaf=_is_spec)
        except ValueError:
            pass
        if not isinstance(specs, tuple) or len(specs) != len(args):
            raise ValueError(f"{self.error_prefix}: in_specs has an entry for each argument; got {specs!r:.100} for "
                             f"{len(args)} "
                             f"argument{'s' * (len(args) != 1)}")
        for k, (entry, argument) in enumerate(zip(specs, args)):
            text = explain_mismatch(trees.tree_structure(entry, is_leaf=_is_spec), argument)
            if text is not None:
                raise ValueError(f"{self.error_prefix}: in_specs[{k}] must be a prefix of argument "
                                 f"`{argument_name(self.fun, k)}`, which "
                                 f"{text}; got {entry!r:.100}")
        raise ValueError(f"{self.error_prefix}: in_specs must be a prefix of the arguments; got {specs!r:.200}")

    def _of_results(self, out_tree: PyTreeDef) -> list[PartitionSpec | None]:
        try:
            return trees.broadcast_prefix(self.out_specs, trees.tree_unflatten(out_tree, [0] * out_tree.num_leaves),
                                          is_leaf=_is_spec)
        except ValueError:
            text = explain_mismatch(trees.tree_structure(self.out_specs, is_leaf=_is_spec),
                                    trees.tree_unflatten(out_tree, [0] * out_tree.num_leaves))
            raise ValueError(f"{self.error_prefix}: out_specs must be a prefix of the result, which "
                             f"{text or 'is of another form'}; got "
                             f"{self.out_specs!r:.200}") from None

    def _part(self, x: ShapedArray, entry: Entry, sizes: dict[Hashable, int], what: Callable[[], str]) -> ShapedArray:
        """Return the type of a device's block."""
        shape = []
        for d, (kind, n) in enumerate(zip(entry, x.shape)):
            names = () if kind is None else kind.names
            count = math.prod([sizes[name] for name in names])
            if n % count:
                over = " and ".join([f"{name!r} of size {sizes[name]}" for name in names])
                raise ValueError(f"{self.error_prefix}: {what()}, {x.str_long()}, has length {n} along dimension {d}, "
                                 "which cannot be "
                                 f"split evenly over the mesh ax{'e' if len(names) > 1 else 'i'}s {over}. Pad it, or leave "
                                 "the dimension whole")
            shape.append(n // count)
        return shaped(tuple(shape), x.dtype, x.weak_type)

    @override
    def _trace_map(self, args: Sequence[Tree], kwargs: dict[str, Tree], flat: Sequence[Value], rows: int | None,
                   avals: Sequence[ShapedArray], tree: PyTreeDef, static: StaticValue) -> StagedProgram:
        mesh = self.share()
        sizes, auto = self._axes(mesh)
        mine = frozenset(sizes)
        for frame in trace_state.axes:
            # A frame without a trace is that of a map over devices; a vmapped axis of that name is only shadowed.
            if frame.trace is None and frame.name in mine:
                raise ValueError(f"{self.error_prefix}: the axis {frame.name!r} is already bound by an enclosing map. "
                                 "A shard_map inside of another one uses axes that the outer one leaves in `auto`, or "
                                 "out of `axis_names`")
        ins = [self._entry(f"in_specs for {self.argument_path(tree, i)}", spec, a.ndim, mesh, auto, a)
               for i, (spec, a) in enumerate(zip(self._of_arguments(flat, tree), avals))]
        parts = [self._part(a, entry, sizes, lambda i=i: self.argument_path(tree, i)).with_varying_axes(  # type: ignore[misc]
            a.varying_axes - mine | {name for kind in entry if kind is not None for name in kind.names})
            for i, (a, entry) in enumerate(zip(avals, ins))]

        # The body is the program of one device. Values that it closes over (`outer`) are its first operands, not split.
        with extend_axis_env(*[AxisFrame(name, size) for name, size in sizes.items()]), _make_manual(mesh, mine):
            closed, outer, out_tree = self.stage_function(parts, tree)
        further = frozenset([f.name for f in trace_state.axes])
        record_annotated(closed, further.union(sizes))
        check_no_divided_xmap(self.error_prefix, closed)
        outs = [self._entry(f"out_specs for {result_path(out_tree, i)}", spec, a.ndim, mesh, auto, a)
                for i, (spec, a) in enumerate(zip(self._of_results(out_tree), closed.out_avals))]
        if outer and mine & further:  # a value that varies over an outer axis of the same name is one value inside
            closed = annotate_varying_axes(closed, [*[a.varying_axes - mine for a in closed.in_avals[:len(outer)]],
                                                    *[a.varying_axes for a in parts]],
                                   further)
        self._check_uniform(closed, outs, sizes, out_tree)
        closed = drop_redundant_collectives(closed, sizes)
        entries = (*[(None,) * typeof(x).ndim for x in outer], *ins)
        params = dict(mesh=(mesh.axis_names, mesh.devices.shape, mesh.flat_devices), auto=auto, call_jaxpr=closed,
                      donated_invars=(False,) * len(entries), here=(), in_specs=entries, name=self.name, out_specs=tuple(outs))
        whole = [Var(typeof(x)) for x in outer] + [Var(a) for a in avals]
        params, types = infer_equation_types(prims.shard_map_p, [v.aval for v in whole], params, further)
        results = [Var(a) for a in types]
        return StagedProgram(ClosedJaxpr(Jaxpr([], whole, [Eqn(prims.shard_map_p, whole, results, params)], results)),
                             outer, out_tree)

    def _check_uniform(self, closed: ClosedJaxpr, outs: Sequence[Entry], sizes: dict[Hashable, int],
                       out_tree: PyTreeDef) -> None:
        """Raise ValueError if a result may differ over an axis that its spec leaves out, or devices may take different
        branches around a collective."""
        if closed.jaxpr.axis_names:
            try:
                check_uniform_control_flow(closed)
            except ProgramError as e:
                raise ValueError(f"{self.error_prefix}: {e}") from None
        for i, (entry, aval) in enumerate(zip(outs, closed.out_avals) if self.check else ()):
            named = {name for kind in entry if kind is not None for name in kind.names}
            for name in sizes:
                if name in aval.varying_axes and name not in named and sizes[name] > 1:
                    raise ValueError(f"{self.error_prefix}: out_specs for {result_path(out_tree, i)} leaves out the mesh axis "
                                     f"{name!r}, but "
                                     f"it may differ over that{describe_origin(closed, i)}. Make it the same on all "
                                     "devices, with "
                                     f"lax.psum, pmean, pmax or all_gather over {name!r}, or name the axis in its spec; "
                                     "check_rep=False takes one device's")


def _make_manual(mesh: Mesh, names: Collection[Hashable]) -> AbstractContextManager[object]:
    """Return a context in which these axes of a mesh have the type `Manual`, if it has `Explicit` axes."""
    if not mesh.explicit_axes:
        return nullcontext()
    return with_axis_types(mesh, [i for i, name in enumerate(mesh.axis_names) if name in names], AxisType.Manual)


def _forget_devices(is_closed: Callable[[Device], bool]) -> None:
    """Drop programs of meshes that have been deleted or belong to closed clients."""
    _programs.drop(lambda options: not isinstance(options[0], Mesh) or is_closed(options[0].flat_devices[0]))


hooks.on_devices_closed.append(_forget_devices)


@api_boundary
def shard_map(f: Function | None = None, mesh: Mesh | AbstractMesh | None = None, in_specs: Tree = _MISSING,
              out_specs: Tree = _MISSING, check_rep: bool = True, auto: Iterable[Hashable] = frozenset(), *,
              check_vma: bool = True, axis_names: Iterable[Hashable] = frozenset()) -> Function:
    """Map a function of blocks over the devices of a mesh.

    Each device runs `f` on its blocks of the arguments; collectives in `f` refer to mesh axes by name. The mapped
    function takes and returns unsplit arrays, and may be part of any program: under `jit`, in loops, differentiated,
    batched.

    Args:
      f: function of blocks: arrays and trees of them. Left out, `shard_map` is a decorator with options.
      mesh: the devices; None for the mesh of the enclosing `with mesh:`; an `AbstractMesh` for one with these axes.
      in_specs: a `PartitionSpec` for each argument, or trees of them that are prefixes of the arguments. A dimension is split
        over the axes that its entry names; devices along axes that no entry names have the same block.
      out_specs: the same for the result: how blocks are joined. Along an axis that no entry names, the result must be
        replicated, which is verified; one device's value is used.
      check_rep, check_vma: False skips the verification. If devices do differ, any one device's value is used.
      auto: mesh axes that are left to the compiler, in `f` as outside.
      axis_names: the mesh axes that are not; left out: all but `auto`.
    Returns:
      A function of unsplit positional arrays. Called outside of other programs, its results are sharded as `out_specs` say.
    Raises:
      TypeError: a spec is not a `PartitionSpec`, or an argument is not an array.
      ValueError: specs do not fit the arguments, the result or the mesh; a length is not divisible; a result may differ
        over an axis that its spec leaves out; or there is no mesh.

    >>> from lamina_parallel.testing import fake_devices
    >>> P = PartitionSpec
    >>> total = shard_map(lambda x: x.sum(), Mesh(fake_devices(4), "x"), P("x"), P())
    >>> total(np.ones(8))
    Traceback (most recent call last):
    ValueError: shard_map of `<lambda>`: out_specs for output leaves out the mesh axis 'x', but it may differ over that: ...
    """
    if f is None:
        return functools.partial(shard_map, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_rep=check_rep, auto=auto,
                                 check_vma=check_vma, axis_names=axis_names)
    if not callable(f):
        raise TypeError(f"shard_map: expected a function; got {type(f).__name__}: {f!r:.60}")
    if in_specs is _MISSING or out_specs is _MISSING:
        raise TypeError("shard_map: give both in_specs and out_specs, as in_specs=(P('x'),), out_specs=P()")
    if mesh is not None and not isinstance(mesh, Mesh | AbstractMesh):
        raise TypeError(f"shard_map: mesh: expected a Mesh, as Mesh(devices, ('x', 'y')); got {type(mesh).__name__}: "
                        f"{mesh!r:.60}")
    return hooks.dispatcher.pmap(ShardMapSpec(f, mesh, in_specs, out_specs, bool(check_rep and check_vma), _names("auto", auto),
                                              _names("axis_names", axis_names)))


def _names(what: str, names: Iterable[Hashable]) -> frozenset[Hashable]:
    if isinstance(names, str) or not hasattr(names, "__iter__"):
        raise TypeError(f"shard_map: {what}: expected a set of names of axes; got {type(names).__name__}: {names!r:.60}")
    return frozenset(names)
