"""`pmap`: run one copy of a function per device along a mapped axis.

`PmapSpec` describes the map and traces it; the dispatcher in `lamina_tracing.hooks` makes the callable.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import ParamSpec, TypeVar, overload

from typing_extensions import override
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, prims, ProgramError, shaped, ShapedArray, trees, UnnamedAxis, Var
from lamina_ir.extend import check_axis_name, infer_varying_axes, infer_equation_types
from lamina_tracing import hooks
from lamina_tracing.extend import (AxisFrame, Jitted, MappedAxes, FunctionCache, StagedProgram, argument_name,
                                   api_boundary, extend_axis_env, trace_state, check_axis_name_unbound, result_path,
                                   typeof)
from lamina_ir.typing import AxisName, CacheKey, Device, Function, StaticValue, Tree, Value
from lamina_ir.trees import PyTreeDef
from lamina_ir.extend.unchecked import annotate_varying_axes, check_uniform_control_flow, drop_redundant_collectives

from .base import MapSpec, describe_origin
from .._mesh.axis_resources import check_no_divided_xmap

__all__ = ["PmapSpec", "pmap"]

P = ParamSpec("P")
R = TypeVar("R")


_programs = FunctionCache()


def _hashable(axes: Tree) -> CacheKey:
    if type(axes) is int:
        return axes
    leaves, tree = trees.tree_flatten(axes)
    return tree, tuple([(type(n), n) for n in leaves])


class PmapSpec(MapSpec):
    """A function and how it is mapped, from which a dispatcher's `pmap` makes a callable.

    Args:
      fun: the function of one device's slices.
      axis_name: the name of the mapped axis; None for an unnamed axis, which no collective can use.
      in_axes: which axis of each argument is mapped, a tree of integers and None that is a prefix of the arguments.
      out_axes: the position of the mapped axis in each result, a tree of the same kind.
      static_broadcasted_argnums: positions of arguments that are part of the program.
      devices: the devices, in order; None: the local ones.
      backend: platform name, or None.
      axis_size: the size of the mapped axis in all processes, needed if no argument is mapped.
      donate_argnums: positions of arguments whose memory may be reused.
      global_arg_shapes: not used.
      call: the calling function, for messages.
    Raises:
      TypeError: `fun` is not callable, or `in_axes` is of the wrong kind.
      ValueError: `devices` is empty, or the function has no argument at a position.

    >>> import numpy as np
    >>> spec = PmapSpec(lambda x: x * 2, "i")
    >>> args = (np.arange(3.0, dtype=np.float32),)
    >>> print(spec.trace_call(args, {}, *spec.split(args, {})).closed.eqns[0].params["call_jaxpr"])
    { lambda ; a:f32[]{i}. let b:f32[]{i} = mul a 2.0:f32[] in (b,) }
    """

    hint = "; mark Python values with static_broadcasted_argnums"

    def __init__(self, fun: Function, axis_name: Hashable | None = None, *, in_axes: Tree = 0, out_axes: Tree = 0,
                 static_broadcasted_argnums: int | Sequence[int] = (), devices: Sequence[Device] | None = None,
                 backend: str | None = None, axis_size: int | None = None, donate_argnums: int | Sequence[int] = (),
                 global_arg_shapes: object = None, call: str = "pmap") -> None:
        super().__init__(call, fun, static_broadcasted_argnums, donate_argnums)
        self.axis_name: Hashable = (
            UnnamedAxis() if axis_name is None else check_axis_name(self.error_prefix, axis_name))
        self.axes = axes = MappedAxes(call, fun, in_axes, out_axes, axis_size, self.statics.nums, 1)
        self.devices = None if devices is None else self._check_devices(devices)
        self.backend = backend
        try:
            # No program mentions an unnamed axis, so `axis_name`, not `self.axis_name`, is part of the key.
            self._share_programs(_programs, (self.devices, axis_name, _hashable(axes.in_axes), _hashable(out_axes),
                                             self.statics.nums, axes.axis_size, self.donate_argnums, backend))
        except TypeError:  # unhashable or malformed axes, which tracing rejects
            pass

    def _check_devices(self, devices: Sequence[Device]) -> tuple[Device, ...]:
        if isinstance(devices, str) or not hasattr(devices, "__iter__"):
            raise TypeError(f"{self.error_prefix}: devices must be a list of devices, as lamina.devices() gives; got "
                            f"{type(devices).__name__}: {devices!r}. Put one device into a list; pass a platform as backend=")
        found = tuple(devices)
        if not found:
            raise ValueError(f"{self.error_prefix}: devices must not be empty; leave it out to use all local devices")
        return found

    @override
    def split(self, args: Sequence[Tree], kwargs: dict[str, Tree]) -> tuple[list[Value], PyTreeDef, StaticValue]:
        """Return the flat dynamic arguments, their tree, and the key of the static arguments."""
        missing = [n for n in self.statics.nums if n >= len(args)]
        if missing:
            names = ", ".join([f"`{argument_name(self.fun, n)}`" for n in sorted(missing)])
            raise ValueError(f"{self.error_prefix}: static_broadcasted_argnums {sorted(self.statics.nums)} are given by "
                             f"position: {names} must be positional arguments; got {len(args)} of these")
        return super().split(args, kwargs)

    def axes_and_size(self, args: Sequence[Tree], kwargs: dict[str, Tree], flat: Sequence[Value],
               tree: PyTreeDef) -> tuple[list[int | None], int]:
        """Return the mapped axis of each flat argument, and the number of rows of this process along it."""
        self.axes.check_count(args, kwargs)
        axes = self.axes.resolve_in_axes(flat, tree)
        size = self.axes.size(flat, axes, tree, self._own_rows())
        if size == 0:
            i = next(i for i, axis in enumerate(axes) if axis is not None)
            raise ValueError(f"{self.error_prefix}: {self.argument_path(tree, i)}, {typeof(flat[i]).str_long()}, has "
                             "size 0 along axis "
                             f"{axes[i]}, the mapped one, so no device has anything to compute; expected at least one row")
        return axes, size

    @override
    def share(self, flat: Sequence[Value] = ()) -> tuple[int, int]:
        """Return `(own, total)`: this process has `own` of every `total` rows. A nested map is complete on each member:
        `(1, 1)`."""
        if trace_state.axes and any(frame.trace is None for frame in trace_state.axes):
            return 1, 1
        share = getattr(hooks.dispatcher, "share", None)  # optional: a plugin without it has one process
        own, total = (1, 1) if share is None else share(self.devices, self.backend)
        if not own:
            raise ValueError(f"{self.error_prefix}: devices has none of this process, so it has no rows to pass: call "
                             "it in the "
                             "processes whose devices are named")
        return own, total

    def _own_rows(self) -> int | None:
        """Return this process's number of rows of `axis_size`, which counts the rows of all processes."""
        rows = self.axes.axis_size
        if rows is None:
            return None
        own, total = self.share()
        if rows * own % total:
            raise ValueError(f"{self.error_prefix}: axis_size is the number of rows in all processes together; {rows} "
                             f"cannot be divided evenly among {total} {'processes' if self.devices is None else 'devices'}")
        return rows * own // total

    @override
    def _trace_map(self, args: Sequence[Tree], kwargs: dict[str, Tree], flat: Sequence[Value], rows: int | None,
                   avals: Sequence[ShapedArray], tree: PyTreeDef, static: StaticValue) -> StagedProgram:
        axes, here = self.axes_and_size(args, kwargs, flat, tree)
        check_axis_name_unbound(self.error_prefix, self.axis_name)
        # `here` rows are `own` of `total` equal shares.
        own, total = self.share()
        size = here * total // own if rows is None else rows  # size of the axis in all processes
        if rows is None and size * own != here * total:
            raise ValueError(f"{self.error_prefix}: devices names {total} devices, {own} of them of this process, "
                             f"which has {here} "
                             "rows. Name a device for each row of each process")
        parts, mine = self._row_avals(avals, axes), frozenset([self.axis_name])
        # The body is the program of one device: its operands lack the mapped axis. Values that it closes over
        # (`outer`) are its first operands, unmapped.
        with extend_axis_env(AxisFrame(self.axis_name, size)):
            closed, outer, out_tree = self.stage_function(parts, tree, static)
        check_no_divided_xmap(self.error_prefix, closed)
        targets = [to if to is None else self.axes.normalize_out_axis(out_tree, i, aval, to) for i, (aval, to) in enumerate(
            zip(closed.out_avals, self.axes.resolve_out_axes(closed.out_avals, out_tree)))]
        ins = (None,) * len(outer) + tuple(axes)
        further = frozenset([f.name for f in trace_state.axes])
        # a value that varies over an outer axis of the same name is one value inside
        if self.axis_name in further and outer:
            closed = annotate_varying_axes(closed, [*[a.varying_axes - mine for a in closed.in_avals[:len(outer)]],
                                                    *[a.varying_axes for a in parts]],
                                   further)
        if size > 1:  # on one device nothing varies
            self._check_uniform(closed, ins, targets, further | mine, out_tree)
        closed = drop_redundant_collectives(closed, {self.axis_name: size})
        n = len(ins)
        donated = (False,) * len(outer) + (self.donated(args, kwargs) or (False,) * len(flat))
        params = dict(axis_name=self.axis_name, axis_size=here, backend=self.backend, call_jaxpr=closed, devices=self.devices,
                      donated_invars=donated, global_arg_shapes=(None,) * n, in_axes=ins,
                      global_axis_size=None if size == here else size, name=self.name, out_axes=tuple(targets))
        whole = [Var(typeof(x)) for x in outer] + [Var(a) for a in avals]
        operands = [v.aval for v in whole]
        # Inside of another map the type rule must also know over which outer axes each operand varies.
        if further or any(a.varying_axes for a in operands):
            params, types = infer_equation_types(prims.xla_pmap_p, operands, params, further)
        else:  # the types of the body are final, and nothing varies over an enclosing axis
            types = prims.xla_pmap_p.infer(*operands, **params)
        results = [Var(a) for a in types]
        program = Jaxpr([], whole, [Eqn(prims.xla_pmap_p, whole, results, params)], results,
                        closed.jaxpr.axis_names - mine, closed.jaxpr.effectful)
        return StagedProgram(ClosedJaxpr(program), outer, out_tree)

    def _row_avals(self, avals: Sequence[ShapedArray], axes: Sequence[int | None]) -> list[ShapedArray]:
        """Return the types of the arguments of one row: without the mapped axis."""
        parts = [a if axis is None else shaped(a.shape[:axis] + a.shape[axis + 1:], a.dtype, a.weak_type)
                 for a, axis in zip(avals, axes)]
        if type(self.axis_name) is UnnamedAxis:  # types do not contain these, see docs/design/collectives.md
            return parts
        # A mapped argument varies over the axis.
        mine = frozenset([self.axis_name])
        return [part.with_varying_axes(a.varying_axes - mine if axis is None else a.varying_axes | mine)
                for part, a, axis in zip(parts, avals, axes)]

    def _check_uniform(self, closed: ClosedJaxpr, in_axes: Sequence[int | None], out_axes: Sequence[int | None],
                       bound: frozenset[AxisName], out_tree: PyTreeDef) -> None:
        """Raise ValueError if an unmapped result may differ between devices, or devices may take different branches
        around a collective."""
        if closed.jaxpr.axis_names:
            try:
                check_uniform_control_flow(closed)
            except ProgramError as e:
                raise ValueError(f"{self.error_prefix}: {e}") from None
        if None not in out_axes:
            return
        overs: Sequence[frozenset[AxisName]] = [a.varying_axes for a in closed.out_avals]
        if type(self.axis_name) is UnnamedAxis:
            marks = [a.varying_axes if axis is None else a.varying_axes | {self.axis_name} for a,
                     axis in zip(closed.in_avals, in_axes)]
            overs = infer_varying_axes(closed, marks, bound)
        for i, (axis, over) in enumerate(zip(out_axes, overs)):
            if axis is None and self.axis_name in over:
                raise ValueError(f"{self.error_prefix}: out_axes is None for {result_path(out_tree, i)}, but it may "
                                 "differ between the "
                                 f"devices of the mapped axis{describe_origin(closed, i)}. Make it the same on all of "
                                 "them, with "
                                 "lax.psum, pmean, pmax or all_gather over the axis, or give it an axis in out_axes and take a "
                                 "row")

    @override
    def describe_axis_size(self, staged: StagedProgram, tree: PyTreeDef) -> str:
        """Describe the size of the mapped axis: the first mapped argument and its number of rows, or `axis_size`."""
        e, start = staged.closed.jaxpr.eqns[0], len(staged.outer)
        for i, (v, axis) in enumerate(zip(e.invars[start:], e.params["in_axes"][start:])):
            if axis is not None:
                return f"{self.argument_path(tree, i)}, {v.aval.str_long()}, has {v.aval.shape[axis]} rows along axis {axis}"
        return f"axis_size is {e.params['axis_size']}"


def _forget_devices(is_closed: Callable[[Device], bool]) -> None:
    """Drop programs of maps whose `devices` belong to closed clients; `is_closed` reports whether a device does."""
    _programs.drop(lambda options: options[0] and is_closed(options[0][0]))


hooks.on_devices_closed.append(_forget_devices)


@overload
def pmap(fun: Callable[P, R], axis_name: Hashable | None = None, *, in_axes: Tree = 0, out_axes: Tree = 0,
         static_broadcasted_argnums: int | Sequence[int] = (), devices: Sequence[Device] | None = None,
         backend: str | None = None, axis_size: int | None = None, donate_argnums: int | Sequence[int] = (),
         global_arg_shapes: object = None) -> Jitted[P, R]: ...


@overload
def pmap(fun: None = None, axis_name: Hashable | None = None, *, in_axes: Tree = 0, out_axes: Tree = 0,
         static_broadcasted_argnums: int | Sequence[int] = (), devices: Sequence[Device] | None = None,
         backend: str | None = None, axis_size: int | None = None, donate_argnums: int | Sequence[int] = (),
         global_arg_shapes: object = None) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...


@api_boundary
def pmap(fun: Function | None = None, axis_name: Hashable | None = None, *, in_axes: Tree = 0, out_axes: Tree = 0,
         static_broadcasted_argnums: int | Sequence[int] = (), devices: Sequence[Device] | None = None,
         backend: str | None = None, axis_size: int | None = None, donate_argnums: int | Sequence[int] = (),
         global_arg_shapes: object = None) -> Function:
    """Run one copy of `fun` per device, each on its slice of the mapped axis.

    In several processes (see `lamina.distributed`) all processes must call it. Each process passes and receives its own
    rows, and the mapped axis contains the rows of all processes in order. Arguments with None in `in_axes` may differ
    between processes.

    Args:
      fun: function of one slice: arrays and trees of them. Left out, `pmap` is a decorator with options.
      axis_name: a name for the axis, for collectives such as `lax.psum`.
      in_axes: which axis of each positional argument to map (None: every device gets the whole argument), a prefix of the
        arguments. Keyword arguments are mapped over axis 0.
      out_axes: the position of the mapped axis in each result; None takes one device's value.
      static_broadcasted_argnums: positions of arguments that are Python values, part of the program. A tuple `in_axes`
        has an entry for these too, which is ignored; trailing static arguments need none.
      devices: the devices to use, in order. They may belong to several processes: each process passes the rows of its own
        devices. Default: the first ones of `local_devices()`, in each process.
      backend: platform name.
      axis_size: size of the mapped axis in all processes.
      donate_argnums: positions of arguments whose memory may be reused for results.
      global_arg_shapes: accepted for compatibility; must be None.
    Returns:
      A function of unmapped arguments; its results are sharded over the devices.
    Raises:
      ValueError: more slices than devices, or axes or sizes that do not fit. The message names the arguments.
      TypeError: an argument is no array.

    >>> import numpy as np
    >>> pmap(lambda x: x * 2)(np.arange(1))
    Array([0], dtype=int32)
    """
    if fun is None:
        return functools.partial(pmap, axis_name=axis_name, in_axes=in_axes, out_axes=out_axes,
                                 static_broadcasted_argnums=static_broadcasted_argnums, devices=devices,
                                 backend=backend, axis_size=axis_size, donate_argnums=donate_argnums)
    if global_arg_shapes is not None:
        raise ValueError("pmap: global_arg_shapes is no longer used; it must be None")
    if not callable(fun):
        raise TypeError(f"pmap: expected a function; got {type(fun).__name__}")
    return hooks.dispatcher.pmap(PmapSpec(
        fun, axis_name, in_axes=in_axes, out_axes=out_axes, static_broadcasted_argnums=static_broadcasted_argnums,
        devices=devices, backend=backend, axis_size=axis_size, donate_argnums=donate_argnums))


