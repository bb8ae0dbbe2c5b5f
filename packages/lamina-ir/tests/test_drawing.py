"""Programs as Graphviz text: the text is valid, and every edge has two nodes."""
import re

import pytest

from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, ProgramError, Var, build, jaxpr_dot, parse, prims, shaped
from lamina_ir.testing.programs import NOTEBOOK, make_sample_program
from lamina_ir.testing.samples import samples_of

ID = r'(?:\w+|"(?:[^"\\]|\\.)*")'
ATTRIBUTES = rf"(?: \[{ID}={ID}(?:, {ID}={ID})*\])?"
STATEMENTS = [(rf"(\w+) -> (\w+){ATTRIBUTES};", "edge"), (rf"(\w+){ATTRIBUTES};", "node"), (r"subgraph (\w+) \{", "open"),
              (r"\}", "close"), (rf"(?:(?:node|edge){ATTRIBUTES}; ?|{ID}={ID}; ?)+", "setting")]


def parse_dot(text):
    """Return nodes, edges and clusters; fail at a line that is not one of the statements we write."""
    head, *lines = text.split("\n")
    assert re.fullmatch(rf"digraph {ID} {{", head)
    nodes, edges, frames, depth = [], [], [], 1
    for line in lines:
        kind, m = next((kind, m) for pattern, kind in reversed(STATEMENTS) if (m := re.fullmatch(pattern, line.strip())))
        if kind == "open":
            frames.append(m[1])
        depth += {"open": 1, "close": -1}.get(kind, 0)
        if kind == "node":
            nodes.append(m[1])
        if kind == "edge":
            edges.append((m[1], m[2]))
    assert depth == 0 and len(set(nodes)) == len(nodes) and len(set(frames)) == len(frames)
    assert {end for edge in edges for end in edge} <= set(nodes)
    return nodes, edges, frames


@pytest.mark.parametrize("prim", prims.ALL, ids=str)
def test_every_primitive_is_drawn(prim):
    for row in samples_of(prim):
        program = make_sample_program(row)
        text = jaxpr_dot(program, costs=True)
        nodes, edges, frames = parse_dot(text)
        assert f'label="{prim.name}' in text and len(frames) == len(re.findall("subgraph", text))
        # inputs, results and the equation
        assert len([n for n in nodes if n.startswith("p0")]) == len(row.args) + len(program.out_avals) + 1
        assert len([e for e in edges if e[1] == "p0e0"]) == len(row.args)


@pytest.mark.parametrize("name", NOTEBOOK)
def test_nested_programs_are_clusters(name):
    program, text = NOTEBOOK[name]
    _, _, frames = parse_dot(jaxpr_dot(program))
    assert len(frames) == text.count("lambda") - 1


def test_edges_literals_params_sources_and_costs():
    program = build(lambda b, x: b.op("reduce_sum", b.op("mul", x, 2.0), axes=(0,)), "f32[1000]")
    text = jaxpr_dot(program, costs=True, name='my "graph"')
    assert text.startswith('digraph "my \\"graph\\"" {')
    assert '[label="mul(·, 2.0)\\n1k flops, 8kB\\ntest_drawing.py:' in text
    assert '[label="reduce_sum\\naxes=(0,)\\n999 flops, 4kB\\ntest' in text and '[label="b:f32[1000]"]' in text
    assert parse_dot(text)[1] == [("p0i0", "p0e0"), ("p0e0", "p0e1"), ("p0e1", "p0r0")]


def test_shared_program_is_drawn_once():
    program = parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")
    for _ in range(40):
        program = build(lambda b, x: b.call(program, *b.call(program, x)), "f32[]")
    nodes, edges, frames = parse_dot(jaxpr_dot(program))
    assert len(frames) == 40 and len([e for e in edges if e[1].endswith("t")]) == 80


def test_non_programs_are_rejected():
    with pytest.raises(TypeError, match="jaxpr_dot: expected a ClosedJaxpr; got str: 'sin'"):
        jaxpr_dot("sin")
    with pytest.raises(TypeError, match="jaxpr_dot: name must be a string; got int"):
        jaxpr_dot(NOTEBOOK["pmap"][0], name=3)
    v, w = Var(shaped((), "float32")), Var(shaped((), "float32"))
    with pytest.raises(ProgramError, match="operand 0 is a variable of type f32.* not bound"):
        jaxpr_dot(ClosedJaxpr(Jaxpr([], [], [Eqn(prims.sin_p, [v], [w], {})], [w])))
