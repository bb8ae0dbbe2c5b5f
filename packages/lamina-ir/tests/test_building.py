"""Programs built with `Builder` and `build`: default params, operand types and error messages."""
import inspect

import numpy as np
import pytest

from lamina_ir import (Builder, Primitive, ProgramError, ShapeDtypeStruct, Var, alpha_equal, build, check, dumps, eqn_text,
                       evaluate, evaluate_spmd, jaxpr_text, loads, parse, prims, rewrite, shaped)
from lamina_ir._builder.normalize import USUAL_PARAMS
from lamina_ir.testing.programs import make_sample_program
from lamina_ir.testing.samples import samples_of



@pytest.mark.parametrize("prim", prims.ALL, ids=str)
def test_every_primitive_can_be_built_by_name_from_its_samples(prim):
    for row in samples_of(prim):
        b = Builder()
        outs = b.op(prim.name, *[b.input(a) for a in row.args], **row.params)
        program = b.build(*(outs if prim.multiple else [outs]))
        assert alpha_equal(program, make_sample_program(row))


@pytest.mark.parametrize("prim", [p for p in prims.ALL if p.params], ids=str)
def test_omitted_params_have_usual_values(prim):
    """A sample marks params that have the usual values: without them the program is the same."""
    for row in samples_of(prim):
        avals = [shaped(a.shape, a.dtype) for a in row.args]
        left = {}
        for name, value in row.params.items():
            usual = prim.defaults.get(name, USUAL_PARAMS.get((prim.name, name), USUAL_PARAMS.get(name, left)))
            usual = usual(avals) if callable(usual) else usual
            if usual is left or type(usual) is not type(value) or usual != value:
                left[name] = value
        b = Builder()
        outs = b.op(prim, *[b.input(a) for a in avals], **left)
        assert alpha_equal(b.build(*(outs if prim.multiple else [outs])), make_sample_program(row))


def test_usual_values_name_existing_params():
    named = {name for p in prims.ALL for name in p.params}
    both = {(p.name, name) for p in prims.ALL for name in p.params}
    assert all(key in (both if isinstance(key, tuple) else named) for key in USUAL_PARAMS)


def test_built_program_prints_parses_saves_and_evaluates():
    def f(b, x):
        (carry,), (ys,) = b.scan(lambda b, w, c, x: (b.op("add", b.op("mul", c, w), x), c), [b.literal(1.0)], [x], consts=[2.0])
        (w,) = b.while_loop(lambda b, n, c: b.op("lt", c, n), lambda b, c: b.op("mul", c, c), carry, test_consts=[1e3])
        (s,) = b.cond(b.op("lt", w, 0.0), lambda b, y: b.op("neg", y), lambda b, y: b.op("sin", y), w)
        (t,) = b.call(lambda b, y: b.op("mul", y, 3.0), s, name="thrice")
        return t, ys

    program = build(f, "f32[3]")
    x = np.array([1, 2, 3], np.float32)
    total, want = 1.0, []
    for v in x:
        want.append(total)
        total = total * 2 + v
    while total < 1e3:
        total *= total
    got = evaluate(program, x)
    np.testing.assert_allclose(got[0], 3 * np.sin(total), rtol=1e-5)
    np.testing.assert_array_equal(got[1], want)
    assert alpha_equal(parse(jaxpr_text(program)), program) and alpha_equal(loads(dumps(program)), program)


def test_each_equation_has_source_line_of_its_call():
    b = Builder()
    x = b.input("f32[]")
    line = inspect.currentframe().f_lineno + 1
    y = b.op("sin", x)
    (z,) = b.call(lambda b, v: b.op("cos", v), y)
    program = b.build(z)
    assert [(e.source.file, e.source.line) for e in program.eqns] == [(__file__, line), (__file__, line + 1)]
    inner = program.eqns[1].params["call_jaxpr"].eqns[0].source
    assert (inner.file, inner.line) == (__file__, line + 1)


@pytest.mark.parametrize("given", ["f32[3,2]", "float32[3, 2]", shaped((3, 2), "float32"), np.zeros((3, 2), np.float32),
                                   ShapeDtypeStruct((3, 2), "float32")], ids=repr)
def test_input_type_can_be_given_in_several_forms(given):
    assert Builder().input(given).aval == shaped((3, 2), "float32")
    assert Builder().input([3, 2], np.float32).aval == shaped((3, 2), "float32")
    assert Builder().input("~f32[]").aval.weak_type and Builder().input((), "i8").aval.dtype.itemsize == 8


@pytest.mark.parametrize("op, operand, number, wanted", [
    ("mul", "bf16[2]", 2, "2:bf16[]"), ("add", "i8[2]", 2, "2:i8[]"), ("mul", "c64[2]", 2.0, "(2+0j):c64[]"),
    ("and", "bool[2]", True, "True:bool[]"), ("pow", "f64[]", 3, "3.0:f64[]")])
def test_python_scalar_takes_dtype_of_other_operand(op, operand, number, wanted):
    b = Builder()
    b.op(op, b.input(operand), number)
    assert eqn_text(b._eqns[0]).endswith(wanted)


def test_python_scalar_takes_dtype_of_region_operand_and_index_stays_integer():
    b = Builder()
    x, i = b.input("f16[4]"), b.input("i64[]")
    b.op("cond", 1, x, branches=[build(lambda b, x: x, "f16[4]")] * 2)
    b.op("dynamic_slice", x, 1, slice_sizes=[2])
    b.op("select", b.input("bool[4]"), x, 0)
    b.op("add", i, np.int64(3))
    assert [jaxpr_text(b.build())[-0:].count(t) for t in (" 1:i32[]", "0.0:f16[]", "3:i64[]")] == [2, 1, 1]


def test_arrays_become_constants_copied_once_with_own_dtype():
    given = np.arange(3.0)
    b = Builder()
    x = b.input("f64[3]")
    y = b.op("add", b.op("mul", x, given), given)
    given[:] = 7
    z = b.op("add", y, given)
    program = b.build(z)
    assert [c.dtype for c in program.consts] == [np.float64] * 2 and not program.consts[0].flags.writeable
    np.testing.assert_array_equal(evaluate(program, np.ones(3))[0], [7, 9, 11])


def test_builder_can_be_used_after_build():
    b = Builder()
    x = b.input("f32[]")
    y = b.op("sin", x)
    one = b.build(y)
    two = b.build(b.op("cos", y), x)
    assert [len(p.eqns) for p in (one, two)] == [1, 2]
    check(one)


def test_collectives_and_maps():
    body = build(lambda b, x: b.op("psum", x, axes=("i",)), "f32[]")
    assert evaluate_spmd(body, [("i", 2)], [[1, 2]])[0] == [3, 3]
    program = build(lambda b, x: b.op("xla_pmap", x, axis_name="i", axis_size=2, call_jaxpr=body, in_axes=(0,),
                                      out_axes=(None,)), "f32[2]")
    assert "f32[]{i}" in str(program)
    assert evaluate(program, [1.0, 2.0])[0] == 3


def test_replacement_reads_operands_of_equation_and_keeps_its_source():
    program = build(lambda b, x: b.op("integer_pow", x, y=4), "f32[]")

    def powers(e):
        if e.primitive is not prims.integer_pow_p:
            return None
        b = Builder(replacing=e)
        two = b.op("mul", e.invars[0], e.invars[0])
        return b.replacement(b.op("mul", two, two))

    new = rewrite(program, powers)
    check(new)
    assert evaluate(new, 3.0)[0] == 81 and {e.source for e in new.eqns} == {program.eqns[0].source}


twice_p = Primitive("twice_of_building", infer=lambda x: x.nothing)
WRONG = {
    "no such op": (lambda b, x: b.op("sinn", x), ProgramError, "no primitive is named 'sinn'; did you mean sin"),
    "no op": (lambda b, x: b.op(3, x), TypeError, "Builder.op: expected a primitive or the name of one.*got int: 3"),
    "text as operand": (lambda b, x: b.op("add", x, "y"), TypeError, "op `add`: operand 1 must be a variable.*got str: 'y'"),
    "list as operand": (lambda b, x: b.op("add", x, [1.0]), TypeError, "operand 1 must be a variable.*got list"),
    "another's variable": (lambda b, x: b.op("neg", Var(shaped((), "float32"))), ProgramError,
                           r"op `neg`: operand 0 is a variable float32\[\] of another program"),
    "outer variable": (lambda b, x: b.call(lambda c, y: c.op("mul", y, x), x), ProgramError, "as operands of its equation"),
    "too few": (lambda b, x: b.op("add", x), ValueError, "op `add`: takes 2 operands; got 1"),
    "too many": (lambda b, x: b.op("neg", x, x), ValueError, "op `neg`: takes 1 operand; got 2"),
    "unknown param": (lambda b, x: b.op("sin", x, axes=1), TypeError, r"op `sin`: it has no param axes; .*\(none\)"),
    "missing param": (lambda b, x: b.op("sort", x), TypeError, "op `sort`: its param dimension is missing; it needs dimension"),
    "kind of param": (lambda b, x: b.op("reduce_sum", x, axes=0), TypeError,
                      "op `reduce_sum`: its param axes must be a tuple of ints; got int: 0"),
    "dtype": (lambda b, x: b.op("convert_element_type", x, new_dtype="f33"), TypeError, "new_dtype: expected a dtype.*'f33'"),
    "program as param": (lambda b, x: b.op("xla_call", x, call_jaxpr=lambda b: 0), TypeError, "lamina_ir.build"),
    "number too large": (lambda b, x: b.op("add", b.input("u8[]"), 300), TypeError,
                         "op `add`: operand 1 300 is not representable as uint8"),
    "float and int": (lambda b, x: b.op("add", b.input("i32[]"), .5), TypeError,
                      "add: operands need one dtype; got int32"),
    "shape": (lambda b, x: b.op("add", x, b.input("f32[7]")), ValueError, "add: operands need one shape"),
    "type rule": (lambda b, x: b.op(twice_p, x), ProgramError,
                  r"Builder.op: `twice_of_building`: it has no type for the operands float32"),
    "type": (lambda b, x: b.input("f32"), ValueError, r"Builder.input: expected a type such as \"f32\[8,3\]\".*got str: 'f32'"),
    "type in text": (lambda b, x: b.input("g32[2]"), TypeError, "expected a dtype such as"),
    "negative size": (lambda b, x: b.input((-1,), "float32"), ValueError, r"must be at least 0; got \(-1,\)"),
    "no shape": (lambda b, x: b.input(2.5, "float32"), ValueError, "expected a shape, a tuple of ints; got float: 2.5"),
    "one type": (lambda b, x: b.input(3), ValueError, "got int: 3"),
    "results as a list": (lambda b, x: b.build([x, x]), TypeError, r"build\(\*results\); got one list of 2"),
    "result": (lambda b, x: b.build(None), TypeError, "Builder.build: result 0 must be a variable.*got NoneType"),
    "replacement": (lambda b, x: b.replacement(x), ProgramError, "call build"),
    "literal": (lambda b, x: b.literal(np.zeros(2)), ValueError, "literals are scalars; got an array float64"),
    "bool": (lambda b, x: b.literal(True, "float32"), TypeError, "Builder.literal: True is not representable as float32"),
    "instead of": (lambda b, x: Builder(replacing=3), TypeError, "replacing must be an Eqn; got int: 3"),
    "pred": (lambda b, x: b.cond(x, None, None), TypeError, r"pred must be bool\[\]; got float32\[3\]"),
    "branches": (lambda b, x: b.switch(0, None, x), TypeError, "branches must be a list of programs"),
    "branch": (lambda b, x: b.switch(0, [3], x), TypeError, "Builder.switch: expected a ClosedJaxpr; got int: 3"),
    "length": (lambda b, x: b.scan(lambda b, c: c, [1.0]), TypeError, "length= is required"),
    "scalar xs": (lambda b, x: b.scan(lambda b, c: c, [], [1.0]), ValueError, "must have a leading axis"),
    "carry": (lambda b, x: b.scan(lambda b, c: x, 1.0, length=2), TypeError, "expected a list of operands; got float: 1.0"),
    "inline": (lambda b, x: b.inline(build(lambda b, x: x, "f32[2]"), x), ValueError, r"takes float32\[2\]; got float32\[3\]"),
    "build": (lambda b, x: build(3), TypeError, "build: expected a function"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_rejected_with_message(name):
    f, kind, words = WRONG[name]
    b = Builder()
    with pytest.raises(kind, match=words):
        f(b, b.input("f32[3]"))


def test_replacement_rejects_inputs_constants_and_other_types():
    e = build(lambda b, x: b.op("sin", x), "f32[3]").eqns[0]
    with pytest.raises(ProgramError, match="cannot add inputs"):
        Builder(replacing=e).input("f32[]")
    with pytest.raises(ProgramError, match=r"the array float32\[3\] would become a constant"):
        Builder(replacing=e).op("mul", e.invars[0], np.ones(3, np.float32))
    with pytest.raises(ProgramError, match=r"must have the types of those of `sin`, float32\[3\]; got float32\[\]"):
        Builder(replacing=e).replacement(1.0)
    with pytest.raises(ProgramError, match="call replacement"):
        Builder(replacing=e).build()
