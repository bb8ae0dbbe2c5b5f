"""Recomputation is not merged with the first computation; names and custom rules leave no trace in the module."""
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Var, parse, prims
from lamina_ir.testing.samples import samples_of
from lamina_ir.extend import Placement
from lamina_lowering import lower
from lamina_lowering.testing import single_eqn_program
from lamina_ir import aval_of


def lowered_text(prim, platform="cpu", **changes):
    sample = samples_of(prim)[0]
    closed = single_eqn_program(prim, [aval_of(a) for a in sample.args], {**sample.params, **changes})
    return lower(closed, platform=platform).as_text()


def checkpoint_text(size, blocks, platform="cpu"):
    """Return the text of `blocks` checkpoints in sequence, each of which computes two sines of `size` floats."""
    sample = samples_of(prims.remat_p)[1]
    inner = parse(f"{{ lambda ; a:f32[{size}]. let b:f32[{size}] = sin a c:f32[{size}] = sin b in (c,) }}")
    v = [Var(inner.in_avals[0]) for _ in range(blocks + 1)]
    eqns = [Eqn(prims.remat_p, [a], [b], {**sample.params, "call_jaxpr": inner}) for a, b in zip(v, v[1:])]
    return lower(ClosedJaxpr(Jaxpr([], v[:1], eqns, v[-1:])), platform=platform).as_text()


def test_recomputation_is_behind_a_barrier_or_branch():
    assert "optimization_barrier" in lowered_text(prims.remat_p, "cuda", differentiated=True)
    assert checkpoint_text(1 << 14, 1).count("stablehlo.if") == 1
    for platform in ("cpu", "cuda"):
        for changes in (dict(differentiated=False), dict(differentiated=True, prevent_cse=False)):
            plain = lowered_text(prims.remat_p, platform, **changes)
            assert "barrier" not in plain and "stablehlo.if" not in plain


def test_small_recomputation_needs_no_branch():
    assert "stablehlo.if" not in checkpoint_text(64, 4) and "optimization_barrier" in checkpoint_text(64, 4)
    assert checkpoint_text(1 << 12, 4).count("stablehlo.if") == 4  # counted over the module: many small ones need it
    assert "stablehlo.if" not in checkpoint_text(1 << 14, 4, "cuda")


def test_name_is_an_identity():
    assert "name" not in lowered_text(prims.name_p).replace("sym_name", "")
    assert lowered_text(prims.optimization_barrier_p).count("optimization_barrier") == 1


def test_memory_space_is_written_on_platforms_with_several():
    made = lowered_text(prims.to_memory_p, "cuda")
    assert "@annotate_device_placement" in made and '_xla_buffer_placement = "pinned_host"' in made
    assert "custom_call" not in lowered_text(prims.to_memory_p, "cpu")


def test_sharding_constraint_is_written_in_partitioned_modules():
    def module_text(sample, partitions):
        return lower(single_eqn_program(sample.prim, [aval_of(a) for a in sample.args], sample.params), placement=Placement(
            tuple(range(partitions)), partitions=partitions)).as_text()

    plain, partly, _ = samples_of(prims.sharding_constraint_p)
    assert "Sharding" not in module_text(plain, 1)
    assert 'mhlo.sharding = "{devices=[2,1]<=[2]}"' in module_text(plain, 2) and "unspecified" not in module_text(plain, 2)
    assert "@Sharding" in module_text(partly, 4) and 'backend_config = "unspecified_dims=[0]"' in module_text(partly, 4)
