"""Evaluate programs on NumPy arrays. This evaluator is the reference semantics of all primitives.

`evaluate` runs one program on one set of values. `evaluate_spmd` runs one program on many devices in lockstep: each
value is a list with one array per device, so that a collective sees the operands of all devices.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np

from .._util import recursion_limit as stack_depth
from .. import config
from .._types import dtypes
from .._core.arg_checks import (FUNCTION, ITEMS, PRIMITIVE, as_closed_jaxpr, raise_for_bad_args, raise_type_rule_error,
                                check_args)
from .._types.avals import ShapedArray, aval_of
from ..errors import DTypeError, ExecutionError, LaminaError, MissingRuleError, ShapeError
from .._types.key_dtypes import read_on_host
from .simplify import simplify_for_numpy
from .numpy_plan import NumpyPlan, find_last_uses
from .._core.primitive import Primitive
from .._core.printer import eqn_text
from .._core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, eqn_axis_names
from .._core.axis_env import AxisEnv
from .._core.loop_context import run_per_device, loop_scope, axes_scope
from ..typing import AxisName, Function, Outputs, Params, Value
from .._typing import Observer
from .._core.source_info import Source

__all__ = ["cast_result", "evaluate", "evaluate_primitive", "evaluate_spmd", "find_last_uses", "make_evaluator",
           "observing_equations"]

_SCALARS = (bool, int, float, complex)


class _Watch(threading.local):
    see: Observer | None = None


_watch = _Watch()


@check_args(callback=FUNCTION)
@contextmanager
def observing_equations(callback: Observer) -> Iterator[None]:
    """Call a function after each equation evaluated inside a `with` block, including equations of nested programs.

    Args:
      callback: `callback(eqn, operands, results)`, called after the equation. Operands and results are lists with one array per
        device for each value, as in `evaluate_spmd`.

    >>> from lamina_ir import evaluate, parse
    >>> program = parse("{ lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }")
    >>> with observing_equations(lambda eqn, operands, results: print(eqn.primitive.name, float(results[0][0]))):
    ...     _ = evaluate(program, 3.0)
    mul 6.0
    """
    old = _watch.see
    _watch.see = callback
    try:
        yield
    finally:
        _watch.see = old


def _convert_argument(x: Value, aval: ShapedArray, i: int) -> np.ndarray:
    a = read_on_host(x)
    if a.shape != aval.shape:
        raise ShapeError(f"evaluate: argument {i} must be {aval.str_long()}; got {dtypes.long_name(a.dtype)}{list(a.shape)}")
    if a.dtype != aval.dtype:
        # 64-bit arrays are narrowed where 64-bit types are disabled. Python scalars take any dtype.
        if type(x) not in _SCALARS and dtypes.canonicalize(a.dtype) != aval.dtype:
            raise DTypeError(f"evaluate: argument {i} must be {aval.str_long()}; got {a.dtype.name}{list(a.shape)}")
        a = a.astype(aval.dtype)
    return a


def cast_result(value: Value, aval: ShapedArray, prim: Primitive) -> np.ndarray:
    """Convert the value returned by a primitive's NumPy implementation to an array of the inferred type.

    Args:
      value: an array or NumPy scalar.
      aval: the inferred type.
      prim: the primitive, for the error message.
    Returns:
      An array with the dtype of `aval`.
    Raises:
      ShapeError: the shape of `value` is not that of `aval`.

    >>> from lamina_ir import prims, shaped
    >>> cast_result(np.float64(2), shaped((), "float32"), prims.add_p)
    array(2., dtype=float32)
    """
    a = value if type(value) is np.ndarray else np.asarray(value)
    if a.dtype is not aval.dtype and a.dtype != aval.dtype:
        a = a.astype(aval.dtype)
    if a.shape != aval.shape:
        raise ShapeError(f"{prim.name}: its NumPy implementation must return {aval.str_long()}; got shape {a.shape}")
    return a


# Exceptions that NumPy raises for errors that `check` cannot detect, such as an out-of-range index in the data.
_NUMPY_ERRORS = (TypeError, ValueError, LookupError, AttributeError, OverflowError, MemoryError, ZeroDivisionError)


def _evaluation_error(e: Eqn, error: Exception) -> Exception:
    if isinstance(error, LaminaError):
        return error
    return ExecutionError(f"evaluate: `{e.primitive.name}` failed: {type(error).__name__}: {error}; in "
                          f"`{eqn_text(e).splitlines()[0]:.100}`")


def _check_size(plan: NumpyPlan, devices: int) -> None:
    limit, peak, eqn = config.evaluate_max_bytes.value, plan.peak_bytes, plan.peak_eqn
    if limit and peak * devices > limit and eqn is not None:
        raise ExecutionError(f"evaluate: the program's values take {peak * devices:,} bytes at "
                             f"`{eqn_text(eqn).splitlines()[0]:.100}`; the setting evaluate_max_bytes allows {limit:,}. "
                             "Raise it if more memory is available; 0 means no limit")


def evaluate(program: ClosedJaxpr | Jaxpr, *args: Value) -> list[np.ndarray]:
    """Run a program on NumPy arrays and return its results.

    Args:
      program: the program.
      *args: one array (or Python number) per invar, of its shape and dtype.
    Returns:
      One `numpy.ndarray` per result, of exactly its shape and dtype. Each intermediate value is released after its
      last use.
    Raises:
      ShapeError, DTypeError: an argument does not fit.
      UnboundAxisError: a collective outside any mapped axis.
      ExecutionError: the values exceed `config.evaluate_max_bytes`, or a primitive fails on its operands.

    >>> from lamina_ir import parse
    >>> evaluate(parse("{ lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }"), 3.0)
    [array(6., dtype=float32)]
    """
    if type(program) is not ClosedJaxpr:
        program = as_closed_jaxpr("evaluate", program)
    if stack_depth.fits_usual_limit():
        return _evaluate(program, args)
    with stack_depth.with_recursion_limit():
        return _evaluate(program, args)


def _evaluate(program: ClosedJaxpr, args: Sequence[Value]) -> list[np.ndarray]:
    jaxpr, see = program.jaxpr, _watch.see
    plan = NumpyPlan.of(program, _bind_params, see is not None)
    _check_size(plan, 1)
    if len(args) != len(jaxpr.invars):
        raise ShapeError(f"evaluate: the program takes {len(jaxpr.invars)} arguments; got {len(args)}")
    # The plan numbers constants first, then arguments.
    values: list[Value] = plan.initial_values.copy()
    at = 0
    for c in program.consts:
        values[at] = c if type(c) is np.ndarray else read_on_host(c)
        at += 1
    for v, x in zip(jaxpr.invars, args):
        aval = v.aval
        # Inlined: conversion is the rare case, and a call per argument would cost as much as a small step.
        fits = type(x) is np.ndarray and x.dtype is aval.dtype and x.shape == aval.shape
        values[at] = x if fits else _convert_argument(x, aval, at - len(program.consts))
        at += 1

    return _walk(plan, values, see)


def make_evaluator(program: ClosedJaxpr) -> Callable[[list[np.ndarray]], list[np.ndarray]]:
    """Simplify a program and return a fast evaluator for repeated calls, which does not check its arguments.

    Args:
      program: the program.
    Returns:
      A function of a list of NumPy arrays. Each array must have exactly the type of its invar; this is not checked.

    >>> from lamina_ir import parse
    >>> run = make_evaluator(parse("{ lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }"))
    >>> run([np.asarray(3, np.float32)])
    [array(6., dtype=float32)]
    """
    program = simplify_for_numpy(program)
    plan = NumpyPlan.of(program, _bind_params)
    consts = [read_on_host(c) for c in program.consts]
    rest = plan.initial_values[len(consts) + len(program.jaxpr.invars):]
    limit = config.evaluate_max_bytes

    def run(arrays: list[np.ndarray]) -> list[np.ndarray]:
        # The slow path calls the observer, reports the memory limit, or raises the recursion limit. (0 means no memory
        # limit, so then every call takes it.)
        if _watch.see is not None or plan.peak_bytes > limit.value or not stack_depth.fits_usual_limit():
            return evaluate(program, *arrays)
        return _walk(plan, [*consts, *arrays, *rest], None)

    return run


def _walk(plan: NumpyPlan, values: list[Value], see: Observer | None) -> list[np.ndarray]:
    """Run the steps of a plan and return the results. `values` has one entry per value of the program; those of
    constants, arguments and literals are set. `_evaluate` and the fast path share this loop, so it avoids calls."""
    for count, op, i, j, operands, out, aval, dead, e in plan.steps:
        try:
            if count == 2:
                found = op.numpy(values[i], values[j])
            elif count == 1:
                found = op.numpy(values[i])
            else:
                found = op.numpy(*[values[k] for k in operands])
        except _NUMPY_ERRORS as error:
            raise _evaluation_error(e, error) from error
        if see is not None:
            see(e, [[values[k]] for k in operands], [[value] for value in _results(e.primitive, found)])
        # A list of types means several results.
        if type(aval) is list:
            for k, a, value in zip(out, aval, found):
                values[k] = cast_result(value, a, e.primitive)
        else:
            if type(found) is not np.ndarray or found.dtype is not aval.dtype or found.shape != aval.shape:
                found = cast_result(found, aval, e.primitive)
            values[out] = found
        for k in dead:
            # Release dead values at once: the peak memory is that of live values, see `NumpyPlan.peak_bytes`.
            values[k] = None
    if not plan.has_literal_results:
        return [values[k] for k in plan.outs]
    # Copy literal results: the plan's array is shared by all runs, and the caller may write to its result.
    return [np.array(values[k]) if plan.initial_values[k] is not None else values[k] for k in plan.outs]


def _bind_params(e: Eqn) -> Function | None:
    """Return the NumPy implementation of an equation as a function of its operands, or None if `prim.numpy` is that."""
    prim, params = e.primitive, e.params
    if prim.axis_params:
        # One device, no mapped axis: `groups` raises for any axis name. Without names it is a sum over one member.
        def call_on_one_device(*arrays: Value) -> Outputs:
            AxisEnv().groups(tuple(eqn_axis_names(e)))
            outs = prim.numpy(AxisEnv(), *[[a] for a in arrays], **params)
            return [out[0] for out in outs] if prim.multiple else outs[0]

        return call_on_one_device
    if prim.subprograms:  # these primitives get the evaluator as an argument and run their iterations and branches
        def call_with_evaluator(*arrays: Value) -> Outputs:
            with _loop_context(prim, e.source):
                return prim.numpy(_run, *arrays, **params)

        return call_with_evaluator
    return (lambda *arrays: prim.numpy(*arrays, **params)) if params else None


_NOTHING = nullcontext()


def _loop_context(prim: Primitive, source: Source | None) -> AbstractContextManager[None]:
    """Return the context in which a primitive runs; for a loop it records the current iteration."""
    return loop_scope(prim.name, source) if prim.region_signature is not None and prim.region_signature.loops else _NOTHING


def _results(prim: Primitive, out: Outputs) -> Outputs:
    return out if prim.multiple else (out,)


def evaluate_primitive(prim: Primitive, args: Sequence[Value], params: Params) -> Outputs:
    """Run one primitive on concrete values; return an array, or a list of arrays if it has several results.

    >>> from lamina_ir import prims
    >>> evaluate_primitive(prims.add_p, [np.float32(1), np.float32(2)], {})
    array(3., dtype=float32)
    """
    try:
        avals = [aval_of(x) for x in args]
        out_avals = prim.infer(*avals, **params)
    except Exception as error:  # a type rule fed with nonsense may fail in any way
        raise_for_bad_args("evaluate_primitive", ("prim", PRIMITIVE, prim), ("args", ITEMS, args))
        raise_type_rule_error("evaluate_primitive", error, prim, [aval_of(x) for x in args], params)
        raise
    # Python scalars take the dtype of their type, not NumPy's default of 64 bits.
    arrays = [np.asarray(x, a.dtype) for x, a in zip(args, avals)]
    if prim.axis_params:
        out = prim.numpy(AxisEnv(), *[[a] for a in arrays], **params)
        out = [o[0] for o in out] if prim.multiple else out[0]
    else:
        with _loop_context(prim, None):
            out = prim.numpy(*((_run,) if prim.subprograms else ()), *arrays, **params)
    if prim.multiple:
        return [cast_result(o, a, prim) for o, a in zip(out, out_avals)]
    return cast_result(out, out_avals, prim)


def evaluate_spmd(program: ClosedJaxpr | Jaxpr, axis_env: AxisEnv | Iterable[tuple[AxisName, int]],
                  per_device_args: Sequence[Sequence[Value]]) -> list[list[np.ndarray]]:
    """Run a program on all devices of the given mapped axes, in lockstep.

    Args:
      program: what each device runs.
      axis_env: the mapped axes: an `AxisEnv` or `(name, size)` pairs, outermost first.
      per_device_args: for each argument, a list with one array per device.
    Returns:
      For each result, a list with one array per device.

    >>> from lamina_ir import parse
    >>> program = parse("{ lambda ; a:f32[]. let b:f32[] = psum[axes=(i,) axis_index_groups=None] a in (b,) }")
    >>> [float(x) for x in evaluate_spmd(program, [("i", 3)], [[1, 2, 3]])[0]]
    [6.0, 6.0, 6.0]
    """
    # env: variable -> list with one array per device. Each equation runs on all devices before the next one starts, so
    # a collective finds the operand of every member. Constants share one array.
    program = as_closed_jaxpr("evaluate_spmd", program)
    axes = AxisEnv(zip(axis_env.names, axis_env.sizes) if isinstance(axis_env, AxisEnv) else axis_env)
    raise_for_bad_args("evaluate_spmd", ("per_device_args", ITEMS, per_device_args))
    jaxpr, n = program.jaxpr, axes.size
    _check_size(NumpyPlan.of(program, _bind_params), n)
    if len(per_device_args) != len(jaxpr.invars):
        raise ShapeError(f"evaluate_spmd: the program takes {len(jaxpr.invars)} arguments; got {len(per_device_args)}")
    env: dict[Var, list[np.ndarray]] = {}
    for v, c in zip(jaxpr.constvars, program.consts):
        env[v] = [read_on_host(c)] * n
    for i, (v, xs) in enumerate(zip(jaxpr.invars, per_device_args)):
        raise_for_bad_args("evaluate_spmd", (f"argument {i}", ITEMS, xs))
        if len(xs) != n:
            raise ShapeError(f"evaluate_spmd: argument {i} must be a list of {n} arrays, one per device; got {len(xs)}")
        env[v] = [_convert_argument(x, v.aval, i) for x in xs]

    def read(a: Atom) -> list[np.ndarray]:
        return [np.asarray(a.val, a.aval.dtype)] * n if type(a) is Literal else env[a]

    with axes_scope(axes):
        # Not a `NumpyPlan`: collectives need the values of all devices after each equation.
        for e, dead in zip(jaxpr.eqns, program.memo("last_uses", lambda: find_last_uses(jaxpr))):
            ins = [read(a) for a in e.invars]
            try:
                with _loop_context(e.primitive, e.source):
                    outs = _spmd_eqn(e, axes, ins)
            except _NUMPY_ERRORS as error:
                raise _evaluation_error(e, error) from error
            if _watch.see is not None:
                _watch.see(e, ins, outs)
            for v, values in zip(e.outvars, outs):
                env[v] = [cast_result(x, v.aval, e.primitive) for x in values]
            for v in dead:
                del env[v]
        return [read(a) for a in jaxpr.outvars]


def _spmd_eqn(e: Eqn, axes: AxisEnv, ins: list[list[Value]]) -> Sequence[Sequence[Value]]:
    prim, params = e.primitive, e.params
    # A primitive with programs may contain collectives, so it must run its programs in lockstep itself.
    if prim.spmd is not None:
        return prim.spmd(_run, axes, ins, params)
    if prim.axis_params:
        return _results(prim, prim.numpy(axes, *ins, **params))
    # Without collectives inside, the devices run one after the other.
    evaluator = (_run,) if prim.subprograms else ()
    if evaluator and eqn_axis_names(e):
        raise MissingRuleError(f"evaluate_spmd: `{prim.name}` has no implementation for many devices, and its program uses "
                               "mapped axes; define it with Primitive(spmd=...)")
    return run_per_device(axes.size, lambda d: _results(prim, prim.numpy(*evaluator, *[xs[d] for xs in ins], **params)))


def _run(program: ClosedJaxpr, operands: Sequence[Value], env: AxisEnv | None = None) -> list[Value]:
    """Evaluate a nested program; passed to the implementations of primitives that hold programs."""
    return evaluate(program, *operands) if env is None else evaluate_spmd(program, env, operands)
