"""Source lines of equations: looked up in the stack, set in the trace state, or of a rule."""
from __future__ import annotations

import linecache

import pytest
from lamina_ir import Source, parse
from lamina_tracing import jit, lax, make_jaxpr, named_scope
from lamina_tracing.extend import eval_jaxpr, trace_state, make_rule_source, get_function_source, find_user_source


def line_of(text):
    return next(i for i in range(1, 200) if text in linecache.getline(__file__, i))


def program_with_one_source():
    program = parse("{ lambda ; a:f32[]. let b:f32[] = sin a c:f32[] = cos b in (c,) }")
    program.jaxpr.eqns[0].source = Source.from_line("model.py", 7, "layer", "inner")
    return program


def sources(fun, *args):
    return [e.source for e in make_jaxpr(fun)(*args).jaxpr.eqns]


def test_eval_jaxpr_keeps_sources_and_fills_missing_ones_with_call():
    def f(x):
        return eval_jaxpr(program_with_one_source(), [x])  # the call

    first, second = sources(f, 1.0)
    assert repr(first) == "model.py:7 (layer)" and first.scope == "inner"
    assert (second.line, second.function, second.scope) == (line_of("the " + "call"), "f", "")


def test_outer_scopes_precede_inner_scopes():
    def f(x):
        with named_scope("outer"):
            return eval_jaxpr(program_with_one_source(), [x])

    assert [s.scope for s in sources(f, 1.0)] == ["outer/inner", "outer"]


def test_derived_program_has_no_source_of_caller():
    program = program_with_one_source()
    trace_state.source = Source.from_line("model.py", 3, "call")
    try:
        derived = make_jaxpr(lambda x: lax.mul(*eval_jaxpr(program, [x]), 2.0))(1.0)
    finally:
        trace_state.source = None
    assert [repr(e.source) for e in derived.jaxpr.eqns] == ["model.py:7 (layer)", "None", "None"]


def test_error_resets_source_and_scope():
    with pytest.raises(KeyError):
        make_jaxpr(lambda x: eval_jaxpr(program_with_one_source(), [{}["no"]]))(1.0)
    with pytest.raises(TypeError):
        eval_jaxpr(program_with_one_source(), ["text"])
    assert trace_state.source is None and trace_state.scope == ""


def test_rule_source_is_used_inside_rule_only():
    def rule():
        return find_user_source()  # in the rule

    trace_state.source = Source.from_line("model.py", 9, "op")
    try:
        line, trace_state.source = trace_state.source, make_rule_source("backward")
        found = rule()
        trace_state.source = line
        assert find_user_source() is line
    finally:
        trace_state.source = None
    assert (found.line, found.part) == (line_of("in the " + "rule"), "backward")


def test_function_source_ignores_wrappers():
    def f(x):  # the def
        return x

    assert get_function_source(jit(f)).line == line_of("the " + "def")
    assert get_function_source(lax.sin) is None


def test_sources_made_from_line():
    s = Source.from_line("model.py", 12, "loss", "scope")
    assert (s.file, s.line, s.function, s.scope, s.part) == ("model.py", 12, "loss", "scope", "")
    assert repr(s.backward().backward()) == "model.py:12 (loss) [backward of backward]"
    assert s.in_scope("outer").scope == "outer/scope"


def test_equations_of_one_line_share_its_source():
    def f(x):
        for _ in range(3):
            x = lax.sin(x)
        return [lax.exp(x)]

    first, second, third, other = sources(f, 1.0)
    assert first is second is third is not other and other.line == first.line + 1


def test_equations_of_one_line_in_different_scopes_have_different_sources():
    def f(x):
        for name in "aba":
            with named_scope(name):
                x = lax.sin(x)
        return [x]

    assert [source.scope for source in sources(f, 1.0)] == ["a", "b", "a"]
