"""`jit`: stage once per signature, then call through the dispatcher.

`JitSpec` says what is jitted and how; it stages (and remembers the programs of each signature), and the dispatcher in
`slots` turns it into the callable people hold. The default dispatcher here needs no backend.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from types import MethodType
from typing import Any, NamedTuple

from lamina_ir import ClosedJaxpr, config, prims, trees

from . import explain, slots
from .arguments import Statics, called_as, flat_types, function_name, parameter_names, result_types
from .methods import StandIn, stand_in
from .per_function import PerFunction
from .lines import forget_source, is_own_file, user_source
from .stage import eval_jaxpr, stage
from .trace import EVALUATION, Tracer, bind, now
from .tracebacks import boundary

__all__ = ["JitSpec", "Staged", "any_traced", "call_staged", "jit"]


class Staged(NamedTuple):
    """One signature's program: `closed` takes the values in `outer` and then the flat arguments."""

    closed: ClosedJaxpr
    outer: list[Any]
    out_tree: Any


_programs = PerFunction()
_MOST_PROGRAMS = 1024  # per function; beyond that the oldest half is forgotten


class JitSpec:
    """A function and how it is jitted. Public to dispatchers through `lamina_tracing.extend`.

    `known_as` is what its programs are remembered under: the function, or what stands for a bound method.
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
        self.known_as = (stand_in(fun) if type(fun) is MethodType else None) or fun
        self.programs: dict[Any, Staged] = _programs.of(self.known_as)

    @functools.cached_property
    def ours(self) -> bool:
        """Whether the function is one of our own rooms."""
        fun = self.fun
        for _ in range(8):
            fun = getattr(fun, "__wrapped__", fun)
        code = getattr(fun, "__code__", None)
        return code is not None and is_own_file(code.co_filename)

    def inlined(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The call as a part of what is being traced, where the function sees traced values as in any other call."""
        if self.ours:  # they take numbers as they come
            return self.fun(*args, **kwargs)
        flat, tree, static = self.split(args, kwargs)
        staged = self.stage(flat, tree, static)
        return trees.tree_unflatten(staged.out_tree, eval_jaxpr(staged.closed, [*staged.outer, *flat]))

    def split(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], Any, Any]:
        """(flat dynamic arguments, their tree, key of the static ones)."""
        if self.statics.any:
            dynamic, dynamic_kwargs, static = self.statics.split(args, kwargs)
            flat, tree = trees.tree_flatten((dynamic, dynamic_kwargs))
            return flat, tree, static
        flat, tree = trees.tree_flatten((tuple(args), kwargs))
        return flat, tree, ()

    def stage(self, flat: Sequence[Any], tree: Any, static: Any) -> Staged:
        """The program for arguments of these types, staged now or remembered."""
        try:
            avals = flat_types(self.call, self.name, flat, tree)
        except (TypeError, OverflowError):
            if not self.ours:
                raise
            names = parameter_names(self.fun) or ()
            positions = [n for i, n in enumerate(names) if i not in self.statics.nums]
            avals = flat_types(self.call, called_as(self.name), flat, tree, positions)  # raises in the function's own words
        # All that a program depends on besides the function: types, structure, static values, mapped axes in scope, settings
        # and rows in force.
        key = (avals, tree, static, tuple([(f.name, f.size) for f in now.axes]), config.cache_key())
        found = self.programs.get(key)
        if found is None:
            if type(self.known_as) is StandIn:
                self.known_as.retire_if_changed()
            others = config.generation.elsewhere()
            if config.explain_cache_misses.value:
                explain.explain_miss(self.call, self.name, self.fun, key, self.programs)
            if config.log_compiles.value:
                with explain.staging_logged(self.call, self.name):
                    found = self.stage_avals(avals, tree, static)
            else:
                found = self.stage_avals(avals, tree, static)
            # Not kept: what holds values of an enclosing trace, and what was staged while settings or rows changed.
            if not found.outer and config.unchanged(key[-1], others):
                if len(self.programs) >= _MOST_PROGRAMS:
                    for old in list(self.programs)[:_MOST_PROGRAMS // 2]:
                        self.programs.pop(old, None)
                self.programs[key] = found
        return found

    def stage_avals(self, avals: Sequence[Any], tree: Any, static: Any) -> Staged:
        """The program for arguments of these types, traced anew."""
        out_tree = None

        def flat_fun(*tracers: Any) -> list[Any]:
            nonlocal out_tree
            args, kwargs = trees.tree_unflatten(tree, tracers)
            if static:
                args, kwargs = self.statics.join(args, kwargs, static)
            out, out_tree = trees.tree_flatten(self.fun(*args, **kwargs))
            result_types(self.call, self.name, out, out_tree)
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
    return any(isinstance(x, Tracer) for x in flat)


def call_staged(spec: JitSpec, staged: Staged, flat: Sequence[Any], donated: tuple[bool, ...] = ()) -> Any:
    """Apply a staged program as one `xla_call`, through whatever transformations its arguments are in."""
    params = dict(call_jaxpr=staged.closed, name=spec.name, donated_invars=donated, inline=spec.inline,
                  device=spec.device, backend=spec.backend)
    outs = bind(prims.xla_call_p, *staged.outer, *flat, **params)
    return trees.tree_unflatten(staged.out_tree, outs)


class PortableDispatcher:
    """The default: no backend, a Python cache of programs, each run by the evaluator."""

    def jit(self, spec: JitSpec) -> Callable[..., Any]:
        return _portable_jit(spec)

    def pmap(self, spec: Any) -> Callable[..., Any]:
        return spec.portable()


def _portable_jit(spec: JitSpec) -> Callable[..., Any]:
    fun = spec.fun
    made_under = slots.dispatcher
    forward: tuple[Any, Callable[..., Any]] | None = None

    @boundary
    def jitted(*args: Any, **kwargs: Any) -> Any:
        nonlocal forward
        if slots.dispatcher is not made_under:  # a runtime has moved in since
            if forward is None or forward[0] is not slots.dispatcher:
                forward = slots.dispatcher, slots.dispatcher.jit(spec)
            return forward[1](*args, **kwargs)
        if config.disable_jit.value:
            return fun(*args, **kwargs)
        if spec.inline and now.trace is not EVALUATION:
            return spec.inlined(args, kwargs)
        flat, tree, static = spec.split(args, kwargs)
        if spec.inline and any_traced(flat):
            return spec.inlined(args, kwargs)
        staged = spec.stage(flat, tree, static)
        if (now.trace is EVALUATION and not staged.outer and not staged.closed.jaxpr.axis_names
                and not any_traced(flat)):
            return trees.tree_unflatten(staged.out_tree, slots.evaluator.program(staged.closed, flat))
        return call_staged(spec, staged, flat)

    functools.update_wrapper(jitted, fun, updated=())
    jitted.spec = spec  # type: ignore[attr-defined]
    return jitted


slots.set_dispatcher(PortableDispatcher())


@boundary
def jit(fun: Callable[..., Any] | None = None, *, static_argnums: int | Sequence[int] | None = None,
        static_argnames: str | Iterable[str] | None = None, device: Any = None, backend: str | None = None,
        donate_argnums: int | Sequence[int] | None = None, donate_argnames: str | Iterable[str] | None = None,
        inline: bool = False, keep_unused: bool = False, in_shardings: Any = None, out_shardings: Any = None,
        compiler_options: dict[str, Any] | None = None, abstracted_axes: Any = None) -> Callable[..., Any]:
    """Compile a function: its first call with arguments of given types stages it, later ones only run it.

    Args:
      fun: a pure function of arrays, numbers and trees of them. Left out, `jit` is a decorator with options.
      static_argnums: positions of arguments that are Python values, part of the program: hashable, compared by `==`.
      static_argnames: their names. One of the two is enough; the other follows from the signature.
      device: where to run; the results are committed to it. Default: where the arguments are.
      backend: platform name, as "cpu".
      donate_argnums: positions of arguments whose memory may be reused for results; using them again raises.
      donate_argnames: their names.
      inline: when called while another function is traced, become part of it instead of a call.
      keep_unused: pass arguments the program does not read to the device all the same.
      in_shardings, out_shardings: where positional arguments and results lie: shardings, as an array's `.sharding`, None
        (left to the call), or a tree of these that is a prefix of the arguments (static ones left out) or the result.
        All name the same devices, and the call runs on them. Inside another jitted function they are wishes, which
        count if that runs on several devices.
      compiler_options: settings for XLA, by name, as {"xla_embed_ir_in_executable": True}; only for the outermost call.
      abstracted_axes: must be None: each program is made for known sizes.
    Returns:
      A function with the signature of `fun`.
    Raises:
      TypeError: `fun` is not callable, or an argument is no array, number or tree of them.
      ValueError: a static argument is not hashable, a position is out of range, or a sharding does not fit its array, or
        is not that to which an argument is committed.

    >>> jit(lambda x: x * 2)(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    options = dict(static_argnums=static_argnums, static_argnames=static_argnames, device=device, backend=backend,
                   donate_argnums=donate_argnums if donate_argnums is not None else (),
                   donate_argnames=donate_argnames, inline=inline, keep_unused=keep_unused, in_shardings=in_shardings,
                   out_shardings=out_shardings, compiler_options=compiler_options)
    if abstracted_axes is not None:
        raise NotImplementedError("jit: abstracted_axes must be None: a program is staged and compiled for known sizes, one "
                                  "for each shape it is called with")
    if fun is None:
        return functools.partial(jit, **options)
    return slots.dispatcher.jit(JitSpec(fun, **options))


