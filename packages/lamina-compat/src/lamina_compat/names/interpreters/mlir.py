"""`jax.interpreters.mlir`: lowering rules in JAX's form, as views of `lamina_lowering`'s tables.

A rule is `rule(ctx, *operands, **params)` and returns a sequence of `ir.Value`s. While it runs, the MLIR context, the location
and the insertion point are entered, so that the builders of jaxlib's dialects (`hlo`, `func_dialect`) insert operations.
"""
from __future__ import annotations

import dataclasses
import importlib
import io
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Primitive, ShapedArray, ShapeDtypeStruct, Var
from lamina_ir.extend.unchecked import lower_keys, thread_iteration_counters
from lamina_ir.layers import explain_absent_names
from lamina_ir.typing import AxisName, Function, Params, ParamValue, Value
from lamina_lowering.extend import (
    Context, ProgramRule, element_type_name, lowering_rules, make_ir_context, platform_rules)
from lamina_parallel import Mesh
from lamina_tracing import io_callback, pure_callback
from lamina_tracing.extend import AxisFrame, extend_axis_env, stage, trace_state, typeof
from typing_extensions import override

from ..._rule_views import JaxRule, RuleView, check_rule, format_value, pick, put_back

__all__ = ["LoweringRule", "LoweringRuleContext", "Mesh", "MeshAxisName", "ModuleContext", "Token", "TokenSet",
           "aval_to_ir_type", "aval_to_ir_types", "cache_lowering", "core_call_lowering", "custom_call",
           "delegate_lowering", "dense_bool_array", "dense_bool_elements", "dense_int_array", "dense_int_elements",
           "dtype_to_ir_type", "emit_python_callback", "flatten_ir_types", "flatten_ir_values",
           "flatten_lowering_ir_args", "i32_attr", "i64_attr", "ir_attribute", "ir_constant", "ir_constants",
           "lower_fun", "make_ir_context", "module_to_bytecode", "module_to_string", "multi_broadcast_in_dim",
           "register_lowering", "unflatten_ir_values_like_types"]

IrValue: TypeAlias = Any  # jaxlib.mlir.ir.Value
IrType: TypeAlias = Any
IrAttribute: TypeAlias = Any
IrModule: TypeAlias = Any
LoweringRule = Callable
MeshAxisName = Hashable
Token = Any

# Modules of jaxlib, imported when a program first reads them.
_MODULES = {"ir": "jaxlib.mlir.ir", "hlo": "jaxlib.mlir.dialects.stablehlo", "func_dialect": "jaxlib.mlir.dialects.func",
            "chlo": "jaxlib.mlir.dialects.chlo", "sdy": "jaxlib.mlir.dialects.sdy", "dialects": "jaxlib.mlir.dialects"}
# The tables of platforms by JAX's names.
_PLATFORMS = {"gpu": ("cuda", "rocm"), "cuda": ("cuda",), "rocm": ("rocm",), "cpu": ("cpu",), "tpu": ("tpu",)}


def __getattr__(name: str) -> Any:
    if name == "Value":
        return _ir().Value
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def _ir() -> Any:
    return importlib.import_module("jaxlib.mlir.ir")


# --- contexts -------------------------------------------------------------------------------------------------------
class TokenSet:
    """Tokens of ordered effects; always empty, because lamina orders effects in the program."""

    def get(self, effect: object) -> Any:
        """Return the token of an effect; NotImplementedError."""
        raise NotImplementedError("TokenSet.get: lamina passes no tokens to lowering rules; call the host with "
                                  "jax.experimental.io_callback(ordered=True), which is ordered")

    def effects(self) -> frozenset[object]:
        """Return the effects: none."""
        return frozenset()

    def items(self) -> list[tuple[object, Any]]:
        """Return the pairs of effect and token: none."""
        return []


class ModuleContext:
    """The module that is built, as lowering rules see it.

    Attributes:
      context: the MLIR context.
      module: the `ir.Module`.
      platforms: the target platform, as a tuple.
      platform: the target platform: `cpu`, `cuda`, `rocm` or `tpu`.
      cached_primitive_lowerings, keepalives, host_callbacks: empty; they have no effect.
    """

    def __init__(self, ctx: Context) -> None:
        self.context, self.module = ctx.session.context, ctx.module.module
        self.ip = ctx.module.ip
        self.platform, self.platforms = ctx.platform, (ctx.platform,)
        self.cached_primitive_lowerings: dict[object, Any] = {}
        self.keepalives: list[object] = []
        self.host_callbacks: list[object] = []
        self._new_channel = ctx.module.next_channel

    @property
    def symbol_table(self) -> Any:
        """The names of the module's functions."""
        return _ir().SymbolTable(self.module.operation)

    def add_keepalive(self, keepalive: object) -> None:
        """Do nothing: lamina keeps host functions alive with the compiled program."""

    def new_channel(self) -> int:
        """Return the number of a new channel between devices."""
        return self._new_channel()


@dataclasses.dataclass(frozen=True)
class LoweringRuleContext:
    """The equation that is lowered: the first argument of a lowering rule.

    Attributes:
      module_context: the module.
      primitive: the primitive of the equation.
      avals_in, avals_out: the types of its operands and results.
      platforms: the target platform, as a tuple.
      name_stack: the names of enclosing scopes, as text.
      tokens_in, tokens_out: empty.
      axis_size_env: the size of each mapped axis in scope.
      dim_var_values: empty: sizes are numbers when a program is lowered.
    """

    module_context: ModuleContext
    primitive: Primitive | None
    avals_in: Sequence[ShapedArray]
    avals_out: Sequence[ShapedArray]
    lamina_context: Context
    name_stack: str = ""
    tokens_in: TokenSet = dataclasses.field(default_factory=TokenSet)
    tokens_out: TokenSet | None = None
    axis_size_env: Mapping[Any, int] | None = None
    dim_var_values: Sequence[IrValue] = ()

    @property
    def platforms(self) -> tuple[str, ...]:
        """The target platform."""
        return self.module_context.platforms

    def replace(self, **changes: Any) -> LoweringRuleContext:
        """Return a copy with other attributes, as for another rule that this one calls."""
        return dataclasses.replace(self, **changes)

    def set_tokens_out(self, tokens_out: TokenSet) -> None:
        """Do nothing: lamina passes no tokens."""

    def is_forward_compat(self) -> bool:
        """Return whether older compilers must be able to read the module: False."""
        return False


def _rule_context(ctx: Context, places: Sequence[Any]) -> LoweringRuleContext:
    env, avals = ctx.axis_env, tuple(pick(ctx.avals_in, places, typeof))
    return LoweringRuleContext(ModuleContext(ctx), ctx.eqn.primitive, avals, tuple(ctx.avals_out), ctx,
                               ctx.scoped_name(""), axis_size_env=dict(zip(env.names, env.sizes)))


@contextmanager
def _equation(ctx: LoweringRuleContext, prim: Primitive, params: dict[str, ParamValue]) -> Iterator[Context]:
    """Let lamina's context insert at the current insertion point, for an equation with the types of `ctx`."""
    own = ctx.lamina_context
    saved = own.eqn
    own.eqn = Eqn(prim, [*map(Var, ctx.avals_in)], [*map(Var, ctx.avals_out)], params, saved.source)
    try:
        with own.insert_at(_ir().InsertionPoint.current):
            yield own
    finally:
        own.eqn = saved


# --- rules ----------------------------------------------------------------------------------------------------------
class _Lowering(JaxRule):
    """A rule of `register_lowering`."""

    __slots__ = ()

    @override
    def call(self, ctx: Context, /, *operands: IrValue, **params: ParamValue) -> Any:
        params, places = self.arrange(params, ctx.avals_in)
        with ctx.loc, ctx.ip:
            made = self.rule(_rule_context(ctx, places), *pick(operands, places, ir_constant), **params)
        values = [made] if self._is_value(made) and not self.prim.multiple else made
        values = [value[0] if isinstance(value, tuple | list) and len(value) == 1 else value for value in self._list(values)]
        avals = ctx.avals_out
        if len(values) != len(avals):
            raise TypeError(f"{self.describe()}: must return {len(avals)} values; got {len(values)}")
        for i, (value, aval) in enumerate(zip(values, avals)):
            if not self._is_value(value):
                raise TypeError(f"{self.describe()}: result {i} must be an ir.Value; got {format_value(value)}")
            if value.type != ctx.type(aval):
                raise TypeError(f"{self.describe()}: result {i} must have the type {ctx.type(aval)} of {aval.str_long()}; got "
                                f"{value.type}")
        return tuple(values) if self.prim.multiple else values[0]

    def _is_value(self, made: object) -> bool:
        return isinstance(made, _ir().Value)

    def _list(self, made: Any) -> list[Any]:
        try:
            return list(made)
        except TypeError:
            raise TypeError(f"{self.describe()}: must return a sequence of ir.Values; got {format_value(made)}") from None


def _read(prim: Primitive, rule: Function) -> Function:
    def lower(ctx: LoweringRuleContext, *operands: IrValue, **params: ParamValue) -> list[IrValue]:
        with _equation(ctx, prim, params) as own:
            made = rule(own, *operands, **params)
        return list(made) if prim.multiple else [made]
    return lower


class _LoweredFunction:
    """A lowering rule made of a function."""

    def __init__(self, fun: Function, multiple_results: bool) -> None:
        self.fun, self.multiple_results = fun, multiple_results
        self.__name__ = getattr(fun, "__name__", "rule")

    def make_program(self, avals: Sequence[ShapedArray], params: Params, axes: Iterable[tuple[AxisName, int]]) -> ClosedJaxpr:
        """Stage the function on operands of these types, within mapped axes."""
        def flat(*xs: Value) -> list[Value]:
            out = self.fun(*xs, **params)
            return list(out) if self.multiple_results else [out]

        bound = {frame.name for frame in trace_state.axes}  # bound while `jit` lowers inside of a map
        with ExitStack() as stack:
            for name, size in axes:
                if name not in bound:
                    stack.enter_context(extend_axis_env(AxisFrame(name, size, None)))
            closed, outer = stage(flat, list(avals))
        if outer:
            raise TypeError(f"lower_fun: the function `{self.__name__}` of a lowering rule must not use traced values from "
                            f"outside; it uses {format_value(outer[0])}")
        return closed

    def __call__(self, ctx: LoweringRuleContext, *operands: IrValue, **params: ParamValue) -> list[IrValue]:
        own = ctx.lamina_context
        program = self.make_program(ctx.avals_in, params, zip(own.axis_env.names, own.axis_env.sizes))
        with own.insert_at(_ir().InsertionPoint.current):
            return own.inline(thread_iteration_counters(lower_keys(program)), operands)


class _ProgramLowering(JaxRule, ProgramRule):
    """A rule of `register_lowering` that `lower_fun` made."""

    def __init__(self, prim: Primitive, rule: Function, view: str) -> None:
        JaxRule.__init__(self, prim, rule, view)
        ProgramRule.__init__(self, self._make_program)

    def _make_program(self, avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray], params: Params,
                      axes: Iterable[tuple[AxisName, int]]) -> ClosedJaxpr:
        params, places = self.arrange(params, avals)
        if len(places) != len(avals):
            raise NotImplementedError(f"{self.describe()}: it has more operands in JAX than in lamina, so the rule must be "
                                      "written with hlo builders, not with lower_fun")
        made = self.rule.make_program(pick(avals, places, typeof), params, axes)  # type: ignore[attr-defined]
        if len(made.out_avals) != len(out_avals):
            raise TypeError(f"{self.describe()}: must return {len(out_avals)} values; got {len(made.out_avals)}")
        for i, (got, want) in enumerate(zip(made.out_avals, out_avals)):
            if got.shape != want.shape or got.dtype != want.dtype:
                raise TypeError(f"{self.describe()}: result {i} must have the type {want.str_long()}; got {got.str_long()}")
        jaxpr = made.jaxpr
        return ClosedJaxpr(Jaxpr(jaxpr.constvars, put_back(jaxpr.invars, places), jaxpr.eqns, jaxpr.outvars), made.consts)

    call = ProgramRule.__call__


def _wrap(prim: Primitive, rule: Function, view: str) -> JaxRule:
    return (_ProgramLowering if isinstance(rule, _LoweredFunction) else _Lowering)(prim, rule, view)


def _derive(prim: Primitive) -> Function:
    return lower_fun(prim.bind, multiple_results=prim.multiple)


_lowerings = RuleView("mlir.register_lowering", lowering_rules, _wrap, _read, _derive)
_platform_specific_lowerings = {name: RuleView("mlir.register_lowering", platform_rules(name), _wrap, _read, _derive)
                                for name in ("cpu", "cuda", "rocm", "tpu")}


def register_lowering(prim: Primitive, rule: Function, platform: str | None = None, inline: bool = True,
                      cacheable: bool = True) -> Function:
    """Define the lowering rule of a primitive.

    Args:
      prim: the primitive.
      rule: `rule(ctx, *operands, **params)` returns a sequence of `ir.Value`s; `lower_fun` makes one of a function.
      platform: `cpu`, `cuda`, `rocm`, `tpu`, `gpu` for CUDA and ROCm; None for all platforms.
      inline, cacheable: accepted for compatibility; they have no effect.
    Returns:
      `rule`.
    Raises:
      TypeError: `prim` is not a Primitive, or `rule` is not callable.
      ValueError: an unknown platform.
    """
    check_rule("mlir.register_lowering", prim, rule)
    if platform is not None and platform not in _PLATFORMS:
        raise ValueError(f"mlir.register_lowering: platform must be one of {', '.join(_PLATFORMS)} or None; got {platform!r}")
    for view in [_lowerings] if platform is None else [_platform_specific_lowerings[name] for name in _PLATFORMS[platform]]:
        view[prim] = rule
    return rule


def lower_fun(fun: Function, multiple_results: bool = True) -> Function:
    """Make a lowering rule of a function that is written with other primitives.

    Args:
      fun: `fun(*operands, **params)`.
      multiple_results: whether it returns a sequence of results.
    Returns:
      A rule for `register_lowering`.

    >>> lower_fun(lambda x, *, factor: x * factor, multiple_results=False).__name__
    '<lambda>'
    """
    return _LoweredFunction(fun, multiple_results)


def delegate_lowering(ctx: LoweringRuleContext, lowering_fun: Function, *args: IrValue, **changes: Any) -> list[IrValue]:
    """Call another rule, with changed attributes of the context; return a flat list of values."""
    return flatten_ir_values(lowering_fun(ctx.replace(**changes), *args))


def cache_lowering(rule: Function) -> Function:
    """Return a rule unchanged: lamina caches whole programs."""
    return rule


def core_call_lowering(ctx: LoweringRuleContext, *args: IrValue, name: str, call_jaxpr: Any, backend: object = None,
                       **params: ParamValue) -> list[IrValue]:
    """Lower a primitive that calls the program in its param `call_jaxpr`: emit a call of a function `name`."""
    with ctx.lamina_context.insert_at(_ir().InsertionPoint.current):
        return ctx.lamina_context.subcall(call_jaxpr, args, name)


def emit_python_callback(ctx: LoweringRuleContext, callback: Function, token: object, operands: Sequence[IrValue],
                         operand_avals: Sequence[ShapedArray], result_avals: Sequence[ShapedArray], *,
                         has_side_effect: bool = False, sharding: object = None,
                         **options: object) -> tuple[list[IrValue], object, object]:
    """Emit a call of a Python function on the host.

    Args:
      ctx: the context of the rule.
      callback: a function of NumPy arrays that returns a sequence of them.
      token: passed through.
      operands: its arguments.
      operand_avals, result_avals: the types of arguments and results.
      has_side_effect: whether it must be called exactly once.
      sharding, **options: accepted for compatibility; they have no effect.
    Returns:
      The results, the token, and None: nothing needs to be kept alive.
    """
    structs = [ShapeDtypeStruct(a.shape, a.dtype) for a in result_avals]
    call = io_callback if has_side_effect else pure_callback

    def fun(*xs: Value) -> Any:
        return call(lambda *arrays: tuple(callback(*arrays)), tuple(structs), *xs)
    return lower_fun(fun)(ctx.replace(avals_in=tuple(operand_avals)), *operands), token, None


# --- types, attributes, constants: within an entered MLIR context ---------------------------------------------------------
def dtype_to_ir_type(dtype: np.dtype | type) -> IrType:
    """Return the MLIR type of the elements of a dtype."""
    return _ir().Type.parse(element_type_name(np.dtype(dtype)))


def aval_to_ir_type(*args: Any) -> IrType:
    """Return the MLIR type of an aval, the last argument."""
    aval = args[-1]
    return _ir().RankedTensorType.get(list(aval.shape), dtype_to_ir_type(aval.dtype))


def aval_to_ir_types(*args: Any) -> tuple[IrType, ...]:
    """Return the MLIR types of an aval, the last argument: always one."""
    return (aval_to_ir_type(args[-1]),)


def _elements(array: np.ndarray) -> IrAttribute:
    ir = _ir()
    made = ir.RankedTensorType.get(list(array.shape), dtype_to_ir_type(array.dtype))
    if array.dtype.kind in "biufc" and array.dtype.isbuiltin:
        return ir.DenseElementsAttr.get(np.ascontiguousarray(array).reshape(array.shape), type=made)
    # One byte or more per element, which MLIR reads as the element type.
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).tobytes().hex().upper()
    return ir.Attribute.parse(f'dense<"0x{data}"> : {made}' if array.size else f"dense<> : {made}")


def ir_constant(val: Any, **options: object) -> IrValue:
    """Emit a constant: an array, a NumPy scalar or a Python number."""
    array = np.asarray(val, typeof(val).dtype)
    return importlib.import_module(_MODULES["hlo"]).constant(_elements(array))


def ir_constants(val: Any, **options: object) -> tuple[IrValue, ...]:
    """Emit a constant, as a tuple of one value."""
    return (ir_constant(val),)


def dense_int_elements(xs: Sequence[int]) -> IrAttribute:
    """Return a constant attribute of int64s: `dense<[...]> : tensor<nxi64>`."""
    return _elements(np.asarray(xs, np.int64))


def dense_bool_elements(xs: Sequence[bool]) -> IrAttribute:
    """Return a constant attribute of bools."""
    return _elements(np.asarray(xs, np.bool_))


def dense_int_array(xs: Sequence[int]) -> IrAttribute:
    """Return an array attribute of int64s: `array<i64: ...>`."""
    return _ir().DenseI64ArrayAttr.get([int(x) for x in xs])


def dense_bool_array(xs: Sequence[bool]) -> IrAttribute:
    """Return an array attribute of bools."""
    return _ir().DenseBoolArrayAttr.get([bool(x) for x in xs])


def i32_attr(i: int) -> IrAttribute:
    """Return an int32 attribute."""
    return _ir().IntegerAttr.get(_ir().IntegerType.get_signless(32), i)


def i64_attr(i: int) -> IrAttribute:
    """Return an int64 attribute."""
    return _ir().IntegerAttr.get(_ir().IntegerType.get_signless(64), i)


def multi_broadcast_in_dim(ctx: LoweringRuleContext, ops: Sequence[IrValue], ops_avals: Sequence[ShapedArray],
                           out_shape: Sequence[int], out_sharding: object = None) -> list[IrValue]:
    """Emit a broadcast of each value to a shape, by NumPy's rules."""
    hlo, made = importlib.import_module(_MODULES["hlo"]), []
    for value, aval in zip(ops, ops_avals, strict=True):
        axes = range(len(out_shape) - aval.ndim, len(out_shape))
        made.append(value if aval.shape == tuple(out_shape) else hlo.broadcast_in_dim(
            aval_to_ir_type(ShapedArray(tuple(out_shape), aval.dtype)), value, dense_int_array(axes)))
    return made


def ir_attribute(val: Any) -> IrAttribute:
    """Return the attribute of a Python value.

    Args:
      val: a bool, int (i64), float (f64), text, bytes, NumPy scalar or array, dtype, sequence or dict of these, or an
        attribute.
    Raises:
      TypeError: another value.
    """
    ir = _ir()
    if isinstance(val, ir.Attribute):
        return val
    if isinstance(val, bool | np.bool_):
        return ir.BoolAttr.get(bool(val))
    if isinstance(val, str | bytes):
        return ir.StringAttr.get(val)
    if isinstance(val, np.dtype):
        return ir.TypeAttr.get(dtype_to_ir_type(val))
    if isinstance(val, np.ndarray):
        return _elements(val)
    if isinstance(val, Mapping):
        return ir.DictAttr.get({name: ir_attribute(item) for name, item in val.items()})
    if isinstance(val, list | tuple):
        return ir.ArrayAttr.get([ir_attribute(item) for item in val])
    if isinstance(val, int | float):
        return i64_attr(val) if isinstance(val, int) else ir.FloatAttr.get(ir.F64Type.get(), val)
    if isinstance(val, np.generic):
        kind = dtype_to_ir_type(val.dtype)
        return ir.IntegerAttr.get(kind, int(val)) if val.dtype.kind in "iu" else ir.FloatAttr.get(kind, float(val))
    raise TypeError(f"ir_attribute: expected a number, text, an array, a dtype, or a sequence or dict of these; got "
                    f"{format_value(val)}")


def custom_call(call_target_name: str, *, result_types: Sequence[IrType], operands: Sequence[IrValue],
                backend_config: str | bytes | Mapping[str, IrAttribute] = "", has_side_effect: bool = False,
                result_shapes: Sequence[IrValue] | None = None, called_computations: Sequence[str] = (),
                api_version: int = 2, operand_output_aliases: Mapping[int, int] | None = None,
                operand_layouts: Sequence[Sequence[int]] | None = None,
                result_layouts: Sequence[Sequence[int]] | None = None,
                extra_attributes: Mapping[str, IrAttribute] | None = None) -> Any:
    """Emit a call of a compiled function, `stablehlo.custom_call`.

    Args:
      call_target_name: the name under which the function is registered with the compiler.
      result_types, operands: the types of its results, and its operands.
      backend_config: text; with `api_version=4` a dict of attributes.
      has_side_effect: whether the call stays if its results are not used.
      result_shapes: not supported.
      called_computations: names of functions of the module.
      api_version: 1 or 2 for text, 4 for XLA's FFI.
      operand_output_aliases: operand -> result that may share its memory.
      operand_layouts, result_layouts: for each array its axes, the contiguous one first.
      extra_attributes: more attributes of the operation.
    Returns:
      The operation, with `results`.
    Raises:
      NotImplementedError: `result_shapes` are given.
    """
    ir = _ir()
    if result_shapes:
        raise NotImplementedError("custom_call: result_shapes must be None: sizes are numbers when a program is lowered")
    config: Any = backend_config
    if isinstance(config, Mapping):
        config, api_version = ir.DictAttr.get(dict(config)), 4
    else:
        config = ir.StringAttr.get(config)
    several = len(result_types) > 1
    aliases = ", ".join([f"#stablehlo.output_operand_alias<output_tuple_indices = [{o if several else ''}], "
                         f"operand_index = {i}, operand_tuple_indices = []>"
                         for i, o in (operand_output_aliases or {}).items()])
    attributes = {"call_target_name": ir.StringAttr.get(call_target_name), "has_side_effect": ir.BoolAttr.get(has_side_effect),
                  "backend_config": config, "api_version": i32_attr(api_version),
                  "called_computations": ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(f) for f in called_computations]),
                  "output_operand_aliases": ir.Attribute.parse(f"[{aliases}]"), **(extra_attributes or {})}
    if operand_layouts is not None or result_layouts is not None:
        attributes["operand_layouts"] = _layouts([x.type for x in operands], operand_layouts)
        attributes["result_layouts"] = _layouts(result_types, result_layouts)
    return ir.Operation.create("stablehlo.custom_call", list(result_types), list(operands), attributes)


def _layouts(types: Sequence[IrType], layouts: Sequence[Sequence[int]] | None) -> IrAttribute:
    orders = [range(len(t.shape))[::-1] for t in types] if layouts is None else layouts
    return _ir().ArrayAttr.get([_ir().DenseElementsAttr.get(np.asarray(order, np.int64), type=_ir().RankedTensorType.get(
        [len(order)], _ir().IndexType.get())) for order in orders])


# --- sequences of values and whole modules ----------------------------------------------------------------------------------
def flatten_ir_values(xs: Sequence[Any]) -> list[IrValue]:
    """Return a flat list of values and of sequences of values."""
    return [y for x in xs for y in (x if isinstance(x, tuple | list) else (x,))]


def unflatten_ir_values_like_types(xs: Iterable[IrValue], ys: Sequence[Any]) -> list[Any]:
    """Return a list with a value for each type in `ys`, and a tuple of values for each sequence of types."""
    rest = iter(xs)
    return [tuple([next(rest) for _ in y]) if isinstance(y, tuple | list) else next(rest) for y in ys]


flatten_lowering_ir_args = flatten_ir_types = flatten_ir_values


def module_to_string(module: IrModule, enable_debug_info: bool = False) -> str:
    """Return a module as text."""
    return module.operation.get_asm(enable_debug_info=enable_debug_info)


def module_to_bytecode(module: IrModule) -> bytes:
    """Return a module as bytecode."""
    output = io.BytesIO()
    module.operation.write_bytecode(output)
    return output.getvalue()


explain_absent_names(globals())
