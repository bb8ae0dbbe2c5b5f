"""`JitSpec`: a function with its jit options, which traces and caches one program per signature.

A dispatcher makes a callable from it.
"""
from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lamina_ir import ClosedJaxpr, ShapeDtypeStruct, config, prims, trees

from .._diagnostics import cache_misses
from .._core.args import (argument_path, find_called_name, get_duck_typed_avals, flatten_args, flatten_results,
                          get_arg_avals)
from .._core.signature import function_name, parameter_names
from .._core.static_args import StaticArgs
from .._core.array import concrete_types
from .._core.function_cache import FunctionCache, function_key, evict_if_changed
from .._core.source_lines import clear_source, is_library_file, find_user_source
from .._core.staging import eval_jaxpr, stage
from .._core.trace import bind, trace_state, staging_context
from .._core.tracer import Tracer

__all__ = ["JitSpec", "StagedProgram", "contains_tracer"]


class StagedProgram(NamedTuple):
    """Staged program of one signature.

    Attributes:
      closed: the program. It takes the values in `outer`, then the flat arguments.
      outer: values of enclosing traces.
      out_tree: the structure of the result.

    >>> spec = JitSpec(lambda x: (x, x))
    >>> spec.trace(*spec.split((1.0,), {})).out_tree.num_leaves
    2
    """

    closed: ClosedJaxpr
    outer: list[Any]
    out_tree: Any


_programs = FunctionCache()
_HOST_VALUE_TYPES = frozenset((np.ndarray, int, float, bool, complex))
_MAX_PROGRAMS = 1024  # per function; a full cache drops its oldest half


class JitSpec:
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

    def __init__(self, fun: Callable[..., Any], *, static_argnums: Any = None, static_argnames: Any = None,
                 donate_argnums: Any = (), donate_argnames: Any = None, device: Any = None,
                 backend: str | None = None, inline: bool = False, keep_unused: bool = False,
                 in_shardings: Any = None, out_shardings: Any = None, compiler_options: dict[str, Any] | None = None,
                 call: str = "jit") -> None:
        if not callable(fun):
            raise TypeError(f"{call}: expected a function; got {type(fun).__name__}: {fun!r:.60}")
        self.fun = fun
        self.call = call
        self.options = dict(
            static_argnums=static_argnums, static_argnames=static_argnames, donate_argnums=donate_argnums,
            donate_argnames=donate_argnames, device=device, backend=backend, inline=inline, keep_unused=keep_unused,
            in_shardings=in_shardings, out_shardings=out_shardings, compiler_options=compiler_options)
        self.name = function_name(fun)
        self.statics = StaticArgs(call, fun, static_argnums, static_argnames)
        self.donate_argnums = self.statics.donated(donate_argnums, donate_argnames)
        self.device = device
        self.backend = backend
        self.inline = inline
        self.keep_unused = keep_unused
        self.in_shardings = in_shardings
        self.out_shardings = out_shardings
        self.compiler_options = compiler_options
        self.function_key = function_key(fun)

    @functools.cached_property
    def programs(self) -> dict[Any, StagedProgram]:
        """The staged programs, cached with the function."""
        return _programs.get_table(self.function_key)

    @functools.cached_property
    def is_library_function(self) -> bool:
        """Whether the function is defined in a lamina package."""
        fun = self.fun
        for _ in range(8):
            fun = getattr(fun, "__wrapped__", fun)
        code = getattr(fun, "__code__", None)
        return code is not None and is_library_file(code.co_filename)

    def reduce_callable(self, jitted: Any, rebuild: Callable[..., Any]) -> Any:
        """Return the `__reduce__` value of a jitted function.

        An importable function is pickled by its name, as any function is. Otherwise the original function and its
        options are pickled, and `again` jits it on loading.
        """
        found: Any = sys.modules.get(getattr(jitted, "__module__", None) or "")
        name = getattr(jitted, "__qualname__", "")
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is jitted:
            return name
        return rebuild, (self.fun, {k: v for k, v in self.options.items() if v is not None and v is not False and v != ()})

    def __reduce__(self) -> Any:
        """Pickle the function and the options, without the programs."""
        return functools.partial(JitSpec, **self.options, call=self.call), (self.fun,)

    def inline_call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Inline the call into the program being traced: stage it as usual, then bind its equations one by one.

        Staging first means that the function sees traced values, as in a call that is not inlined.
        """
        if self.is_library_function:  # library functions accept concrete numbers and tracers alike, so no staging is needed
            return self.fun(*args, **kwargs)
        flat, tree, static = self.split(args, kwargs)
        staged = self.trace(flat, tree, static)
        return trees.tree_unflatten(staged.out_tree, eval_jaxpr(staged.closed, [*staged.outer, *flat]))

    @property
    def options_key(self) -> Any:
        """Key that distinguishes specs of one function, apart from static arguments and shardings."""
        return self.device, self.backend, self.inline, self.keep_unused, self.donate_argnums

    def make_callable(self, dispatcher: Any) -> Callable[..., Any]:
        """Return the callable that a dispatcher makes from this spec."""
        return dispatcher.jit(self)

    def split(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], Any, Any]:
        """Return (flat dynamic arguments, their tree, key of the static arguments)."""
        if self.statics.any:
            dynamic, dynamic_kwargs, static = self.statics.split(args, kwargs)
            flat, tree = flatten_args(self.call, self.name, dynamic, dynamic_kwargs)
            return flat, tree, static
        flat, tree = flatten_args(self.call, self.name, args, kwargs)
        return flat, tree, ()

    def trace_call(self, args: Sequence[Any], kwargs: dict[str, Any], flat: Sequence[Any], tree: Any,
                   static: Any) -> StagedProgram:
        """Return the program for a call, cached or newly traced; `flat`, `tree` and `static` come from `split`."""
        return self.trace(flat, tree, static)

    def argument_path(self, tree: Any, i: int) -> str:
        """Return the user's name of a flat argument: `params['w'][0]`."""
        return argument_path(tree, i, self.fun, self.statics.nums)

    def describe_axis_size(self, staged: StagedProgram, tree: Any) -> str | None:
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

    def trace_abstract(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[StagedProgram, Any]:
        """Return (program, tree of the dynamic arguments) for arrays or other objects with shape and dtype."""
        flat, tree, static = self.split(args, kwargs)
        value_types = _HOST_VALUE_TYPES.union(concrete_types)
        if any(isinstance(x, ShapeDtypeStruct) or type(x) not in value_types and hasattr(x, "shape") for x in flat):
            return self._lookup_or_trace(get_duck_typed_avals(self.call, self.name, flat, tree), tree, static), tree
        return self.trace(flat, tree, static), tree

    def bind_program(self, staged: StagedProgram, flat: Sequence[Any], donated: tuple[bool, ...] = ()) -> Any:
        """Bind a staged program as one `xla_call`, so that every transformation of its arguments handles it.

        >>> spec = JitSpec(lambda x: {"twice": x + x})
        >>> flat, tree, static = spec.split((np.float32(3),), {})
        >>> spec.bind_program(spec.trace(flat, tree, static), flat)
        {'twice': Array(6., dtype=float32)}
        """
        outs = bind(prims.xla_call_p, *staged.outer, *flat, call_jaxpr=staged.closed, name=self.name, donated_invars=donated,
                    inline=self.inline, device=self.device, backend=self.backend)
        return trees.tree_unflatten(staged.out_tree, outs)

    def trace(self, flat: Sequence[Any], tree: Any, static: Any) -> StagedProgram:
        """Return the program for these arguments, cached or newly traced."""
        with staging_context(flat):
            return self._trace_flat(flat, tree, static)

    def _trace_flat(self, flat: Sequence[Any], tree: Any, static: Any) -> StagedProgram:
        try:
            avals = get_arg_avals(self.call, self.name, flat, tree)
        except (TypeError, OverflowError):
            if not self.is_library_function:
                raise
            names = parameter_names(self.fun) or ()
            positions = [n for i, n in enumerate(names) if i not in self.statics.nums]
            # Raises again, with a message that names the library function and does not mention jit.
            avals = get_arg_avals(self.call, find_called_name(self.name), flat, tree, positions)
        return self._lookup_or_trace(avals, tree, static)

    def _lookup_or_trace(self, avals: tuple[Any, ...], tree: Any, static: Any) -> StagedProgram:
        # Everything that a program depends on besides the function: argument types and structure, static values, mapped
        # axes in scope, and settings and rules (`cache_key`).
        key = (avals, tree, static, tuple([(f.name, f.size) for f in trace_state.axes]), config.cache_key())
        return self.programs.get(key) or self.get_or_trace(key, lambda: self.trace_avals(avals, tree, static), self.programs)

    def get_or_trace(self, key: Any, make: Callable[[], StagedProgram], programs: dict[Any, StagedProgram]) -> StagedProgram:
        """Stage a program with `make`, log it if logging is on, and cache it in `programs` if that is valid.

        The last item of `key` must be `config.cache_key()`.
        """
        self.evict_if_changed()
        others = config.generation.changes_by_other_threads()
        if config.explain_cache_misses.value:
            cache_misses.explain_cache_miss(self.call, self.name, self.fun, key, programs)
        if config.log_compiles.value:
            with cache_misses.log_staging_time(self.call, self.name):
                found = make()
        else:
            found = make()
        # Not cached: programs with values of an enclosing trace, and programs during whose tracing settings or rules
        # changed.
        if not found.outer and config.is_unchanged(key[-1], others):
            if len(programs) >= _MAX_PROGRAMS:
                for old in list(programs)[:_MAX_PROGRAMS // 2]:
                    programs.pop(old, None)
            programs[key] = found
        return found

    def evict_if_changed(self) -> None:
        """Evict the cache entry of a bound method whose object has changed; called before tracing."""
        evict_if_changed(self.function_key)

    def trace_avals(self, avals: Sequence[Any], tree: Any, static: Any) -> StagedProgram:
        """Trace the function for arguments of these types, without looking in the cache."""
        out_tree = None

        def flat_fun(*tracers: Any) -> list[Any]:
            nonlocal out_tree
            args, kwargs = trees.tree_unflatten(tree, tracers)
            if static:
                args, kwargs = self.statics.join(args, kwargs, static)
            out, out_tree = flatten_results(self.call, self.name, self.fun(*args, **kwargs))
            return out

        closed, outer = stage(flat_fun, avals, (self.call, self.fun, tree, self.statics.nums))
        if self.is_library_function:
            clear_source(closed, find_user_source())  # the program is cached for all callers, not only for the first one
        return StagedProgram(closed, outer, out_tree)

    def donated(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[bool, ...]:
        """Return, for each flat dynamic argument, whether its buffer is donated; () if none is."""
        if not self.donate_argnums:
            return ()
        marks: list[bool] = []
        for i, a in enumerate(args):
            if i not in self.statics.nums:
                marks += [i in self.donate_argnums] * len(trees.tree_leaves(a))
        named = {k: v for k, v in kwargs.items() if k not in self.statics.names}  # pytrees flatten dicts in sorted order
        for k in sorted(named):
            marks += [self.statics.position(k) in self.donate_argnums] * len(trees.tree_leaves(named[k]))
        return tuple(marks)


def contains_tracer(flat: Iterable[Any]) -> bool:
    """Return whether one of these values is traced.

    Args:
      flat: arrays, traced values, numbers.
    Returns:
      A bool.

    >>> contains_tracer([1.0, 2])
    False
    """
    return any(isinstance(x, Tracer) for x in flat)
