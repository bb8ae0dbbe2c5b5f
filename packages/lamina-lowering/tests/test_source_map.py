"""The module numbers equations; instructions of the compiled program are mapped back to the user's lines."""
from __future__ import annotations

import re

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Source, Var, prims, shaped
from lamina_lowering import instruction_lines, lower

F = shaped((3,), np.dtype("float32"))


def chain(file="model.py", first=10, inner=None):
    """A sin at `first`, an exp on the next line in the backward pass, and a call of `inner`, a program without lines."""
    a, b, c, d = Var(F), Var(F), Var(F), Var(F)
    eqns = [Eqn(prims.sin_p, [a], [b], {}, Source.from_line(file, first, "f")),
            Eqn(prims.exp_p, [b], [c], {}, Source.from_line(file, first + 1, "f", "scope", "backward"))]
    if inner is not None:
        eqns.append(Eqn(prims.xla_call_p, [c], [d], {**prims.xla_call_p.defaults, "call_jaxpr": inner, "name": "g"},
                        Source.from_line(file, first + 2, "f")))
    return ClosedJaxpr(Jaxpr([], [a], eqns, [d if inner is not None else c]))


def chain_without_lines():
    a, b, c = Var(F), Var(F), Var(F)
    return ClosedJaxpr(Jaxpr([], [a], [Eqn(prims.cos_p, [a], [b], {}), Eqn(prims.tanh_p, [b], [c], {})], [c]))


def test_source_map_has_file_line_function_primitive_and_part():
    one, two = lower(chain()).source_map().values()
    assert one == ("model.py", 10, "f", "sin", "")
    assert two == ("model.py", 11, "f", "scope/exp", "backward")
    assert str(two) == "model.py:11 (f) scope/exp [backward]"


def test_module_does_not_depend_on_line_numbers():
    assert lower(chain()).bytecode() == lower(chain("other.py", 20)).bytecode()


def test_equation_without_line_gets_the_line_of_its_call():
    lines = list(lower(chain(inner=chain_without_lines())).source_map().values())
    assert [(x.line, x.op) for x in lines[-2:]] == [(12, "g/cos"), (12, "g/tanh")]


def test_parsed_program_has_names_and_no_lines():
    lines = list(lower(chain_without_lines()).source_map().values())
    assert [(x.file, x.line, x.op) for x in lines] == [("", 0, "cos"), ("", 0, "tanh")]


def test_single_equation_is_lowered_without_locations():
    a, b = Var(F), Var(F)
    low = lower(ClosedJaxpr(Jaxpr([], [a], [Eqn(prims.sin_p, [a], [b], {}, Source.from_line("m.py", 1, "f"))], [b])))
    assert low.source_map() == {} and "equation" not in low.as_text(debug_info=True)


def test_outer_program_is_numbered_before_nested_ones():
    low = lower(chain(inner=chain_without_lines()))
    assert [line.op for line in low.source_map().values()] == ["sin", "scope/exp", "xla_call", "g/cos", "g/tanh"]
    text = low.as_text(debug_info=True)
    for number, line in low.source_map().items():
        assert line.op == "xla_call" or re.search(rf'"{line.op}"\((#loc\d*|"equation":{number}:0)\)', text)


def test_equation_numbers_are_written_in_the_module():
    text = lower(chain()).as_text(debug_info=True)
    assert '"equation":1:0' in text and '"scope/exp"' in text


_OLD = """HloModule f

%fused (p: f32[3]) -> f32[3] {
  %p = f32[3]{0} parameter(0)
  %sine.1 = f32[3]{0} sine(%p), metadata={op_name="sin" source_file="equation" source_line=1}
  ROOT %exp.1 = f32[3]{0} exponential(%sine.1), metadata={op_name="scope/exp" source_file="equation" source_line=2}
}

ENTRY %main (a: f32[3]) -> f32[3] {
  %a = f32[3]{0} parameter(0)
  %copy.1 = f32[3]{0} copy(%a)
  ROOT %fusion = f32[3]{0} fusion(%copy.1), kind=kLoop, calls=%fused, metadata={source_file="equation" source_line=2}
}
"""
_NEW = _OLD.replace("HloModule f\n", """HloModule f

FileNames
1 "equation"
2 "other"

FunctionNames
1 "sin"

FileLocations
1 {file_name_id=1 function_name_id=1 line=2 end_line=2 column=0 end_column=0}
2 {file_name_id=1 function_name_id=1 line=1 end_line=1 column=0 end_column=0}
3 {file_name_id=2 function_name_id=1 line=1 end_line=1 column=0 end_column=0}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=1}

""").replace('source_file="equation" source_line=2', "stack_frame_id=1").replace('source_file="equation" source_line=1',
                                                                                 "stack_frame_id=2")


def test_instructions_have_lines_in_both_forms_of_hlo_text():
    lines = lower(chain()).source_map()
    for text in (_OLD, _NEW):
        found = instruction_lines(text, lines)
        assert found == {"sine.1": (lines[1],), "exp.1": (lines[2],), "fusion": (lines[2], lines[1])}
