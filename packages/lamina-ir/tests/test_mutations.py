"""Random changes to sample programs: `check` rejects them, or they run, print and save, or raise a LaminaError."""
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
    check,
    dumps,
    evaluate,
    evaluate_spmd,
    jaxpr_text,
    loads,
    parse,
    prims,
    shaped,
)
from lamina_ir.testing.mutations import bound_loops, change_operands_and_params
from lamina_ir.testing.samples import samples_of
from lamina_ir.testing.samples.collectives import AXES

DRAWS = int(os.environ.get("LAMINA_MUTATIONS", "12"))  # per primitive


def mutate(sample, rng):
    """Return (variables, equation, results) of a changed sample; the results have the inferred types, if any."""
    avals, params = change_operands_and_params(sample, rng)
    try:
        out = sample.prim.infer(*avals, **params)
    except Exception:  # `check` is called next, so the result types do not matter
        out = [shaped((), np.dtype("float32"))] if sample.prim.multiple else shaped((), np.dtype("float32"))
    outs = [a for a in (out if sample.prim.multiple else [out]) if isinstance(a, ShapedArray)]
    ins, results = [Var(a) for a in avals], [Var(a) for a in outs]
    return ins, Eqn(sample.prim, ins, results, params), results


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
