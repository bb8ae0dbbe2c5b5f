"""Implement `jit` and `pmap` with jaxlib's C++ call object, so that a repeated call runs no Python.

The C++ object caches calls by their signature: types, shardings, static values and settings. For an unknown signature
it calls `miss`, which traces, lowers, compiles and runs the program, and returns the data for the C++ fast path. Calls
with tracers, and calls made while another function is traced, reach `miss` each time and become an `xla_call` or
`xla_pmap` equation.

Programs on several devices are launched under a lock (`launch_guards`). For these, the user's call object always calls
Python. Python then calls a second, inner call object that has the fast path, with the lock held.
"""
from __future__ import annotations

import copyreg
import functools
import inspect
import pickle
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import MethodType
from typing import Any, NamedTuple, TypeAlias

from lamina_ir import ClosedJaxpr, config, trees
from lamina_ir.extend import Placement, collect_facts
from lamina_parallel.extend import global_view
from lamina_tracing import jit, hooks
from lamina_tracing.extend import (EVALUATION, CallSpec, JitSpec, StagedProgram, Tracer, contains_tracer, api_boundary,
                                   explicit_meshes, filter_traceback, trace_state, translate_error, wraps)
from lamina_ir.typing import CacheKey, Function, Outputs, Sharding, StaticValue, Tree, Value
from lamina_ir.extend.unchecked import lower_keys
from typing_extensions import override
from lamina_ir.trees import PyTreeDef

from .. import _jaxlib
from .._backend import backends, client_state, error_translation, launch_guards, shutdown, transfer_guard
from .._compile import executable_cache, lowering
from .._debug import nan_checks
from .._execute import executable, piecewise
from .._array import key_array, key_reuse_check
from . import (donation_warnings, explicit_types, multi_process_call_cache, stages,
               user_shardings as dispatch_user_shardings)
from .._placement import resolve
from .._sharding import shardings
from .._launch import process_group
from .._jaxlib import ArrayImpl
from .._jaxlib.pytree_registry import CALL_REGISTRY
from .._typing import Array, CallObject, SignatureCache

__all__ = ["build_call", "install", "make_call_object", "place_unhandled_arg"]

_cache = _jaxlib.PjitFunctionCache(capacity=executable_cache.MAX_PROGRAMS)
staging_state = _jaxlib.new_state("staging", None)
_debug_bounds = config.debug_bounds
# The result of a `miss` function: (result of the call, fast path or None, whether to evict the signature).
MissResult: TypeAlias = tuple[Outputs, "executable.FastPath | None", bool]


def _note_staging(begins: bool) -> None:
    staging_state.set_local(True if begins else _jaxlib.UNSET)


def place_unhandled_arg(x: Value, sharding: Sharding, layout: object) -> Array:
    """Place an argument that jaxlib cannot place itself."""
    return executable.place_arg(x, sharding)


def make_call_object(name: str, fun: Function | None, miss: Function, key: CacheKey, static_argnums: Sequence[int] = (),
                     static_argnames: Sequence[str] = (), cache: SignatureCache = _cache) -> CallObject:
    """Make a C++ call object.

    `miss(*args, **kwargs)` is called for a new signature. It returns (result, fast path or None, whether to evict the
    signature from the C++ cache).
    """
    return _jaxlib.pjit(name, fun, miss, list(static_argnums), list(static_argnames), key, CALL_REGISTRY,
                        place_unhandled_arg, cache)


def build_call(spec: CallSpec) -> Function:
    """Make the callable of a `jit` or a `pmap`."""
    if spec.device is not None and spec.backend is not None:
        raise ValueError(f"jit of `{spec.name}`: give device or backend, not both; got device={spec.device!r}, "
                         f"backend={spec.backend!r}")
    miss_handler = _CacheMissHandler(spec)
    call = miss_handler.add_call_object("held", miss_handler.on_user_call, miss_handler.call_undispatched)
    call.miss_handler = miss_handler
    _copy_metadata(call, spec)
    user_call = call if isinstance(spec, JitSpec) else _wrap_errors(spec, call, miss_handler)
    # By the module, because the folders of higher packages are not known yet when their functions are made.
    is_library = (getattr(spec.fun, "__module__", None) or "").startswith("lamina")
    if isinstance(spec, JitSpec) and spec.statics.any and not is_library:
        user_call = _StaticCall(spec, user_call)
    return _DonatingCall(spec, user_call) if spec.donate_argnums else user_call


class _BoundCall(NamedTuple):
    """A call with its devices.

    Attributes:
      staged: the traced program, without keys.
      flat: its arguments, without keys, and moved to the user's shardings.
      donated: for each argument whether its memory may be reused; (): none.
      user_shardings: those of arguments and results, or None.
      placement: devices and shardings; None if the program runs as several executables.
      format_arg: returns the name of an argument, by its flat index.
      keyed_program: the program with keys, if an argument or result is a key; else None.
      reuse_check: the check of key reuse that began with the call, or None.
      has_moved_args: whether an argument was moved to the user's shardings.
    """

    staged: StagedProgram
    flat: Sequence[Value]
    donated: tuple[bool, ...]
    user_shardings: dispatch_user_shardings.UserShardings | None
    placement: Placement | None
    format_arg: Callable[[int], str]
    keyed_program: ClosedJaxpr | None
    reuse_check: key_reuse_check.CheckedCall | None
    has_moved_args: bool


class _CacheMissHandler:
    """Handles cache misses of the call objects of `spec`.

    It refers to the user's call object only weakly, and the inner call object refers to it only weakly. So there is
    no reference cycle, and all are freed as soon as the user drops the function.

    Attributes:
      dispatcher: the dispatcher under which the function was made.
      shardings_key: cache key of in_shardings and out_shardings; None if there are none.
      compiler_options: the compiler options, as (name, value) pairs.
      window: the window of launches on several devices; set at the first such program.
      inner_call: a window, and the call object with the fast path for launches in it; made when first needed.
      new_fast_paths: thread -> fast path of a program on one device, which `inner_call` has just handled.
      call_refs: weak references to the call objects.
      multi_process_calls: cache of calls over several processes; set at the first such program.
    """

    __slots__ = ("spec", "dispatcher", "shardings_key", "compiler_options", "window", "inner_call", "call_refs",
                 "new_fast_paths", "multi_process_calls", "__weakref__")

    def __init__(self, spec: CallSpec) -> None:
        self.spec = spec
        self.dispatcher = hooks.dispatcher
        has_shardings = spec.in_shardings is not None or spec.out_shardings is not None
        self.shardings_key = dispatch_user_shardings.get_shardings_key(spec) if has_shardings else None
        self.compiler_options = executable_cache.check_compiler_options(spec.call, spec.compiler_options)
        self.window: Any = None
        self.inner_call: tuple[Any, CallObject] = None, None
        self.new_fast_paths: dict[int, executable.FastPath | None] = {}
        self.call_refs: list[weakref.ref[CallObject]] = []
        self.multi_process_calls: multi_process_call_cache.CallCache | None = None

    def add_call_object(self, which: str, miss: Function, plain: Function) -> CallObject:
        """Make a call object that calls `miss`, and register it.

        While jit is disabled, jaxlib calls `plain` instead if it is a map.
        """
        spec, statics = self.spec, self.spec.statics
        # Call objects of one function with equal keys share one C++ cache, so the key has everything that changes
        # what a call does. Shardings are in a form that does not keep clients alive.
        key = (self.dispatcher, which, spec.call, shardings.sharding_key(spec.options_key), statics.nums, statics.names,
               shardings.sharding_key(self.shardings_key), self.compiler_options)
        # jaxlib finds the cache of a call object by this function. For a map it is a new one, so its cache is its
        # own.
        fun = _make_weak_referenceable(spec.function_key) if isinstance(spec, JitSpec) else plain
        call = make_call_object(spec.name, fun, miss, key, sorted(statics.nums), sorted(statics.names))
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

    def on_error(self) -> None:
        """Clear the caches of the call objects after a call raised, and evict devices of closed clients."""
        self.new_fast_paths.clear()  # else a later call with another signature would take one
        client_state.clear_call_caches(self.call_refs)
        backends.evict_closed_devices()

    def call_undispatched(self, *args: Tree, **kwargs: Tree) -> Tree:
        """Run a map while jit is disabled: maps still run as maps. jaxlib calls this directly."""
        return self.on_user_call(*args, **kwargs)[0]

    @api_boundary
    def on_user_call(self, *args: Tree, **kwargs: Tree) -> MissResult:
        """Handle a miss of the user's call object."""
        spec = self.spec
        try:
            # First early exit, as cheap as possible because every function of `lamina_numpy` takes it while a program
            # is traced. Library functions also take it if debug_bounds is on, so that its errors have the line of the
            # call.
            if spec.inline and hooks.dispatcher is self.dispatcher:
                call_inline = (trace_state.trace is not EVALUATION
                               or spec.is_library_function and _debug_bounds.ever_enabled and _debug_bounds.value)
                for a in () if call_inline else args:
                    if isinstance(a, Tracer):
                        call_inline = True
                        break
                if call_inline:
                    if shutdown.blocked_threads:
                        shutdown.block_thread()
                    return spec.fun(*args, **kwargs) if spec.is_library_function else spec.inline_call(args, kwargs), None, True
            # Launches on several devices need a lock, so the user's call object has no fast path for them.
            if self.window is not None:
                out = self.call_inner(args, kwargs)
                return out, self.new_fast_paths.pop(threading.get_ident(), None) if self.new_fast_paths else None, False
            if self.multi_process_calls is not None and (found := self.run_repeated(args, kwargs)) is not None:
                return found[0], None, False
            return self.compile_and_run(args, kwargs)
        except BaseException:
            # jaxlib keeps the entry of a signature whose miss raised, and the entry holds devices.
            self.on_error()
            raise

    def run_repeated(self, args: Sequence[Tree], kwargs: dict[str, Tree]) -> tuple[Tree] | None:
        """Return (result,) of a multi-process call with a cached signature; None for other calls."""
        if (trace_state.trace is not EVALUATION or shutdown.blocked_threads or hooks.dispatcher is not self.dispatcher
                or config.disable_jit.value or self.multi_process_calls is None or not self.spec.programs):
            return None
        found = self.multi_process_calls.find(args, kwargs)
        if found is None:
            return None
        program, flat, out_tree = found
        try:
            return out_tree.unflatten(program.run(flat)),
        except _jaxlib.JaxRuntimeError as e:
            raise executable.make_execution_error(self.spec.call, self.spec.name, e, flat) from e

    def call_inner(self, args: Sequence[Tree], kwargs: dict[str, Tree]) -> Tree:
        """Call the inner call object while no other thread launches a program on several devices."""
        window, (inner_window, inner) = self.window, self.inner_call
        if inner_window is not window:
            on_miss: Function = functools.partial(_on_inner_miss, weakref.ref(self), window)
            inner = self.add_call_object("inner", on_miss, lambda *args, **kwargs: on_miss(*args, **kwargs)[0])
            self.inner_call = window, inner
        with window.lock:
            may_call = not window.misses
            if may_call:
                out = inner(*args, **kwargs)
                if window.is_limited and trace_state.trace is EVALUATION:
                    window.note_launch((out,) if type(out) is ArrayImpl else
                                       [x for x in CALL_REGISTRY.flatten(out)[0] if type(x) is ArrayImpl])
                return out
        return self.compile_and_run(args, kwargs)[0]

    def compile_and_run(self, args: Sequence[Tree], kwargs: dict[str, Tree], is_inner: bool = False) -> MissResult:
        """Return (result, fast path or None, whether to evict the signature).

        Early exits are ordered from cheapest to most expensive; the first one is in `on_user_call`. A signature is
        evicted if the next call with it may need other treatment.

        Args:
          args, kwargs: the arguments of the call.
          is_inner: whether `inner_call` asks; only that one gets a fast path for launches on several devices.
        """
        spec = self.spec
        if shutdown.blocked_threads:
            shutdown.block_thread()
        # A plugin, or the NumPy dispatcher, is in force now. Evicted, because it may be replaced again.
        if hooks.dispatcher is not self.dispatcher:
            return spec.make_callable(hooks.dispatcher)(*args, **kwargs), None, True
        # Read before tracing: see the comparison below.
        changes_before = config.generation.changes_by_other_threads()
        flat, tree, static = spec.split(args, kwargs)
        if spec.inline and contains_tracer(flat):
            return spec.inline_call(args, kwargs), None, True
        with global_view(flat) if process_group.active_groups else nullcontext():
            staged = spec.trace_call(args, kwargs, flat, tree, static)
        donated = spec.donated(args, kwargs)
        if (trace_state.trace is not EVALUATION or staged.outer or staged.closed.jaxpr.axis_names
                or contains_tracer(flat)):
            return self._bind(staged, tree, flat, donated), None, True
        call = self._resolve(staged, tree, flat, donated)
        program, result, call = self._run(call)
        if (call.reuse_check is not None or call.keyed_program is not None and program.launcher is not None
                or call.has_moved_args):
            return result, None, False  # no fast path: jaxlib cannot reshard arguments, or check keys
        if program.const_args:
            # Deleting such a constant must clear the fast path, which would pass the deleted buffer to the program.
            for call_ref in self.call_refs:
                launch_guards.register_reader(program.const_args, call_ref)
        if program.window is not None:
            self.window = program.window
        # If another thread has changed a setting meanwhile, jaxlib must not cache the call under the new settings.
        changed = changes_before != config.generation.changes_by_other_threads()
        if transfer_guard.any_guard_set and spec.is_library_function and transfer_guard.is_set():
            return result, None, changed  # no fast path: jaxlib's guards treat scalars like arrays
        if program.launcher is not None and not changed:
            self._note_multi_process_call(args, kwargs, call, program)
        is_replaced_later = program.is_replaced_later
        fast_path = self._make_fast_path(call, program, result) if is_inner or program.window is None else None
        if is_inner and program.window is None and isinstance(spec, JitSpec):  # maps call `call_inner` themselves
            self.new_fast_paths[threading.get_ident()] = fast_path
        # jaxlib asks again for the fast path of a signature only if it was evicted.
        return result, fast_path, changed or is_replaced_later and fast_path is None

    def _bind(self, staged: StagedProgram, tree: PyTreeDef, flat: Sequence[Value], donated: tuple[bool, ...]) -> Tree:
        """Make the call an equation of the program that is being traced."""
        spec = self.spec
        user_shardings = None
        if self.shardings_key is not None:
            user_shardings = dispatch_user_shardings.get_user_shardings(spec, staged, tree)
        if self.compiler_options:
            raise ValueError(f"jit of `{spec.name}`: compiler_options apply to a whole program, but this call is "
                             "inside another program. Pass them to the outermost jit")
        if user_shardings is not None:
            return dispatch_user_shardings.call_with_constraints(spec, staged, user_shardings, flat, donated)
        return spec.bind_program(staged, flat, donated)

    def _resolve(self, staged: StagedProgram, tree: PyTreeDef, flat: Sequence[Value],
                 donated: tuple[bool, ...]) -> _BoundCall:
        """Choose the devices of a call, and move its arguments to the user's shardings."""
        spec, kind = self.spec, self.spec.call
        closed = lowering.expand_primitives(staged.closed) if lowering.ProgramRule.is_used else staged.closed
        if closed is not staged.closed:
            staged = staged._replace(closed=closed)
        user_shardings = None
        if self.shardings_key is not None:
            user_shardings = dispatch_user_shardings.get_user_shardings(spec, staged, tree)
        format_arg = functools.partial(spec.argument_path, tree)
        facts, keyed_program, reuse_check = collect_facts(staged.closed), None, None
        if facts.has_keys:
            keyed_program = staged.closed
            reuse_check = key_reuse_check.begin_call(keyed_program, flat, spec.is_library_function)
            staged, flat = staged._replace(closed=lower_keys(keyed_program)), key_array.unwrap_keys(flat)
            if user_shardings is not None:
                user_shardings = dispatch_user_shardings.get_user_shardings(spec, staged, tree)
            # Keys inside only: arguments and results need no wrapping.
            if key_array.has_no_keys(keyed_program):
                keyed_program = None
        # Before anything is moved: before jaxlib 0.12, a launch on several devices with a deleted array ends the
        # process.
        launch_guards.check_usable(kind, spec.name, flat, format_arg)
        args_before, placement = flat, None
        if user_shardings is not None:
            flat = user_shardings.place_args(spec, flat)
        has_moved_args = user_shardings is not None and any(x is not y for x, y in zip(flat, args_before))
        if explicit_meshes:
            typed = explicit_types.add_types(f"{kind} of `{spec.name}`", spec.name, staged.closed, flat, user_shardings,
                                             spec.is_library_function, is_call=True)
            if typed is not None:
                staged, user_shardings = staged._replace(closed=typed[0]), typed[1]
        if user_shardings is not None or facts.process_axis_sizes is None or not piecewise.must_run_piecewise(staged.closed):
            placement = resolve.resolve_placement(kind, spec.name, staged.closed, flat, donated, spec.device, spec.backend,
                                                  user_shardings, lambda: spec.describe_axis_size(staged, tree), format_arg)
        return _BoundCall(staged, flat, donated, user_shardings, placement, format_arg, keyed_program, reuse_check,
                          has_moved_args)

    def _run(self, call: _BoundCall) -> tuple[piecewise.Program, Tree, _BoundCall]:
        """Compile the program of a call and run it; return the compiled program, the result, and the call with the
        shardings of its results."""
        spec, kind, staged, flat = self.spec, self.spec.call, call.staged, call.flat
        program: piecewise.Program
        try:
            if call.placement is None:
                program = piecewise.PiecewiseProgram(kind, spec.name, staged.closed, flat, call.format_arg,
                                                     self.compiler_options)
            else:
                def compile_for(placement: Placement) -> executable.CompiledProgram:
                    return executable.get_or_compile(kind, staged.closed, spec.name, placement, spec.keep_unused,
                                                     self.compiler_options, allow_tiers=True)

                program = compile_for(call.placement)
                if isinstance(call.user_shardings, explicit_types.MixedShardings):
                    program, completed = explicit_types.complete(program, call.user_shardings, compile_for)
                    call = call._replace(user_shardings=completed)
            if call.donated:
                launch_guards.check_donation(kind, spec.name, flat, call.donated, call.format_arg)
                if isinstance(program, executable.CompiledProgram) and not program.donation_checked:
                    donation_warnings.warn_unusable(program, call.format_arg)
            if transfer_guard.any_guard_set and spec.is_library_function:
                with transfer_guard.allowing_scalars(flat):
                    outs = program.run(flat, call.user_shardings)
            else:
                outs = program.run(flat, call.user_shardings)
        except _jaxlib.JaxRuntimeError as e:
            raise executable.make_execution_error(kind, spec.name, e, flat, call.format_arg, staged.closed) from e
        if call.keyed_program is not None:
            outs = key_array.wrap_keys(outs, call.keyed_program.out_avals)
        if call.reuse_check is not None:
            call.reuse_check.finish(outs)
        return program, trees.tree_unflatten(staged.out_tree, outs), call

    def _note_multi_process_call(self, args: Sequence[Tree], kwargs: dict[str, Tree], call: _BoundCall,
                                 program: piecewise.Program) -> None:
        """Cache a call over several processes, so that `run_repeated` finds it."""
        # That cache compares arrays only: no static arguments, and no shardings to which arguments are moved.
        if call.user_shardings is None and not self.spec.statics.nums and not self.spec.statics.names:
            self.multi_process_calls = self.multi_process_calls or multi_process_call_cache.CallCache()
            self.multi_process_calls.note(args, kwargs, call.flat, program, call.staged.out_tree)

    def _make_fast_path(self, call: _BoundCall, program: piecewise.Program, result: Tree) -> executable.FastPath | None:
        """Return the data with which jaxlib runs further calls without Python; None if it must not."""
        # The results of the call itself are uint32 arrays. In the tree of the wrapped result, keys are nodes with one
        # leaf. jaxlib does not make the NumPy arrays of float0 results.
        if call.keyed_program is not None and key_array.has_float0_results(call.keyed_program):
            return None
        out_tree = call.staged.out_tree if call.keyed_program is None else CALL_REGISTRY.flatten(result)[1]
        return program.fast_path(call.flat, out_tree, call.user_shardings)


@api_boundary
def _on_inner_miss(handler_ref: Any, window: launch_guards.Window, /, *args: Tree, **kwargs: Tree) -> MissResult:
    """Handle a miss of the inner call object; this thread holds the lock of the window.

    `handler_ref` is a weak reference to the miss handler.
    """
    handler: _CacheMissHandler = handler_ref()
    try:
        with window.handling_miss():
            return handler.compile_and_run(args, kwargs, True)
    except BaseException:
        handler.on_error()
        raise


def _wrap_errors(spec: CallSpec, call: CallObject, miss_handler: _CacheMissHandler) -> Function:
    """Wrap a mapped function to convert errors that jaxlib raises without `miss`: bad arguments and failed launches.

    A launch on many devices takes so long that the extra Python call is not measurable.
    """
    def mapped(*args: Tree, **kwargs: Tree) -> Tree:
        try:
            if miss_handler.multi_process_calls is not None:
                found = miss_handler.run_repeated(args, kwargs)
                if found is not None:
                    return found[0]
            return call(*args, **kwargs) if miss_handler.window is None else miss_handler.call_inner(args, kwargs)
        except Exception as e:
            if error_translation.is_launch_failure(e):
                flat, tree, _ = spec.split(args, kwargs)
                raise executable.make_execution_error(spec.call, spec.name, e, flat,
                                                      functools.partial(spec.argument_path, tree)) from e
            clear_error = translate_error(e, f"{spec.call} of `{spec.name}`", args, kwargs, spec.statics)
            filter_traceback(clear_error)
            if clear_error is not e:
                raise clear_error from None
            raise

    wraps(spec.fun)(mapped)
    mapped.spec = spec  # type: ignore[attr-defined]
    for name in stages.STAGE_METHODS:
        setattr(mapped, name, getattr(call, name))
    mapped._cache_size = lambda: call._cache_size()  # type: ignore[attr-defined]
    return mapped


def _make_weak_referenceable(fun: Function) -> Function:
    """Return `fun`, or a partial of it if `fun` does not support weak references or hashing.

    jaxlib's cache uses the function as a weak key without checking.
    """
    try:
        hash(weakref.ref(fun))
    except TypeError:
        return functools.partial(fun)
    return fun


class _WrappedCall:
    """Base of objects that do something around the calls of a call object."""

    def __init__(self, spec: CallSpec, call: CallObject) -> None:
        wraps(spec.fun)(self)
        self.spec, self._call = spec, call
        for name in stages.STAGE_METHODS:
            setattr(self, name, getattr(call, name))

    def __call__(self, *args: Tree, **kwargs: Tree) -> Tree:
        raise NotImplementedError

    def __get__(self, instance: object, owner: type | None = None) -> Function:
        return self if instance is None else MethodType(self, instance)

    @override
    def __reduce__(self) -> str | tuple[Function, tuple[object, ...]]:
        return _reduce_call(self)

    @override
    def __repr__(self) -> str:
        return repr(self._call)


class _StaticCall(_WrappedCall):
    """A call object of a user's function with static arguments, which explains why one of these cannot be hashed.

    jaxlib hashes static arguments before it runs any Python, and raises a ValueError of its own.
    """

    @override
    def __call__(self, *args: Tree, **kwargs: Tree) -> Tree:
        try:
            return self._call(*args, **kwargs)
        except ValueError as e:
            spec = self.spec
            clear_error = translate_error(e, f"{spec.call} of `{spec.name}`", args, kwargs, spec.statics)
            if clear_error is e:
                raise
            filter_traceback(clear_error)
            raise clear_error from None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_call":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._call, name)


class _DonatingCall(_WrappedCall):
    """A call object that checks donated arguments before the call and deletes them after it.

    XLA may leave a donated buffer unused. The arrays are deleted in any case, so that later uses raise on every path.
    """

    @override
    @api_boundary
    def __call__(self, *args: Tree, **kwargs: Tree) -> Tree:
        spec, call = self.spec, self._call
        # Nothing is launched, so nothing is donated: the arrays must stay usable.
        if trace_state.trace is not EVALUATION or config.disable_jit.value:
            return call(*args, **kwargs)
        donated = [x for i, a in enumerate(args) if i in spec.donate_argnums for x in trees.tree_leaves(a)]
        for k, v in kwargs.items():
            if spec.statics.position(k) in spec.donate_argnums:
                donated += trees.tree_leaves(v)
        # An array can be passed twice only with two leaves. Most calls pass each once, and need no more than this
        # set.
        if len(args) + len(kwargs) > 1 or len(donated) > 1:
            flat = trees.tree_leaves((args, kwargs))
            if len({*map(id, flat)}) != len(flat):
                self._check(args, kwargs)
        return _call_and_delete_donated(spec, call, donated, args, kwargs)

    def _check(self, args: Sequence[Tree], kwargs: dict[str, Tree]) -> None:
        """Raise an error if a donated array is passed twice. Called only if some array is passed twice."""
        spec = self.spec
        flat, tree, _ = spec.split(args, kwargs)
        format_arg = functools.partial(spec.argument_path, tree)
        launch_guards.check_donation(spec.call, spec.name, flat, spec.donated(args, kwargs), format_arg)


def _call_and_delete_donated(spec: CallSpec, call: Function, donated: Sequence[Value], args: Sequence[Tree],
                             kwargs: dict[str, Tree]) -> Tree:
    """Call a function that donates arrays, and delete these."""
    # A key array has no buffer of its own; the uint32 array below it is donated.
    donated = [x for x in key_array.unwrap_keys(donated) if type(x) is ArrayImpl]

    def format_arg(i: int) -> str:
        flat, tree, _ = spec.split(args, kwargs)
        return spec.argument_path(tree, next(n for n, x in enumerate(key_array.unwrap_keys(flat)) if x is donated[i]))

    with launch_guards.DonationGuard(spec.call, spec.name, donated, format_arg):
        if nan_checks.is_enabled():
            with nan_checks.saving_copies(donated):
                return call(*args, **kwargs)
        return call(*args, **kwargs)


def _copy_metadata(call: CallObject, spec: CallSpec) -> None:
    """Copy name, docstring and other metadata of the user's function to the call object."""
    wraps(spec.fun)(call)
    call.spec = spec


def _eval_shape(call: CallObject, *args: Tree, **kwargs: Tree) -> Tree:
    return stages.trace(call.spec, args, kwargs).out_info


def _reduce_call(call: CallObject) -> str | tuple[Function, tuple[object, ...]]:
    spec = getattr(call, "spec", None)
    if not isinstance(spec, JitSpec):
        raise pickle.PicklingError(f"{call!r} cannot be pickled: pickle the function it was made of")
    return spec.reduce_callable(call, _restore_jitted)


def _restore_jitted(fun: Function, options: dict[str, StaticValue]) -> Function:
    """Restore a jitted function from a pickle."""
    return jit(fun, **options)


def _add_to_signature(option: config.Option | config.Generation) -> None:
    """Make a setting that programs depend on part of every signature in jaxlib's cache."""
    state = _jaxlib.x64_state if option is config.enable_x64 else _jaxlib.new_state(option.name, option.value)
    option.watch(_jaxlib.state_watcher(state))


def _format_call(call: object) -> str:
    jitted = isinstance(getattr(call, "spec", None), JitSpec | None)
    return f"<{'jitted' if jitted else 'mapped'} {getattr(call, '__name__', 'function')}>"


def install() -> None:
    """Add methods to the call object class, and mirror the settings into jaxlib."""
    call_class = _jaxlib.PjitFunction
    call_class.lower = api_boundary(lambda self, *args, **kwargs: stages.lower(self.spec, args, kwargs))
    call_class.trace = api_boundary(lambda self, *args, **kwargs: stages.trace(self.spec, args, kwargs))
    call_class.eval_shape = api_boundary(_eval_shape)
    call_class.clear_cache = lambda self: self.miss_handler.clear()
    copyreg.pickle(call_class, _reduce_call)  # replaces jaxlib's own, which would pickle `miss`
    call_class.__repr__ = _format_call
    call_class.__signature__ = property(lambda self: inspect.signature(self.__wrapped__))
    hooks.on_staging.append(_note_staging)
    config.disable_jit.watch(_jaxlib.state_watcher(_jaxlib.disable_jit_state))
    _add_to_signature(executable.no_execution)  # a key, so that jaxlib's fast path misses while it is set
    config.watch_keyed_options(_add_to_signature)
