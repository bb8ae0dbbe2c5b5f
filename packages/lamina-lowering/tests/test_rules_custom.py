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
