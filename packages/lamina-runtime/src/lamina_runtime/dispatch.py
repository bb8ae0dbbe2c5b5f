"""Implement `jit` and `pmap` with jaxlib's C++ call object, so that a repeated call runs no Python.

The C++ object caches calls by their signature: types, shardings, static values and settings. For an unknown signature
it calls `miss`, which traces, lowers, compiles and runs the program, and returns the data for the C++ fast path. Calls
with tracers, and calls made while another function is traced, reach `miss` each time and become an `xla_call` or
`xla_pmap` equation.

Launches of programs with collectives must be counted (`launch_guards`). For these, the user's call object always calls
Python. Python then calls a second call object that has the fast path, and counts the launch.
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

from . import (_jaxlib, backends, compiling, debug, execution, host_errors, key_arrays, key_reuse, layouts, leaving,
               owner, pieces, placing, repeats, safe_launch, shardings, stages, together, transfer_guards)
from ._jaxlib import ArrayImpl
from .trees_cpp import CALLS

__all__ = ["call_object", "fallback", "install", "make_call"]

_cache = _jaxlib.PjitFunctionCache(capacity=compiling.MOST_PROGRAMS)
staging_state = _jaxlib.new_state("staging", None)
_debug_bounds = config.debug_bounds


def _note_staging(begins: bool) -> None:
    staging_state.set_local(True if begins else _jaxlib.UNSET)


def fallback(x: Any, sharding: Any, layout: Any) -> Any:
    """Place an argument that jaxlib cannot place itself."""
    return execution.place(x, sharding)


def call_object(name: str, fun: Callable[..., Any] | None, miss: Callable[..., Any], key: Any,
                static_argnums: Sequence[int] = (), static_argnames: Sequence[str] = (), cache: Any = _cache) -> Any:
    """Make a C++ call object.

    `miss(*args, **kwargs)` is called for a new signature. It returns (result, fast path or None, whether to evict the
    signature from the C++ cache).
    """
    return _jaxlib.pjit(name, fun, miss, list(static_argnums), list(static_argnames), key, CALLS, fallback, cache)


def make_call(spec: CallSpec) -> Callable[..., Any]:
    """Make the callable of a `jit` or a `pmap`."""
    if spec.device is not None and spec.backend is not None:
        raise ValueError(f"jit of `{spec.name}`: give device or backend, not both; got device={spec.device!r}, "
                         f"backend={spec.backend!r}")
    miss_handler = _Misses(spec)
    call = miss_handler.add_call_object("held", miss_handler.held, miss_handler.call_undispatched)
    call.miss_handler = miss_handler
    _copy_metadata(call, spec)
    user_call = call if isinstance(spec, JitSpec) else _with_clear_errors(spec, call, miss_handler)
    return _DonatingCall(spec, user_call) if spec.donate_argnums else user_call


class _Misses:
    """Handles cache misses of the call objects of `spec`.

    It refers to the user's call object only weakly, and the counting call object refers to it only weakly. So there is
    no reference cycle, and all are freed as soon as the user drops the function.

    Attributes:
      dispatcher: the dispatcher under which the function was made.
      shardings_key: cache key of in_shardings and out_shardings; None if there are none.
      compiler_options: the compiler options, as (name, value) pairs.
      window: the window that counts launches; set at the first program with collectives.
      counting_call: the call object with the fast path for counted launches; made when first needed.
      call_refs: weak references to the call objects.
      multi_process_calls: cache of calls over several processes; set at the first such program.
    """

    __slots__ = ("spec", "dispatcher", "shardings_key", "compiler_options", "window", "counting_call", "call_refs",
                 "multi_process_calls", "__weakref__")

    def __init__(self, spec: CallSpec) -> None:
        self.spec = spec
        self.dispatcher = slots.dispatcher
        self.shardings_key = layouts.key_of(spec)
        self.compiler_options = compiling.overrides(spec.call, spec.compiler_options)
        self.window: Any = None
        self.counting_call: Any = None
        self.call_refs: list[Any] = []
        self.multi_process_calls: repeats.Repeats | None = None

    def add_call_object(self, which: str, miss: Any, plain: Any) -> Any:
        """Make a call object that calls `miss`, and register it.

        While jit is disabled, jaxlib calls `plain` instead if it is a map.
        """
        spec, statics = self.spec, self.spec.statics
        key = (self.dispatcher, which, spec.call, shardings.named(spec.known_by), statics.nums, statics.names,
               shardings.named(self.shardings_key), self.compiler_options)
        fun = _weak_referenceable(spec.known_as) if isinstance(spec, JitSpec) else plain
        call = call_object(spec.name, fun, miss, key, sorted(statics.nums), sorted(statics.names))
        self.call_refs.append(weakref.ref(call))
        return call

    def clear(self) -> None:
        """Drop the cached signatures and traced programs."""
        for call_ref in self.call_refs:
            call = call_ref()
            if call is not None:
                call._clear_cache()
        self.multi_process_calls = None
        self.spec.programs.clear()

    def refused(self) -> None:
        """Clear the caches of the call objects after a call raised, and evict devices of closed clients."""
        owner.let_go(self.call_refs)
        backends.forget_closed()

    def call_undispatched(self, *args: Any, **kwargs: Any) -> Any:
        """Run a map while jit is disabled: maps still run as maps. jaxlib calls this directly."""
        return self.held(*args, **kwargs)[0]

    @boundary
    def held(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
        """Handle a miss of the user's call object."""
        spec = self.spec
        try:
            # First early exit, as cheap as possible because every function of `lamina_numpy` takes it while a program
            # is traced. Library functions also take it if debug_bounds is on, so that its errors have the line of the
            # call.
            if spec.inline and slots.dispatcher is self.dispatcher:
                call_inline = now.trace is not EVALUATION or spec.ours and _debug_bounds.ever and _debug_bounds.value
                for a in () if call_inline else args:
                    if isinstance(a, Tracer):
                        call_inline = True
                        break
                if call_inline:
                    if leaving.staying:
                        leaving.stay()
                    return spec.fun(*args, **kwargs) if spec.ours else spec.inlined(args, kwargs), None, True
            if self.window is not None:
                if self.counting_call is None:
                    on_miss: Any = functools.partial(_on_counted_miss, weakref.ref(self))
                    self.counting_call = self.add_call_object("counted", on_miss,
                                                              lambda *args, **kwargs: on_miss(*args, **kwargs)[0])
                return self.launched(self.counting_call(*args, **kwargs)), None, False
            if self.multi_process_calls is not None and (found := self.run_repeated(args, kwargs)) is not None:
                return found[0], None, False
            return self.answer(args, kwargs)
        except BaseException:
            self.refused()
            raise

    def run_repeated(self, args: Any, kwargs: Any) -> tuple[Any] | None:
        """Return (result,) of a multi-process call with a cached signature; None for other calls."""
        if (now.trace is not EVALUATION or leaving.staying or slots.dispatcher is not self.dispatcher
                or config.disable_jit.value or self.multi_process_calls is None):
            return None
        found = self.multi_process_calls.find(args, kwargs)
        if found is None:
            return None
        program, flat, out_tree = found
        try:
            return out_tree.unflatten(program.run(flat)),
        except _jaxlib.JaxRuntimeError as e:
            raise execution.failure(self.spec.call, self.spec.name, e) from e

    def launched(self, out: Any) -> Any:
        """Count the launch of a call of `counting_call`, and return its result."""
        if now.trace is EVALUATION:
            self.window.passed((out,) if type(out) is ArrayImpl else
                               [x for x in CALLS.flatten(out)[0] if type(x) is ArrayImpl])
        return out

    def answer(self, args: Any, kwargs: Any, counted: bool = False) -> tuple[Any, Any, bool]:
        """Return (result, fast path or None, whether to evict the signature).

        Early exits are ordered from cheapest to most expensive; the first one is in `on_user_call`. A signature is
        evicted if the next call with it may need other treatment.

        Args:
          args, kwargs: the arguments of the call.
          counted: whether the counting call object asks; only that one gets a fast path for counted launches.
        """
        spec, kind = self.spec, self.spec.call
        if leaving.staying:
            leaving.stay()
        if slots.dispatcher is not self.dispatcher:  # replaced since the function was made
            return spec.called_by(slots.dispatcher)(*args, **kwargs), None, True
        changes_before = config.generation.elsewhere()
        flat, tree, static = spec.split(args, kwargs)
        if spec.inline and any_traced(flat):
            return spec.inlined(args, kwargs), None, True
        if together.joined:
            with seen_whole(flat):
                staged = spec.stage_call(args, kwargs, flat, tree, static)
        else:
            staged = spec.stage_call(args, kwargs, flat, tree, static)
        donated = spec.donated(args, kwargs)
        user_shardings = None if self.shardings_key is None else layouts.layout_of(spec, staged, tree)
        if (now.trace is not EVALUATION or staged.outer or staged.closed.jaxpr.axis_names
                or any_traced(flat)):
            if self.compiler_options:
                raise ValueError(f"jit of `{spec.name}`: compiler_options apply to a whole program, but this call is "
                                 "inside another program. Pass them to the outermost jit")
            if user_shardings is not None:
                return layouts.call_inside(spec, staged, user_shardings, flat, donated), None, True
            return spec.call_staged(staged, flat, donated), None, True
        format_arg = functools.partial(spec.argument, tree)
        keyed_program, has_key_values = staged.closed, has_keys(staged.closed)
        reuse_check = key_reuse.entered(keyed_program, flat, spec.ours) if has_key_values else None
        if has_key_values:
            staged, flat = staged._replace(closed=physical(keyed_program)), key_arrays.opened(flat)
            user_shardings = None if user_shardings is None else layouts.layout_of(spec, staged, tree)
            has_key_values = not key_arrays.plain(keyed_program)
        safe_launch.check_usable(kind, spec.name, flat, format_arg)
        args_before = flat
        if user_shardings is not None:
            flat = user_shardings.placed(spec, flat)
        is_piecewise = user_shardings is None and pieces.in_pieces(staged.closed)
        placement = None if is_piecewise else placing.placement_of(
            kind, spec.name, staged.closed, flat, donated, spec.device, spec.backend, user_shardings,
            lambda: spec.rows(staged, tree), format_arg)
        try:
            program = (pieces.Pieces(kind, spec.name, staged.closed, flat, format_arg, self.compiler_options)
                       if placement is None else
                       execution.program_for(kind, staged.closed, spec.name, placement, spec.keep_unused,
                                             self.compiler_options))
            if donated:
                safe_launch.check_donation(kind, spec.name, flat, donated, format_arg)
            if transfer_guards.used and spec.ours:
                with transfer_guards.for_numbers(flat):
                    outs = program.run(flat, user_shardings)
            else:
                outs = program.run(flat, user_shardings)
        except _jaxlib.JaxRuntimeError as e:
            raise execution.failure(kind, spec.name, e) from e
        if has_key_values:
            outs = key_arrays.closed_again(outs, keyed_program.out_avals)
        if reuse_check is not None:
            reuse_check.ended(outs)
        result = trees.tree_unflatten(staged.out_tree, outs)
        if (reuse_check is not None or has_key_values and program.together is not None
                or user_shardings is not None and any(x is not y for x, y in zip(flat, args_before))):
            return result, None, False  # no fast path: jaxlib cannot reshard arguments, or check keys
        if program.const_args:
            for call_ref in self.call_refs:
                safe_launch.read_by(program.const_args, call_ref)
        if program.window is not None:
            self.window = program.window
        # If another thread has changed a setting meanwhile, jaxlib must not cache the call under the new settings.
        changed = changes_before != config.generation.elsewhere()
        if transfer_guards.used and spec.ours and transfer_guards.is_set():
            return result, None, changed  # no fast path: jaxlib's guards treat scalars like arrays
        if (program.together is not None and user_shardings is None and not spec.statics.nums
                and not spec.statics.names and not changed):
            self.multi_process_calls = self.multi_process_calls or repeats.Repeats()
            self.multi_process_calls.note(args, kwargs, flat, program, staged.out_tree)
        out_tree = CALLS.flatten(result)[1] if has_key_values else staged.out_tree
        fast_path = program.fast_path(flat, out_tree, user_shardings) if counted or self.window is None else None
        return result, fast_path, changed


@boundary
def _on_counted_miss(handler_ref: Any, /, *args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
    """Handle a miss of the counting call object; `handler_ref` is a weak reference to the miss handler."""
    try:
        return handler_ref().answer(args, kwargs, True)
    except BaseException:
        handler_ref().refused()
        raise


def _with_clear_errors(spec: CallSpec, call: Any, miss_handler: _Misses) -> Callable[..., Any]:
    """Wrap a mapped function to convert errors that jaxlib raises without `miss`: bad arguments and failed launches.

    A launch on many devices takes so long that the extra Python call is not measurable.
    """
    def mapped(*args: Any, **kwargs: Any) -> Any:
        try:
            if miss_handler.multi_process_calls is not None:
                found = miss_handler.run_repeated(args, kwargs)
                if found is not None:
                    return found[0]
            counted = miss_handler.counting_call
            return call(*args, **kwargs) if counted is None else miss_handler.launched(counted(*args, **kwargs))
        except Exception as e:
            if host_errors.is_failed_launch(e):
                raise execution.failure(spec.call, spec.name, e) from e
            clear_error = translated(e, f"{spec.call} of `{spec.name}`", args, kwargs, spec.statics)
            filter_traceback(clear_error)
            if clear_error is not e:
                raise clear_error from None
            raise

    functools.update_wrapper(mapped, spec.fun, updated=())
    mapped.spec = spec  # type: ignore[attr-defined]
    for name in stages.ATTRIBUTES:
        setattr(mapped, name, getattr(call, name))
    mapped._cache_size = lambda: call._cache_size()  # type: ignore[attr-defined]
    return mapped


def _weak_referenceable(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return `fun`, or a partial of it if `fun` does not support weak references or hashing.

    jaxlib's cache uses the function as a weak key without checking.
    """
    try:
        hash(weakref.ref(fun))
    except TypeError:
        return functools.partial(fun)
    return fun


class _DonatingCall:
    """A call object that checks donated arguments before the call and deletes them after it.

    XLA may leave a donated buffer unused. The arrays are deleted in any case, so that later uses raise on every path.
    """

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
        donated = [x for i, a in enumerate(args) if i in spec.donate_argnums for x in trees.tree_leaves(a)]
        for k, v in kwargs.items():
            if spec.statics.position(k) in spec.donate_argnums:
                donated += trees.tree_leaves(v)
        if len(args) + len(kwargs) > 1 or len(donated) > 1:
            flat = trees.tree_leaves((args, kwargs))
            if len({*map(id, flat)}) != len(flat):
                self._check(args, kwargs)
        return _call_and_delete_donated(spec, call, donated, args, kwargs)

    def _check(self, args: Any, kwargs: Any) -> None:
        """Raise an error if a donated array is passed twice. Called only if some array is passed twice."""
        spec = self.spec
        flat, tree, _ = spec.split(args, kwargs)
        format_arg = functools.partial(spec.argument, tree)
        safe_launch.check_donation(spec.call, spec.name, flat, spec.donated(args, kwargs), format_arg)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> Any:
        return _reduce(self)

    def __repr__(self) -> str:
        return repr(self._call)


def _call_and_delete_donated(spec: CallSpec, call: Callable[..., Any], donated: Sequence[Any], args: Any,
                             kwargs: Any) -> Any:
    """Call a function, then delete the donated arrays."""
    donated = [x for x in key_arrays.opened(donated) if type(x) is ArrayImpl]

    def format_arg(i: int) -> str:
        flat, tree, _ = spec.split(args, kwargs)
        return spec.argument(tree, next(n for n, x in enumerate(key_arrays.opened(flat)) if x is donated[i]))

    with safe_launch.Giving(spec.call, spec.name, donated, format_arg):
        if debug.wanted():
            with debug.keeping(donated):
                out = call(*args, **kwargs)
        else:
            out = call(*args, **kwargs)
        for x in donated:
            if x._readers is not None:
                safe_launch.forget_readers(x)
            _jaxlib.delete(x)
    return out


def _copy_metadata(call: Any, spec: CallSpec) -> None:
    """Copy name, docstring and other metadata of the user's function to the call object."""
    for name in functools.WRAPPER_ASSIGNMENTS:
        try:
            setattr(call, name, getattr(spec.fun, name))
        except AttributeError:
            pass
    call.__wrapped__ = spec.fun
    call.spec = spec


def _eval_shape(call: Any, *args: Any, **kwargs: Any) -> Any:
    return stages.trace(call.spec, args, kwargs).out_info


def _reduce(call: Any) -> Any:
    spec = getattr(call, "spec", None)
    if not isinstance(spec, JitSpec):
        raise pickle.PicklingError(f"{call!r} cannot be pickled: pickle the function it was made of")
    return spec.pickled(call, _restore_jitted)


def _restore_jitted(fun: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Restore a jitted function from a pickle."""
    return jit(fun, **options)


def _add_to_signature(option: config.Option | config.Generation) -> None:
    """Make a setting that programs depend on part of every signature in jaxlib's cache."""
    state = _jaxlib.x64_state if option is config.enable_x64 else _jaxlib.new_state(option.name, option.value)
    option.watch(_jaxlib.watch_into(state))


def _repr(call: Any) -> str:
    jitted = isinstance(getattr(call, "spec", None), JitSpec | None)
    return f"<{'jitted' if jitted else 'mapped'} {getattr(call, '__name__', 'function')}>"


def install() -> None:
    """Add methods to the call object class, and mirror the settings into jaxlib."""
    call_class = _jaxlib.PjitFunction
    call_class.lower = boundary(lambda self, *args, **kwargs: stages.lower(self.spec, args, kwargs))
    call_class.trace = boundary(lambda self, *args, **kwargs: stages.trace(self.spec, args, kwargs))
    call_class.eval_shape = boundary(_eval_shape)
    call_class.clear_cache = lambda self: self.miss_handler.clear()
    copyreg.pickle(call_class, _reduce)  # replaces jaxlib's own, which would pickle `miss`
    call_class.__repr__ = _repr
    slots.on_staging.append(_note_staging)
    config.disable_jit.watch(_jaxlib.watch_into(_jaxlib.disable_jit_state))
    _add_to_signature(execution.no_execution)  # a key, so that jaxlib's fast path misses while it is set
    config.watch_keyed(_add_to_signature)
