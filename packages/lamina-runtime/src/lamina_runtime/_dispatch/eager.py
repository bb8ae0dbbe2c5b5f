"""Run primitives and programs on concrete arrays, with one C++ call object per (primitive, params) and per program."""
from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Primitive, ShapedArray, Var, aval_of, config, dtypes, prims, walk
from lamina_ir.extend import CONSUMING_USES, Placement, Tiles, collect_facts, lower_keys, stack_depth
from lamina_parallel.extend import parse_mesh
from lamina_tracing import hooks
from lamina_tracing.extend import clear_programs, eval_jaxpr
from lamina_ir.typing import CacheKey, Device, Function, Outputs, ParamValue, Params, Tree, Value

from .. import _jaxlib
from .._array import arrays, key_array, key_reuse_check, transfer
from .._backend import backends, client_state, error_translation, launch_guards, shutdown, transfer_guard
from .._compile import executable_cache, lowering
from . import explicit_types, jit_call
from .._execute import effects, executable, piecewise
from .._placement import resolve
from .._sharding import shardings
from .._jaxlib import pytree_registry
from .._typing import CallObject

__all__ = ["XlaEvaluator", "clear_caches", "install"]

_MAX_PRIMITIVE_CALLS = 2048
_K = TypeVar("_K")
_V = TypeVar("_V")
_cache = _jaxlib.PjitFunctionCache(capacity=executable_cache.MAX_PROGRAMS)
_lock = threading.Lock()


class XlaEvaluator:
    """The `evaluator` hook: runs primitives and programs with XLA."""

    def __init__(self) -> None:
        self._without_params: dict[Primitive, Function] = {}
        self._with_params: dict[CacheKey, Function] = {}

    def primitive(self, prim: Primitive, args: Sequence[Value], params: Params) -> Outputs:
        try:  # in CPython a try block costs nothing unless an exception is raised
            if not params:
                # No lock on the way of a hit: reading a dict is atomic. Two threads may both make a call object; the
                # second one is only redundant.
                run = self._without_params.get(prim)
                if run is None:
                    run = self._without_params[prim] = _make_primitive_call(prim, {})
                return run(*args)
            if prim.subprograms:
                return self._run_with_subprograms(prim, args, params)
            key = (prim, *params.items())
            try:
                run = self._with_params.get(key)
            except TypeError:  # a param that cannot be hashed
                if prim.family == "callbacks":
                    return effects.run_callback(prim, args, params)
                return _make_primitive_call(prim, params)(*args)
            if run is None:
                if prim.family == "callbacks":
                    return effects.run_callback(prim, args, params)
                make = (_make_constraint_call if prim is prims.sharding_constraint_p else
                        _make_key_call if prim.family == "random_keys" else _make_primitive_call)
                run = self._store(key, make(prim, params))
            return run(*args)
        except _jaxlib.LAUNCH_ERRORS as e:
            if error_translation.is_launch_failure(e):
                raise executable.make_execution_error("evaluation", prim.name, e, args) from e
            raise

    def clear(self) -> None:
        """Drop the call objects."""
        with _lock:
            self._without_params.clear()
            self._with_params.clear()

    def _store(self, key: CacheKey, run: Function) -> Function:
        with _lock:
            _evict_half(self._with_params, _MAX_PRIMITIVE_CALLS)
            return self._with_params.setdefault(key, run)

    def _run_with_subprograms(self, prim: Primitive, args: Sequence[Value], params: Params) -> Outputs:
        """Run a primitive with nested programs.

        Its call object is cached on the first nested program, so that it is freed together with that program.
        """
        if prim.family == "custom" and "call_jaxpr" in params:
            # The function of a custom rule runs one primitive at a time; it is not compiled separately. The exception
            # are programs with branches by platform: only lowering can drop the branches of other platforms.
            body = params["call_jaxpr"]
            with stack_depth.with_recursion_limit():  # such calls may be nested deeply
                if body.memo("by platform", lambda: any(e.primitive is prims.platform_index_p for e in walk(body))):
                    return tuple(self.program(body, args, params["name"]))
                return tuple(eval_jaxpr(body, args))
        if prim is prims.xla_call_p:
            target = params.get("device") or params.get("backend")
            if target is not None:
                args = [transfer.device_put(a, backends.resolve_device(target)) for a in args]
            return tuple(self.program(params["call_jaxpr"], args, params["name"]))
        if prim is prims.xla_pmap_p or prim is prims.shard_map_p:
            body = params["call_jaxpr"]
            avals = tuple([aval_of(a) for a in args])
            # The arguments of an evaluation are values of a program that may read them again.
            params = {**params, "donated_invars": (False,) * len(args)}
            key = ("map", avals, *(v for k, v in params.items() if k != "call_jaxpr"))
            mapped = body.memo(key, lambda: _make_one_equation_program(prim, params, avals))
            return tuple(self.program(mapped, args, params["name"]))
        sub = params[prim.subprograms[0]]
        if not isinstance(sub, ClosedJaxpr):
            sub = sub[0]
        key = ("op", prim,
               *((k, id(v) if isinstance(v, ClosedJaxpr) else _make_hashable(v)) for k, v in params.items()))
        # The key has ids of nested programs. They stay valid because the cached value holds params.
        stored = sub.memo(key, lambda: (_make_primitive_call(prim, params), params))
        return stored[0](*args)

    def program(self, closed: ClosedJaxpr, args: Sequence[Value], name: str = "program") -> list[Value]:
        # Cached with the program, so that the executable is freed together with it.
        run = closed.memo(("evaluator", name), lambda: _make_program_call(closed, name))
        return run(*args)

    def device_put(self, x: Value, device: Device) -> Value:
        return transfer.device_put(x, device)

    def array(self, value: np.ndarray, aval: ShapedArray) -> Value:
        if dtypes.is_key(aval.dtype):
            return key_array.put_keys(value, lambda data: self.array(data, aval_of(data)))
        if not transfer_guard.any_guard_set:
            return arrays.put(value, backends.default_device(), False, aval)
        with transfer_guard.marking_explicit("put", "array"):  # creating an array is an explicit transfer
            return arrays.put(value, backends.default_device(), False, aval)


def _evict_half(table: dict[_K, _V], limit: int) -> None:
    """Drop the oldest half of a table that is full."""
    if len(table) >= limit:
        for old in list(table)[:limit // 2]:
            table.pop(old, None)


class _MissHandler:
    """Handles the cache misses of the call object of a primitive or a program.

    Programs on several devices are launched under a lock (`launch_guards`). So for these the call object always calls
    `on_miss`, which calls an inner call object that has the fast path. That refers to the handler only weakly: no reference
    cycle.

    Args:
      name: the name of the primitive or the program.
      run: runs it on arguments, and returns (result, compiled program or None).
    """

    __slots__ = ("_name", "_run", "_window", "_is_map", "_inner_call", "call_refs", "__weakref__")

    def __init__(self, name: str, run: Callable[[Sequence[Value]], tuple[Tree, piecewise.Program | None]]) -> None:
        self._name, self._run = name, run
        self._window: launch_guards.Window | None = None  # of its launches on several devices
        self._is_map = False  # whether it runs on several devices, wherever its arguments are
        self._inner_call: tuple[launch_guards.Window | None, CallObject] = None, None
        self.call_refs: list[weakref.ref[CallObject]] = []

    def on_miss(self, *args: Tree) -> jit_call.MissResult:
        """Handle a miss of the call object."""
        try:
            window = self._window
            if window is None or not (self._is_map or any(type(a) is _jaxlib.ArrayImpl and a._sharding.num_devices > 1
                                                          for a in args)):
                return self.run(args, False)
            inner_window, inner = self._inner_call
            if inner_window is not window:
                on_inner_miss = functools.partial(_on_inner_miss, weakref.ref(self), window)
                inner = self.add_call_object(lambda *args: on_inner_miss(*args)[0], on_inner_miss)
                self._inner_call = window, inner
            with window.lock:
                may_call = not window.misses
                if may_call:
                    outs = inner(*args)
                    if window.is_limited:
                        window.note_launch([x for x in (outs if type(outs) is tuple else (outs,))
                                            if type(x) is _jaxlib.ArrayImpl])
            if not may_call:
                outs = self.run(args, False)[0]
            return outs, None, False
        except BaseException:
            client_state.clear_call_caches(self.call_refs)
            raise

    def on_inner_miss(self, window: launch_guards.Window, args: Sequence[Value]) -> jit_call.MissResult:
        """Handle a miss of the inner call object; this thread holds the lock of the window."""
        try:
            with window.handling_miss():
                return self.run(args, True)
        except BaseException:
            client_state.clear_call_caches(self.call_refs)
            raise

    def add_call_object(self, plain: Function, on_miss: Callable[..., jit_call.MissResult]) -> CallObject:
        """Make and register a call object; `plain` is what jaxlib calls while jit is disabled."""
        call = jit_call.make_call_object(self._name, plain, on_miss, (), cache=_cache)
        call.__name__ = self._name
        self.call_refs.append(weakref.ref(call))
        return call

    def run(self, args: Sequence[Value], is_inner: bool) -> jit_call.MissResult:
        """Return (result, fast path or None, whether to evict the signature).

        It is evicted if another thread has changed a setting meanwhile: jaxlib must not cache the call under the new
        settings. It is also evicted if there is no fast path yet, because jaxlib would not ask again.
        """
        if shutdown.blocked_threads:
            shutdown.block_thread()
        changes_before = config.generation.changes_by_other_threads()
        outs, program = self._run(args)
        fast_path, is_replaced_later = None, False
        if program is not None:
            is_replaced_later = program.is_replaced_later
            if program.window is not None:
                self._window, self._is_map = program.window, self._is_map or program.placement.one_member_per_device
            has_guard = transfer_guard.any_guard_set and transfer_guard.is_set()
            if (is_inner or program.window is None) and not has_guard:
                tree = pytree_registry.CALL_REGISTRY.flatten(outs)[1]
                fast_path = program.fast_path(key_array.unwrap_keys(args), tree)
        has_changed = changes_before != config.generation.changes_by_other_threads()
        return outs, fast_path, has_changed or is_replaced_later and fast_path is None


def _on_inner_miss(handler_ref: Any, window: launch_guards.Window, /, *args: Tree) -> jit_call.MissResult:
    return handler_ref().on_inner_miss(window, args)


def _make_call_object(name: str, run: Callable[[Sequence[Value]], tuple[Tree, piecewise.Program | None]]) -> CallObject:
    """Make the call object of a primitive or a program; the arguments are those of `_MissHandler`."""
    handler = _MissHandler(name, run)
    return handler.add_call_object(lambda *args: handler.on_miss(*args)[0], handler.on_miss)


def _make_hashable(v: ParamValue) -> ParamValue:
    if isinstance(v, (list, tuple)):
        return tuple(id(x) if isinstance(x, ClosedJaxpr) else _make_hashable(x) for x in v)
    return v


def _make_one_equation_program(prim: Primitive, params: Params, avals: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    found = prim.infer(*avals, **params)
    invars = [Var(a) for a in avals]
    outvars = [Var(a) for a in (found if prim.multiple else (found,))]
    return ClosedJaxpr(Jaxpr((), invars, [Eqn(prim, invars, outvars, params)], outvars))


def _make_primitive_call(prim: Primitive, params: Params) -> CallObject:
    programs: dict[tuple[ShapedArray, ...], ClosedJaxpr] = {}

    def run(args: Sequence[Value]) -> tuple[Tree, piecewise.Program | None]:
        avals = tuple([aval_of(a) for a in args])
        # One program for all call signatures of these types: committed or not, on whatever device.
        closed = programs.get(avals)
        if closed is None:
            _evict_half(programs, executable_cache.MAX_PROGRAMS)
            closed = programs[avals] = _make_one_equation_program(prim, params, avals)
        outs, program = _run(closed, prim.name, args)
        return tuple(outs) if prim.multiple else outs[0], program

    return _make_call_object(prim.name, run)


def _make_constraint_call(prim: Primitive, params: Params) -> Function:
    """Make the call object of an eager sharding constraint, which moves the array.

    In a program with only a constraint, the compiler would keep the sharding of the argument.
    """
    run, text = _make_primitive_call(prim, params), params["sharding"]
    device_text = text.partition(" on ")[2].partition(" of ")[0]

    def move(x: Value) -> Value:
        if params["unspecified_dims"] or not device_text:
            return run(x)
        # A committed array keeps its own order of devices, which may differ from that of the constraint.
        constraint_devices = devices = backends.devices_from_text(device_text)
        if type(x) is _jaxlib.ArrayImpl and x._committed:
            devices = shardings.sharding_devices(x._sharding)
            if {*constraint_devices} != {*devices}:
                return run(x)  # raises the error for mismatched devices
        by_id = sorted(range(len(devices)), key=lambda i: devices[i].id)  # the text numbers devices by id
        sharding = shardings.tiled_sharding(devices, Tiles.parse(text).renumber(by_id))
        shape = aval_of(x).shape
        shardings.check_fits("with_sharding_constraint", shape, sharding)
        mesh = parse_mesh(text, constraint_devices)
        if mesh is not None and mesh.flat_devices == devices:
            sharding = shardings.as_named_sharding(mesh, sharding, len(shape))
        return transfer.device_put(x, sharding)

    return move


def _make_key_call(prim: Primitive, params: Params) -> Function:
    """Make the call object that wraps uint32 data as keys, or unwraps keys.

    Both share the device memory, so nothing runs on the device.
    """
    run, wraps = _make_primitive_call(prim, params), prim is prims.random_wrap_p
    use = params.get("use") if params.get("use") in CONSUMING_USES else None

    def convert(x: Value) -> Value:
        if wraps and type(x) is _jaxlib.ArrayImpl:
            return key_array.KeyArray(x, prim.infer(x.aval, **params).dtype)
        if wraps or type(x) is not key_array.KeyArray:
            return run(x)
        if use is not None:
            key_reuse_check.use_key_data(x, use)
        return x.key_data

    return convert


def _run(closed: ClosedJaxpr, name: str, args: Sequence[Value]) -> tuple[list[Value], piecewise.Program | None]:
    """Run a program; return (results, compiled program).

    The program is None if key reuse is checked, so that jaxlib gets no fast path and the next call is checked as well; also
    if there are float0 results, which jaxlib does not make.
    """
    closed = lowering.expand_primitives(closed)
    if collect_facts(closed).has_keys:
        reuse_check = key_reuse_check.begin_call(closed, args)
        outs, program = _run(lower_keys(closed), name, key_array.unwrap_keys(args))
        outs = key_array.wrap_keys(outs, closed.out_avals)
        if reuse_check is not None:
            reuse_check.finish(outs)
        return outs, program if reuse_check is None and not key_array.has_float0_results(closed) else None
    launch_guards.check_usable("evaluation", name, args)
    try:
        if piecewise.must_run_piecewise(closed):
            program, layout = piecewise.PiecewiseProgram("evaluation", name, closed, args), None
        else:
            closed, layout = explicit_types.add_types(name, name, closed, args, None, True, True) or (closed, None)
            placement = resolve.resolve_placement("evaluation", name, closed, args, user_shardings=layout)

            def compile_for(placement: Placement) -> executable.CompiledProgram:
                return executable.get_or_compile("evaluation", closed, name, placement, allow_tiers=True)

            program = compile_for(placement)
            if isinstance(layout, explicit_types.MixedShardings):
                program, layout = explicit_types.complete(program, layout, compile_for)
        if not transfer_guard.any_guard_set:
            return program.run(args, layout), program
        with transfer_guard.allowing_scalars(args):
            return program.run(args, layout), program
    except _jaxlib.JaxRuntimeError as e:
        raise executable.make_execution_error("evaluation", name, e, args, program=closed) from e


def _make_program_call(closed: ClosedJaxpr, name: str) -> CallObject:
    return _make_call_object(name, lambda args: _run(closed, name, args))


def clear_caches() -> None:
    """Drop traced and compiled programs from memory: functions are traced again. The disk cache is not affected.

    For example after a change of a global variable that jitted functions read.
    """
    clear_programs()
    if isinstance(hooks.evaluator, XlaEvaluator):
        hooks.evaluator.clear()
    _jaxlib.PjitFunctionCache.clear_all()
    executable_cache.clear_memory()


def install() -> None:
    """Install the evaluator hook."""
    hooks.set_evaluator(XlaEvaluator())
