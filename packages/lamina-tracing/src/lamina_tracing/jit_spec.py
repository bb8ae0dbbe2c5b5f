"""`JitSpec`: what is jitted and how. It stages, and remembers the programs of each signature; dispatchers make it a call."""
from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lamina_ir import ClosedJaxpr, ShapeDtypeStruct, config, prims, trees

from . import explain
from .arguments import argument_path, called_as, duck_types, flat_arguments, flat_results, flat_types
from .parameters import function_name, parameter_names
from .statics import Statics
from .array import concrete_types
from .per_function import PerFunction, known_as, retire_if_changed
from .lines import forget_source, is_own_file, user_source
from .stage import eval_jaxpr, stage
from .trace import bind, now, staged_for
from .tracer import Tracer

__all__ = ["JitSpec", "Staged", "any_traced"]


class Staged(NamedTuple):
    """One signature's program.

    Attributes:
      closed: takes the values in `outer` and then the flat arguments.
      outer: values of enclosing traces.
      out_tree: the structure of the result.

    >>> spec = JitSpec(lambda x: (x, x))
    >>> spec.stage(*spec.split((1.0,), {})).out_tree.num_leaves
    2
    """

    closed: ClosedJaxpr
    outer: list[Any]
    out_tree: Any


_programs = PerFunction()
_PLAIN = frozenset((np.ndarray, int, float, bool, complex))
_MOST_PROGRAMS = 1024  # per function; beyond that the oldest half is forgotten


class JitSpec:
    """A function and how it is jitted: what a dispatcher's `jit` makes a callable of.

    Its attributes are the arguments, checked and made alike: `donate_argnums` a set of positions, `statics` which arguments
    are static. `name` is the function's, for print; `known_as` what its programs are remembered under: the function, or
    what stands for a bound method or a partial application.

    Args:
      fun: the function.
      static_argnums, static_argnames: positions and names of arguments that are part of the program.
      donate_argnums, donate_argnames: those of arguments whose memory may be reused.
      device: where to run; None: where the arguments are.
      backend: platform name, or None.
      inline: a call while another function is traced becomes part of that.
      keep_unused: pass arguments the program does not read to the device all the same.
      in_shardings, out_shardings: where arguments and results lie, trees of shardings and None.
      compiler_options: name -> value, or None.
      call: who makes it, for messages.
    Raises:
      TypeError: `fun` cannot be called, or an option is of the wrong kind.
      ValueError: a position or name is no argument of the function, or both static and donated.

    >>> spec = JitSpec(lambda x, n: x * n, static_argnums=1)
    >>> flat, tree, static = spec.split((np.float32(2), 3), {})
    >>> print(spec.stage(flat, tree, static).closed)
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
        self.statics = Statics(call, fun, static_argnums, static_argnames)
        self.donate_argnums = self.statics.donated(donate_argnums, donate_argnames)
        self.device = device
        self.backend = backend
        self.inline = inline
        self.keep_unused = keep_unused
        self.in_shardings = in_shardings
        self.out_shardings = out_shardings
        self.compiler_options = compiler_options
        self.known_as = known_as(fun)

    @functools.cached_property
    def programs(self) -> dict[Any, Staged]:
        """Those that were staged, remembered with the function."""
        return _programs.of(self.known_as)

    @functools.cached_property
    def ours(self) -> bool:
        """Whether the function is one of our own rooms."""
        fun = self.fun
        for _ in range(8):
            fun = getattr(fun, "__wrapped__", fun)
        code = getattr(fun, "__code__", None)
        return code is not None and is_own_file(code.co_filename)

    def pickled(self, jitted: Any, again: Callable[..., Any]) -> Any:
        """What pickle keeps of a jitted function (`__reduce__`): where it is found, as of any function; where it is found
        nowhere, the plain function and the options, for `again` to jit it."""
        found: Any = sys.modules.get(getattr(jitted, "__module__", None) or "")
        name = getattr(jitted, "__qualname__", "")
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is jitted:
            return name
        return again, (self.fun, {k: v for k, v in self.options.items() if v is not None and v is not False and v != ()})

    def __reduce__(self) -> Any:
        """Of pickles of calls made of it: what it was made of, without the programs."""
        return functools.partial(JitSpec, **self.options, call=self.call), (self.fun,)

    def inlined(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The call as a part of what is being traced, where the function sees traced values as in any other call."""
        if self.ours:  # they take numbers as they come
            return self.fun(*args, **kwargs)
        flat, tree, static = self.split(args, kwargs)
        staged = self.stage(flat, tree, static)
        return trees.tree_unflatten(staged.out_tree, eval_jaxpr(staged.closed, [*staged.outer, *flat]))

    @property
    def known_by(self) -> Any:
        """What tells two specs of one function apart, beside their static arguments and shardings."""
        return self.device, self.backend, self.inline, self.keep_unused, self.donate_argnums

    def called_by(self, dispatcher: Any) -> Callable[..., Any]:
        """The callable that a dispatcher makes of it."""
        return dispatcher.jit(self)

    def split(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], Any, Any]:
        """(flat dynamic arguments, their tree, key of the static ones)."""
        if self.statics.any:
            dynamic, dynamic_kwargs, static = self.statics.split(args, kwargs)
            flat, tree = flat_arguments(self.call, self.name, dynamic, dynamic_kwargs)
            return flat, tree, static
        flat, tree = flat_arguments(self.call, self.name, args, kwargs)
        return flat, tree, ()

    def stage_call(self, args: Sequence[Any], kwargs: dict[str, Any], flat: Sequence[Any], tree: Any, static: Any) -> Staged:
        """The program for a call, staged now or remembered; `flat`, `tree` and `static` are from `split`."""
        return self.stage(flat, tree, static)

    def argument(self, tree: Any, i: int) -> str:
        """What the user calls a flat argument, of this structure: `params['w'][0]`."""
        return argument_path(tree, i, self.fun, self.statics.nums)

    def rows(self, staged: Staged, tree: Any) -> str | None:
        """What says how many rows the largest map of the program has, in words, where that is an argument."""
        jaxpr = staged.closed.jaxpr
        maps = [e for e in jaxpr.eqns if e.primitive is prims.xla_pmap_p]
        e = max(maps, key=lambda e: e.params["axis_size"], default=None)
        given = jaxpr.invars[len(staged.outer):]
        for v, axis in zip(e.invars, e.params["in_axes"]) if e is not None else ():
            if axis is not None and v in given:
                name, a = self.argument(tree, given.index(v)), v.aval
                return f"{name}, {a.long()}, has {a.shape[axis]} rows along axis {axis}"
        return None

    def stage_types(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Staged, Any]:
        """(program, tree of the dynamic arguments) for arrays or anything with shape and dtype."""
        flat, tree, static = self.split(args, kwargs)
        known = _PLAIN.union(concrete_types)
        if any(isinstance(x, ShapeDtypeStruct) or type(x) not in known and hasattr(x, "shape") for x in flat):
            return self._known(duck_types(self.call, self.name, flat, tree), tree, static), tree
        return self.stage(flat, tree, static), tree

    def call_staged(self, staged: Staged, flat: Sequence[Any], donated: tuple[bool, ...] = ()) -> Any:
        """Apply a staged program as one `xla_call`, through whatever transformations its arguments are in.

        >>> spec = JitSpec(lambda x: {"twice": x + x})
        >>> flat, tree, static = spec.split((np.float32(3),), {})
        >>> spec.call_staged(spec.stage(flat, tree, static), flat)
        {'twice': Array(6., dtype=float32)}
        """
        outs = bind(prims.xla_call_p, *staged.outer, *flat, call_jaxpr=staged.closed, name=self.name, donated_invars=donated,
                    inline=self.inline, device=self.device, backend=self.backend)
        return trees.tree_unflatten(staged.out_tree, outs)

    def stage(self, flat: Sequence[Any], tree: Any, static: Any) -> Staged:
        """The program for these arguments, staged now or remembered."""
        with staged_for(flat):
            return self._staged_now(flat, tree, static)

    def _staged_now(self, flat: Sequence[Any], tree: Any, static: Any) -> Staged:
        try:
            avals = flat_types(self.call, self.name, flat, tree)
        except (TypeError, OverflowError):
            if not self.ours:
                raise
            names = parameter_names(self.fun) or ()
            positions = [n for i, n in enumerate(names) if i not in self.statics.nums]
            avals = flat_types(self.call, called_as(self.name), flat, tree, positions)  # raises in the function's own words
        return self._known(avals, tree, static)

    def _known(self, avals: tuple[Any, ...], tree: Any, static: Any) -> Staged:
        # All that a program depends on besides the function: types, structure, static values, mapped axes in scope, settings
        # and rows in force.
        key = (avals, tree, static, tuple([(f.name, f.size) for f in now.axes]), config.cache_key())
        return self.programs.get(key) or self.staged(key, lambda: self.stage_avals(avals, tree, static), self.programs)

    def staged(self, key: Any, make: Callable[[], Staged], programs: dict[Any, Staged]) -> Staged:
        """The program that `make` stages, logged where that is asked for, and remembered in `programs` where it may be. Last in
        the key is `config.cache_key()`."""
        self.retire_if_changed()
        others = config.generation.elsewhere()
        if config.explain_cache_misses.value:
            explain.explain_miss(self.call, self.name, self.fun, key, programs)
        if config.log_compiles.value:
            with explain.staging_logged(self.call, self.name):
                found = make()
        else:
            found = make()
        # Not kept: what holds values of an enclosing trace, and what was staged while settings or rows changed.
        if not found.outer and config.unchanged(key[-1], others):
            if len(programs) >= _MOST_PROGRAMS:
                for old in list(programs)[:_MOST_PROGRAMS // 2]:
                    programs.pop(old, None)
            programs[key] = found
        return found

    def retire_if_changed(self) -> None:
        """Where a bound method's object has changed, what is staged now is not found by others; asked before staging."""
        retire_if_changed(self.known_as)

    def stage_avals(self, avals: Sequence[Any], tree: Any, static: Any) -> Staged:
        """The program for arguments of these types, traced anew."""
        out_tree = None

        def flat_fun(*tracers: Any) -> list[Any]:
            nonlocal out_tree
            args, kwargs = trees.tree_unflatten(tree, tracers)
            if static:
                args, kwargs = self.statics.join(args, kwargs, static)
            out, out_tree = flat_results(self.call, self.name, self.fun(*args, **kwargs))
            return out

        closed, outer = stage(flat_fun, avals, (self.call, self.fun, tree, self.statics.nums))
        if self.ours:
            forget_source(closed, user_source())  # of a function of ours the first caller's line means nothing
        return Staged(closed, outer, out_tree)

    def donated(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[bool, ...]:
        """For each flat dynamic argument, whether the caller gives up its buffer."""
        if not self.donate_argnums:
            return ()
        marks: list[bool] = []
        for i, a in enumerate(args):
            if i not in self.statics.nums:
                marks += [i in self.donate_argnums] * len(trees.tree_leaves(a))
        named = {k: v for k, v in kwargs.items() if k not in self.statics.names}  # flattened in the order of their names
        for k in sorted(named):
            marks += [self.statics.position(k) in self.donate_argnums] * len(trees.tree_leaves(named[k]))
        return tuple(marks)


def any_traced(flat: Iterable[Any]) -> bool:
    """Whether a transformation handles ops on one of these.

    Args:
      flat: arrays, traced values, numbers.
    Returns:
      A truth value.

    >>> any_traced([1.0, 2])
    False
    """
    return any(isinstance(x, Tracer) for x in flat)
