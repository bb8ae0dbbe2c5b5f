"""Shardings of traced values over `Explicit` axes, for `typeof` and for the types of staged arguments.

The sharding of a variable follows from the equations staged so far: each trace has an analysis, which continues at the
first equation that it has not seen. It starts when a sharding of the trace is read. The sharding of a value in a batch
or with a tangent follows from that of the batch or the primal value.
"""
from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from lamina_batching.extend.transformations import BatchTracer
from lamina_ir import Atom, ClosedJaxpr, Eqn, Literal, ShapedArray, prims
from lamina_ir.errors import ShardingMismatchError
from lamina_ir.typing import Sharding, Value
from lamina_tracing.extend import (KEEP, ExplicitEntries, StagingTrace, StagingTracer, Tracer, get_underlying_value,
                                   set_sharding_analysis, trace_state)

from .analyze import Analysis, add_sharding_types, keep_axes
from .operation import unsharded
from .._mesh.abstract_mesh import AbstractMesh, AxisType
from .._mesh.array_shardings import find_mesh, make_sharding, make_type, read_entries
from .._mesh.mesh import Mesh, mesh_in_scope, mesh_without_devices, with_axis_types
from .._mesh.partition_spec import UNCONSTRAINED, PartitionSpec, explicit_spec, spec_entries, spec_from_entries
from .._typing import Entries

__all__: list[str] = []


class _TracedShardings:
    """The analysis that `lamina_tracing` calls; see its `ShardingAnalysis`."""

    def enter_mesh_of(self, operands: Sequence[Value]) -> AbstractContextManager[object]:
        for x in operands:
            mesh = find_mesh(get_underlying_value(x))
            if mesh is not None:
                return nullcontext() if mesh_in_scope() == mesh else mesh
        return nullcontext()

    def find_sharding(self, x: Value) -> Sharding:
        if isinstance(x, StagingTracer):
            manual = _manual_mesh_in_scope()
            if manual is not None and x._trace is trace_state.trace:  # not a value from outside of the body
                return make_type(manual, unsharded(x.ndim))
            analysis = _get_analysis(x._trace)
            found = None if analysis is None else analysis.env.get(x._var)
            return None if analysis is None or found is None else make_type(analysis.mesh, found)
        if isinstance(x, Tracer):
            return self._find_wrapped(x)
        mesh = find_mesh(x) or _explicit_mesh_in_scope()
        return None if mesh is None else make_type(mesh, read_entries(mesh, x))

    def _find_wrapped(self, x: Tracer) -> Sharding:
        """Return the sharding of a tracer that wraps a value of an outer level."""
        value = x.underlying_value()
        found = None if value is None else self.find_sharding(value)
        if found is None:
            return None
        entries: Entries = found.explicit_entries
        if isinstance(x, BatchTracer):
            entries = entries[:x.dim] + entries[x.dim + 1:]
        return make_type(found.mesh, entries) if len(entries) == x.ndim else None

    def use_auto_axes(self, axes: Sequence[int] | None) -> AbstractContextManager[object]:
        mesh = mesh_in_scope()
        return nullcontext() if mesh is None else with_axis_types(mesh, axes or (), AxisType.Auto)

    def find_entries(self, x: Value) -> ExplicitEntries | None:
        mesh = _explicit_mesh_in_scope()
        if mesh is None:
            return None
        if not isinstance(x, Tracer):
            # Arrays on two meshes: the analysis of the whole program refuses them.
            return ExplicitEntries(read_entries(mesh, x)) if find_mesh(x) in (None, mesh) else None
        found = self.find_sharding(x)
        if found is None or found.mesh.axis_names != mesh.axis_names or found.mesh.axis_sizes != mesh.axis_sizes:
            return None
        return ExplicitEntries(keep_axes(mesh, found.explicit_entries))

    def check_constraint(self, x: Value, sharding: Sharding) -> Sharding:
        spec = sharding if isinstance(sharding, PartitionSpec) else getattr(sharding, "spec", None)
        mesh = mesh_in_scope() if isinstance(sharding, PartitionSpec) else getattr(sharding, "mesh", None)
        mesh = mesh_without_devices(mesh) if isinstance(mesh, AbstractMesh) else mesh
        if spec is None or mesh is None or not mesh.explicit_axes:
            return sharding
        if len(mesh.explicit_axes) < len(mesh.axis_names):
            named = sorted([str(name) for names in spec_entries(spec) for name in names if name in mesh.explicit_axes])
            if named:
                raise ValueError(f"with_sharding_constraint: shardings: expected a spec of Auto axes; got {spec!r}, where "
                                 f"{named[0]!r} has the type AxisType.Explicit. Use sharding.reshard")
        found, ndim = self.find_sharding(x), len(getattr(x, "shape", ()))
        if found is None or len(spec) > ndim:  # unknown, or refused later
            return sharding
        if len(mesh.explicit_axes) < len(mesh.axis_names):
            given = (*spec, *[None] * (ndim - len(spec)))  # each dimension keeps its Explicit axes
            merged = PartitionSpec(*[e if e is UNCONSTRAINED else (*kept, *names) or None for e, kept, names in zip(
                given, found.explicit_entries, spec_entries(PartitionSpec(*given)), strict=True)])
            return merged if isinstance(sharding, PartitionSpec) else make_sharding(mesh, merged)
        wanted = spec_entries(explicit_spec(mesh, spec, ndim))
        if found.explicit_entries != wanted:
            raise ShardingMismatchError("with_sharding_constraint: over Explicit axes it checks the sharding of x; expected "
                                    f"{spec_from_entries(wanted)!r}, got {found.spec!r}. Use sharding.reshard to move x")
        return sharding

    def analyze_results(self, closed: ClosedJaxpr, outer: Sequence[Value],
                        avals: Sequence[ShapedArray]) -> list[Sharding] | None:
        mesh = _explicit_mesh_in_scope()
        known = [*[self.find_entries(x) for x in outer], *[a.sharding for a in avals]]
        if mesh is None or None in known:
            return None
        found = add_sharding_types(closed, [s.explicit_entries for s in known], mesh,
                                   lambda value: read_entries(mesh, value))[1]
        return [make_type(mesh, entries) if any(entries) else None for entries in found]


def _explicit_mesh_in_scope() -> Mesh | None:
    mesh = mesh_in_scope()
    return mesh if mesh is not None and mesh.explicit_axes else None


def _manual_mesh_in_scope() -> Mesh | None:
    """Return the mesh in scope in the body of a `shard_map`: all its axes are `Manual`, and values are blocks."""
    mesh = mesh_in_scope()
    return mesh if mesh is not None and all(kind is AxisType.Manual for kind in mesh.axis_types) else None


def _get_analysis(trace: StagingTrace) -> _TraceAnalysis | None:
    """Return the analysis of a trace, which has seen all its equations; None if there are no `Explicit` axes."""
    found = trace.sharding_analysis
    if found is None:
        mesh = _explicit_mesh_in_scope()
        if mesh is None:
            return None
        found = trace.sharding_analysis = _TraceAnalysis(trace, mesh)
    assert isinstance(found, _TraceAnalysis)
    found.advance()
    return found


class _TraceAnalysis:
    """The shardings of the variables of one trace; None for those that are unknown.

    The arguments of a program that is staged for another program, as those of rules, are unknown, and all that follows
    from them.
    """

    def __init__(self, trace: StagingTrace, mesh: Mesh) -> None:
        # No reference to the trace, which would be a cycle: traces are freed at once.
        self.eqns, self.consts, self.arguments = trace.eqns, trace.consts, trace.sharded_arguments or {}
        self.mesh = mesh
        self.analysis = Analysis(mesh, lambda value: read_entries(mesh, value), None)
        self.env: dict[Atom, Entries | None] = {
            v: keep_axes(mesh, a.sharding.explicit_entries) for v, a in self.arguments.items()}
        self.uniform: set[Atom] = set()
        self.position = 0
        self.const_count = 0

    def advance(self) -> None:
        """Analyze the equations that were staged since the last call."""
        if len(self.consts) > self.const_count:
            for x, var in list(self.consts.values())[self.const_count:]:
                found = _shardings.find_entries(x) if isinstance(x, Tracer) else ExplicitEntries(read_entries(self.mesh, x))
                self.env[var] = None if found is None else found.explicit_entries
            self.const_count = len(self.consts)
        while self.position < len(self.eqns):
            self._visit(self.eqns[self.position])
            self.position += 1

    def _visit(self, e: Eqn) -> None:
        env: dict[Atom, Entries] = {}
        for v in e.invars:
            found = unsharded(v.aval.ndim) if type(v) is Literal else self.env.get(v)
            if found is None and not _determines_results(e):
                self.env.update(dict.fromkeys(e.outvars))
                return
            env[v] = unsharded(v.aval.ndim) if found is None else found
        self.analysis.step(e, env, self.uniform, False)
        self.env.update({v: env[v] for v in e.outvars})


def _determines_results(e: Eqn) -> bool:
    """Return whether the shardings of the results do not depend on those of the operands."""
    if e.primitive is prims.sharding_constraint_p:
        return not e.params["unspecified_dims"] and not e.params["sharding"].startswith(KEEP)
    return e.primitive is prims.shard_map_p


_shardings = _TracedShardings()
set_sharding_analysis(_shardings)
