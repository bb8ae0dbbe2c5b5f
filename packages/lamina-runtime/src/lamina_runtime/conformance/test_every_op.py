"""Every primitive equals its NumPy evaluation, eager and compiled, in value, dtype and weak type."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Var, aval_of, evaluate_primitive, prims
from lamina_ir.testing import assert_close
from lamina_ir.testing.samples import canonicalize_results, samples_of
from lamina_tracing import jit
from lamina_tracing.extend import bind, jaxpr_as_fun, typeof

from lamina_runtime import Array

# Primitives over axes and meshes are tested with devices, in `test_devices.py`; keys below.
OPS = [p for p in prims.ALL if p.family not in ("collectives", "random_keys", "maps")]


def listed(prim: Any, results: Any) -> list[Any]:
    return list(results) if prim.multiple else [results]


@pytest.mark.parametrize("prim", OPS, ids=str)
def test_eager_primitive_equals_numpy_evaluation(prim: Any) -> None:
    row = samples_of(prim)[0]
    got = listed(prim, bind(prim, *row.args, **row.params))
    avals = [aval_of(a) for a in row.args]
    wanted = listed(prim, evaluate_primitive(prim, row.args, row.params))
    for value, aval in zip(got, listed(prim, prim.infer(*avals, **row.params)), strict=True):
        assert isinstance(value, Array)
        assert (value.shape, value.dtype, value.weak_type) == (aval.shape, aval.dtype, aval.weak_type)
    pairs = zip(canonicalize_results(prim, [np.asarray(x) for x in got]), canonicalize_results(prim, wanted), strict=True)
    for a, b in pairs:
        assert_close(a, b, what=row.id)


@pytest.mark.parametrize("prim", [p for p in OPS if not p.subprograms and p.family != "special"], ids=str)
def test_compiled_primitive_equals_numpy_evaluation(prim: Any) -> None:
    rows = samples_of(prim)
    ins, eqns, outs = [], [], []
    for row in rows:
        operands = [Var(aval_of(a)) for a in row.args]
        results = [Var(a) for a in listed(prim, prim.infer(*[v.aval for v in operands], **row.params))]
        eqns.append(Eqn(prim, operands, results, row.params))
        ins += operands
        outs += results
    run = jit(jaxpr_as_fun(ClosedJaxpr(Jaxpr([], ins, eqns, outs))))
    got = [np.asarray(x) for x in run(*[a for row in rows for a in row.args])]
    for row in rows:
        wanted = listed(prim, evaluate_primitive(prim, row.args, row.params))
        mine, got = got[:len(wanted)], got[len(wanted):]
        for a, b in zip(canonicalize_results(prim, mine), canonicalize_results(prim, wanted), strict=True):
            assert_close(a, b, what=row.id)
    assert not got


@pytest.mark.parametrize("prim", [p for p in OPS if p.subprograms], ids=str)
def test_compiled_primitive_with_regions_equals_numpy_evaluation(prim: Any) -> None:
    for row in samples_of(prim)[1:3] or samples_of(prim):
        got = listed(prim, jit(lambda *xs, row=row: bind(row.prim, *xs, **row.params))(*row.args))
        for a, b in zip(got, listed(prim, evaluate_primitive(prim, row.args, row.params)), strict=True):
            assert_close(a, b, what=row.id)


def test_random_wrap_and_unwrap_round_trip() -> None:
    for row in samples_of(prims.random_wrap_p):
        keys = bind(prims.random_wrap_p, *row.args, **row.params)
        assert typeof(keys) == row.prim.infer(aval_of(row.args[0]), **row.params)
        assert_close(bind(prims.random_unwrap_p, keys, use="data"), row.args[0])
        assert_close(jit(lambda k: bind(prims.random_unwrap_p, k, use="data"))(keys), row.args[0])
