"""`JitSpec`: a function with its jit options, which traces and caches one program per signature.

A dispatcher makes a callable from it.
"""
from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from typing_extensions import override
from lamina_ir import prims, ShapedArray, ShapeDtypeStruct, trees
from lamina_ir.typing import CacheKey, Device, Function, Tree, Value
from lamina_ir.trees import PyTreeDef

from .._core.explicit_shardings import add_shardings, explicit_meshes
from .._core.args import find_called_name, get_duck_typed_avals, get_arg_avals
from .._core.signature import parameter_names
from .._core.array import concrete_types
from .._core.function_cache import FunctionCache
from .._core.source_lines import clear_source, is_library_file, find_user_source
from .._core.staging import eval_jaxpr
from .._core.trace import bind, staging_context
from .._core.tracer import Tracer
from . import hooks
from .call_spec import CallSpec
from .signature_cache import Signature, SignatureCache, StagedProgram
from .._typing import ArgSelection, CompilerOptions, StaticKey

__all__ = ["JitSpec", "contains_tracer"]


_programs = FunctionCache()
_HOST_VALUE_TYPES = frozenset((np.ndarray, int, float, bool, complex))


class JitSpec(CallSpec):
    """A function and its jit options, from which a dispatcher's `jit` makes a callable.

    The attributes are the arguments in normalized form: `donate_argnums` is a set of positions, `statics` holds the
    static arguments (`StaticArgs`). `name` is the function's name for messages. `function_key` is the cache key of the
    function: the function itself, or a stable key for a bound method or a partial application.

    Args:
      fun: the function.
      static_argnums, static_argnames: positions and names of arguments that are part of the program.
      donate_argnums, donate_argnames: positions and names of arguments whose memory may be reused.
      device: the device to run on; None: the device of the arguments.
      backend: platform name, or None.
      inline: if called while another function is traced, become part of its program instead of a call.
      keep_unused: pass unused arguments to the device too.
      in_shardings, out_shardings: shardings of arguments and results, trees of shardings and None.
      compiler_options: name -> value, or None.
      call: name of the public function that creates it, for messages.
    Raises:
      TypeError: `fun` is not callable, or an option has the wrong type.
      ValueError: a position or name is not an argument of the function, or is both static and donated.

    >>> spec = JitSpec(lambda x, n: x * n, static_argnums=1)
    >>> flat, tree, static = spec.split((np.float32(2), 3), {})
    >>> print(spec.trace(flat, tree, static).closed)
    { lambda ; a:f32[]. let b:f32[] = mul a 3.0:f32[] in (b,) }
    """

    def __init__(self, fun: Function, *, static_argnums: ArgSelection = None, static_argnames: ArgSelection = None,
                 donate_argnums: ArgSelection = (), donate_argnames: ArgSelection = None, device: Device = None,
                 backend: str | None = None, inline: bool = False, keep_unused: bool = False,
                 in_shardings: Tree = None, out_shardings: Tree = None, compiler_options: CompilerOptions | None = None,
                 call: str = "jit") -> None:
        super().__init__(call, fun, static_argnums, static_argnames, donate_argnums, donate_argnames)
        self.options = dict(
            static_argnums=static_argnums, static_argnames=static_argnames, donate_argnums=donate_argnums,
            donate_argnames=donate_argnames, device=device, backend=backend, inline=inline, keep_unused=keep_unused,
            in_shardings=in_shardings, out_shardings=out_shardings, compiler_options=compiler_options)
        self.device = device
        self.backend = backend
        self.inline = inline
        self.keep_unused = keep_unused
        self.in_shardings = in_shardings
        self.out_shardings = out_shardings
        self.compiler_options = compiler_options

    @functools.cached_property
    @override
    def cache(self) -> SignatureCache:  # type: ignore[override]
        """The staged programs, cached with the function; made at the first call."""
        return SignatureCache(self.call, self.name, self.fun, self.function_key, _programs.get_table(self.function_key))

    @functools.cached_property
    @override
    def programs(self) -> dict[Signature, StagedProgram]:
        """The staged programs by signature. A plain attribute after the first use, because each quick call reads it."""
        return self.cache.programs

    @functools.cached_property
    @override
    def is_library_function(self) -> bool:  # type: ignore[override]
        """Whether the function is defined in a lamina package."""
        fun = self.fun
        for _ in range(8):
            fun = getattr(fun, "__wrapped__", fun)
        code = getattr(fun, "__code__", None)
        return code is not None and is_library_file(code.co_filename)

    def reduce_callable(self, jitted: Function, rebuild: Function) -> str | tuple[Function, tuple[object, ...]]:
        """Return the `__reduce__` value of a jitted function.

        An importable function is pickled by its name, as any function is. Otherwise the original function and its
        options are pickled, and `rebuild` jits it on loading.
        """
        found: Any = sys.modules.get(getattr(jitted, "__module__", None) or "")
        name = getattr(jitted, "__qualname__", "")
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is jitted:
            return name
        return rebuild, (self.fun, {k: v for k, v in self.options.items() if v is not None and v is not False and v != ()})

    @override
    def __reduce__(self) -> tuple[Function, tuple[object, ...]]:
        """Pickle the function and the options, without the programs."""
        return functools.partial(JitSpec, **self.options, call=self.call), (self.fun,)

    @override
    def inline_call(self, args: Sequence[Tree], kwargs: dict[str, Tree]) -> Tree:
        """Inline the call into the program being traced: stage it as usual, then bind its equations one by one.

        Staging first means that the function sees traced values, as in a call that is not inlined.
        """
        if self.is_library_function:  # library functions accept concrete numbers and tracers alike, so no staging is needed
            return self.fun(*args, **kwargs)
        flat, tree, static = self.split(args, kwargs)
        staged = self.trace_call(args, kwargs, flat, tree, static)
        return trees.tree_unflatten(staged.out_tree, eval_jaxpr(staged.closed, [*staged.outer, *flat]))

    @property
    @override
    def options_key(self) -> CacheKey:  # type: ignore[override]
        """Key that distinguishes specs of one function, apart from static arguments and shardings."""
        return self.device, self.backend, self.inline, self.keep_unused, self.donate_argnums

    @override
    def make_callable(self, dispatcher: hooks.Dispatcher) -> Function:
        """Return the callable that a dispatcher makes from this spec."""
        return dispatcher.jit(self)

    @override
    def make_portable_callable(self) -> Function:
        """Return the callable for a dispatcher without devices: the evaluator runs the call."""
        return hooks._get_portable_dispatcher().jit(self)

    @override
    def describe_axis_size(self, staged: StagedProgram, tree: PyTreeDef) -> str | None:
        """Describe the argument that determines the axis size of the program's largest map; None if no argument does."""
        jaxpr = staged.closed.jaxpr
        maps = [e for e in jaxpr.eqns if e.primitive is prims.xla_pmap_p]
        e = max(maps, key=lambda e: e.params["axis_size"], default=None)
        arguments = jaxpr.invars[len(staged.outer):]
        for v, axis in zip(e.invars, e.params["in_axes"]) if e is not None else ():
            if axis is not None and v in arguments:
                name, a = self.argument_path(tree, arguments.index(v)), v.aval
                return f"{name}, {a.str_long()}, has {a.shape[axis]} rows along axis {axis}"
        return None

    @override
    def trace_abstract(self, args: Sequence[Tree], kwargs: dict[str, Tree]) -> tuple[StagedProgram, PyTreeDef]:
        """Return (program, tree of the dynamic arguments) for arrays or other objects with shape and dtype."""
        flat, tree, static = self.split(args, kwargs)
        value_types = _HOST_VALUE_TYPES.union(concrete_types)
        if any(isinstance(x, ShapeDtypeStruct) or type(x) not in value_types and hasattr(x, "shape") for x in flat):
            operands = self._apply_in_shardings(flat, tree) if explicit_meshes else flat
            with staging_context(operands):
                avals = get_duck_typed_avals(self.call, self.name, flat, tree)
                if explicit_meshes:
                    avals = add_shardings(avals, operands)
                return self.cache.get_or_trace(avals, tree, static, self.trace_avals), tree
        return self.trace(flat, tree, static), tree

    @override
    def bind_program(self, staged: StagedProgram, flat: Sequence[Value], donated: tuple[bool, ...] = ()) -> Tree:
        """Bind a staged program as one `xla_call`, so that every transformation of its arguments handles it.

        >>> spec = JitSpec(lambda x: {"twice": x + x})
        >>> flat, tree, static = spec.split((np.float32(3),), {})
        >>> spec.bind_program(spec.trace(flat, tree, static), flat)
        {'twice': Array(6., dtype=float32)}
        """
        outs = bind(prims.xla_call_p, *staged.outer, *flat, call_jaxpr=staged.closed, name=self.name, donated_invars=donated,
                    inline=self.inline, device=self.device, backend=self.backend)
        return trees.tree_unflatten(staged.out_tree, outs)

    def trace(self, flat: Sequence[Value], tree: PyTreeDef, static: StaticKey) -> StagedProgram:
        """Return the program for the result of `split`, cached or newly traced."""
        return self.trace_call((), {}, flat, tree, static)

    @override
    def trace_call(self, args: Sequence[Tree], kwargs: dict[str, Tree], flat: Sequence[Value], tree: PyTreeDef,
                   static: StaticKey) -> StagedProgram:
        """Return the program for the result of `split`, cached or newly traced; `args` and `kwargs` are not read."""
        operands = self._apply_in_shardings(flat, tree) if explicit_meshes else flat
        with staging_context(operands):
            try:
                avals = get_arg_avals(self.call, self.name, flat, tree)
            except (TypeError, OverflowError):
                if self.is_library_function:
                    self._raise_in_called_name(flat, tree)
                raise
            if explicit_meshes:
                avals = add_shardings(avals, operands)
            return self.cache.get_or_trace(avals, tree, static, self.trace_avals)

    def _apply_in_shardings(self, flat: Sequence[Value], tree: PyTreeDef) -> Sequence[Value]:
        """Return the arguments; in place of those with `in_shardings` descriptions of arrays with that sharding."""
        if self.in_shardings is None:
            return flat
        args, kwargs = trees.tree_unflatten(tree, flat)
        given = tuple(self.in_shardings) if type(self.in_shardings) is list else self.in_shardings
        try:
            found = trees.broadcast_prefix(given, args, is_leaf=lambda s: s is None or hasattr(s, "constraint"))
        except ValueError:  # the dispatcher describes it
            return flat
        found += [None] * len(trees.tree_leaves(kwargs))
        return [x if not hasattr(s, "constraint") or not hasattr(x, "shape") else ShapeDtypeStruct(x.shape, x.dtype, sharding=s)
                for x, s in zip(flat, found, strict=True)]

    def _raise_in_called_name(self, flat: Sequence[Value], tree: PyTreeDef) -> None:
        """Raise the error about an argument again with a message that names the library function, not jit."""
        names = parameter_names(self.fun) or ()
        positions = [n for i, n in enumerate(names) if i not in self.statics.nums]
        get_arg_avals(self.call, find_called_name(self.name), flat, tree, positions)

    def trace_avals(self, avals: Sequence[ShapedArray], tree: PyTreeDef, static: StaticKey) -> StagedProgram:
        """Trace the function for arguments of these types, without looking in the cache."""
        closed, outer, out_tree = self.stage_function(avals, tree, static)
        if self.is_library_function:
            clear_source(closed, find_user_source())  # the program is cached for all callers, not only for the first one
        return StagedProgram(closed, outer, out_tree)


def contains_tracer(flat: Iterable[Value]) -> bool:
    """Return whether one of these values is traced.

    Args:
      flat: arrays, traced values, numbers.
    Returns:
      A bool.

    >>> contains_tracer([1.0, 2])
    False
    """
    for x in flat:  # no generator: before Python 3.12, that is a call for each value
        if isinstance(x, Tracer):
            return True
    return False
