"""Maps over named axes, and collectives over these axes: each member runs on a device and gets its own results."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Var, aval_of, prims, shaped
from lamina_ir.extend import infer_equation_types
from lamina_ir.testing import assert_close
from lamina_ir.testing.samples import samples_of
from lamina_ir.testing.samples.collectives import AXES, per_device

from lamina_lowering import lower

from lamina_lowering.conformance.runner import program_of, run

pytestmark = pytest.mark.collectives


def map_members(program: ClosedJaxpr, name: str, size: int, around: frozenset[str] = frozenset()) -> ClosedJaxpr:
    """Return the program of all members along an axis, given that of one; `around` are the axes of outer maps."""
    ins = [Var(shaped((size, *a.shape), a.dtype).with_varying_axes(around)) for a in program.in_avals]
    n = len(ins)
    params = dict(axis_name=name, axis_size=size, backend=None, call_jaxpr=program, devices=None, donated_invars=(False,) * n,
                  global_arg_shapes=(None,) * n, global_axis_size=None, in_axes=(0,) * n, name="members",
                  out_axes=(0,) * len(program.out_avals))
    params, types = infer_equation_types(prims.xla_pmap_p, [v.aval for v in ins], params, around)
    outs = [Var(a) for a in types]
    return ClosedJaxpr(Jaxpr([], ins, [Eqn(prims.xla_pmap_p, ins, outs, params)], outs))


def map_both_axes(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return the program of all members along the axes of `AXES`."""
    (i, n), (j, m) = zip(AXES.names, AXES.sizes)
    return map_members(map_members(program, j, m, frozenset([i])), i, n)


@pytest.mark.parametrize("prim", [p for p in prims.ALL if p.family == "collectives"], ids=str)
def test_lowered_collective_equals_numpy_evaluation_on_every_member(prim: Any) -> None:
    rows = samples_of(prim)
    assert rows
    program = map_both_axes(program_of([(row.prim, [aval_of(a) for a in row.args], row.params) for row in rows]))
    operands = [per_device(row) for row in rows]
    given = [np.stack(xs).reshape(*AXES.sizes, *np.shape(xs[0])) for values in operands for xs in values]
    got = iter(run(lower(program), program, given))
    for row, values in zip(rows, operands):
        wanted = prim.numpy(AXES, *values, **row.params)  # type: ignore[misc]
        for result in wanted if prim.multiple else (wanted,):
            assert_close(next(got), np.stack(result).reshape(*AXES.sizes, *np.shape(result[0])), what=row.id)


def test_members_are_independent_without_collectives() -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    program = map_both_axes(program_of([(prims.sin_p, [shaped((3,), x.dtype)], {})]))
    assert_close(run(lower(program), program, [x])[0], np.sin(x))
