"""Programs and constants that are shared stay shared after lowering."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Var, prims, shaped

from lamina_lowering import lower

from lamina_lowering.conformance.runner import V, call_of, chain, check_run

pytestmark = pytest.mark.cost


def doubled_program(depth: int) -> ClosedJaxpr:
    """Return a program of `depth` levels, each of which calls the next one twice: 2 ** depth innermost calls."""
    program = chain(prims.sin_p, prims.tanh_p, prims.sin_p, prims.tanh_p)
    for _ in range(depth):
        x = Var(V)
        one, mid = call_of(program, [x], prims.xla_call_p, name="f")
        two, out = call_of(program, mid, prims.xla_call_p, name="f")
        program = ClosedJaxpr(Jaxpr([], [x], [one, two], out))
    return program


def test_shared_program_is_lowered_once() -> None:
    check_run(doubled_program(3), np.array([0.5, -1, 2], np.float32), slack=4)
    small, large = len(lower(doubled_program(3)).as_text()), len(lower(doubled_program(9)).as_text())
    assert large < 8 * small  # proportional to the number of programs, not of calls


def test_large_constants_stay_outside() -> None:
    def size(n: int) -> int:
        c, x, y = (Var(shaped((n,), V.dtype)) for _ in range(3))
        program = ClosedJaxpr(Jaxpr([c], [x], [Eqn(prims.add_p, [c, x], [y], {})], [y]), [np.arange(n, dtype=np.float32)])
        return len(lower(program).bytecode())

    assert size(100_000) < size(1000) + 4000
