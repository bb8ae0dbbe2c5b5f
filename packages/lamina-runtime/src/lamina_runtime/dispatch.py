"""`jit` and `pmap` on jaxlib's C++ call object: the object people hold is that object, so a repeated call runs no Python.

jaxlib knows a call's signature (types, placements, static values, settings) and hands an unknown one to `miss`, which
stages, lowers, compiles, runs, and leaves behind what the next call needs. Traced arguments, and calls made while
another function is staged, come to `miss` each time and become an `xla_call` or `xla_pmap`.

Where launches of programs with collectives have to be counted (`safe_launch`), the object people hold always asks Python,
which asks a second object that does know the signature, and counts.
"""
from __future__ import annotations

import copyreg
import functools
import pickle
import weakref
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

from lamina_ir import config, trees
from lamina_ir.extend import has_keys, physical
from lamina_parallel.extend import seen_whole
from lamina_tracing import jit, slots
from lamina_tracing.extend import (EVALUATION, CallSpec, JitSpec, Tracer, any_traced, boundary, filter_traceback, now,
                                   translated)

from . import (_jaxlib, backends, compiling, debug, execution, host_errors, key_arrays, key_reuse, layouts, leaving, owner,
               pieces, placing, repeats, safe_launch, shardings, stages, together, transfer_guards)
from ._jaxlib import ArrayImpl
from .trees_cpp import CALLS

__all__ = ["call_object", "fallback", "install", "make_call"]

_cache = _jaxlib.PjitFunctionCache(capacity=compiling.MOST_PROGRAMS)
staging_state = _jaxlib.new_state("staging", None)
_bounds = config.debug_bounds


def _on_staging(begins: bool) -> None:
    staging_state.set_local(True if begins else _jaxlib.UNSET)


def fallback(x: Any, sharding: Any, layout: Any) -> Any:
    """jaxlib asks for an argument it cannot place itself."""
    return execution.place(x, sharding)


def call_object(name: str, fun: Callable[..., Any] | None, miss: Callable[..., Any], key: Any,
                static_argnums: Sequence[int] = (), static_argnames: Sequence[str] = (), cache: Any = _cache) -> Any:
    """jaxlib's callable: `miss(*args, **kwargs)` gives `(result, fast path or None, forget)` for a new signature."""
    return _jaxlib.pjit(name, fun, miss, list(static_argnums), list(static_argnames), key, CALLS, fallback, cache)


def make_call(spec: CallSpec) -> Callable[..., Any]:
    """The callable of a `jit` or a `pmap`."""
    if spec.device is not None and spec.backend is not None:
        raise ValueError(f"jit of `{spec.name}`: give device or backend, not both; got device={spec.device!r}, "
                         f"backend={spec.backend!r}")
    misses = _Misses(spec)
    call = misses.object("held", misses.held, misses.plain)
    call.misses = misses
    _dress(call, spec)
    held = call if isinstance(spec, JitSpec) else _explaining(spec, call, misses)
    return _Donating(spec, held) if spec.donate_argnums else held


class _Misses:
    """What a call object of `spec` asks for signatures it does not know. It holds no call object that people hold, and the one
    it holds does not hold it, so that all go when they are let go."""

    __slots__ = ("spec", "made_under", "wanted", "overrides", "window", "counted", "readers", "again", "__weakref__")

    def __init__(self, spec: CallSpec) -> None:
        self.spec = spec
        self.made_under = slots.dispatcher
        self.wanted = layouts.key_of(spec)
        self.overrides = compiling.overrides(spec.call, spec.compiler_options)
        self.window: Any = None   # set once a program whose launches are counted has been seen
        self.counted: Any = None  # the call object that runs those
        self.readers: list[Any] = []  # weak references to the call objects
        self.again: repeats.Repeats | None = None  # set once a program over several processes has been seen

    def object(self, which: str, miss: Any, plain: Any) -> Any:
        """A call object that asks `miss`; while jit is disabled jaxlib calls `plain`, if it is a map."""
        spec, statics = self.spec, self.spec.statics
        key = (self.made_under, which, spec.call, shardings.named(spec.known_by), statics.nums, statics.names,
               shardings.named(self.wanted), self.overrides)
        fun = _referable(spec.known_as) if isinstance(spec, JitSpec) else plain
        call = call_object(spec.name, fun, miss, key, sorted(statics.nums), sorted(statics.names))
        self.readers.append(weakref.ref(call))
        return call

    def forget(self) -> None:
        """Let the call objects ask again, and stage again."""
        for reader in self.readers:
            call = reader()
            if call is not None:
                call._clear_cache()
        self.again = None
        self.spec.programs.clear()

    def refused(self) -> None:
        """A call has raised."""
        owner.let_go(self.readers)
        backends.forget_closed()

    def plain(self, *args: Any, **kwargs: Any) -> Any:
        """What jaxlib calls while jit is disabled: a map is a map all the same."""
        return self.held(*args, **kwargs)[0]

    @boundary
    def held(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
        """For the object people hold."""
        spec = self.spec
        try:
            # The first way out: each op of `lamina_numpy` comes by here while a program is staged. Always where indices are
            # looked at, as checks have the line of the call.
            if spec.inline and slots.dispatcher is self.made_under:
                among = now.trace is not EVALUATION or spec.ours and _bounds.ever and _bounds.value
                for a in () if among else args:
                    if isinstance(a, Tracer):
                        among = True
                        break
                if among:
                    if leaving.staying:
                        leaving.stay()
                    return spec.fun(*args, **kwargs) if spec.ours else spec.inlined(args, kwargs), None, True
            if self.window is not None:
                if self.counted is None:
                    known: Any = functools.partial(_known, weakref.ref(self))
                    self.counted = self.object("counted", known, lambda *args, **kwargs: known(*args, **kwargs)[0])
                return self.launched(self.counted(*args, **kwargs)), None, False
            if self.again is not None and (found := self.repeated(args, kwargs)) is not None:
                return found[0], None, False
            return self.answer(args, kwargs)
        except BaseException:
            self.refused()
            raise

    def repeated(self, args: Any, kwargs: Any) -> tuple[Any] | None:
        """(the result,) of a call over several processes that is like one before; None for others."""
        if (now.trace is not EVALUATION or leaving.staying or slots.dispatcher is not self.made_under
                or config.disable_jit.value or self.again is None):
            return None
        found = self.again.find(args, kwargs)
        if found is None:
            return None
        program, flat, out_tree = found
        try:
            return out_tree.unflatten(program.run(flat)),
        except _jaxlib.JaxRuntimeError as e:
            raise execution.failure(self.spec.call, self.spec.name, e) from e

    def launched(self, out: Any) -> Any:
        """The result of a call of `counted`, whose launch is counted here."""
        if now.trace is EVALUATION:
            self.window.passed((out,) if type(out) is ArrayImpl else
                               [x for x in CALLS.flatten(out)[0] if type(x) is ArrayImpl])
        return out

    def answer(self, args: Any, kwargs: Any, counted: bool = False) -> tuple[Any, Any, bool]:
        """What the call gives, what lets jaxlib run the signature by itself, and whether it must forget it, as the next call
        may not be like this one. From the cheapest way out to the dearest, but for the first one, in `held`.

        `counted` says that who asks runs what is counted."""
        spec, kind = self.spec, self.spec.call
        if leaving.staying:
            leaving.stay()
        if slots.dispatcher is not self.made_under:  # another one has moved in since
            return spec.called_by(slots.dispatcher)(*args, **kwargs), None, True
        others = config.generation.elsewhere()
        flat, tree, static = spec.split(args, kwargs)
        if spec.inline and any_traced(flat):
            return spec.inlined(args, kwargs), None, True
        if together.joined:
            with seen_whole(flat):
                staged = spec.stage_call(args, kwargs, flat, tree, static)
        else:
            staged = spec.stage_call(args, kwargs, flat, tree, static)
        donated = spec.donated(args, kwargs)
        layout = None if self.wanted is None else layouts.layout_of(spec, staged, tree)
        if (now.trace is not EVALUATION or staged.outer or staged.closed.jaxpr.axis_names
                or any_traced(flat)):
            if self.overrides:
                raise ValueError(f"jit of `{spec.name}`: compiler_options are for whole programs; this call is part of another "
                                 "one. Give them to the outermost jit")
            if layout is not None:
                return layouts.call_inside(spec, staged, layout, flat, donated), None, True
            return spec.call_staged(staged, flat, donated), None, True
        words = functools.partial(spec.argument, tree)
        logical, keyed = staged.closed, has_keys(staged.closed)
        looked = key_reuse.entered(logical, flat, spec.ours) if keyed else None
        if keyed:
            staged, flat = staged._replace(closed=physical(logical)), key_arrays.opened(flat)
            layout = None if layout is None else layouts.layout_of(spec, staged, tree)
            keyed = not key_arrays.plain(logical)
        safe_launch.check_usable(kind, spec.name, flat, words)
        given = flat
        if layout is not None:
            flat = layout.placed(spec, flat)
        cut = layout is None and pieces.in_pieces(staged.closed)
        place = None if cut else placing.placement_of(kind, spec.name, staged.closed, flat, donated, spec.device, spec.backend,
                                                      layout, lambda: spec.rows(staged, tree), words)
        try:
            program = (pieces.Pieces(kind, spec.name, staged.closed, flat, words, self.overrides) if place is None else
                       execution.program_for(kind, staged.closed, spec.name, place, spec.keep_unused, self.overrides))
            if donated:
                safe_launch.check_donation(kind, spec.name, flat, donated, words)
            if transfer_guards.used and spec.ours:
                with transfer_guards.for_numbers(flat):
                    outs = program.run(flat, layout)
            else:
                outs = program.run(flat, layout)
        except _jaxlib.JaxRuntimeError as e:
            raise execution.failure(kind, spec.name, e) from e
        if keyed:
            outs = key_arrays.closed_again(outs, logical.out_avals)
        if looked is not None:
            looked.ended(outs)
        result = trees.tree_unflatten(staged.out_tree, outs)
        if (looked is not None or keyed and program.together is not None
                or layout is not None and any(x is not y for x, y in zip(flat, given))):
            return result, None, False  # jaxlib cannot move arguments between devices by itself
        if program.const_args:
            for reader in self.readers:
                safe_launch.read_by(program.const_args, reader)
        if program.window is not None:
            self.window = program.window
        changed = others != config.generation.elsewhere()
        if transfer_guards.used and spec.ours and transfer_guards.is_set():
            return result, None, changed  # jaxlib tells a number from an array no more than it is told to
        if program.together is not None and layout is None and not spec.statics.nums and not spec.statics.names and not changed:
            self.again = self.again or repeats.Repeats()
            self.again.note(args, kwargs, flat, program, staged.out_tree)
        out_tree = CALLS.flatten(result)[1] if keyed else staged.out_tree
        return result, program.fast_path(flat, out_tree, layout) if counted or self.window is None else None, changed


@boundary
def _known(misses: Any, /, *args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
    """For the object behind that of `misses`, a weak reference, that runs what is counted."""
    try:
        return misses().answer(args, kwargs, True)
    except BaseException:
        misses().refused()
        raise


def _explaining(spec: CallSpec, call: Any, misses: _Misses) -> Callable[..., Any]:
    """`call`, whose own errors, about what it is given and about launches, are told in our words: a launch on many devices
    takes so long that a Python function around it is not noticed."""
    def mapped(*args: Any, **kwargs: Any) -> Any:
        try:
            if misses.again is not None and (found := misses.repeated(args, kwargs)) is not None:
                return found[0]
            counted = misses.counted
            return call(*args, **kwargs) if counted is None else misses.launched(counted(*args, **kwargs))
        except Exception as e:
            if host_errors.is_failed_launch(e):
                raise execution.failure(spec.call, spec.name, e) from e
            ours = translated(e, f"{spec.call} of `{spec.name}`", args, kwargs, spec.statics)
            filter_traceback(ours)
            if ours is not e:
                raise ours from None
            raise

    functools.update_wrapper(mapped, spec.fun, updated=())
    mapped.spec = spec  # type: ignore[attr-defined]
    for name in stages.ATTRIBUTES:
        setattr(mapped, name, getattr(call, name))
    mapped._cache_size = lambda: call._cache_size()  # type: ignore[attr-defined]
    return mapped


def _referable(fun: Callable[..., Any]) -> Callable[..., Any]:
    """`fun`, or what stands for it where it cannot be a weak key (jaxlib's table takes those for granted)."""
    try:
        hash(weakref.ref(fun))
    except TypeError:
        return functools.partial(fun)
    return fun


class _Donating:
    """`call`, with the given-up arguments checked before and deleted after, so that every other path notices."""

    def __init__(self, spec: CallSpec, call: Any) -> None:
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
                self._check(args, kwargs)
        return _called_giving(spec, call, given, args, kwargs)

    def _check(self, args: Any, kwargs: Any) -> None:
        """Something is passed twice."""
        spec = self.spec
        flat, tree, _ = spec.split(args, kwargs)
        words = functools.partial(spec.argument, tree)
        safe_launch.check_donation(spec.call, spec.name, flat, spec.donated(args, kwargs), words)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> Any:
        return _pickled(self)

    def __repr__(self) -> str:
        return repr(self._call)


def _called_giving(spec: CallSpec, call: Callable[..., Any], given: Sequence[Any], args: Any, kwargs: Any) -> Any:
    """`call(*args, **kwargs)`, after which the arrays in `given` are deleted."""
    given = [x for x in key_arrays.opened(given) if type(x) is ArrayImpl]

    def words(i: int) -> str:
        flat, tree, _ = spec.split(args, kwargs)
        return spec.argument(tree, next(n for n, x in enumerate(key_arrays.opened(flat)) if x is given[i]))

    with safe_launch.Giving(spec.call, spec.name, given, words):
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


def _dress(call: Any, spec: CallSpec) -> None:
    """Name, docstring and the attributes `lower`, `trace`, `eval_shape`, `clear_cache`."""
    for name in functools.WRAPPER_ASSIGNMENTS:
        try:
            setattr(call, name, getattr(spec.fun, name))
        except AttributeError:
            pass
    call.__wrapped__ = spec.fun
    call.spec = spec


def _eval_shape(call: Any, *args: Any, **kwargs: Any) -> Any:
    return stages.trace(call.spec, args, kwargs).out_info


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


def _text_of(call: Any) -> str:
    jitted = isinstance(getattr(call, "spec", None), JitSpec | None)
    return f"<{'jitted' if jitted else 'mapped'} {getattr(call, '__name__', 'function')}>"


def install() -> None:
    """Give the call object its methods, and keep jaxlib's settings equal to ours."""
    kind = _jaxlib.PjitFunction
    kind.lower = boundary(lambda self, *args, **kwargs: stages.lower(self.spec, args, kwargs))
    kind.trace = boundary(lambda self, *args, **kwargs: stages.trace(self.spec, args, kwargs))
    kind.eval_shape = boundary(_eval_shape)
    kind.clear_cache = lambda self: self.misses.forget()
    copyreg.pickle(kind, _pickled)  # before jaxlib's own, which would pickle `miss`
    kind.__repr__ = _text_of
    slots.on_staging.append(_on_staging)
    config.disable_jit.watch(_jaxlib.watch_into(_jaxlib.disable_jit_state))
    _follow(execution.no_execution)  # jaxlib forgets nothing, and asks while it is set
    config.watch_keyed(_follow)
