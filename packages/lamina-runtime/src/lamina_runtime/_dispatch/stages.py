"""Trace, lower and compile a jitted or mapped function in separate steps, and inspect the results.

The steps are `f.trace(...)`, `f.lower(...)` and `.compile()`.
"""
from __future__ import annotations

import copy
import functools
import os
from importlib import import_module
from collections.abc import Callable, Sequence
from typing import ClassVar, TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable
from types import ModuleType

import numpy as np
from lamina_ir import ClosedJaxpr, ShapeDtypeStruct, ShapedArray, trees
from lamina_ir.extend import Placement, explain_mismatch, has_keys, lower_keys, lower_key_aval
from lamina_parallel.extend import lower_xmaps, global_view
from lamina_tracing.extend import CallSpec, StagedProgram, Tracer, explicit_meshes, get_arg_avals
from lamina_ir.errors import mark_builtin_error
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import Sharding, Tree, Value

from .. import _jaxlib
from .._backend import backends, launch_guards
from .._compile import executable_cache, lowering
from .._execute import executable
from .._array import key_array, key_reuse_check
from . import donation_warnings, explicit_types, user_shardings
from .._placement import resolve
from .._array.memory_layout import DeviceLocalLayout, Format, Layout
from .._typing import CompilerOptions, Executable, LoweringRules, MemoryStats, Module, XlaComputation

if TYPE_CHECKING:
    from lamina_lowering import Lowered as LoweredModule, SourceLine
    from .._compile.stored_lowering import StoredLowering
    from .._placement.plan import Plan

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "OutInfo", "STAGE_METHODS", "Traced", "Wrapped",
           "check_call_args", "compiled_program", "lower", "trace"]

STAGE_METHODS = ("lower", "trace", "eval_shape", "clear_cache")


def check_call_args(call: str, spec: CallSpec, in_tree: PyTreeDef, in_avals: Sequence[ShapedArray],
                    args: Sequence[Tree], kwargs: dict[str, Tree]) -> list[Value]:
    """Flatten the arguments of a compiled call. Raise TypeError if their tree or types differ from it."""
    flat, tree = trees.tree_flatten((args, kwargs))
    name = spec.name
    if tree != in_tree:
        static = " (static arguments are part of the program: leave them out)" if spec.statics.any else ""
        path = explain_mismatch(in_tree, (args, kwargs))
        raise mark_builtin_error(TypeError(f"compiled `{name}`: expected arguments of structure {in_tree}{static}; got {tree}"
                                           + (f": (args, kwargs) {path}" if path else "")))
    if any(isinstance(x, Tracer) for x in flat):
        raise mark_builtin_error(TypeError(
            f"compiled `{name}`: a compiled call takes arrays, not traced values: it cannot be transformed. Transform the "
            "function and compile the result"))
    avals = get_arg_avals(f"compiled {call}", name, flat, tree)
    wrong = [f"{spec.argument_path(tree, i)} was compiled with {b.str_long()} and called with {a.str_long()}"
             for i, (a, b) in enumerate(zip(avals, in_avals)) if not a.same_type(b)]
    if wrong:
        raise mark_builtin_error(TypeError(
            f"compiled `{name}`: argument types differ: {'; '.join(wrong)}. Convert the arguments, or lower the function for "
            "these types"))
    return flat


OutInfo = ShapeDtypeStruct  # shape, dtype and sharding of one result


class ArgInfo(NamedTuple):
    """The type of one argument, and whether its buffer is donated."""

    aval: ShapedArray
    donated: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype:
        return self.aval.dtype


@runtime_checkable
class Wrapped(Protocol):
    """A jitted function, which can also be traced and lowered separately."""

    def __call__(self, *args: Tree, **kwargs: Tree) -> Tree: ...

    def trace(self, *args: Tree, **kwargs: Tree) -> Traced:
        """Trace the function for these arguments."""

    def lower(self, *args: Tree, **kwargs: Tree) -> Lowered:
        """Trace and lower the function for these arguments."""


class _Stage:
    """Base class of the steps: argument and result types of the call."""

    _spec: CallSpec
    _staged: StagedProgram
    _in_tree: PyTreeDef
    _donated: tuple[bool, ...]
    _out_shardings: Sequence[Sharding] = ()  # over `Explicit` axes; (): unknown

    @property
    def in_avals(self) -> Tree:
        """(positional arguments, keyword arguments) with a type at each leaf, without static arguments."""
        return trees.tree_unflatten(self._in_tree, self._staged.closed.in_avals)

    @property
    def args_info(self) -> Tree:
        """(positional arguments, keyword arguments) with an `ArgInfo` at each leaf."""
        avals = self._staged.closed.in_avals
        marks = self._donated or (False,) * len(avals)
        return trees.tree_unflatten(self._in_tree, [ArgInfo(a, donated) for a, donated in zip(avals, marks)])

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Flat positions of the donated arguments."""
        return tuple(i for i, donated in enumerate(self._donated) if donated)

    @property
    def out_info(self) -> Tree:
        """The result tree with shapes and dtypes."""
        return trees.tree_unflatten(self._staged.out_tree, [
            ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type, named_shape=a.named_shape, sharding=s)
            for a, s in zip(self._staged.closed.out_avals, self._out_shardings or (None,) * self._staged.out_tree.num_leaves)])

    @property
    def in_tree(self) -> PyTreeDef:
        """The tree of (positional arguments, keyword arguments)."""
        return self._in_tree

    @property
    def out_tree(self) -> PyTreeDef:
        """The tree of the result."""
        return self._staged.out_tree


class Traced(_Stage):
    """A traced call.

    Attributes:
      program: its program.
      fun_name, keep_unused: of the jitted function.
      show_program: returns the program that `jaxpr` shows; `as_jax` sets it, for programs in JAX's vocabulary.
    """

    show_program: ClassVar[Callable[[ClosedJaxpr], ClosedJaxpr]] = staticmethod(lambda program: program)

    def __init__(self, spec: CallSpec, staged: StagedProgram, in_tree: PyTreeDef, donated: tuple[bool, ...],
                 arg_specs: Sequence[ShapedArray | resolve.ArgSpec]) -> None:
        self._spec = spec
        self._staged = staged
        self._in_tree = in_tree
        self._donated = donated
        self._arg_specs = arg_specs  # for each argument its type, or an `ArgSpec` if it is committed
        self.program = staged.closed
        self.fun_name = spec.name
        self.keep_unused = spec.keep_unused
        if explicit_meshes and spec.in_shardings is None:
            typed = explicit_types.add_types(f"{spec.call} of `{spec.name}`", spec.name, lower_keys(staged.closed), arg_specs,
                                             None)
            self._out_shardings = () if typed is None else typed[1].outs

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The program; in JAX's vocabulary if `as_jax` was called."""
        return type(self).show_program(self.program)

    def lower(self, lowering_platforms: Sequence[str] | None = None, *, platform: str | None = None) -> Lowered:
        """Lower the call to a StableHLO module.

        Args:
          lowering_platforms: a sequence with the name of one platform, as an alternative to `platform`.
          platform: "cpu", "cuda", ...; None: the platform on which the call would run.
        """
        if lowering_platforms is not None:
            named = tuple(lowering_platforms)
            if platform is not None or len(named) != 1:
                raise ValueError(f"lower of `{self.fun_name}`: a module is for one platform; got "
                                 f"lowering_platforms={named}, platform={platform!r}. Lower once per platform")
            platform = named[0]
        if any(a.is_reference for a in self.program.in_avals):
            raise NotImplementedError(f"lower of `{self.fun_name}`: an argument is a mutable reference. Lower a function of "
                                      "its value, lamina.ref.discharge(f), or call the jitted function")
        return Lowered(self, platform)


class Lowered(_Stage):
    """A lowered call: `.as_text()` shows the module, `.compile()` makes it callable.

    The program and the lowering rules are fixed when it is made; later definitions and overrides do not affect it.
    With `stored`, which belongs to a stored executable, the module is made when it is needed.
    """

    def __init__(self, traced: Traced, platform: str | None, stored: StoredLowering | None = None) -> None:
        spec, staged = traced._spec, traced._staged
        closed = staged.closed if stored is not None else lowering.expand_primitives(staged.closed)
        if closed is not staged.closed:
            staged = staged._replace(closed=closed)
        self._spec, self._staged = spec, staged
        self._lowered_closed = lower_keys(staged.closed)
        self._in_tree, self._donated = traced._in_tree, traced._donated
        self._layout = user_shardings.get_user_shardings(spec, staged._replace(closed=self._lowered_closed), self._in_tree)
        self._arg_specs = traced._arg_specs
        typed = explicit_types.add_types(f"{spec.call} of `{spec.name}`", spec.name, self._lowered_closed, self._arg_specs,
                                         self._layout)
        if typed is not None:
            self._lowered_closed, layout = typed
            ins = tuple([getattr(x, "_sharding", None) if s is None else s for x, s in zip(self._arg_specs, layout.ins)])
            self._layout = user_shardings.UserShardings(ins, layout.outs, layout.devices, self._in_tree)
        self._place = _placement(self, self._arg_specs)
        platform = platform or backends.lowering_platform(self._place.devices[0])
        if stored is None:
            self._rules: LoweringRules | None = lowering.merged_rules(platform)
            self._lowered: LoweredModule | StoredLowering = _lower(self, platform, self._rules)
        else:
            self._rules = None
            stored.set_source(lambda: _lower(self, platform, lowering.merged_rules(platform)))
            self._lowered = stored

    @classmethod
    def from_flat_info(cls, lowering: Lowered, in_tree: PyTreeDef, in_avals: Tree, donate_argnums: Sequence[int],
                       out_tree: PyTreeDef, no_kwargs: bool = False) -> Lowered:
        """Return a lowered call with other trees for the same flat arguments and results.

        Args:
          lowering: the lowered call.
          in_tree: the tree of (args, kwargs).
          in_avals: the flat argument types; must equal those of `lowering`.
          donate_argnums: flat positions of the donated arguments; must equal those of `lowering`.
          out_tree: the tree of the result.
          no_kwargs: whether `in_tree` is the tree of args only.
        Raises:
          ValueError: the numbers of leaves, the types or the donated arguments differ.
        """
        call, aval_leaves = "Lowered.from_flat_info", trees.tree_leaves(in_avals)
        if no_kwargs:
            in_tree = trees.treedef_tuple((in_tree, trees.tree_structure({})))
        program = lowering._staged.closed
        if in_tree.num_leaves != len(program.in_avals) or out_tree.num_leaves != len(program.out_avals):
            raise ValueError(f"{call}: the call takes {len(program.in_avals)} arrays and returns "
                             f"{len(program.out_avals)}; got in_tree with {in_tree.num_leaves} leaves, {in_tree}, and "
                             f"out_tree with {out_tree.num_leaves}, {out_tree}")
        if len(aval_leaves) != len(program.in_avals) or any(
                not a.same_type(b) for a, b in zip(aval_leaves, program.in_avals)):
            raise ValueError(f"{call}: in_avals must be {[a.str_long() for a in program.in_avals]}; got {aval_leaves}")
        if {*donate_argnums} != {*lowering.donate_argnums}:
            raise ValueError(f"{call}: donate_argnums must be {lowering.donate_argnums}, as in the lowered call; got "
                             f"{donate_argnums}")
        new = copy.copy(lowering)
        new._in_tree, new._staged = in_tree, lowering._staged._replace(out_tree=out_tree)
        return new

    @property
    def placement(self) -> Placement:
        """The devices of the program, and the shardings of arguments and results."""
        return self._place

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """Return the module as text; `dialect` is 'stablehlo' or 'hlo'. `debug_info` adds scope names to StableHLO."""
        return self._lowered.as_text(dialect or "stablehlo", debug_info)

    def source_map(self) -> dict[int, SourceLine]:
        """Return the user's line of each equation, by its number.

        The module, optimized HLO and profiles identify equations by number, as the line of a file called `equation`. So
        they do not change if lines move in the user's file. Each value has `file`, `line`, `function`, `op` and `part`
        ("" or "backward").
        """
        return self._lowered.source_map()

    def compiler_ir(self, dialect: str | None = None) -> Module | XlaComputation:
        """Return the MLIR module, or with dialect 'hlo' jaxlib's XlaComputation, for tools."""
        if dialect == "hlo":
            return lowering.xla_computation(self._lowered)
        if dialect not in (None, "stablehlo"):
            raise ValueError(f"compiler_ir: dialect must be 'stablehlo' or 'hlo'; got {dialect!r}")
        return self._lowered.module

    def plan(self) -> Plan:
        """Return the shardings and collectives of the call as a `plans.Plan`, without compiling.

        Collectives that the compiler adds to a partitioned program, and its memory, are in `.compile().plan()`.
        """
        return _planning().build_plan(self)

    def cost_analysis(self) -> dict[str, float]:
        """Return XLA's platform-independent estimate before optimization: 'flops', 'bytes accessed' (bytes), ..."""
        return _jaxlib.module_cost(backends.client("cpu"), lowering.xla_computation(self._lowered).get_hlo_module())

    def compile(self, compiler_options: CompilerOptions | None = None) -> Compiled:
        """Compile the call for the devices on which it would run.

        Args:
          compiler_options: options of XLA, by name; they override those of `jit`.
        Raises:
          ExecutionError: XLA does not know an option.
        """
        return Compiled(self, compiler_options)


class Compiled(_Stage):
    """A compiled call: callable with arguments of the compiled types; has cost, memory and shardings."""

    def __init__(self, lowered: Lowered, compiler_options: CompilerOptions | None = None) -> None:
        self._lowered, self._layout = lowered, lowered._layout
        self._spec, self._staged, self._in_tree, self._donated = (lowered._spec, lowered._staged, lowered._in_tree,
                                                                  lowered._donated)
        spec = lowered._spec
        self._place = lowered._place
        executable_cache.check_compiler_options("compile", compiler_options)
        self._overrides = executable_cache.check_compiler_options(spec.call, {**(spec.compiler_options or {}),
                                                                              **(compiler_options or {})})
        try:
            self._program = self._program_at(self._place)
        except _jaxlib.JaxRuntimeError as e:
            raise executable.make_execution_error(spec.call, spec.name, e, program=lowered._staged.closed) from e
        if not self._program.donation_checked:
            donation_warnings.warn_unusable(self._program, functools.partial(spec.argument_path, self._in_tree))

    def __call__(self, *args: Tree, **kwargs: Tree) -> Tree:
        """Run the call on arrays of exactly the compiled types, without static arguments.

        Raises:
          TypeError: the arguments have another tree or other types; the message names those that differ.
          CallbackError: a callback raised.
          ExecutionError: the program failed otherwise.
        """
        spec, staged = self._spec, self._staged
        flat = check_call_args(spec.call, spec, self._in_tree, staged.closed.in_avals, args, kwargs)
        format_arg = functools.partial(spec.argument_path, self._in_tree)
        has_key_values = not key_array.has_no_keys(staged.closed)
        reuse_check = key_reuse_check.begin_call(staged.closed, flat) if has_keys(staged.closed) else None
        flat = key_array.unwrap_keys(flat) if has_key_values else flat
        launch_guards.check_usable(spec.call, spec.name, flat, format_arg)
        if self._layout is not None:
            flat = self._layout.place_args(spec, flat)
        placement = _placement(self, flat)
        donated: list[int] = []
        if any(self._donated):
            launch_guards.check_donation(spec.call, spec.name, flat, self._donated, format_arg)
            donated = [i for i, x in enumerate(flat) if self._donated[i] and type(x) is _jaxlib.ArrayImpl]
        try:
            program = self._program if placement == self._place else self._program_at(placement)
            if donated:
                with launch_guards.DonationGuard(spec.call, spec.name, [flat[i] for i in donated],
                                                 lambda n: format_arg(donated[n])):
                    outs = program.run(flat, self._layout)
            else:
                outs = program.run(flat, self._layout)
        except _jaxlib.JaxRuntimeError as e:
            raise executable.make_execution_error(spec.call, spec.name, e, flat, format_arg, staged.closed) from e
        outs = key_array.wrap_keys(outs, staged.closed.out_avals) if has_key_values else outs
        if reuse_check is not None:
            reuse_check.finish(outs)
        return trees.tree_unflatten(staged.out_tree, outs)

    call = __call__

    def _program_at(self, place: Placement) -> executable.CompiledProgram:
        spec = self._spec
        return executable.get_or_compile(spec.call, self._lowered._lowered_closed, spec.name, place, spec.keep_unused,
                                     self._overrides, self._lowered._rules)

    @property
    def tier(self) -> str:
        """`optimized`, or `first` if the call runs code that was compiled quickly. `compile()` always optimises."""
        return self._program.loaded.tier

    @property
    def input_shardings(self) -> Tree:
        """(positional arguments, keyword arguments) with a sharding at each leaf; None for unused arguments."""
        flat = [s if is_used else None for s, is_used in zip(self._program.in_shardings, self._program.used_args)]
        return trees.tree_unflatten(self._in_tree, flat)

    @property
    def output_shardings(self) -> Tree:
        """The result tree with the sharding of each array."""
        return trees.tree_unflatten(self._staged.out_tree,
                                    self._program.out_shardings[:self._staged.out_tree.num_leaves])

    def input_layouts(self) -> Tree:
        """Return (positional arguments, keyword arguments) with a `Layout` at each leaf; None for unused arguments."""
        arg_layouts = iter([*self._program.executable.get_parameter_layouts()][len(self._program.const_args):])
        flat = [_make_layout(next(arg_layouts), s) if is_used else None
                for s, is_used in zip(self._program.in_shardings, self._program.used_args)]
        return trees.tree_unflatten(self._in_tree, flat)

    def output_layouts(self) -> Tree:
        """Return the result tree with the `Layout` of each array."""
        tree = self._staged.out_tree
        pairs = zip(self._program.executable.get_output_layouts(), self._program.out_shardings[:tree.num_leaves])
        return trees.tree_unflatten(tree, [_make_layout(x, s) for x, s in pairs])

    @property
    def input_formats(self) -> Tree:
        """(positional arguments, keyword arguments) with a `Format` at each leaf; None for unused arguments."""
        return trees.tree_map(lambda x: Format(*x), self.input_layouts(), is_leaf=_is_layout)

    @property
    def output_formats(self) -> Tree:
        """The result tree with the `Format` of each array."""
        return trees.tree_map(lambda x: Format(*x), self.output_layouts(), is_leaf=_is_layout)

    def cost_analysis(self) -> dict[str, float]:
        """Return XLA's cost estimate of the compiled program: 'flops', 'bytes accessed' (bytes), ..."""
        found = self._program.executable.cost_analysis()
        return found[0] if isinstance(found, (list, tuple)) else found

    def memory_analysis(self) -> MemoryStats:
        """Return an object with the bytes of arguments, results and temporaries as attributes."""
        return self._program.executable.get_compiled_memory_stats()

    def plan(self) -> Plan:
        """Return the shardings, collectives and memory of the compiled program as a `plans.Plan`."""
        return _planning().build_plan(self._lowered, self._program)

    def as_text(self) -> str:
        """Return the optimized HLO as text."""
        return "\n".join(m.to_string() for m in self._program.executable.hlo_modules())

    def source_map(self) -> dict[int, SourceLine]:
        """Return the user's line of each equation, by its number in `as_text()` and in profiles."""
        return self._program.lowered.source_map()

    def instruction_lines(self) -> dict[str, tuple[SourceLine, ...]]:
        """Return the user's lines from which each instruction of the optimized program comes.

        Returns:
          A dict from the name of an instruction, as in `as_text()` and in profiles, to its lines: first its own, then
          those of the instructions fused into it. Instructions that the compiler added are left out.
        """
        return lowering.instruction_lines(self.as_text(), self.source_map())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the call to a file, which `load_compiled` reads in another process without tracing and compiling.

        Args:
          path: the file. It appears when it is complete, and replaces an older one.
        Raises:
          ValueError: the call runs on several devices, or calls Python, or a tree has nodes without a form in files.
          ExecutionError: jaxlib cannot serialize it; on CPUs this is so if it sorts.
        """
        import_module("lamina_runtime.serialize_executable").save_compiled(self, path)

    def runtime_executable(self) -> Executable:
        """Return jaxlib's executable."""
        return self._program.executable


def compiled_program(compiled: Compiled) -> executable.CompiledProgram:
    """Return the compiled program of a compiled call."""
    return compiled._program


def _is_layout(x: object) -> bool:
    return isinstance(x, Layout)


def _make_layout(text: object, sharding: Sharding) -> Layout:
    return Layout(DeviceLocalLayout.from_text(str(text)), sharding)


def _planning() -> ModuleType:
    """Return the module that builds plans. The package imports it lazily, at the first use."""
    return import_module("lamina_runtime._placement.build_plan")


def _lower(step: Lowered, platform: str, rules: LoweringRules) -> LoweredModule:
    """Return the module of a lowered call."""
    return lowering.lower(lower_xmaps(step._lowered_closed), name=step._spec.name, platform=platform, placement=step._place,
                          rules=rules, keep_unused=step._spec.keep_unused)


def _placement(step: Lowered | Compiled, flat: Sequence[Value]) -> Placement:
    """Return the placement of the call of a step with these arguments, or types."""
    spec = step._spec
    return resolve.resolve_placement(spec.call, spec.name, lower_keys(step._staged.closed), flat, step._donated, spec.device,
                                spec.backend, step._layout, lambda: spec.describe_axis_size(step._staged, step._in_tree),
                                functools.partial(spec.argument_path, step._in_tree))


def trace(spec: CallSpec, args: Sequence[Tree], kwargs: dict[str, Tree]) -> Traced:
    """Trace a call. Arguments may be any objects with shape and dtype."""
    flat = spec.split(args, kwargs)[0]
    with global_view(flat):
        staged, tree = spec.trace_abstract(args, kwargs)
    if any(x.aval.is_reference for x in staged.outer):
        raise ValueError(f"{spec.call} of `{spec.name}`: the function uses a mutable reference from outside, so it cannot be "
                         "lowered by itself; lower a function of its value, lamina.ref.discharge(f)")
    if staged.outer:
        raise ValueError(f"{spec.call} of `{spec.name}`: the function uses values of an enclosing transformation, so "
                         "it cannot be lowered by itself; pass them as arguments")
    return Traced(spec, staged, tree, spec.donated(args, kwargs), [
        resolve.make_arg_spec(x, lower_key_aval(a)) for x, a in zip(
            key_array.unwrap_keys(flat), staged.closed.in_avals, strict=True)])


def lower(spec: CallSpec, args: Sequence[Tree], kwargs: dict[str, Tree]) -> Lowered:
    """Trace and lower a call."""
    return trace(spec, args, kwargs).lower()
