"""Random changes to sample programs: `check` rejects them, or they run, print and save, or raise a LaminaError."""
import enum
import os
import random

import numpy as np
import pytest
from lamina_ir import (
    ClosedJaxpr,
    Eqn,
    Jaxpr,
    LaminaError,
    ShapedArray,
    Var,
    aval_of,
    check,
    dtypes,
    dumps,
    evaluate,
    evaluate_spmd,
    jaxpr_text,
    loads,
    parse,
    prims,
    shaped,
)
from lamina_ir._types.param_values import get_field_values
from lamina_ir.testing.samples import samples_of
from lamina_ir.testing.samples.collectives import AXES

DRAWS = int(os.environ.get("LAMINA_MUTATIONS", "12"))  # per primitive
JUNK = [0, 1, -1, 2, 7, True, False, None, 0.5, "x", "le", (), (0,), (0, 1), ((0, 0),), [0], np.dtype("float32"),
        np.dtype("bool"), np.int64(1), 2**31, 2**63]
DTYPES = ["float32", "int32", "bool", "complex64", "uint8", "bfloat16", "float16", "float64", "int4"]


def change_leaf(v, rng):
    """Return a param's value with one leaf changed."""
    fields = get_field_values(v)
    if fields and rng.random() < 0.9:
        values = dict(fields)
        name = rng.choice(list(values))
        values[name] = change_leaf(values[name], rng)
        try:
            return type(v)(**values)
        except (TypeError, ValueError):
            return v
    if isinstance(v, (tuple, list)) and v and rng.random() < 0.8:
        items = list(v)
        i = rng.randrange(len(items))
        items[i:i + 1] = rng.choice([[change_leaf(items[i], rng)], [change_leaf(items[i], rng)], [], [items[i]] * 2])
        return tuple(items)
    if isinstance(v, enum.Enum) and rng.random() < 0.8:
        return rng.choice(list(type(v)))
    if type(v) is int and rng.random() < 0.7:
        return v + rng.choice([1, -1, 2, -2, -v, 5])
    if isinstance(v, np.dtype) and rng.random() < 0.8:
        return dtypes.as_dtype(rng.choice(DTYPES))
    return rng.choice(JUNK)


def change_type(a, rng):
    shape = list(a.shape)
    i = rng.randrange(len(shape) + 1)
    kind = rng.randrange(4)
    if kind == 0:
        return shaped(a.shape, dtypes.as_dtype(rng.choice(DTYPES)))
    if kind == 1 and i < len(shape):
        shape[i] = rng.choice([0, 1, 2, 5])
    else:
        shape[i:i + (kind == 2)] = [] if kind == 2 else [rng.choice([0, 1, 2])]
    return shaped(tuple(shape), a.dtype)


def mutate(row, rng):
    """Return (variables, equation, results) of a changed sample; the results have the inferred types, if any."""
    avals, params = [aval_of(a) for a in row.args], dict(row.params)
    for _ in range(rng.choice([1, 1, 2])):
        kind = rng.random()
        if params and kind < 0.6:
            name = rng.choice(list(params))
            params[name] = change_leaf(params[name], rng)
        elif avals:
            i = rng.randrange(len(avals))
            avals[i:i + 1] = [change_type(avals[i], rng)] if kind < 0.9 else rng.choice([[], [avals[i]] * 2])
    try:
        out = row.prim.infer(*avals, **params)
    except Exception:  # `check` is called next, so the result types do not matter
        out = [shaped((), np.dtype("float32"))] if row.prim.multiple else shaped((), np.dtype("float32"))
    outs = [a for a in (out if row.prim.multiple else [out]) if isinstance(a, ShapedArray)]
    ins, results = [Var(a) for a in avals], [Var(a) for a in outs]
    return ins, Eqn(row.prim, ins, results, params), results


def bound_loops(program):
    """Bound a loop that a change may have made endless; its first iterations are unchanged."""
    eqns = [e.replace(params={**e.params, "max_iters": 9 if e.params["max_iters"] is None else min(e.params["max_iters"], 9)})
            if e.primitive is prims.while_p else e for e in program.eqns]
    jaxpr = program.jaxpr
    return ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, jaxpr.outvars), program.consts)


def run(program, seed):
    rng, program = np.random.default_rng(seed), bound_loops(program)
    if sum(v.aval.size for v in (*program.jaxpr.invars, *program.jaxpr.outvars)) > 10**5:
        return
    with np.errstate(all="ignore"):
        args = [np.asarray(3 * rng.normal(size=a.shape)).astype(a.dtype) for a in program.in_avals]
        if program.jaxpr.axis_names:
            evaluate_spmd(program, AXES, [[a] * AXES.size for a in args])
        else:
            evaluate(program, *args)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("prim", prims.ALL, ids=str)
def test_programs_accepted_by_check_run_or_raise_lamina_error(prim):
    rng = random.Random(prim.name)
    for draw in range(DRAWS):
        ins, e, results = mutate(rng.choice(samples_of(prim)), rng)
        try:
            program = ClosedJaxpr(Jaxpr([], ins, [e], results))
        except TypeError:  # an unhashable axis name: no such program can be made
            continue
        try:
            check(program)
        except LaminaError:
            continue
        for attempt in (lambda p: run(p, draw), lambda p: parse(jaxpr_text(p, weak=True)), lambda p: loads(dumps(p))):
            try:
                attempt(program)
            except LaminaError:
                pass
            except Exception as error:
                raise AssertionError(f"{prim.name}: {[str(a) for a in program.in_avals]} {e.params}") from error
