"""Source lines of lowered programs."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Source, Var, prims, shaped

from lamina_lowering import SourceLine, lower

from lamina_lowering.conformance.runner import call_of, chain

pytestmark = pytest.mark.lines

V = shaped((3,), np.dtype("float32"))


def program_with_lines(file: str, first: int) -> ClosedJaxpr:
    """Return a program: sin at line `first` of `file`, exp on the next line in a scope, a call on the one after it."""
    a, b, c = Var(V), Var(V), Var(V)
    call, out = call_of(chain(prims.cos_p, prims.tanh_p), [c], prims.xla_call_p, name="g")
    call = Eqn(call.primitive, [c], out, call.params, Source.from_line(file, first + 2, "f"))
    sin = Eqn(prims.sin_p, [a], [b], {}, Source.from_line(file, first, "f"))
    exp = Eqn(prims.exp_p, [b], [c], {}, Source.from_line(file, first + 1, "f", "scope", "backward"))
    return ClosedJaxpr(Jaxpr([], [a], [sin, exp, call], out))


def test_equations_have_their_line_or_that_of_their_call() -> None:
    found = lower(program_with_lines("model.py", 10)).source_map()
    assert found and all(isinstance(number, int) and isinstance(line, SourceLine) for number, line in found.items())
    lines = {(line.file, line.line, line.op.split("/")[-1]) for line in found.values()}
    assert {("model.py", 10, "sin"), ("model.py", 11, "exp"), ("model.py", 12, "cos"), ("model.py", 12, "tanh")} <= lines
    assert {line.part for line in found.values() if line.line == 11} == {"backward"}


def test_source_lines_do_not_change_the_program() -> None:
    here, there = lower(program_with_lines("model.py", 10)), lower(program_with_lines("other.py", 20))
    assert here.bytecode() == there.bytecode()
    assert {line.file for line in there.source_map().values()} == {"other.py"}
