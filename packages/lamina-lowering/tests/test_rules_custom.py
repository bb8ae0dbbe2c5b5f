"""Recomputing calls stand apart from the first computation; names and rules leave no trace."""
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Var, parse, prims
from lamina_ir.testing.samples import samples_of
from lamina_ir.extend import Placement
from lamina_lowering import lower
from lamina_lowering.testing import single_eqn_program
from lamina_ir import aval_of


def text(prim, platform="cpu", **changes):
    row = samples_of(prim)[0]
    closed = single_eqn_program(prim, [aval_of(a) for a in row.args], {**row.params, **changes})
    return lower(closed, platform=platform).as_text()


def recomputing(size, blocks, platform="cpu"):
    """The text of so many checkpoints in a row that compute two sines of so many floats again."""
    row = samples_of(prims.remat_p)[1]
    inner = parse(f"{{ lambda ; a:f32[{size}]. let b:f32[{size}] = sin a c:f32[{size}] = sin b in (c,) }}")
    v = [Var(inner.in_avals[0]) for _ in range(blocks + 1)]
    eqns = [Eqn(prims.remat_p, [a], [b], {**row.params, "call_jaxpr": inner}) for a, b in zip(v, v[1:])]
    return lower(ClosedJaxpr(Jaxpr([], v[:1], eqns, v[-1:])), platform=platform).as_text()


def test_recomputation_stands_apart():
    assert "optimization_barrier" in text(prims.remat_p, "cuda", differentiated=True)
    assert recomputing(1 << 14, 1).count("stablehlo.if") == 1
    for platform in ("cpu", "cuda"):
        for changes in (dict(differentiated=False), dict(differentiated=True, prevent_cse=False)):
            plain = text(prims.remat_p, platform, **changes)
            assert "barrier" not in plain and "stablehlo.if" not in plain


def test_recomputation_that_saves_next_to_nothing_is_not_worth_a_branch():
    assert "stablehlo.if" not in recomputing(64, 4) and "optimization_barrier" in recomputing(64, 4)
    assert recomputing(1 << 12, 4).count("stablehlo.if") == 4  # counted over the module: many small ones are worth it
    assert "stablehlo.if" not in recomputing(1 << 14, 4, "cuda")


def test_names_are_nothing():
    assert "name" not in text(prims.name_p).replace("sym_name", "")
    assert text(prims.optimization_barrier_p).count("optimization_barrier") == 1


def test_memory_is_named_where_there_is_more_than_one():
    made = text(prims.to_memory_p, "cuda")
    assert "@annotate_device_placement" in made and '_xla_buffer_placement = "pinned_host"' in made
    assert "custom_call" not in text(prims.to_memory_p, "cpu")


def test_sharding_is_said_where_the_module_is_partitioned():
    def told(row, partitions):
        return lower(single_eqn_program(row.prim, [aval_of(a) for a in row.args], row.params), placement=Placement(
            tuple(range(partitions)), partitions=partitions)).as_text()

    plain, partly, _ = samples_of(prims.sharding_constraint_p)
    assert "Sharding" not in told(plain, 1)
    assert 'mhlo.sharding = "{devices=[2,1]<=[2]}"' in told(plain, 2) and "unspecified" not in told(plain, 2)
    assert "@Sharding" in told(partly, 4) and 'backend_config = "unspecified_dims=[0]"' in told(partly, 4)
