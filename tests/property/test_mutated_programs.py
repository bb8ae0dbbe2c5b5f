"""Every program text that `parse` and `check` accept lowers and runs, or a LaminaError refuses it by name.

By default some programs of each primitive, with `LAMINA_LAWS=60` (`nox -s property`) or `LAMINA_WIDE=1` 120, and each one
runs. A failure prints the seed and the text; `LAMINA_MUTATION_SEED` sets the first seed.
"""
from __future__ import annotations

import functools
import os
import random
import re

import lamina
import numpy as np
import pytest
from lamina_ir import LaminaError, check, dtypes, parse, prims
from lamina_ir.testing.mutations import bound_loops
from lamina_ir.testing.samples import samples_of
from lamina_ir.testing.samples.collectives import AXES
from lamina_tracing.extend import eval_jaxpr
from program_mutations import mutate_equation, mutate_text

LAWS = int(os.environ.get("LAMINA_LAWS", "60" if os.environ.get("LAMINA_WIDE") else "3"))
DRAWS, RUN_EVERY = 2 * LAWS, 1 if LAWS >= 20 else 6  # the other programs are only lowered
FIRST_SEED = int(os.environ.get("LAMINA_MUTATION_SEED", "0"))
# Platforms and devices are known only where a program runs; these errors name the call and the value.
_PLACEMENT = re.compile(r"(jit|pmap|xmap|shard_map) of `.*(no platform|must be a device|devices|processes)", re.DOTALL)
_SIZES = dict(zip(AXES.names, AXES.sizes))


def lower_or_run(program, seed, run):
    """Lower a program for one device, or for a mesh of the axes that it names, and run it."""
    names = [name for name in AXES.names if name in program.jaxpr.axis_names]
    if len(names) < len(program.jaxpr.axis_names):
        return
    function = functools.partial(lambda *xs: eval_jaxpr(program, xs))
    for name in reversed(names):
        function = lamina.pmap(function, axis_name=name, axis_size=_SIZES[name])
    rng, lead = np.random.default_rng(seed), tuple(_SIZES[name] for name in names)
    args = [np.zeros((*lead, *a.shape), a.dtype) if dtypes.is_key(a.dtype) or a.dtype == dtypes.float0
            else np.asarray(3 * rng.normal(size=(*lead, *a.shape))).astype(a.dtype) for a in program.in_avals]
    compiled = lamina.jit(function)
    if run:
        lamina.block_until_ready(compiled(*args))
    else:
        compiled.lower(*args)


def try_text(text, seed, run):
    try:
        program = parse(text)
        check(program)
        if sum(v.aval.size for v in (*program.jaxpr.invars, *program.jaxpr.outvars)) < 10**5:
            with np.errstate(all="ignore"):
                lower_or_run(bound_loops(program), seed, run)
    except LaminaError:
        pass
    except (TypeError, ValueError, RuntimeError) as error:
        if not _PLACEMENT.match(str(error)):
            raise


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("prim", prims.ALL, ids=str)
def test_accepted_programs_run_or_are_refused_by_name(prim):
    for seed in range(FIRST_SEED, FIRST_SEED + DRAWS):
        rng = random.Random(f"{prim.name} {seed}")
        mutate = mutate_text if rng.random() < 0.3 else mutate_equation
        text = None
        try:
            text = mutate(rng.choice(samples_of(prim)), rng)
            if text is not None:
                try_text(text, seed, seed % RUN_EVERY == 0)
        except Exception as error:
            raise AssertionError(f"LAMINA_MUTATION_SEED={seed}: {type(error).__name__} of the program\n{text}") from error
