"""Recomputing calls stand apart from the first computation; names and rules leave no trace."""
from lamina_ir import prims
from lamina_ir.testing.samples import samples_of
from lamina_lowering import lower
from lamina_lowering.testing import one_op
from lamina_ir import aval_of


def text(prim, platform="cpu", **changes):
    row = samples_of(prim)[0]
    return lower(one_op(prim, [aval_of(a) for a in row.args], {**row.params, **changes}), platform=platform).as_text()


def test_recomputation_stands_apart():
    assert "optimization_barrier" in text(prims.remat_p, "cuda", differentiated=True)
    assert "stablehlo.if" in text(prims.remat_p, "cpu", differentiated=True)
    for platform in ("cpu", "cuda"):
        for changes in (dict(differentiated=False), dict(differentiated=True, prevent_cse=False)):
            plain = text(prims.remat_p, platform, **changes)
            assert "barrier" not in plain and "stablehlo.if" not in plain


def test_names_are_nothing():
    assert "name" not in text(prims.name_p).replace("sym_name", "")
    assert text(prims.optimization_barrier_p).count("optimization_barrier") == 1


def test_memory_is_named_where_there_is_more_than_one():
    made = text(prims.to_memory_p, "cuda")
    assert "@annotate_device_placement" in made and '_xla_buffer_placement = "pinned_host"' in made
    assert "custom_call" not in text(prims.to_memory_p, "cpu")


def test_sharding_is_said_where_the_module_is_partitioned():
    def told(row, partitions):
        return lower(one_op(row.prim, [aval_of(a) for a in row.args], row.params), num_partitions=partitions).as_text()

    plain, partly, _ = samples_of(prims.sharding_constraint_p)
    assert "Sharding" not in told(plain, 1)
    assert 'mhlo.sharding = "{devices=[2,1]<=[2]}"' in told(plain, 2) and "unspecified" not in told(plain, 2)
    assert "@Sharding" in told(partly, 4) and 'backend_config = "unspecified_dims=[0]"' in told(partly, 4)
