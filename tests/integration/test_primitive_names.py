"""A user's primitive may have the name of a built-in one: programs run it, and files refuse it."""
import pickle

import lamina
import lamina.numpy as jnp
import lamina_ir
import numpy as np
import pytest
from lamina_ir import Primitive, ProgramError, prims
from lamina_lowering.extend import lowering_rules

NAMES = sorted({prim.name for prim in prims.ALL})
SPECIAL = ["cond", "custom_jvp_call", "dot_general", "linear_solve", "name", "pure_callback", "scan", "scatter",
           "shard_map", "sin", "while", "xla_call", "xla_pmap", "xmap"]


def make_identity(name):
    prim = Primitive(name)
    prim.def_impl(lambda x: x)
    prim.def_abstract_eval(lambda x: x)
    lowering_rules.define(prim, lambda ctx, x: x)
    return prim


def apply_after_many_equations(prim, x):
    for _ in range(60):
        x = jnp.sin(x) + jnp.cos(x)
    return prim.bind(x)


def test_one_program_with_primitives_of_all_names_runs():
    identities = [make_identity(name) for name in NAMES]

    def apply_all(x):
        for prim in identities:
            x = prim.bind(x) + 1
        return x

    assert lamina.jit(apply_all)(jnp.zeros(3)).tolist() == [len(NAMES)] * 3


@pytest.mark.parametrize("name", SPECIAL)
def test_small_and_large_programs_run(name):
    prim, x = make_identity(name), jnp.ones(3)
    assert lamina.jit(prim.bind)(x).tolist() == [1, 1, 1]
    large = lamina.jit(lambda x: apply_after_many_equations(prim, x))(x)
    np.testing.assert_allclose(large, apply_after_many_equations(prim, x), rtol=1e-6)
    policy = lamina.checkpoint_policies.dots_with_no_batch_dims_saveable
    np.testing.assert_allclose(lamina.checkpoint(lambda x: prim.bind(x) * 2, policy=policy)(x), 2 * x)


@pytest.mark.parametrize("name", ["sin", "dot_general", "scan"])
def test_program_is_not_saved_under_the_name_of_another_primitive(name):
    prim = make_identity(name)
    program = lamina.make_jaxpr(prim.bind)(jnp.ones(3))
    for save in (lamina_ir.dumps, lamina_ir.jaxpr_json, pickle.dumps):
        with pytest.raises(ProgramError, match=f"another primitive is registered with the name '{name}'"):
            save(program)
    with pytest.raises(ProgramError, match="pickle: another primitive"):
        pickle.dumps(prim)
