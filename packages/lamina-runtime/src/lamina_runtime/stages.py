"""The steps of a jitted or mapped function, one by one: `f.trace(...)`, `f.lower(...)`, `.compile()`, and the numbers behind
them."""
from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from lamina_ir import ShapeDtypeStruct, ShapedArray, trees
from lamina_ir.extend import Placement, explain_mismatch, has_keys, physical, physical_aval
from lamina_lowering import SourceLine, instruction_lines
from lamina_lowering import lower as _lower
from lamina_lowering import rows
from lamina_lowering import xla_computation as _computation
from lamina_parallel.extend import placed, seen_whole
from lamina_tracing.extend import CallSpec, Staged, Tracer, flat_types

from . import _jaxlib, backends, compiling, execution, key_arrays, key_reuse, layouts, placing, safe_launch
from .memory_layouts import DeviceLocalLayout, Layout

if TYPE_CHECKING:
    from .plans import Plan

__all__ = ["ATTRIBUTES", "ArgInfo", "Compiled", "Lowered", "OutInfo", "Traced", "Wrapped", "checked_arguments", "lower",
           "trace"]

ATTRIBUTES = ("lower", "trace", "eval_shape", "clear_cache")


def checked_arguments(call: str, spec: CallSpec, in_tree: Any, in_avals: Sequence[Any], args: Any,
                      kwargs: Any) -> list[Any]:
    """The flat arguments of a compiled call. TypeError when their tree or types are not those it was compiled for."""
    flat, tree = trees.tree_flatten((args, kwargs))
    name = spec.name
    if tree != in_tree:
        static = " (static arguments are part of the program: leave them out)" if spec.statics.any else ""
        path = explain_mismatch(in_tree, (args, kwargs))
        raise TypeError(f"compiled `{name}`: expected arguments of structure {in_tree}{static}; got {tree}"
                        + (f": (args, kwargs) {path}" if path else ""))
    if any(isinstance(x, Tracer) for x in flat):
        raise TypeError(f"compiled `{name}`: a compiled call takes arrays, not traced values: it cannot be transformed any "
                        "more. Transform the function and compile the result")
    avals = flat_types(f"compiled {call}", name, flat, tree)
    wrong = [f"{spec.argument(tree, i)} was compiled with {b.long()} and called with {a.long()}"
             for i, (a, b) in enumerate(zip(avals, in_avals)) if not a.same_type(b)]
    if wrong:
        raise TypeError(f"compiled `{name}`: argument types differ: {'; '.join(wrong)}. Convert the arguments, or lower the "
                        "function for these types")
    return flat


OutInfo = ShapeDtypeStruct  # what is known of one result: shape, dtype, sharding


class ArgInfo(NamedTuple):
    """What is known of one argument: its type, and whether the caller gives up its buffer."""

    aval: ShapedArray
    donated: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype


@runtime_checkable
class Wrapped(Protocol):
    """A jitted function: called like the function, and taken step by step."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Stage it for these arguments."""

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Stage and lower it."""


class _Stage:
    """What every step of one call knows: its argument and result types."""

    _spec: CallSpec
    _staged: Staged
    _in_tree: Any
    _donated: tuple[bool, ...]

    @property
    def in_avals(self) -> Any:
        """(positional arguments, keyword arguments) with a type at each leaf; static ones are left out."""
        return trees.tree_unflatten(self._in_tree, self._staged.closed.in_avals)

    @property
    def args_info(self) -> Any:
        """(positional arguments, keyword arguments) with an `ArgInfo` at each leaf."""
        avals = self._staged.closed.in_avals
        marks = self._donated or (False,) * len(avals)
        return trees.tree_unflatten(self._in_tree, [ArgInfo(a, gone) for a, gone in zip(avals, marks)])

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Flat positions of the donated arguments."""
        return tuple(i for i, gone in enumerate(self._donated) if gone)

    @property
    def out_info(self) -> Any:
        """The result's tree with shapes and dtypes."""
        return trees.tree_unflatten(self._staged.out_tree, [
            ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type, named_shape=a.named_shape)
            for a in self._staged.closed.out_avals])

    @property
    def in_tree(self) -> Any:
        """The tree of (positional arguments, keyword arguments)."""
        return self._in_tree

    @property
    def out_tree(self) -> Any:
        """The tree of the result."""
        return self._staged.out_tree


class Traced(_Stage):
    """A staged call: `.jaxpr` is its program, `.fun_name` and `.keep_unused` its function's, `.lower()` the next step."""

    def __init__(self, spec: CallSpec, staged: Staged, in_tree: Any, donated: tuple[bool, ...], lying: Sequence[Any]) -> None:
        self._spec = spec
        self._staged = staged
        self._in_tree = in_tree
        self._donated = donated
        self._lying = lying  # for each argument its type, and where it was put on purpose
        self.jaxpr = staged.closed
        self.fun_name = spec.name
        self.keep_unused = spec.keep_unused

    def lower(self, lowering_platforms: Sequence[str] | None = None, *, platform: str | None = None) -> Lowered:
        """The call as a StableHLO module, for `platform` ("cpu", "cuda", ...; by default where it would run).

        `lowering_platforms` is the same as a sequence of one name; a module is for one platform.
        """
        if lowering_platforms is not None:
            named = tuple(lowering_platforms)
            if platform is not None or len(named) != 1:
                raise ValueError(f"lower of `{self.fun_name}`: a module is for one platform; got "
                                 f"lowering_platforms={named}, platform={platform!r}. Lower once per platform")
            platform = named[0]
        return Lowered(self, platform)


class Lowered(_Stage):
    """A lowered call: `.as_text()` shows the module, `.compile()` makes it callable.

    Its program and lowering rows are those of the moment it was made: what is defined or overridden later does not reach it.
    """

    def __init__(self, traced: Traced, platform: str | None) -> None:
        spec, staged = self._spec, self._staged = traced._spec, traced._staged
        self._bare = physical(staged.closed)
        self._in_tree, self._donated = traced._in_tree, traced._donated
        self._layout = layouts.layout_of(spec, staged._replace(closed=self._bare), self._in_tree)
        self._lying = traced._lying
        self._place = _placement(self, self._lying)
        own = backends.lowering_platform(self._place.devices[0])
        self._rules = rows(platform or own)
        self._lowered = _lower(placed(self._bare), name=spec.name, platform=platform or own, placement=self._place,
                               rules=self._rules, keep_unused=spec.keep_unused)

    @classmethod
    def from_flat_info(cls, lowering: Lowered, in_tree: Any, in_avals: Any, donate_argnums: Sequence[int], out_tree: Any,
                       no_kwargs: bool = False) -> Lowered:
        """A lowered call with other structures of arguments and result around the same flat ones.

        Args:
          lowering: the lowered call.
          in_tree: the structure of (args, kwargs). in_avals: the types, flat, which are those of `lowering`.
          donate_argnums: flat positions of the donated arguments, which are those of `lowering`.
          out_tree: the structure of the result.
          no_kwargs: whether `in_tree` is that of args alone.
        Raises:
          ValueError: these are not as many leaves, or other types or donated arguments.
        """
        call, given = "Lowered.from_flat_info", trees.tree_leaves(in_avals)
        if no_kwargs:
            in_tree = trees.treedef_tuple((in_tree, trees.tree_structure({})))
        have = lowering._staged.closed
        if in_tree.num_leaves != len(have.in_avals) or out_tree.num_leaves != len(have.out_avals):
            raise ValueError(f"{call}: the call takes {len(have.in_avals)} arrays and gives {len(have.out_avals)}; got "
                             "structures of "
                             f"{in_tree.num_leaves}, {in_tree}, and {out_tree.num_leaves}, {out_tree}")
        if len(given) != len(have.in_avals) or any(not a.same_type(b) for a, b in zip(given, have.in_avals)):
            raise ValueError(f"{call}: in_avals must be {[a.long() for a in have.in_avals]}; got {given}")
        if {*donate_argnums} != {*lowering.donate_argnums}:
            raise ValueError(f"{call}: donate_argnums must be {lowering.donate_argnums}, as it was lowered; got "
                             f"{donate_argnums}")
        made = copy.copy(lowering)
        made._in_tree, made._staged = in_tree, lowering._staged._replace(out_tree=out_tree)
        return made

    @property
    def placement(self) -> Placement:
        """How the program lies on devices, arguments and results included."""
        return self._place

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The module as text; `dialect` is 'stablehlo' or 'hlo'. With `debug_info` StableHLO shows names of scopes."""
        return self._lowered.as_text(dialect or "stablehlo", debug_info)

    def source_map(self) -> dict[int, SourceLine]:
        """The user's line of each equation, by its number.

        The module, optimised HLO and profiles name equations by number, as line of a file called `equation`, so that they
        stay the same when lines move. Each value has `file`, `line`, `function`, `op` and `part` ("" or "backward").
        """
        return self._lowered.source_map()

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The module itself, for tools: MLIR's, or with dialect 'hlo' jaxlib's XlaComputation."""
        if dialect == "hlo":
            return _computation(self._lowered)
        if dialect not in (None, "stablehlo"):
            raise ValueError(f"compiler_ir: dialect must be 'stablehlo' or 'hlo'; got {dialect!r}")
        return self._lowered.module

    def plan(self) -> Plan:
        """What will lie where, and what devices will send each other: see `plans.Plan`. Nothing is compiled; what the compiler
        adds by itself to a program that it splits, and what memory it takes, `.compile().plan()` says."""
        return _planning().plan_of(self)

    def cost_analysis(self) -> dict[str, float]:
        """The compiler's estimate before optimisation, which is of no platform: 'flops', 'bytes accessed' (bytes), ..."""
        return _jaxlib.hlo_cost(backends.client("cpu"), _computation(self._lowered).get_hlo_module())

    def compile(self, compiler_options: dict[str, Any] | None = None) -> Compiled:
        """The call, compiled for the device it would run on.

        Args:
          compiler_options: settings for XLA, by name; they go before those given to `jit`.
        Raises:
          ExecutionError: the compiler does not know a setting.
        """
        return Compiled(self, compiler_options)


class Compiled(_Stage):
    """A compiled call: takes arguments of the types it was made for, and can be asked what it costs."""

    def __init__(self, lowered: Lowered, compiler_options: dict[str, Any] | None = None) -> None:
        self._lowered, self._layout = lowered, lowered._layout
        self._spec, self._staged, self._in_tree, self._donated = (lowered._spec, lowered._staged, lowered._in_tree,
                                                                  lowered._donated)
        spec = lowered._spec
        self._place = lowered._place
        compiling.overrides("compile", compiler_options)
        self._overrides = compiling.overrides(spec.call, {**(spec.compiler_options or {}), **(compiler_options or {})})
        try:
            self._program = self._program_at(self._place)
        except _jaxlib.JaxRuntimeError as e:
            raise execution.failure(spec.call, spec.name, e) from e

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The call on arrays of just the types it was compiled for; static arguments are left out.

        Raises:
          TypeError: the arguments have another tree or other types; names those that differ.
          CallbackError: a callback raised; ExecutionError: the program failed otherwise.
        """
        spec, staged = self._spec, self._staged
        flat = checked_arguments(spec.call, spec, self._in_tree, staged.closed.in_avals, args, kwargs)
        words = functools.partial(spec.argument, self._in_tree)
        keyed = not key_arrays.plain(staged.closed)
        looked = key_reuse.entered(staged.closed, flat) if has_keys(staged.closed) else None
        flat = key_arrays.opened(flat) if keyed else flat
        safe_launch.check_usable(spec.call, spec.name, flat, words)
        if self._layout is not None:
            flat = self._layout.placed(spec, flat)
        if any(self._donated):
            safe_launch.check_donation(spec.call, spec.name, flat, self._donated, words)
        place = _placement(self, flat)
        try:
            program = self._program if place == self._place else self._program_at(place)
            outs = program.run(flat, self._layout)
        except _jaxlib.JaxRuntimeError as e:
            raise execution.failure(spec.call, spec.name, e) from e
        outs = key_arrays.closed_again(outs, staged.closed.out_avals) if keyed else outs
        if looked is not None:
            looked.ended(outs)
        return trees.tree_unflatten(staged.out_tree, outs)

    call = __call__

    def _program_at(self, place: Placement) -> execution.Program:
        spec = self._spec
        return execution.program_for(spec.call, self._lowered._bare, spec.name, place, spec.keep_unused, self._overrides,
                                     self._lowered._rules)

    @property
    def input_shardings(self) -> Any:
        """(positional arguments, keyword arguments) with where each is expected; None for those nobody reads."""
        flat = [s if kept else None for s, kept in zip(self._program.in_shardings, self._program.kept)]
        return trees.tree_unflatten(self._in_tree, flat)

    @property
    def output_shardings(self) -> Any:
        """The result's tree with where each array will be."""
        return trees.tree_unflatten(self._staged.out_tree, self._program.out_shardings[:self._staged.out_tree.num_leaves])

    def input_layouts(self) -> Any:
        """(positional arguments, keyword arguments) with how each is expected, a `Layout`; None for those nobody reads."""
        kept = iter([*self._program.executable.get_parameter_layouts()][len(self._program.const_args):])
        flat = [_layout(next(kept), s) if on else None for s, on in zip(self._program.in_shardings, self._program.kept)]
        return trees.tree_unflatten(self._in_tree, flat)

    def output_layouts(self) -> Any:
        """The result's tree with how each array will lie, a `Layout`."""
        tree = self._staged.out_tree
        pairs = zip(self._program.executable.get_output_layouts(), self._program.out_shardings[:tree.num_leaves])
        return trees.tree_unflatten(tree, [_layout(x, s) for x, s in pairs])

    def cost_analysis(self) -> dict[str, float]:
        """The compiler's estimate: 'flops', 'bytes accessed' (bytes), ..."""
        found = self._program.executable.cost_analysis()
        return found[0] if isinstance(found, (list, tuple)) else found

    def memory_analysis(self) -> Any:
        """Bytes of arguments, results and temporaries, as attributes."""
        return self._program.executable.get_compiled_memory_stats()

    def plan(self) -> Plan:
        """What lies where, what devices send each other, and the memory of each, in what the compiler made of the call."""
        return _planning().plan_of(self._lowered, self._program)

    def as_text(self) -> str:
        """The optimised HLO text."""
        return "\n".join(m.to_string() for m in self._program.executable.hlo_modules())

    def source_map(self) -> dict[int, SourceLine]:
        """The user's line of each equation, by the number it has in `as_text()` and in profiles."""
        return self._program.lowered.source_map()

    def instruction_lines(self) -> dict[str, tuple[SourceLine, ...]]:
        """The user's lines that each instruction of the optimised program comes from.

        Returns:
          Name of an instruction, as in `as_text()` and as profiles show it -> its lines: first its own, then those of what
          was fused into it. What the compiler added by itself is left out.
        """
        return instruction_lines(self.as_text(), self.source_map())

    def runtime_executable(self) -> Any:
        """jaxlib's executable."""
        return self._program.executable


def _layout(words: Any, sharding: Any) -> Layout:
    return Layout(DeviceLocalLayout.of_text(str(words)), sharding)


def _planning() -> Any:
    """The module that makes plans: the package imports it when it is first asked for."""
    return sys.modules[__package__].planning


def _placement(step: Any, flat: Sequence[Any]) -> Placement:
    """Where a step's call would run with these arguments, or types."""
    spec = step._spec
    return placing.placement_of(spec.call, spec.name, physical(step._staged.closed), flat, step._donated, spec.device,
                                spec.backend, step._layout, lambda: spec.rows(step._staged, step._in_tree),
                                functools.partial(spec.argument, step._in_tree))


def trace(spec: CallSpec, args: Any, kwargs: Any) -> Traced:
    """The staged call. Arguments may be anything with shape and dtype."""
    flat = spec.split(args, kwargs)[0]
    with seen_whole(flat):
        staged, tree = spec.stage_types(args, kwargs)
    if staged.outer:
        raise ValueError(f"{spec.call} of `{spec.name}`: the function uses values of an enclosing transformation, so "
                         "it cannot be lowered by itself; pass them as arguments")
    return Traced(spec, staged, tree, spec.donated(args, kwargs), [
        placing.as_it_lies(x, physical_aval(a)) for x, a in zip(
            key_arrays.opened(flat), staged.closed.in_avals, strict=True)])


def lower(spec: CallSpec, args: Any, kwargs: Any) -> Lowered:
    """The lowered call."""
    return trace(spec, args, kwargs).lower()
