"""`jit` on jaxlib's C++ call object: the object people hold is that object, so a repeated call runs no Python.

jaxlib knows a call's signature (types, placements, static values, settings) and hands an unknown one to `miss`, which
stages, lowers, compiles, runs, and leaves behind what the next call needs. Traced arguments, and calls made while
another function is staged, come to `miss` each time and become an `xla_call`.
"""
from __future__ import annotations

import copyreg
import functools
import pickle
import weakref
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

from lamina_ir import ShapeDtypeStruct, config, trees
from lamina_tracing import jit, slots
from lamina_tracing.extend import EVALUATION, JitSpec, Tracer, any_traced, boundary, call_staged, now

from . import _jaxlib, compiling, debug, execution, layouts, leaving, safe_launch, stages
from ._jaxlib import ArrayImpl
from .trees_cpp import REGISTRY

__all__ = ["call_object", "called_giving", "fallback", "install", "make_jit"]

_cache = _jaxlib.PjitFunctionCache(capacity=compiling.MOST_PROGRAMS)
staging_state = _jaxlib.new_state("staging", None)


def _on_staging(begins: bool) -> None:
    staging_state.set_local(True if begins else _jaxlib.UNSET)


def fallback(x: Any, sharding: Any, layout: Any) -> Any:
    """jaxlib asks for an argument it cannot place itself."""
    return execution.place(x, sharding)


def call_object(name: str, fun: Callable[..., Any] | None, miss: Callable[..., Any], key: Any,
                static_argnums: Sequence[int] = (), static_argnames: Sequence[str] = (), cache: Any = _cache) -> Any:
    """jaxlib's callable: `miss(*args, **kwargs)` gives `(result, fast path or None, forget)` for a new signature."""
    return _jaxlib.pjit(name, fun, miss, list(static_argnums), list(static_argnames), key, REGISTRY, fallback, cache)


def make_jit(spec: JitSpec) -> Callable[..., Any]:
    """The callable of a `jit`."""
    statics = spec.statics
    if spec.device is not None and spec.backend is not None:
        raise ValueError(f"jit of `{spec.name}`: give device or backend, not both; got device={spec.device!r}, "
                         f"backend={spec.backend!r}")
    made_under = slots.dispatcher
    wanted = layouts.key_of(spec)
    overrides = compiling.overrides("jit", spec.compiler_options)
    inline = spec.inline

    @boundary
    def miss(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
        if leaving.staying:
            leaving.stay()
        if slots.dispatcher is not made_under:  # another one has moved in since
            return slots.dispatcher.jit(spec)(*args, **kwargs), None, True
        # From the cheapest way out to the dearest. The results: what the call gives, what lets jaxlib run the signature by
        # itself, and whether it must forget it, as the next call may not be like this one.
        if inline:
            if now.trace is not EVALUATION:  # each op of `lamina_numpy` comes by here while a program is staged
                return spec.fun(*args, **kwargs) if spec.ours else spec.inlined(args, kwargs), None, True
            for a in args:
                if isinstance(a, Tracer):
                    return spec.fun(*args, **kwargs) if spec.ours else spec.inlined(args, kwargs), None, True
        others = config.generation.elsewhere()
        flat, tree, static = spec.split(args, kwargs)
        if spec.inline and any_traced(flat):
            return spec.inlined(args, kwargs), None, True
        staged = spec.stage(flat, tree, static)
        donated = spec.donated(args, kwargs)
        layout = None if wanted is None else layouts.layout_of(spec, staged, tree)
        if (now.trace is not EVALUATION or staged.outer or staged.closed.jaxpr.axis_names
                or any_traced(flat)):
            if overrides:
                raise ValueError(f"jit of `{spec.name}`: compiler_options are for whole programs; this call is part of another "
                                 "one. Give them to the outermost jit")
            if layout is not None:
                return layouts.call_inside(spec, staged, layout, flat, donated), None, True
            return call_staged(spec, staged, flat, donated), None, True
        safe_launch.check_usable("jit", spec.name, flat)
        if layout is None:
            place = execution.placement_of("jit", spec.name, flat, staged.closed, spec.device, spec.backend)
        else:
            given, flat = flat, layout.placed(spec, flat)
            place = layout.placement(spec, flat, staged)
        try:
            program = execution.program_for(staged.closed, spec.name, place, flat, donated, spec.keep_unused, layout,
                                            overrides)
            outs = program.run(flat)
        except _jaxlib.JaxRuntimeError as e:
            raise execution.failure("jit", spec.name, e) from e
        result = trees.tree_unflatten(staged.out_tree, outs)
        if layout is not None and any(x is not y for x, y in zip(flat, given)):
            return result, None, False  # jaxlib cannot move arguments between devices by itself
        if program.const_args:
            safe_launch.read_by(program.const_args, reader)
        return result, program.fast_path(staged.out_tree), others != config.generation.elsewhere()

    key = (made_under, spec.call, spec.device, spec.backend, spec.inline, spec.keep_unused, spec.donate_argnums, statics.nums,
           statics.names, wanted, overrides)
    call = call_object(spec.name, _referable(spec.known_as), miss, key, sorted(statics.nums), sorted(statics.names))
    reader = weakref.ref(call)
    _dress(call, spec)
    if not spec.donate_argnums:
        return call
    return _Donating(spec, call)


def _referable(fun: Callable[..., Any]) -> Callable[..., Any]:
    """`fun`, or what stands for it where it cannot be a weak key (jaxlib's table takes those for granted)."""
    try:
        hash(weakref.ref(fun))
    except TypeError:
        return functools.partial(fun)
    return fun


class _Donating:
    """`call`, with the given-up arguments checked before and deleted after, so that every other path notices."""

    def __init__(self, spec: JitSpec, call: Any) -> None:
        functools.update_wrapper(self, spec.fun, updated=())
        self.spec, self._call = spec, call
        for name in stages.ATTRIBUTES:
            setattr(self, name, getattr(call, name))

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        spec, call = self.spec, self._call
        if now.trace is not EVALUATION or config.disable_jit.value:
            return call(*args, **kwargs)
        given = [x for i, a in enumerate(args) if i in spec.donate_argnums for x in trees.tree_leaves(a)]
        for k, v in kwargs.items():
            if spec.statics.position(k) in spec.donate_argnums:
                given += trees.tree_leaves(v)
        if len(args) + len(kwargs) > 1 or len(given) > 1:
            flat = trees.tree_leaves((args, kwargs))
            if len({*map(id, flat)}) != len(flat):
                gone = {*map(id, given)}
                safe_launch.check_donation("jit", spec.name, flat, [id(x) in gone for x in flat])
        return called_giving("jit", spec.name, call, given, args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> Any:
        return _pickled(self)

    def __repr__(self) -> str:
        return repr(self._call)


def called_giving(kind: str, name: str, call: Callable[..., Any], given: Sequence[Any], args: Any, kwargs: Any) -> Any:
    """`call(*args, **kwargs)`, after which the arrays in `given` are deleted."""
    given = [x for x in given if type(x) is ArrayImpl]
    with safe_launch.Giving(kind, name, given):
        if debug.wanted():
            with debug.keeping(given):
                out = call(*args, **kwargs)
        else:
            out = call(*args, **kwargs)
        for x in given:
            if x._readers is not None:
                safe_launch.forget_readers(x)
            _jaxlib.delete(x)
    return out


def _dress(call: Any, spec: JitSpec) -> None:
    """Name, docstring and the attributes `lower`, `trace`, `eval_shape`, `clear_cache`."""
    for name in functools.WRAPPER_ASSIGNMENTS:
        try:
            setattr(call, name, getattr(spec.fun, name))
        except AttributeError:
            pass
    call.__wrapped__ = spec.fun
    call.spec = spec


def _eval_shape(call: Any, *args: Any, **kwargs: Any) -> Any:
    staged, _ = stages.stage_types(call.spec, args, kwargs)
    return trees.tree_unflatten(staged.out_tree, [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type)
                                                  for a in staged.closed.out_avals])


def _pickled(call: Any) -> Any:
    spec = getattr(call, "spec", None)
    if not isinstance(spec, JitSpec):
        raise pickle.PicklingError(f"{call!r} cannot be pickled: pickle the function it was made of")
    return spec.pickled(call, _jitted_again)


def _jitted_again(fun: Callable[..., Any], options: dict[str, Any]) -> Any:
    """A jitted function out of a pickle."""
    return jit(fun, **options)


def _follow(option: config.Option | config.Generation) -> None:
    """Make what programs depend on part of every signature jaxlib keeps."""
    known = _jaxlib.x64_state if option is config.enable_x64 else _jaxlib.new_state(option.name, option.value)
    option.watch(_jaxlib.watch_into(known))


def install() -> None:
    """Give the call object its methods, and keep jaxlib's settings equal to ours."""
    kind = _jaxlib.PjitFunction
    kind.lower = boundary(lambda self, *args, **kwargs: stages.lower(self.spec, args, kwargs))
    kind.trace = boundary(lambda self, *args, **kwargs: stages.trace(self.spec, args, kwargs))
    kind.eval_shape = boundary(_eval_shape)
    kind.clear_cache = lambda self: (self._clear_cache(), self.spec.programs.clear())[0]
    copyreg.pickle(kind, _pickled)  # before jaxlib's own, which would pickle `miss`
    kind.__repr__ = lambda self: f"<jitted {getattr(self, '__name__', 'function')}>"
    slots.on_staging.append(_on_staging)
    config.disable_jit.watch(_jaxlib.watch_into(_jaxlib.disable_jit_state))
    config.watch_keyed(_follow)
