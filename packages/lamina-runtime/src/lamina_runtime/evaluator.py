"""Running ops and programs on concrete arrays: one C++ call object per op and params, one per program."""
from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Primitive, ShapedArray, Var, aval_of, config, dtypes, prims, walk
from lamina_ir.extend import USES, Tiles, has_keys, physical, stack_depth
from lamina_parallel.extend import mesh_in_text
from lamina_tracing import slots
from lamina_tracing.extend import eval_jaxpr

from . import (_jaxlib, arrays, backends, compiling, dispatch, effects, execution, host_errors, key_arrays, key_reuse, leaving,
               owner, pieces, placing, safe_launch, shardings, transfer_guards, transfers, trees_cpp)

__all__ = ["XlaEvaluator", "clear_caches", "install"]

_MOST_OPS = 2048
_cache = _jaxlib.PjitFunctionCache(capacity=compiling.MOST_PROGRAMS)
_lock = threading.Lock()


class XlaEvaluator:
    """The runtime's `evaluator` slot."""

    def __init__(self) -> None:
        self._plain: dict[Primitive, Any] = {}
        self._with_params: dict[Any, Any] = {}

    def primitive(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        try:  # costs nothing until something is raised
            if not params:
                run = self._plain.get(prim)
                if run is None:
                    run = self._plain[prim] = _op(prim, {})
                return run(*args)
            if prim.subprograms:
                return self._call(prim, args, params)
            key = (prim, *params.items())
            try:
                run = self._with_params.get(key)
            except TypeError:  # a param that cannot be hashed
                if prim.family == "callbacks":
                    return effects.run_callback(prim, args, params)
                return _op(prim, params)(*args)
            if run is None:
                if prim.family == "callbacks":
                    return effects.run_callback(prim, args, params)
                make = _laid_out if prim is prims.sharding_constraint_p else _keys if prim.family == "random_keys" else _op
                run = self._remember(key, make(prim, params))
            return run(*args)
        except _jaxlib.LAUNCH_ERRORS as e:
            if host_errors.is_failed_launch(e):
                raise execution.failure("evaluation", prim.name, e) from e
            raise

    def clear(self) -> None:
        """Forget the call objects."""
        with _lock:
            self._plain.clear()
            self._with_params.clear()

    def _remember(self, key: Any, run: Any) -> Any:
        with _lock:
            _halve(self._with_params, _MOST_OPS)
            return self._with_params.setdefault(key, run)

    def _call(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """An op with programs inside: remembered with the first of them, so that it goes when that does."""
        if prim.family == "custom" and "call_jaxpr" in params:  # op by op: a rule's function is not compiled for itself
            body = params["call_jaxpr"]
            with stack_depth.roomy():  # such calls may stand in one another
                if body.memo("by platform", lambda: any(e.primitive is prims.platform_index_p for e in walk(body))):
                    return tuple(self.program(body, args, params["name"]))  # lowering leaves other platforms' branches alone
                return tuple(eval_jaxpr(body, args))
        if prim.name == "xla_call":
            where = params.get("device") or params.get("backend")
            if where is not None:
                args = [transfers.device_put(a, backends.device_of(where)) for a in args]
            return tuple(self.program(params["call_jaxpr"], args, params["name"]))
        if prim.name in ("xla_pmap", "shard_map"):
            body = params["call_jaxpr"]
            avals = tuple([aval_of(a) for a in args])
            params = {**params, "donated_invars": (False,) * len(args)}
            key = ("map", avals, *(v for k, v in params.items() if k != "call_jaxpr"))
            whole = body.memo(key, lambda: _one_equation(prim, params, avals))
            return tuple(self.program(whole, args, params["name"]))
        sub = params[prim.subprograms[0]]
        if not isinstance(sub, ClosedJaxpr):
            sub = sub[0]
        key = ("op", prim, *((k, id(v) if isinstance(v, ClosedJaxpr) else _hashable(v)) for k, v in params.items()))
        held = sub.memo(key, lambda: (_op(prim, params), params))  # params keep the ids from being used again
        return held[0](*args)

    def program(self, closed: ClosedJaxpr, args: Sequence[Any], name: str = "program") -> list[Any]:
        run = closed.memo(("evaluator", name), lambda: _runner(closed, name))
        return run(*args)

    def device_put(self, x: Any, device: Any) -> Any:
        return transfers.device_put(x, device)

    def array(self, value: np.ndarray, aval: ShapedArray) -> Any:
        if dtypes.is_key(aval.dtype):
            return key_arrays.keys_of(value, lambda words: self.array(words, aval_of(words)))
        if not transfer_guards.used:
            return arrays.put(value, backends.default_device(), False, aval)
        with transfer_guards.marked("put", "array"):  # who makes an array asks for it
            return arrays.put(value, backends.default_device(), False, aval)


def _halve(table: dict[Any, Any], most: int) -> None:
    """Drop the older half of a table that is full."""
    if len(table) >= most:
        for old in list(table)[:most // 2]:
            table.pop(old, None)


def _object(name: str, miss: Any) -> Any:
    def plain(*args: Any) -> Any:  # what jaxlib calls while jit is disabled
        return miss(*args)[0]

    def asked(*args: Any) -> tuple[Any, Any, bool]:
        try:
            return miss(*args)
        except BaseException:
            owner.let_go([known])
            raise

    call = dispatch.call_object(name, plain, asked, (), cache=_cache)
    call.__name__ = name
    known = weakref.ref(call)
    return call


def _hashable(v: Any) -> Any:
    if isinstance(v, (list, tuple)):
        return tuple(id(x) if isinstance(x, ClosedJaxpr) else _hashable(x) for x in v)
    return v


def _one_equation(prim: Primitive, params: dict[str, Any], avals: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    found = prim.infer(*avals, **params)
    invars = [Var(a) for a in avals]
    outvars = [Var(a) for a in (found if prim.multiple else (found,))]
    return ClosedJaxpr(Jaxpr((), invars, [Eqn(prim, invars, outvars, params)], outvars))


def _op(prim: Primitive, params: dict[str, Any]) -> Any:
    programs: dict[Any, ClosedJaxpr] = {}

    def miss(*args: Any) -> tuple[Any, Any, bool]:
        if leaving.staying:
            leaving.stay()
        others = config.generation.elsewhere()
        avals = tuple([aval_of(a) for a in args])
        closed = programs.get(avals)
        if closed is None:
            _halve(programs, compiling.MOST_PROGRAMS)
            closed = programs[avals] = _one_equation(prim, params, avals)
        outs, program = _run(closed, prim.name, args)
        tree = trees_cpp.CALLS.flatten(tuple(outs) if prim.multiple else outs[0])[1]
        return (tuple(outs) if prim.multiple else outs[0]), _fast(program, args, tree), others != config.generation.elsewhere()

    return _object(prim.name, miss)


def _laid_out(prim: Primitive, params: dict[str, Any]) -> Any:
    """A constraint moves the array: in a program of nothing else the compiler would leave it."""
    run, text = _op(prim, params), params["sharding"]
    named = text.partition(" on ")[2].partition(" of ")[0]

    def move(x: Any) -> Any:
        if params["unspecified_dims"] or not named:
            return run(x)
        told = devices = backends.devices_called(named)
        if type(x) is _jaxlib.ArrayImpl and x._committed:
            devices = shardings.sharding_devices(x._sharding)
            if {*told} != {*devices}:
                return run(x)  # which says so
        by_id = sorted(range(len(devices)), key=lambda i: devices[i].id)  # the op counts them so
        sharding = shardings.tiled(devices, Tiles.parse(text).renumbered(by_id))
        shape = aval_of(x).shape
        shardings.check_fits("with_sharding_constraint", shape, sharding)
        mesh = mesh_in_text(text, told)
        if mesh is not None and mesh.flat_devices == devices:
            sharding = shardings.in_words(mesh, sharding, len(shape))
        return transfers.device_put(x, sharding)

    return move


def _keys(prim: Primitive, params: dict[str, Any]) -> Any:
    """Keys of words and words of keys that are on devices are the same memory."""
    run, wraps = _op(prim, params), prim is prims.random_wrap_p
    what = params.get("use") if params.get("use") in USES else None

    def turn(x: Any) -> Any:
        if wraps and type(x) is _jaxlib.ArrayImpl:
            return key_arrays.KeyArray(x, prim.infer(x.aval, **params).dtype)
        if wraps or type(x) is not key_arrays.KeyArray:
            return run(x)
        if what is not None:
            key_reuse.opened(x, what)
        return x.words

    return turn


def _run(closed: ClosedJaxpr, name: str, args: Sequence[Any]) -> tuple[list[Any], Any]:
    """The results, and the program that has given them; None where keys are looked after, so that jaxlib asks again."""
    if has_keys(closed):
        looked = key_reuse.entered(closed, args)
        outs, program = _run(physical(closed), name, key_arrays.opened(args))
        outs = key_arrays.closed_again(outs, closed.out_avals)
        if looked is not None:
            looked.ended(outs)
        return outs, program if looked is None else None
    safe_launch.check_usable("evaluation", name, args)
    try:
        program = (pieces.Pieces("evaluation", name, closed, args) if pieces.in_pieces(closed) else execution.program_for(
            "evaluation", closed, name, placing.placement_of("evaluation", name, closed, args)))
        if not transfer_guards.used:
            return program.run(args), program
        with transfer_guards.for_numbers(args):
            return program.run(args), program
    except _jaxlib.JaxRuntimeError as e:
        raise execution.failure("evaluation", name, e) from e


def _fast(program: Any, args: Sequence[Any], tree: Any) -> Any:
    """Launches that are counted pass through Python."""
    if program is None or program.window is not None or transfer_guards.used and transfer_guards.is_set():
        return None
    return program.fast_path(key_arrays.opened(args), tree)


def _runner(closed: ClosedJaxpr, name: str) -> Any:
    def miss(*args: Any) -> tuple[Any, Any, bool]:
        if leaving.staying:
            leaving.stay()
        others = config.generation.elsewhere()
        outs, program = _run(closed, name, args)
        return (outs, _fast(program, args, trees_cpp.CALLS.flatten(outs)[1]),
                others != config.generation.elsewhere())

    return _object(name, miss)


def clear_caches() -> None:
    """Forget compiled programs and call signatures held in memory. The disk keeps its part."""
    if isinstance(slots.evaluator, XlaEvaluator):
        slots.evaluator.clear()
    _jaxlib.PjitFunctionCache.clear_all()
    compiling.clear_memory()


def install() -> None:
    """Fill the slot."""
    slots.set_evaluator(XlaEvaluator())
