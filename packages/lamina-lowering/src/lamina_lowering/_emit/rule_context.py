"""`Context`: the first argument of lowering rules, with the types of the equation and helpers that emit operations.

One object serves a whole function body. The loop in `run` sets `eqn` before it calls a rule; all other properties are
computed on access. Operations are inserted at `ip`, the end of the current block.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from lamina_ir import Atom, AxisEnv, ClosedJaxpr, Eqn, Jaxpr, Literal, ShapedArray, ShapeError, dtypes, shaped
from lamina_ir.typing import CacheKey, Function, ParamValue, Value
from lamina_ir.layers import former_attributes

from .source_map import scoped_name
from .._typing import AttributeValue, IrAttribute, IrInsertionPoint, IrRegion, IrType, IrValue, ModuleBuilder, OpResults

__all__ = ["Context", "Region", "identity", "lower_to_op"]

Body = Callable[..., Any]

_I32 = shaped((), np.dtype("int32"))
_GLOBAL_IDS = frozenset(("stablehlo.all_reduce", "stablehlo.all_gather", "stablehlo.reduce_scatter"))
_U32 = shaped((), np.dtype("uint32"))


class Region:
    """A region of an operation: the types of its block's arguments, and `body(ctx, *values)`, which returns the
    terminator's operands."""

    __slots__ = ("avals", "body", "terminator")

    def __init__(self, avals: Sequence[ShapedArray], body: Body, terminator: str = "stablehlo.return") -> None:
        self.avals = avals
        self.body = body
        self.terminator = terminator


@former_attributes(around="parent_number", local="is_unpartitioned", named="scoped_name",
                   of_participant="participant_entry", of_this="local_participant_entry")
class Context:
    """Emits one function body. It is the first argument of every lowering rule; rules only call its methods.

    Args:
      module: the module builder.
      axis_env: the mapped axes in scope.
      ip: the insertion point.
      hoisted_constants: id of a constant that is passed as an argument -> its value in this function.
      path: names of the enclosing calls, for the compiler's metadata; None outside of named calls.
      parent_number: the number of the equation whose program this is; 0 if there is none.

    Attributes:
      eqn: the equation being lowered.
      platform: `cpu`, `cuda`, `rocm` or `tpu`.
      axis_env: the mapped axes in scope: `names`, `sizes`, `axis_size(name)`, `groups(names)`.

    >>> from lamina_ir import parse, prims
    >>> from lamina_lowering import lower, lowering_rules
    >>> program = parse("{ lambda ; a:f32[3]. let b:f32[3] = tanh a in (b,) }")
    >>> def rule(ctx, x, /):
    ...     return ctx.op("stablehlo.add", (x, ctx.const(1.0, ctx.aval_in)), ctx.aval_out)
    >>> with lowering_rules.override(prims.tanh_p, rule):
    ...     "stablehlo.add" in lower(program).as_text()
    True
    """

    __slots__ = ("module", "session", "platform", "axis_env", "rules", "eqn", "ip", "loc", "types", "create",
                 "hoisted_constants", "path", "parent_number", "number", "_constants")

    def __init__(self, module: ModuleBuilder, axis_env: AxisEnv, ip: IrInsertionPoint,
                 hoisted_constants: dict[int, IrValue], path: str | None = None, parent_number: int = 0) -> None:
        session = module.session
        self.module = module
        self.session = session
        self.platform = module.platform
        self.rules = module.rules
        self.axis_env = axis_env
        self.eqn: Eqn = None  # type: ignore[assignment]
        self.ip = ip
        self.loc = session.loc
        self.types = session.types
        self.create = session.ir.Operation.create
        self.hoisted_constants = hoisted_constants
        self.path = path
        self.parent_number = parent_number
        self.number = parent_number  # the number of the current equation, see source_map.py
        self._constants: dict[CacheKey, IrValue] = {}

    # --- the equation ---------------------------------------------------------------------------------------------
    @property
    def is_unpartitioned(self) -> bool:
        """Whether no array is partitioned here: the module has one partition, or the enclosing maps use all mesh axes.

        Then the compiler has nothing left to split.
        """
        return self.module.partitions == 1 or getattr(self.axis_env, "free", None) == ()

    @property
    def avals_in(self) -> list[ShapedArray]:
        """Types of the operands as the rule gets them (see `run` on elementwise rules)."""
        eqn = self.eqn
        avals = [v.aval for v in eqn.invars]
        if eqn.primitive.elementwise:
            shape = eqn.outvars[0].aval.shape
            avals = [a if a.shape == shape else shaped(shape, a.dtype, a.weak_type) for a in avals]
        return avals

    @property
    def aval_in(self) -> ShapedArray:
        return self.avals_in[0]

    @property
    def avals_out(self) -> list[ShapedArray]:
        return [v.aval for v in self.eqn.outvars]

    @property
    def aval_out(self) -> ShapedArray:
        return self.eqn.outvars[0].aval

    # --- emitting -------------------------------------------------------------------------------------------------
    def type(self, aval: ShapedArray) -> IrType:
        """Return the tensor type of an aval."""
        return self.types[aval]

    def op(self, name: str, operands: Sequence[IrValue], *results: ShapedArray | IrType, regions: Sequence[Region] = (),
           attributes: dict[str, AttributeValue] | None = None, **attrs: AttributeValue) -> OpResults:
        """Emit one operation.

        Args:
          name: with dialect, as `stablehlo.add`.
          operands: values.
          results: result types: avals or `ir.Type`s.
          regions: made by `ctx.region` or `ctx.reducer_region`.
          attributes: attributes whose names are not identifiers.
          attrs: attributes: `ir.Attribute`, bool, int (i64), str, or a sequence of ints or bools (dense array).
        Returns:
          The result value; a tuple of values when there are several or no results.
        """
        types = self.types
        result_types = [types[r] if isinstance(r, ShapedArray) else r for r in results]
        if attributes:
            attrs.update(attributes)
        if attrs:
            attribute, make = self.session.ir.Attribute, self.session.attr
            # Most attributes are cached objects already; only plain Python values are converted.
            for key, value in attrs.items():
                if not isinstance(value, attribute):
                    attrs[key] = make(value)
        made = self.create(name, result_types, operands, attrs or None, None, len(regions), self.loc, self.ip)
        if regions:
            for spec, region in zip(regions, made.regions, strict=True):
                self._emit_region(spec, region)
        if len(results) == 1:
            return made.result
        return tuple(made.results)

    def _emit_region(self, spec: Region, region: IrRegion) -> None:
        loc = self.loc
        types = [self.types[a] if isinstance(a, ShapedArray) else a for a in spec.avals]
        block = region.blocks.append(*types, arg_locs=[loc] * len(types))
        # Each block emits its own constants: those of sibling blocks are not visible in it, and those of enclosing
        # blocks are not always usable.
        saved = self.eqn, self.ip, self._constants
        self.ip, self._constants = self.session.ir.InsertionPoint(block), {}
        self.module.size.enter(self.eqn)
        try:
            out = spec.body(self, *block.arguments)
            out = list(out) if isinstance(out, tuple | list) else [out]
            self.create(spec.terminator, None, out, None, None, 0, loc, self.ip)
        finally:
            self.module.size.leave()
            self.eqn, self.ip, self._constants = saved

    @contextmanager
    def insert_at(self, ip: IrInsertionPoint) -> Iterator[None]:
        """Insert the operations of the block at another insertion point."""
        saved = self.ip, self._constants
        self.ip, self._constants = ip, {}
        try:
            yield
        finally:
            self.ip, self._constants = saved

    def region(self, avals: Sequence[ShapedArray], body: Body, terminator: str = "stablehlo.return") -> Region:
        """Return a region for `op(..., regions=[...])`: `body(ctx, *block_arguments)` returns the value(s) of its
        terminator."""
        return Region(avals, body, terminator)

    def reducer_region(self, name: str, aval: ShapedArray) -> Region:
        """Return the region `(a, b) -> name(a, b)` on scalars of `aval`'s dtype, for reductions and collectives."""
        scalar = shaped((), aval.dtype)
        return Region((scalar, scalar), lambda ctx, a, b: ctx.op(name, (a, b), scalar))

    def program_region(self, closed: ClosedJaxpr) -> Region:
        """Return the region that computes a program."""
        return Region(closed.in_avals, lambda ctx, *args: ctx.body(closed, args))

    def pad(self, x: IrValue, value: IrValue, aval: ShapedArray, low: Sequence[int], high: Sequence[int],
            interior: Sequence[int]) -> IrValue:
        """Emit `stablehlo.pad` of a value of this type.

        If the compiler partitions the program, negative padding is emitted as a slice after the pad: XLA's partitioner
        aborts the process on negative padding ("first_valid_element_offset").
        """
        if self.module.partitions == 1 or min((*low, *high), default=0) >= 0:
            lows, highs = low, high
        else:
            lows, highs = [max(n, 0) for n in low], [max(n, 0) for n in high]
        padded = shaped(tuple([n + max(n - 1, 0) * k + a + b for n, k, a, b in zip(aval.shape, interior, lows, highs)]),
                        aval.dtype)
        made = self.op("stablehlo.pad", (x, value), padded, edge_padding_low=self.i64s(lows),
                       edge_padding_high=self.i64s(highs), interior_padding=self.i64s(interior))
        if lows is low:
            return made
        first = [max(-n, 0) for n in low]
        last = [n - max(-k, 0) for n, k in zip(padded.shape, high)]  # end of the slice: without the negative padding
        cut = shaped(tuple([b - a for a, b in zip(first, last)]), aval.dtype)
        return self.op("stablehlo.slice", (made,), cut, start_indices=self.i64s(first), limit_indices=self.i64s(last),
                       strides=self.i64s([1] * len(first)))

    # --- constants ------------------------------------------------------------------------------------------------
    def const(self, value: Value, aval: ShapedArray) -> IrValue:
        """Return a constant of type `aval`; a scalar value fills the shape. Scalars are emitted once per block."""
        # 0.0 equals -0.0 and arrays are not hashable, so these use their bytes as the key
        if value.__class__ in _PLAIN and value:
            key: CacheKey = (value, aval.dtype, aval.shape)
            made = self._constants.get(key)
            if made is None:
                made = self._constants[key] = self._constant(np.asarray(value, aval.dtype), aval)
            return made
        array = np.asarray(value)
        if array.dtype != aval.dtype:
            array = array.astype(aval.dtype)
        if array.size > 4:
            if array.shape != aval.shape:
                array = np.broadcast_to(array, aval.shape)
            return self._constant(array, aval)
        key = (array.tobytes(), array.shape, aval.dtype, aval.shape)
        made = self._constants.get(key)
        if made is None:
            made = self._constants[key] = self._constant(array, aval)
        return made

    def _constant(self, array: np.ndarray, aval: ShapedArray) -> IrValue:
        if array.shape and array.shape != aval.shape:
            array = np.broadcast_to(array, aval.shape)
        attr = self.session.dense(array, aval)
        return self.create("stablehlo.constant", [self.types[aval]], None, {"value": attr}, None, 0, self.loc,
                           self.ip).result

    def iota(self, aval: ShapedArray, dimension: int) -> IrValue:
        """Emit the positions along one axis."""
        return self.op("stablehlo.iota", (), aval, iota_dimension=dimension)

    # --- attributes -----------------------------------------------------------------------------------------------
    def i64s(self, values: Sequence[int]) -> IrAttribute:
        """Return `array<i64: ...>`."""
        return self.session.attr(tuple(int(v) for v in values))

    def bools(self, values: Sequence[bool]) -> IrAttribute:
        """Return `array<i1: ...>`."""
        values = tuple(bool(v) for v in values)
        return self.session.attr(values) if values else self.session.parsed["array<i1>"]

    def i32(self, value: int) -> IrAttribute:
        """Return `value : i32`; a plain int passed to `op` becomes an i64."""
        return self.session.i32(value)

    def matrix(self, rows: np.ndarray | Sequence[Sequence[int]]) -> IrAttribute:
        """Return `dense<[[...]]> : tensor<NxMxi64>`, the form of replica groups."""
        return self.session.matrix(np.asarray(rows))

    def attr(self, text: str) -> IrAttribute:
        """Parse an attribute from its text, with a cache: `ctx.attr("#stablehlo<precision HIGHEST>")`."""
        return self.session.parsed[text]

    def enum(self, kind: str, name: str) -> IrAttribute:
        """Return `#stablehlo<kind NAME>`: comparison_direction, comparison_type, precision, rng_algorithm, fft_type,
        ..."""
        return self.session.parsed[f"#stablehlo<{kind} {name}>"]

    def precision(self, *names: str) -> IrAttribute:
        """Return a precision config: one of DEFAULT, HIGH, HIGHEST per operand."""
        return self.session.parsed["[" + ", ".join(f"#stablehlo<precision {n}>" for n in names) + "]"]

    # --- small compositions ---------------------------------------------------------------------------------------
    def broadcast(self, v: IrValue, aval_in: ShapedArray, aval_out: ShapedArray,
                  dims: Sequence[int] | None = None) -> IrValue:
        """Broadcast `v` to the shape of `aval_out`; operand axis k becomes result axis `dims[k]` (default: the last
        axes)."""
        if aval_in.shape == aval_out.shape:
            return v
        if not dims:
            n, m = len(aval_in.shape), len(aval_out.shape)
            dims = tuple(range(m - n, m))
        t = aval_out if aval_in.dtype == aval_out.dtype else shaped(aval_out.shape, aval_in.dtype)
        return self.create("stablehlo.broadcast_in_dim", [self.types[t]], [v],
                           {"broadcast_dimensions": self.i64s(dims)}, None, 0, self.loc, self.ip).result

    def convert(self, v: IrValue, aval_in: ShapedArray, aval_out: ShapedArray) -> IrValue:
        """Convert `v` to the dtype of `aval_out`: nonzero is True, complex numbers lose their imaginary part, ints are
        truncated."""
        a, b = aval_in.dtype, aval_out.dtype
        if a == b:
            return v
        shape = aval_in.shape
        if b == dtypes.BOOL:
            zero = self.const(0, aval_in)
            return self.compare(v, zero, "NE", aval_in)
        if dtypes.is_complex(a) and not dtypes.is_complex(b):
            part = shaped(shape, dtypes.real_dtype(a))
            return self.convert(self.op("stablehlo.real", (v,), part), part, aval_out)
        return self.create("stablehlo.convert", [self.types[shaped(shape, b)]], [v], None, None, 0, self.loc,
                           self.ip).result

    def reshape(self, v: IrValue, aval_out: ShapedArray) -> IrValue:
        return self.create("stablehlo.reshape", [self.types[aval_out]], [v], None, None, 0, self.loc, self.ip).result

    def compare(self, x: IrValue, y: IrValue, direction: str, aval_in: ShapedArray, *, total: bool = False) -> IrValue:
        """Emit `x <direction> y` (EQ NE LT LE GT GE) for operands of type `aval_in`; `total` orders floats by
        TOTALORDER."""
        d = aval_in.dtype
        if dtypes.is_inexact(d):
            kind = "TOTALORDER" if total and dtypes.is_float(d) else "FLOAT"
        else:
            kind = "SIGNED" if d.kind == "i" or d.name.startswith("int") else "UNSIGNED"
        parsed = self.session.parsed
        attrs = {"comparison_direction": parsed[f"#stablehlo<comparison_direction {direction}>"],
                 "compare_type": parsed[f"#stablehlo<comparison_type {kind}>"]}
        truth = self.types[shaped(aval_in.shape, dtypes.BOOL)]
        return self.create("stablehlo.compare", [truth], [x, y], attrs, None, 0, self.loc, self.ip).result

    def select(self, pred: IrValue, on_true: IrValue, on_false: IrValue, aval: ShapedArray) -> IrValue:
        return self.op("stablehlo.select", (pred, on_true, on_false), aval)

    # --- axes -----------------------------------------------------------------------------------------------------
    def collective_attrs(self, name: str, rows: Sequence[Sequence[int]]) -> dict[str, IrAttribute]:
        """Return the attributes of `op` that specify the participants of a collective.

        Args:
          name: the operation, as `stablehlo.all_reduce`.
          rows: the groups, from `axis_env.groups`; for a `collective_permute` the (source, destination) pairs.
        """
        pairs = name == "stablehlo.collective_permute"
        spare = self.axis_env.idle_participants
        if spare and not pairs:  # every device must be in a group
            rows = [*rows, spare]
        width = max(map(len, rows), default=0)  # groups may differ in size; shorter ones are filled with -1
        matrix = self.matrix([[*row, *[-1] * (width - len(row))] for row in rows])
        attrs = {"source_target_pairs" if pairs else "replica_groups": matrix}
        if self.module.mesh is not None:  # within a manual region the participants are partitions
            attrs["channel_handle"] = self.attr(f"#stablehlo.channel_handle<handle = {self.module.next_channel()}, type = 1>")
            if name in _GLOBAL_IDS:
                attrs["use_global_device_ids"] = self.session.unit
        return attrs

    def participant(self) -> IrValue:
        """Return the number of this participant, as used in groups: uint32[]."""
        return self.op("stablehlo.replica_id" if self.module.mesh is None else "stablehlo.partition_id", (), _U32)

    def participant_entry(self, table: Sequence[int]) -> IrValue:
        """Return this participant's entry of a table with one entry per participant: int32[]."""
        env = self.axis_env
        # partition_id is not supported where XLA may still partition the enclosing program
        if env.names and getattr(env, "free", ()):
            return self.module.mesh.emit_per_device(self, env, lambda ctx: [ctx.local_participant_entry(table)], (), (),
                                                    (_I32,))[0]
        return self.local_participant_entry(table)

    def local_participant_entry(self, table: Sequence[int]) -> IrValue:
        """Return `participant_entry` in a context where XLA partitions nothing, as in a region over all mesh axes."""
        index = self.participant()
        # The identity needs no table: the number of the participant is the entry.
        if list(table) == list(range(len(table))):
            return self.convert(index, _U32, _I32)
        all_of, one = shaped((len(table),), _I32.dtype), shaped((1,), _I32.dtype)
        own = self.op("stablehlo.dynamic_slice", (self.const(np.array(table, np.int32), all_of), index), one,
                      slice_sizes=self.i64s((1,)))
        return self.reshape(own, _I32)

    def axis_index(self, name: Hashable) -> IrValue:
        """Return the index of this participant along a mapped axis: int32[]."""
        env = self.axis_env
        size = env.axis_size((name,))
        if size == 1:
            return self.const(0, _I32)
        if self.module.mesh is not None:
            return self.participant_entry(env.indices((name,)))
        # Replicas are numbered row-major over the axes: index = participant // stride % size.
        index, stride = self.participant(), env.stride(name)
        if stride != 1:
            index = self.op("stablehlo.divide", (index, self.const(stride, _U32)), _U32)
        # The slowest axis needs no remainder.
        if size * stride != env.participants:
            index = self.op("stablehlo.remainder", (index, self.const(size, _U32)), _U32)
        return self.convert(index, _U32, _I32)

    # --- programs -------------------------------------------------------------------------------------------------
    def subcall(self, closed: ClosedJaxpr, operands: Sequence[IrValue], name: str = "call",
                axis_env: AxisEnv | None = None) -> list[IrValue]:
        """Call a nested program, which is emitted once per module and axis environment as a private function."""
        return self.module.call(self, closed, operands, name, axis_env or self.axis_env)

    def inline(self, closed: ClosedJaxpr, operands: Sequence[IrValue], axis_env: AxisEnv | None = None,
               name: str = "") -> list[IrValue]:
        """Emit a nested program's equations here; the compiler's metadata prefixes them with `name` and this equation's
        scope."""
        saved = self.eqn, self.axis_env, self.path, self.loc, self.parent_number, self.number
        if axis_env is not None:
            self.axis_env = axis_env
        self.path = self.scoped_name(name) or self.path
        self.parent_number = self.number
        try:
            return self.run(closed, operands)
        finally:
            self.eqn, self.axis_env, self.path, self.loc, self.parent_number, self.number = saved

    def body(self, closed: ClosedJaxpr, operands: Sequence[IrValue], name: str = "", times: int = 1) -> list[IrValue]:
        """Compute a nested program: call its function if it is used at several places, else emit its equations here.

        Args:
          closed: the program.
          operands: its arguments.
          name: the name of the function, also in the compiler's metadata.
          times: how often the current rule emits the program.
        """
        if self.module.needs_function(closed, times):
            return self.subcall(closed, operands, name or "body")
        return self.inline(closed, operands, name=name)

    def scoped_name(self, name: str) -> str:
        """Return `name` prefixed by the names of the enclosing calls and scopes of the current equation."""
        return scoped_name(self.path, self.eqn.source if self.eqn is not None else None, name)

    def run(self, closed: ClosedJaxpr, args: Sequence[IrValue]) -> list[IrValue]:
        """Emit every live equation of a program and return its results.

        Rules of elementwise primitives always get operands of the result's shape: rank-0 operands are broadcast before,
        and literals are emitted in that shape.
        """
        jaxpr: Jaxpr = closed.jaxpr
        if len(args) != len(jaxpr.invars):
            raise ShapeError(f"lower: a program of {len(jaxpr.invars)} arguments got {len(args)}")
        # env: variable -> value of the module. This loop runs once per equation of every program, so attributes are
        # bound to locals before it.
        env: dict[Atom, IrValue] = dict(zip(jaxpr.invars, args, strict=True))
        big = self.hoisted_constants
        eqns, needed = self.module.live_equations(jaxpr, self.is_unpartitioned)
        self.module.size.equations += len(eqns)
        for var, value in zip(jaxpr.constvars, closed.consts, strict=True):
            if var in needed:
                made = big.get(id(value))  # hoisted: an argument of the function
                env[var] = self.const(value, var.aval) if made is None else made
        rules, const, broadcast = self.rules, self.const, self.broadcast
        # The location of an operation is its equation's number, which does not depend on source lines.
        number = self.module.number_equations(jaxpr, eqns, self.path, self.parent_number)
        plain, located = not self.path, self.session.locations
        eqn = None
        try:
            for eqn in eqns:
                prim = eqn.primitive
                operands = []
                if prim.elementwise:
                    out = eqn.outvars[0].aval
                    shape = out.shape
                    for v in eqn.invars:
                        aval = v.aval
                        if v.__class__ is Literal:
                            operands.append(const(v.val, aval if aval.shape == shape else ShapedArray(shape, aval.dtype)))
                        elif aval is out or aval.shape == shape:
                            operands.append(env[v])
                        else:
                            operands.append(broadcast(env[v], aval, out))
                else:
                    for v in eqn.invars:
                        operands.append(const(v.val, v.aval) if v.__class__ is Literal else env[v])
                self.eqn = eqn
                if number:
                    source = eqn.source
                    name = prim.name if plain and (source is None or not source.scope) else self.scoped_name(prim.name)
                    self.loc = located[name, number]
                    self.number = number
                    number += 1
                made = rules[prim](self, *operands, **eqn.params)
                if prim.multiple:
                    for v, value in zip(eqn.outvars, made, strict=True):
                        env[v] = value
                else:
                    env[eqn.outvars[0]] = made
        except Exception as e:
            # Only the innermost equation adds a note.
            if eqn is not None and not any(note.startswith("while lowering ") for note in getattr(e, "__notes__", ())):
                types = ", ".join(v.aval.str_long() for v in eqn.invars)
                e.add_note(f"while lowering {eqn.primitive.name}({types})" + (f" of {eqn.source}" if eqn.source else ""))
            raise
        return [const(v.val, v.aval) if v.__class__ is Literal else env[v] for v in jaxpr.outvars]


_PLAIN = frozenset([bool, int, float, np.float32, np.float64, np.int32, np.int64, np.uint32, np.bool_])


def lower_to_op(name: str, **attrs: AttributeValue) -> Function:
    """Make a rule that emits one operation on the operands, with the result's type. It ignores the equation's params.

    Args:
      name: operation, as `stablehlo.sine`.
      **attrs: attributes as `ctx.op` takes them; text that starts with `#` is parsed as an attribute.
    Returns:
      A rule for `lowering_rules`.

    >>> from lamina_ir import parse, prims
    >>> from lamina_lowering import lower, lowering_rules
    >>> program = parse("{ lambda ; a:f32[3]. let b:f32[3] = tanh a in (b,) }")
    >>> with lowering_rules.override(prims.tanh_p, lower_to_op("stablehlo.sine")):
    ...     "stablehlo.sine" in lower(program).as_text()
    True
    """
    if attrs:
        def rule(ctx: Context, /, *xs: IrValue, **params: ParamValue) -> IrValue:
            made = {k: ctx.attr(v) if isinstance(v, str) and v[:1] == "#" else v for k, v in attrs.items()}
            return ctx.op(name, xs, ctx.eqn.outvars[0].aval, **made)
    else:
        def rule(ctx: Context, /, *xs: IrValue, **params: ParamValue) -> IrValue:
            return ctx.create(name, [ctx.types[ctx.eqn.outvars[0].aval]], xs, None, None, 0, ctx.loc, ctx.ip).result
    return rule


def identity(ctx: Context, x: IrValue, /, *rest: IrValue, **params: ParamValue) -> IrValue:
    """Return the first operand: a rule for primitives that do nothing at run time.

    Args:
      ctx: the context.
      x: the operand.
      *rest: the other operands.
      **params: the equation's params.
    Returns:
      `x`.

    >>> from lamina_ir import parse, prims
    >>> from lamina_lowering import lower, lowering_rules
    >>> program = parse("{ lambda ; a:f32[3]. let b:f32[3] = tanh a in (b,) }")
    >>> with lowering_rules.override(prims.tanh_p, identity):
    ...     "tanh" in lower(program).as_text()
    False
    """
    return x
