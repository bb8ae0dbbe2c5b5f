"""`lower`: convert a program to a StableHLO module with the entry function `main`.

Equal programs give equal bytecode. A module does not depend on object identities, addresses, source lines or the order
of earlier lowerings. It does contain the names of calls and scopes and the numbers of equations (see `source_map`), as
the compiler's metadata. Dead equations and unused arguments are dropped. Constants of more than a few elements become
leading arguments, so programs that differ only in such data share one executable.
"""
from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import compress
from operator import attrgetter
from typing import TypeVar

import numpy as np

from lamina_ir import (
    Atom, AxisEnv, ClosedJaxpr, Eqn, Jaxpr, ShapedArray, ShapeError, dtypes, eqn_has_effects, prims, subprograms)
from lamina_ir.extend import (
    Grid, Placement, Tiles, collect_facts, count_devices, first_member_program, infer_arg_tiles, stack_depth)
from lamina_ir.typing import CacheKey, Function, Value
from lamina_ir.extend.unchecked import find_shard_maps, lower_keys, single_map_eqn, thread_iteration_counters
from typing_extensions import override
from lamina_ir.layers import former_attributes

from .. import _jaxlib
from . import formats, mlir_context, rule_tables
from .._passes.loop_layout import REWRITTEN_PRIMITIVES as ALONG
from .._passes.loop_layout import slice_in_place
from .._passes.combine_all_reduce import combine_psums
from .expand_primitives import ProgramRule, expand_primitives
from .rule_context import Context
from .._passes.roll_loops import REWRITTEN_PRIMITIVES, roll_repeated_calls
from .._passes.nan_insensitive_reductions import MAX_MIN_REDUCTIONS, TRACKED_PRIMITIVES, find_nan_insensitive_reductions
from .run_on_cpu import run_lowered
from .manual_regions import ModuleMesh, MeshAxisEnv, make_member_program
from .source_map import EquationBlock, SourceLine, resolve_source_lines
from .._typing import IrAttribute, IrModule, IrType, IrValue

__all__ = ["Lowered", "lower"]

_T = TypeVar("_T")
_NO_AXES = AxisEnv((), 1)
_aval_of = attrgetter("aval")


@former_attributes(kept_args="used_args", given_to="compile_with")
class Lowered:
    """A lowered program.

    Attributes:
      format: `stablehlo`, the format that a compiler must accept (see the Protocol `Lowered` of `lamina_ir`).
      module: the `ir.Module`.
      name: the module's name.
      platform: the target platform.
      used_args: one bool per argument of the program: whether `main` takes it.
      const_args: constants that `main` takes before the kept arguments.
      in_avals: types of the arguments of `main`, constants first.
      out_avals: types of its results.
      donation: `(position in main's arguments, result it is written into or None)` of each donated argument.
      placement: the placement for which it must be compiled.
      shardy: whether the compiler must use the Shardy partitioner, as for nested maps.
      needs: names of kernel libraries that must be registered before it is compiled and run: `lapack`.
      host_functions: the Python functions that the module calls, by number; they must be passed to the compiler.
      lines: data of `source_map`; None for a single primitive, whose only line is that of its call.
      size: the size of the module after the compiler has inlined all calls, a `Size`.
    """

    __slots__ = ("module", "name", "platform", "used_args", "const_args", "in_avals", "out_avals", "donation",
                 "placement", "shardy", "needs", "host_functions", "lines", "size", "_bytecode", "__weakref__")

    format = "stablehlo"

    def __init__(self, *, module: IrModule, name: str, platform: str, used_args: tuple[bool, ...],
                 const_args: list[Value], in_avals: list[ShapedArray], out_avals: list[ShapedArray],
                 donation: tuple[tuple[int, int | None], ...], placement: Placement, shardy: bool,
                 needs: frozenset[str], host_functions: list[Function], lines: list[EquationBlock] | None,
                 size: Size) -> None:
        self.module, self.name, self.platform = module, name, platform
        self.used_args, self.const_args = used_args, const_args
        self.in_avals, self.out_avals, self.donation = in_avals, out_avals, donation
        self.placement, self.shardy = placement, shardy
        self.needs, self.host_functions = needs, host_functions
        self.lines, self.size = lines, size
        self._bytecode: bytes | None = None

    def bytecode(self) -> bytes:
        """Return the module as MLIR bytecode: the input of the compiler, and the program's part of cache keys."""
        if self._bytecode is None:
            self._bytecode = _jaxlib.write_bytecode(self.module)
        return self._bytecode

    def compile_with(self, compile: Callable[[IrModule], _T]) -> _T:
        """Return `compile(module)` for a private copy of the module, because compilers modify their input.

        Args:
          compile: a function of an `ir.Module`, which must not keep it.
        Returns:
          The result of `compile`.

        >>> from lamina_ir import parse
        >>> lowered = lower(parse("{ lambda ; a:f32[2]. let b:f32[2] = sin a in (b,) }"))
        >>> lowered.compile_with(lambda module: "sine" in str(module))
        True
        """
        return mlir_context.use_parsed_module(self._bytecode or self.bytecode(), self.shardy, compile)

    def run(self, args: Sequence[Value]) -> list[np.ndarray] | list[list[np.ndarray]]:
        """Compile the program for this one call and run it on jaxlib's CPU client, for inspection.

        Args:
          args: one array per argument of the program.
        Returns:
          Its results.

        >>> from lamina_ir import parse
        >>> lower(parse("{ lambda ; a:f32[2]. let b:f32[2] = mul a a in (b,) }")).run([np.float32([2, 3])])
        [array([4., 9.], dtype=float32)]
        """
        return run_lowered(self, *args)

    def source_map(self) -> dict[int, SourceLine]:
        """Return the source line of each equation of the module, by its number.

        In the module, in optimized HLO and in profiles the number appears as the line of the file `equation`; see
        `instruction_lines`.
        """
        return resolve_source_lines(self.lines or ())

    def equation_blocks(self) -> Sequence[EquationBlock]:
        """Return the equations of the module, in the order of the numbers that `source_map` has for them.

        It is empty for a single primitive, whose operations have no numbers.
        """
        return self.lines or ()

    def as_text(self, dialect: str = "stablehlo", debug_info: bool = False) -> str:
        """Return the module as text. `dialect` is `stablehlo` or `hlo`; with `debug_info`, StableHLO includes scope
        names."""
        if dialect == "hlo":
            return formats.as_hlo_text(self)
        if dialect != "stablehlo":
            raise ValueError(f"as_text: dialect must be 'stablehlo' or 'hlo'; got {dialect!r}")
        return self.module.operation.get_asm(enable_debug_info=debug_info)

    @override
    def __repr__(self) -> str:
        types = ", ".join(a.str_short() for a in self.in_avals)
        return f"<lowered {self.name}({types}) for {self.platform}>"


@stack_depth.with_recursion_limit()
def lower(closed_jaxpr: ClosedJaxpr, *, name: str = "main", platform: str = "cpu", placement: Placement | None = None,
          axis_env: Sequence[tuple[Hashable, int]] = (), inline_limit: int | None = 64, keep_unused: bool = False,
          rules: rule_tables.MergedRules | None = None, number: bool = True,
          partition_order: Sequence[int] | None = None) -> Lowered:
    """Lower a program to StableHLO.

    Args:
      closed_jaxpr: the program.
      name: name of the module.
      platform: the target platform: `cpu`, `cuda`, `rocm` or `tpu`.
      placement: the devices and shardings. By default each position of the axes in `axis_env` is a replica, and nested
        maps are split over as many partitions as they need.
      axis_env: (name, size) of the mapped axes around the program, outermost first; each replica is one position.
      partition_order: the partition of each device, in order of device ids; None if they are equal.
      inline_limit: constants of at most this many elements are written into the module, larger ones become leading
        arguments; None writes all of them into it.
      keep_unused: keep unused arguments.
      rules: the lowering rules, from `merged_rules(platform)`; None for the rules in force.
      number: give each operation its equation's number as location, so that compiled instructions can be mapped to source
        lines. Otherwise HLO text names instructions by their operations, as `cosine.3`.
    Raises:
      MissingRuleError: a primitive has no lowering rule on this platform.
      UnboundAxisError: a collective names an axis that is not in scope.
      ShapeError: nested maps need more devices than the placement has.

    >>> import numpy as np
    >>> from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Var, prims, shaped
    >>> x, y = Var(shaped((3,), np.dtype("float32"))), Var(shaped((3,), np.dtype("float32")))
    >>> program = ClosedJaxpr(Jaxpr([], [x], [Eqn(prims.sin_p, [x], [y], {})], [y]))
    >>> lower(program, name="f")
    <lowered f(f32[3]) for cpu>
    >>> "stablehlo.sine" in lower(program).as_text()
    True
    """
    if ProgramRule.is_used:
        closed_jaxpr = expand_primitives(closed_jaxpr, tuple(axis_env))
    # Keys become uint32 arrays, which have one dimension more, and loops with callbacks get a counter. Both change
    # types of operands, so they come first.
    if not collect_facts(closed_jaxpr).is_plain:
        closed_jaxpr = thread_iteration_counters(lower_keys(closed_jaxpr))
    if placement is None:
        placement = _default_placement(closed_jaxpr, axis_env)
    # A map whose rows use several devices each is lowered as one row, which then stands for a process
    # (docs/design/placements.md).
    if placement.local_devices:
        closed_jaxpr, placement = first_member_program(closed_jaxpr, placement)
    env = AxisEnv(axis_env, placement.replicas) if axis_env or placement.replicas > 1 else _NO_AXES
    grid = None
    if placement.one_member_per_device:
        e = single_map_eqn(closed_jaxpr)
        if e is None or e.primitive.region_signature.axis_binding.axes(e.params) != placement.axes:  # type: ignore[union-attr]
            raise ShapeError(f"lower: a placement of {placement.replicas} members along {placement.axes} needs a program that "
                             f"is one map over these axes; got {closed_jaxpr.jaxpr}")
        env = AxisEnv(placement.axes)
        closed_jaxpr = make_member_program(e, closed_jaxpr)
    elif placement.partitions > 1 and (count_devices(closed_jaxpr) > 1 or placement.local_devices):
        if placement.replicas > 1:
            raise ShapeError("lower: maps inside of a program of one replica cannot be lowered, as one device cannot hold them "
                             "all: leave out axis_env, or the map")
        grid = Grid.from_axes(placement.axes)
        if grid.devices != len(placement.visible_devices):
            raise ShapeError(f"lower: the axes of a placement of maps inside, {placement.axes}, must be those of the "
                             f"mesh of {len(placement.visible_devices)} devices that they take, as Grid.of(program, "
                             "devices).axes() gives them")
        env = MeshAxisEnv(grid, tuple(range(len(grid.sizes))), processes=placement.partitions // len(placement.visible_devices))
    with mlir_context.borrow_context() as s:
        build = _Build(s, platform, inline_limit, rules or rule_tables.merged_rules(platform), placement, grid)
        build.partition_order = partition_order
        if not number:
            build.lines = None
        try:
            return build.main(closed_jaxpr, env, name, keep_unused)
        finally:
            build.mesh = None  # break the reference cycle


def _default_placement(closed: ClosedJaxpr, axis_env: Sequence[tuple[Hashable, int]]) -> Placement:
    replicas, partitions = math.prod([n for _, n in axis_env]), count_devices(closed)
    if partitions == 1:
        return Placement(tuple(range(replicas)), replicas)
    grid = Grid.of(closed, partitions)
    named = find_shard_maps(closed)
    devices = named[0].params["mesh"][2] if named and replicas == 1 else tuple(range(replicas * partitions))
    return Placement(devices, replicas, partitions, in_tiles=infer_arg_tiles(closed, grid),
                     axes=grid.axes())


_FEW = 3


def _make_identifier(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]", "_", name) or "_"


class Size:
    """The size of a module after the compiler has copied each function to its call sites.

    Attributes:
      equations: the number of equations.
      nesting: the nesting depth of regions and calls.
      deepest: the primitive of the innermost region.
    """

    __slots__ = ("equations", "nesting", "deepest", "_level")

    def __init__(self) -> None:
        self.equations = self.nesting = self._level = 0
        self.deepest = ""

    def enter(self, eqn: Eqn | None) -> None:
        """Begin a region of the equation's primitive; None for the region of a whole module."""
        self._level += 1
        if self._level > self.nesting:
            self.nesting, self.deepest = self._level, "" if eqn is None else eqn.primitive.name

    def leave(self) -> None:
        """End a region."""
        self._level -= 1

    def called(self, function: Size) -> None:
        """Add a call of a function."""
        self.equations += function.equations
        if self._level + 1 + function.nesting > self.nesting:
            self.nesting, self.deepest = self._level + 1 + function.nesting, function.deepest or "xla_call"


class _Build:
    """A module under construction: its functions and names, and cached analyses of its programs."""

    def __init__(self, s: mlir_context.Session, platform: str, inline_limit: int | None, rules: rule_tables.MergedRules,
                 placement: Placement, grid: Grid | None) -> None:
        self.session = s
        self.platform = platform
        self.placement = placement
        self.partitions = placement.partitions
        self.partition_order: Sequence[int] | None = None
        self.inline_limit = inline_limit
        self.host_functions: list[Function] = []
        self.rules = rules
        self.module = s.ir.Module.create(s.loc)
        self.ip = s.ir.InsertionPoint(self.module.body)
        self.mesh: ModuleMesh | None = None
        if grid is not None:
            s.load_shardy()
            self.mesh = ModuleMesh(self, grid, placement.axes)
        self.needs: set[str] = set()
        self.channels = 0
        self._fills: Counter[ShapedArray] = Counter()
        self.size = Size()
        self._functions: dict[CacheKey, tuple[IrAttribute, list[IrType], list[int], Size]] = {}
        self._symbols: dict[str, int] = {"main": 1}
        self._live: dict[tuple[Jaxpr, bool], tuple[list[Eqn], set[Atom]]] = {}
        self._big: dict[ClosedJaxpr, dict[int, tuple[Value, ShapedArray]]] = {}
        self._uses: dict[ClosedJaxpr, int] = {}
        self.lines: list[EquationBlock] | None = []
        self.nan_insensitive: set[int] = set()  # `id` of the reductions in `_live` that may drop NaNs
        self._numbers = 0
        self._main: ClosedJaxpr
        self._recomputed: dict[ClosedJaxpr, int] = {}

    def number_equations(self, program: Jaxpr, eqns: Sequence[Eqn], path: str | None, around: int) -> int:
        """Number equations consecutively; return the number of the first one, 0 if numbering is off."""
        if self.lines is None:
            return 0
        # Blocks are numbered in the order of emission, which depends on the program only: equal programs get equal
        # modules.
        first = self._numbers + 1
        self._numbers += len(eqns)
        self.lines.append(EquationBlock(program, eqns, path, around))
        return first

    def add_host_function(self, call: Function) -> int:
        """Register a Python function and return the number by which the module calls it."""
        self.host_functions.append(call)
        return len(self.host_functions) - 1

    def live_equations(self, jaxpr: Jaxpr, local: bool = False) -> tuple[list[Eqn], set[Atom]]:
        """Return the equations that results or effects depend on, and the values that they and the results read.

        `local` is `Context.is_unpartitioned`.
        """
        local = local or self.partitions == 1
        # `nan_insensitive` has ids of these equations, so the same ones must be emitted. This cache also keeps the ids
        # valid.
        found = self._live.get((jaxpr, local))
        if found is None:
            needed: set[Atom] = set(jaxpr.outvars)
            kept = []
            # Backwards, each equation is seen after all its readers, so one pass finds all that is needed.
            for eqn in reversed(jaxpr.eqns):
                outs = eqn.outvars
                if outs and outs[0] in needed or not needed.isdisjoint(outs) or eqn_has_effects(eqn):
                    kept.append(eqn)
                    needed.update(eqn.invars)
            kept.reverse()
            # CPU only: combine collectives, roll repeated calls into loops, and let loops slice in place. Programs
            # that the compiler partitions are not rewritten this way.
            if self.platform == "cpu":
                used = {eqn.primitive for eqn in kept}
                if prims.psum_p in used:
                    kept = combine_psums(kept)
                if self.partitions == 1 and prims.xla_call_p in used and REWRITTEN_PRIMITIVES.isdisjoint(self.rules.overridden):
                    kept = roll_repeated_calls(kept, jaxpr.outvars)
                if local and prims.scan_p in used and ALONG.isdisjoint(self.rules.overridden):
                    kept = slice_in_place(kept, jaxpr.outvars, self.initial_value)
                if not used.isdisjoint(MAX_MIN_REDUCTIONS) and TRACKED_PRIMITIVES.isdisjoint(self.rules.overridden):
                    self.nan_insensitive.update(find_nan_insensitive_reductions(kept, jaxpr.outvars))
            found = self._live[jaxpr, local] = kept, needed
        return found

    def recomputed_bytes(self) -> int:
        """Return the bytes of the values that the module's checkpoints recompute: an upper bound on the memory they
        save."""
        return self._count_recomputed_bytes(self._main)

    def _count_recomputed_bytes(self, closed: ClosedJaxpr) -> int:
        found = self._recomputed.get(closed)
        if found is None:
            found = 0
            for eqn in self.live_equations(closed.jaxpr)[0]:
                if eqn.primitive is prims.remat_p and eqn.params["differentiated"] and eqn.params["prevent_cse"]:
                    found += sum([v.aval.size * v.aval.dtype.itemsize
                                  for e in eqn.params["call_jaxpr"].jaxpr.eqns for v in e.outvars])
                elif eqn.primitive.subprograms:
                    found += sum(map(self._count_recomputed_bytes, subprograms(eqn)))
            self._recomputed[closed] = found
        return found

    def hoisted_constants(self, closed: ClosedJaxpr) -> dict[int, tuple[Value, ShapedArray]]:
        """Return the constants of a program, including nested ones, that are passed as arguments: id -> (value, type).
        """
        found = self._big.get(closed)
        if found is None:
            eqns, needed = self.live_equations(closed.jaxpr)
            limit = self.inline_limit
            found = {} if limit is None or not closed.consts else {
                id(c): (c, v.aval) for v, c in zip(closed.jaxpr.constvars, closed.consts, strict=True)
                if v in needed and v.aval.size > limit}
            for eqn in eqns:
                if eqn.primitive.subprograms:
                    # Uses are counted once per containing program, since this runs once for each; `needs_function`
                    # reads the counts.
                    for sub in subprograms(eqn):
                        self._uses[sub] = self._uses.get(sub, 0) + 1
                        found.update(self.hoisted_constants(sub))
            self._big[closed] = found
        return found

    def needs_function(self, closed: ClosedJaxpr, times: int = 1) -> bool:
        """Return whether a program becomes a function: it is emitted several times and has more than a few equations.

        Uses are counted once per containing program, so that the work is linear in the number of distinct programs. A
        program with one use is emitted in place, because nested calls consume the compiler's stack.
        """
        if times * self._uses.get(closed, 1) == 1:
            return False
        eqns = closed.jaxpr.eqns  # a call costs more than a few equations, unless these contain programs
        return len(eqns) > _FEW or any(e.primitive.subprograms for e in eqns)

    def _make_symbol(self, name: str) -> str:
        name = _make_identifier(name)
        # Numbered by first use in this module, not by a global counter, so that equal programs give equal text.
        n = self._symbols.get(name, 0)
        self._symbols[name] = n + 1
        if n == 0:
            return name
        # The numbered name may be taken, too: a user function may be called `f_1`.
        return self._make_symbol(f"{name}_{n}")

    def _emit_function(self, symbol: str, closed: ClosedJaxpr, env: AxisEnv, big: list[int],
                       in_avals: list[ShapedArray], out_avals: list[ShapedArray], kept: Sequence[bool] | None,
                       attributes: dict[str, IrAttribute], around: int = 0,
                       shardings: Sequence[Tiles | None] = ()) -> None:
        s = self.session
        ir, loc = s.ir, s.loc
        types = s.types.__getitem__
        ins, outs = [*map(types, in_avals)], [*map(types, out_avals)]
        attributes["sym_name"] = s.attr(symbol)
        attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(ins, outs, s.context), s.context)
        func = ir.Operation.create("func.func", None, None, attributes, None, 1, loc, self.ip)
        block = func.regions[0].blocks.append(*ins, arg_locs=[loc] * len(ins))
        values = list(block.arguments)
        # XLA prefixes the names of a function's operations by the name of its call
        path = None if kept is not None else ""
        ctx = Context(self, env, ir.InsertionPoint(block), dict(zip(big, values)), path, around)

        def emit(ctx: Context, *values: IrValue) -> list[IrValue]:
            ctx.hoisted_constants = dict(zip(big, values))
            args = values[len(big):]
            if kept is not None and False in kept:
                rest = iter(args)
                args = tuple([next(rest) if keep else None for keep in kept])
            return ctx.run(closed, args)

        if self.mesh is not None and self.mesh.processes > 1 and kept is not None:
            found = self.mesh.emit_per_process(ctx, emit, values, [t or Tiles() for t in shardings], in_avals, out_avals)
        else:
            found = emit(ctx, *values)
        ir.Operation.create("func.return", None, found, None, None, 0, loc, ctx.ip)

    def call(self, ctx: Context, closed: ClosedJaxpr, operands: Sequence[IrValue], name: str,
             env: AxisEnv) -> list[IrValue]:
        """Call a nested program from `ctx`; the first call emits its function."""
        s = self.session
        # The environment is part of the key, because collectives and axis indices of the body depend on it.
        key = closed, env.key()
        known = self._functions.get(key)
        if known is None:
            symbol = self._make_symbol(name)
            big = self.hoisted_constants(closed)
            in_avals = [aval for _, aval in big.values()] + closed.in_avals
            # The size of the function is counted separately and added at each call, as the compiler copies it there.
            outer, self.size = self.size, Size()
            self._emit_function(symbol, closed, env, list(big), in_avals, closed.out_avals, None,
                                {"sym_visibility": s.attr("private")}, ctx.number)
            known = self._functions[key] = (s.ir.FlatSymbolRefAttr.get(symbol, s.context),
                                            [s.types[a] for a in closed.out_avals], list(big), self.size)
            self.size = outer
        callee, outs, ids, size = known
        self.size.called(size)
        # Hoisted constants are arguments of `main`, so each function on the way passes them on.
        args = [ctx.hoisted_constants[i] for i in ids] + list(operands)
        loc = s.loc if self.lines is None else s.locations[ctx.scoped_name(name), ctx.number]
        return list(ctx.create("func.call", outs, args, {"callee": callee}, None, 0, loc, ctx.ip).results)

    def main(self, closed: ClosedJaxpr, env: AxisEnv, name: str, keep_unused: bool) -> Lowered:
        s, jaxpr, placement = self.session, closed.jaxpr, self.placement
        self._main = closed
        eqns, needed = self.live_equations(jaxpr)
        # Eager operations are such programs: with a location per call site each would be compiled again.
        if len(eqns) == 1 and not eqns[0].primitive.subprograms and not (eqns[0].source and eqns[0].source.scope):
            self.lines = None  # a single primitive: all uses share one module, whatever their source line
        # `main` takes the hoisted constants, then the used arguments; types, shardings and donations follow that
        # order.
        kept = (True,) * len(jaxpr.invars) if keep_unused else tuple(map(needed.__contains__, jaxpr.invars))
        big = self.hoisted_constants(closed)
        in_avals = [*map(_aval_of, compress(jaxpr.invars, kept))]
        if big:
            in_avals[:0] = [aval for _, aval in big.values()]
        out_avals = closed.out_avals
        ins: Sequence[Tiles | None] = [None] * len(in_avals)
        outs: Sequence[Tiles | None] = (None,) * len(out_avals)
        # One partition needs no shardings, and none means nothing to partition.
        if self.partitions > 1:
            ins, outs = self._argument_tiles(len(big), kept), placement.out_tiles or outs
        arg_attrs: list[dict[str, IrAttribute]] = []
        if self.partitions > 1 or placement.donated:
            arg_attrs = [{} if t is None else self._sharding_attrs(t, a) for t, a in zip(ins, in_avals, strict=True)]
        donation: tuple[tuple[int, int | None], ...] = ()
        if placement.donated:
            used = [d for d, k in zip(placement.donated, kept, strict=True) if k]
            donation = _pair_donated([i for i, d in enumerate(used, len(big)) if d], in_avals, out_avals, ins, outs)
        for i, k in donation:
            # `tf.aliasing_output` fixes the result that reuses the memory; `jax.buffer_donor` lets the compiler choose.
            arg_attrs[i].update({"jax.buffer_donor": s.attr(True)} if k is None else {"tf.aliasing_output": s.i32(k)})
        attributes = {"sym_visibility": s.attr("public")}
        if any(arg_attrs):
            attributes["arg_attrs"] = self._make_dict_array(arg_attrs)
        if outs.count(None) < len(outs):
            attributes["res_attrs"] = self._make_dict_array(
                [{} if t is None else self._sharding_attrs(t, a) for t, a in zip(outs, out_avals, strict=True)])
        self._emit_function("main", closed, env, list(big), in_avals, out_avals, kept, attributes, shardings=ins)
        module = self.module.operation.attributes
        module["sym_name"] = s.attr(_make_identifier(name))
        module["mhlo.num_replicas"] = s.i32(placement.replicas)
        module["mhlo.num_partitions"] = s.i32(placement.partitions)
        return Lowered(module=self.module, name=name, platform=self.platform, used_args=kept,
                       const_args=[c for c, _ in big.values()],
                       in_avals=in_avals, out_avals=out_avals, donation=donation, placement=placement,
                       shardy=self.mesh is not None, host_functions=self.host_functions, needs=frozenset(self.needs),
                       lines=self.lines, size=self.size)

    def _argument_tiles(self, constants: int, kept: Sequence[bool]) -> list[Tiles | None]:
        """Return the sharding of each argument of a partitioned module: of the hoisted constants, then of those kept.

        Each has one. Otherwise the compiler would choose it, and jaxlib 0.10.2 aborts the process if the argument is
        then passed unsharded.
        """
        given = self.placement.in_tiles or (None,) * len(kept)
        tiles = [*[None] * constants, *[t for t, k in zip(given, kept, strict=True) if k]]
        return [Tiles() if t is None else t for t in tiles] if self.placement.in_tiles or self.mesh else tiles

    def _sharding_attrs(self, tiles: Tiles, aval: ShapedArray) -> dict[str, IrAttribute]:
        """Return the attributes that give the sharding of an argument or result."""
        if self.mesh is not None:
            return {"sdy.sharding": self.mesh.sharding(tiles, aval.ndim)}
        return {"mhlo.sharding": self.session.attr(tiles.text())}

    def initial_value(self, aval: ShapedArray) -> int:
        """Return the initial value of an array that a loop overwrites, a different one for each loop.

        If several loops begin with the same constant, XLA creates it once and copies it for each loop. That costs one
        more buffer and the time of the copy.
        """
        self._fills[aval] += 1
        # The value is never read. At most 100, it is exact in every type of two bytes or more.
        return self._fills[aval] % 100 + 1 if aval.dtype.itemsize > 1 and dtypes.is_number(aval.dtype) else 0

    def next_channel(self) -> int:
        """Return the channel number of the next collective inside of a region."""
        self.channels += 1
        return self.channels

    def _make_dict_array(self, dicts: list[dict[str, IrAttribute]]) -> IrAttribute:
        ir, context = self.session.ir, self.session.context
        return ir.ArrayAttr.get([ir.DictAttr.get(d, context) for d in dicts], context)


def _pair_donated(wanted: list[int], in_avals: list[ShapedArray], out_avals: list[ShapedArray],
                  ins: Sequence[Tiles | None],
                  outs: Sequence[Tiles | None]) -> tuple[tuple[int, int | None], ...]:
    """Pair each donated argument with an unused result of its shape, dtype and sharding, or None."""
    # Memory can be reused only if size and layout over devices are the same.
    free: dict[tuple[object, ...], list[int]] = {}
    for k, aval in enumerate(out_avals):
        free.setdefault((aval.shape, aval.dtype, outs[k]), []).append(k)
    pairs: list[tuple[int, int | None]] = []
    for i in wanted:
        aval = in_avals[i]
        # Both in order, so that a training step that returns its inputs updates each part of its state in place.
        places = free.get((aval.shape, aval.dtype, ins[i]))
        pairs.append((i, places.pop(0) if places else None))
    return tuple(pairs)
