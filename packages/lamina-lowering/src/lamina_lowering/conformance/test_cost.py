"""What is shared in a program is shared in what it is lowered to."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Var, prims, shaped

from lamina_lowering import lower

from lamina_lowering.conformance.runner import V, agrees, call_of, chain

pytestmark = pytest.mark.cost


def doubled(depth: int) -> ClosedJaxpr:
    """A program that calls one twice that calls one twice, and so on: two to the `depth` calls of the innermost."""
    program = chain(prims.sin_p, prims.tanh_p, prims.sin_p, prims.tanh_p)
    for _ in range(depth):
        x = Var(V)
        one, mid = call_of(program, [x], prims.xla_call_p, name="f")
        two, out = call_of(program, mid, prims.xla_call_p, name="f")
        program = ClosedJaxpr(Jaxpr([], [x], [one, two], out))
    return program


def test_a_program_that_is_called_again_and_again_is_lowered_once() -> None:
    agrees(doubled(3), np.array([0.5, -1, 2], np.float32), slack=4)
    small, large = len(lower(doubled(3)).as_text()), len(lower(doubled(9)).as_text())
    assert large < 8 * small  # in proportion to the programs there are, and not to the calls


def test_large_constants_stay_outside() -> None:
    def size(n: int) -> int:
        c, x, y = (Var(shaped((n,), V.dtype)) for _ in range(3))
        program = ClosedJaxpr(Jaxpr([c], [x], [Eqn(prims.add_p, [c, x], [y], {})], [y]), [np.arange(n, dtype=np.float32)])
        return len(lower(program).bytecode())

    assert size(100_000) < size(1000) + 4000
