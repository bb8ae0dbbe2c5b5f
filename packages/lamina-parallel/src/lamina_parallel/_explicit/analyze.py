"""Compute the sharding of each value of a program from those of its arguments, over the `Explicit` axes of a mesh.

The analysis runs once per program and argument shardings, before compilation. It visits the equations in order, applies
the sharding rule of each primitive, and analyzes nested programs in the same way. Each result that is sharded gets a
sharding constraint, so the compiler follows the types.

An equation of a transpose cannot be changed by the user, and the cotangents of one value may come with several shardings.
So its rule refuses less: contracted dimensions may be sharded alike, and of several shardings the first one is used.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from lamina_ir import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, ShapedArray, Source, Var, prims
from lamina_ir.errors import ShardingTypeError
from lamina_ir.extend import Tiles
from lamina_ir.typing import Value
from lamina_tracing.extend import KEEP, RuleSource, auto_axes_of

from .operation import HINT, Operation, format_type, unsharded
from .table import PROGRAM_PRIMITIVES, sharding_rules
from .._mesh.abstract_mesh import AxisType
from .._mesh.mesh import Mesh, with_axis_types
from .._mesh.partition_spec import (explicit_spec, format_placement, partition_spec_from_tiles, spec_entries,
                                    spec_from_entries, tiles_from_partition_spec)
from .._typing import Entries

__all__ = ["Analysis", "add_sharding_types", "keep_axes"]

_MAX_ROUNDS = 4  # iterations in which the carry of a transposed loop must have found its sharding


def add_sharding_types(closed: ClosedJaxpr, entries: Sequence[Entries], mesh: Mesh,
                       read: Callable[[Value], Entries], source: Source | None = None,
                       is_derived: bool = False, name: str = "",
                       label: Mesh | None = None) -> tuple[ClosedJaxpr, list[Entries]]:
    """Return a program with sharding constraints, and the mesh axes of each dimension of its results.

    Args:
      closed: the program.
      entries: for each argument the `Explicit` axes of each of its dimensions.
      mesh: the mesh.
      read: returns the entries of a constant.
      source: the user's line, for errors; None: those of the equations.
      is_derived: whether all equations are part of a transpose.
      name: the name of the function; that of an `auto_axes` leaves its program to the compiler.
      label: the mesh that the constraints name, if its axes have other types than those of `mesh`.
    Returns:
      (the program, the entries of its results).
    Raises:
      ShardingTypeError: the sharding of a result is ambiguous; the message has the operation, the types and the line.

    >>> from lamina_ir import parse
    >>> from lamina_parallel import AxisType
    >>> from lamina_parallel.testing import fake_devices
    >>> mesh = Mesh(fake_devices(4), "x", AxisType.Explicit)
    >>> program = parse("{ lambda ; a:f32[8,3]. let b:f32[3,8] = transpose[permutation=(1, 0)] a in (b,) }")
    >>> add_sharding_types(program, [(("x",), ())], mesh, lambda value: ())[1]
    [((), ('x',))]
    """
    analysis = Analysis(mesh, read, source, label)
    axes = auto_axes_of(name)
    if axes is not None:
        return analysis.analyze_auto(closed, entries, axes, is_derived)
    return analysis.analyze(closed, tuple(entries), is_derived)


class Analysis:
    """The analysis of one program and those nested in it.

    Args:
      mesh, read, source, label: as for `add_sharding_types`.
    """

    def __init__(self, mesh: Mesh, read: Callable[[Value], Entries], source: Source | None,
                 label: Mesh | None = None) -> None:
        self.mesh, self.read, self.source, self.label = mesh, read, source, label or mesh
        self.sizes = dict(mesh.shape)
        self.is_mixed = len(mesh.explicit_axes) < len(mesh.axis_names)
        self.kept: dict[str, Entries] = {}  # param of a constraint to the sharding that a value has -> the sharding
        self.done: dict[tuple[ClosedJaxpr, tuple[Entries, ...], bool], tuple[ClosedJaxpr, list[Entries]]] = {}

    def analyze(self, closed: ClosedJaxpr, entries: tuple[Entries, ...], derived: bool) -> tuple[ClosedJaxpr, list[Entries]]:
        key = closed, entries, derived
        if key not in self.done:
            self.done[key] = self._analyze(closed, entries, derived)
        return self.done[key]

    def _analyze(self, closed: ClosedJaxpr, entries: tuple[Entries, ...],
                 derived: bool) -> tuple[ClosedJaxpr, list[Entries]]:
        jaxpr = closed.jaxpr
        env: dict[Atom, Entries] = dict(zip(jaxpr.invars, entries, strict=True))
        env.update(zip(jaxpr.constvars, map(self.read, closed.consts)))
        uniform: set[Atom] = set()
        eqns: list[Eqn] = []
        for e in jaxpr.eqns:
            eqn, outs = self.step(e, env, uniform, derived)
            eqns += self.constrain(eqn, outs)
        made = Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, jaxpr.outvars, jaxpr.axis_names, jaxpr.effectful)
        return ClosedJaxpr(made, closed.consts), [_get_entries(env, v) for v in jaxpr.outvars]

    def step(self, e: Eqn, env: dict[Atom, Entries], uniform: set[Atom], derived: bool) -> tuple[Eqn, list[Entries]]:
        """Analyze one equation: return it with analyzed nested programs, and the entries of its results.

        Args:
          e: the equation.
          env: the entries of the variables; those of the results are added.
          uniform: the variables whose elements are all one scalar; results are added.
          derived: whether the equation is part of a transpose.
        """
        if e.primitive is prims.sharding_constraint_p and e.params["sharding"].startswith(KEEP):
            found = self.keep(e, _get_entries(env, e.invars[0]))
            env[e.outvars[0]] = found
            return Eqn(e.primitive, e.invars, e.outvars, self.constraint_params(found), e.source), [found]
        eqn, outs = self.visit(e, [_get_entries(env, v) for v in e.invars],
                               [v in uniform or not v.aval.shape for v in e.invars], derived)
        if e.primitive is prims.broadcast_in_dim_p and not e.invars[0].aval.shape:
            uniform.add(e.outvars[0])
        env.update(zip(e.outvars, outs, strict=True))
        return eqn, outs

    def keep(self, e: Eqn, entries: Entries) -> Entries:
        """Return the sharding of a constraint of `keep_shardings`: the first one with its number determines it."""
        known = self.kept.setdefault(e.params["sharding"], entries)
        if len(known) == len(entries):
            return known
        rest = iter(known)  # the value is batched
        free = e.params["unspecified_dims"]
        return tuple([() if d in free else next(rest, ()) for d in range(len(entries))])

    def visit(self, e: Eqn, entries: list[Entries], uniform: list[bool], derived: bool) -> tuple[Eqn, list[Entries]]:
        """Return the equation, with analyzed nested programs, and the entries of its results."""
        # The equations of a user's rule are the user's, although the rule computes a part of a derivative.
        derived = derived or e.source is not None and bool(e.source.part) and not isinstance(e.source, RuleSource)
        try:
            if e.primitive.name in PROGRAM_PRIMITIVES:
                return self.visit_program(e, entries, derived)
            return e, self.apply_rule(e, entries, uniform, derived)
        except ShardingTypeError as error:
            source = self.source or e.source
            if source is None or getattr(error, "has_line", False):
                raise
            located = ShardingTypeError(f"{error} ({'in the transpose of the operation ' if derived else ''}at {source})")
            located.has_line = True  # type: ignore[attr-defined]
            raise located from None

    def apply_rule(self, e: Eqn, entries: list[Entries], uniform: list[bool], derived: bool) -> list[Entries]:
        rule = sharding_rules[e.primitive] if e.primitive in sharding_rules else None
        if rule is None:
            if not any(any(entry) for entry in entries):
                return [unsharded(v.aval.ndim) for v in e.outvars]
            reason = sharding_rules.missing_rules.get(e.primitive)
            raise ShardingTypeError(f"{e.primitive.name}: has no sharding rule{f': {reason}' if reason else ''}. Use "
                                    "lamina.sharding.auto_axes or reshard the operands")
        found = rule(Operation(e.primitive, e.params, [v.aval for v in e.invars], entries, [v.aval for v in e.outvars],
                               self.sizes, uniform, derived))
        return found if isinstance(found, list) else [found]

    # --- nested programs --------------------------------------------------------------------------------------------
    def visit_program(self, e: Eqn, entries: list[Entries], derived: bool) -> tuple[Eqn, list[Entries]]:
        name = e.primitive.name
        if name == "sharding_constraint":
            return self.visit_constraint(e, entries[0])
        if name == "shard_map":
            return e, [self.keep_explicit([() if kind is None else kind.names for kind in spec])
                       for spec in e.params["out_specs"]]
        if name == "linear_solve":
            return e, self.analyze(e.params["solve"], tuple(entries), derived)[1]
        if name == "cond":
            return self.visit_cond(e, entries, derived)
        if name == "scan":
            return self.visit_scan(e, entries, derived)
        if name == "while":
            return self.visit_while(e, entries, derived)
        body = e.params["call_jaxpr"]
        axes = auto_axes_of(e.params["name"]) if name == "xla_call" else None
        if axes is not None:
            made, outs = self.analyze_auto(body, entries, axes, derived)
            return _with_params(e, call_jaxpr=made), outs
        made, outs = self.analyze(body, tuple(entries), derived)
        return _with_params(e, call_jaxpr=made), outs

    def analyze_auto(self, body: ClosedJaxpr, entries: Sequence[Entries], axes: Sequence[int],
                     derived: bool) -> tuple[ClosedJaxpr, list[Entries]]:
        """Analyze a program in which these axes have the type `Auto`; (): all axes, so it is left to the compiler."""
        mesh = with_axis_types(self.mesh, axes, AxisType.Auto) if axes else None
        if mesh is not None and mesh.explicit_axes:
            inner = Analysis(mesh, lambda value: keep_axes(mesh, self.read(value)), self.source, self.label)
            body = inner.analyze(body, tuple([keep_axes(mesh, found) for found in entries]), derived)[0]
        return body, self.read_results(body)

    def visit_cond(self, e: Eqn, entries: list[Entries], derived: bool) -> tuple[Eqn, list[Entries]]:
        made = [self.analyze(branch, tuple(entries[1:]), derived) for branch in e.params["branches"]]
        fillers = [_find_fillers(branch.jaxpr) for branch in e.params["branches"]]
        found = []
        for i, v in enumerate(e.outvars):
            kinds = [*dict.fromkeys([outs[i] for (_, outs), own in zip(made, fillers) if i not in own])]
            if derived:
                kinds.sort(key=lambda names: not any(names))
            elif len(kinds) > 1:
                raise ShardingTypeError(f"cond: the branches must return the same types; got {format_type(v.aval, kinds[0])} "
                                        f"and {format_type(v.aval, kinds[1])}. {HINT}")
            found.append(kinds[0] if kinds else unsharded(v.aval.ndim))
        branches = tuple([self.constrain_results(closed, outs, found) for closed, outs in made])
        return _with_params(e, branches=branches), found

    def visit_scan(self, e: Eqn, entries: list[Entries], derived: bool) -> tuple[Eqn, list[Entries]]:
        consts, carry = e.params["num_consts"], e.params["num_carry"]
        for v, entry in zip(e.invars[consts + carry:], entries[consts + carry:]):
            if entry[0] and not derived:
                raise ShardingTypeError("scan: the first dimension of the scanned arrays must not be sharded; got "
                                        f"{format_type(v.aval, entry)}. {HINT}")
        rows = [entry[1:] for entry in entries[consts + carry:]]
        made, outs = self.find_carry("scan", e.params["jaxpr"], entries[:consts], entries[consts:consts + carry], rows,
                                     [v.aval for v in e.outvars], derived)
        return _with_params(e, jaxpr=made), outs[:carry] + [((), *entry) for entry in outs[carry:]]

    def visit_while(self, e: Eqn, entries: list[Entries], derived: bool) -> tuple[Eqn, list[Entries]]:
        p = e.params
        first, second = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
        made, outs = self.find_carry("while", p["body_jaxpr"], entries[first:second], entries[second:], [],
                                     [v.aval for v in e.outvars], derived)
        cond = self.analyze(p["cond_jaxpr"], (*entries[:first], *outs), derived)[0]
        return _with_params(e, body_jaxpr=made, cond_jaxpr=cond), outs

    def find_carry(self, loop: str, body: ClosedJaxpr, consts: list[Entries], carry: list[Entries], rows: list[Entries],
                   avals: list[ShapedArray], derived: bool) -> tuple[ClosedJaxpr, list[Entries]]:
        """Analyze the body of a loop, whose carry must keep its types. That of a transpose takes those of its results."""
        for _ in range(_MAX_ROUNDS):
            made, outs = self.analyze(body, (*consts, *carry, *rows), derived)
            after = outs[:len(carry)]
            if after == carry:
                return made, outs
            if not derived:
                a, x, y = next((a, x, y) for a, x, y in zip(avals, carry, after) if x != y)
                raise ShardingTypeError(f"{loop}: the carry must have the same type before and after the body; got "
                                        f"{format_type(a, x)} and {format_type(a, y)}. {HINT}")
            carry = after
        made, outs = self.analyze(body, (*consts, *carry, *rows), derived)
        return made, [unsharded(a.ndim) for a in avals[:len(carry)]] + outs[len(carry):]

    def visit_constraint(self, e: Eqn, entries: Entries) -> tuple[Eqn, list[Entries]]:
        """Return a constraint; dimensions that it leaves to the compiler keep their `Explicit` axes."""
        named = self.read_constraint(e)
        free = e.params["unspecified_dims"]
        found = tuple([entries[d] if d in free and not names else names for d, names in enumerate(named)])
        if found == named:
            return self.relabel(e), [found]
        op = Operation(e.primitive, e.params, [v.aval for v in e.invars], [entries], [v.aval for v in e.outvars], self.sizes)
        op.check_distinct(found)
        return Eqn(e.primitive, e.invars, e.outvars, self.constraint_params(found), e.source), [found]

    def relabel(self, e: Eqn) -> Eqn:
        """Return a constraint that names the mesh of the other constraints."""
        placement, _, mesh = e.params["sharding"].partition(" of ")
        label = format_placement(Tiles(), self.mesh.flat_devices, self.label).partition(" of ")[2]
        return e if mesh in ("", label) else _with_params(e, sharding=f"{placement} of {label}")

    # --- constraints ------------------------------------------------------------------------------------------------
    def keep_explicit(self, entries: Sequence[Sequence[Hashable]]) -> Entries:
        """Return the entries with only the `Explicit` axes."""
        return keep_axes(self.mesh, entries)

    def read_constraint(self, e: Eqn) -> Entries:
        """Return the entries of a sharding constraint. Raise ShardingTypeError if it is not one over the mesh."""
        devices, ndim = self.mesh.flat_devices, e.outvars[0].aval.ndim
        tiles = Tiles.parse(e.params["sharding"])
        if not tiles.is_replicated and tiles.devices == len(devices):
            tiles = tiles.renumber(sorted(range(len(devices)), key=lambda i: devices[i].id))
        spec = partition_spec_from_tiles(self.mesh, tiles)
        if spec is None:
            raise ShardingTypeError(f"sharding_constraint: the sharding must be one over {self.mesh}, which has Explicit axes; "
                                    f"got {e.params['sharding']}. Use NamedSharding(mesh, spec)")
        return spec_entries(explicit_spec(self.mesh, spec, ndim))

    def read_results(self, body: ClosedJaxpr) -> list[Entries]:
        """Return the entries of the results of a program that the compiler partitions: those of its last constraints."""
        made = {e.outvars[0]: e for e in body.jaxpr.eqns if e.primitive is prims.sharding_constraint_p}
        return [self.read_constraint(made[v]) if v in made else unsharded(v.aval.ndim) for v in body.jaxpr.outvars]

    def constrain(self, e: Eqn, found: list[Entries]) -> list[Eqn]:
        """Return the equation, followed by a constraint for each sharded result."""
        if not any(any(entries) for entries in found) or e.primitive is prims.sharding_constraint_p:
            return [e]
        outvars, constraints = list(e.outvars), []
        for i, (v, entries) in enumerate(zip(e.outvars, found)):
            if any(entries) and type(v) is Var:
                outvars[i] = Var(v.aval)
                constraints.append(Eqn(prims.sharding_constraint_p, [outvars[i]], [v], self.constraint_params(entries),
                                       e.source))
        return [Eqn(e.primitive, e.invars, outvars, e.params, e.source), *constraints]

    def constrain_results(self, closed: ClosedJaxpr, outs: Sequence[Entries], wanted: Sequence[Entries]) -> ClosedJaxpr:
        """Return a branch whose results have the wanted shardings."""
        jaxpr = closed.jaxpr
        outvars, constraints = list(jaxpr.outvars), []
        for i, (v, entries, found) in enumerate(zip(jaxpr.outvars, outs, wanted, strict=True)):
            if entries != found:
                outvars[i] = made = Var(v.aval)
                constraints.append(Eqn(prims.sharding_constraint_p, [v], [made], self.constraint_params(found)))
        if not constraints:
            return closed
        return ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, [*jaxpr.eqns, *constraints], outvars, jaxpr.axis_names,
                                 jaxpr.effectful), closed.consts)

    def constraint_params(self, entries: Entries) -> dict[str, object]:
        tiles, _ = tiles_from_partition_spec(self.mesh, spec_from_entries(entries), len(entries))
        free = tuple([d for d, names in enumerate(entries) if not names]) if self.is_mixed else ()
        return {"sharding": format_placement(tiles, self.mesh.flat_devices, self.label), "unspecified_dims": free}


def keep_axes(mesh: Mesh, entries: Sequence[Sequence[Hashable]]) -> Entries:
    """Return the entries with only the `Explicit` axes of a mesh."""
    return tuple([tuple([name for name in names if name in mesh.explicit_axes]) for names in entries])


def _get_entries(env: dict[Atom, Entries], v: Atom) -> Entries:
    return unsharded(v.aval.ndim) if type(v) is Literal else env[v]


def _find_fillers(jaxpr: Jaxpr) -> set[int]:
    """Return the results of a branch that only fill the place of a residual of another branch, of any sharding.

    They are made by `split_equation`, without a source line.
    """
    made = {e.outvars[0] for e in jaxpr.eqns
            if e.primitive is prims.broadcast_in_dim_p and e.source is None and type(e.invars[0]) is Literal}
    return {i for i, v in enumerate(jaxpr.outvars) if v in made}


def _with_params(e: Eqn, **changed: object) -> Eqn:
    return Eqn(e.primitive, e.invars, e.outvars, {**e.params, **changed}, e.source)
