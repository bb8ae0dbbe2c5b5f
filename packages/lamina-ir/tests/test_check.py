"""The checker's messages, and alpha equality."""
import re

import numpy as np
import pytest

from lamina_ir import (ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Primitive, ProgramError, ShapeDtypeStruct, Var,
                       alpha_equal, aval_of, check, dtypes, parse, prims, shaped)
from lamina_ir.testing.samples import samples_of
from lamina_ir.testing.programs import NOTEBOOK, chain, f32


@pytest.mark.parametrize("name", NOTEBOOK)
def test_good_programs_pass(name):
    check(NOTEBOOK[name][0])
    check(NOTEBOOK[name][0].jaxpr)


def test_long_programs_pass():
    check(chain(20000))


A, B, C = (Var(f32(3)) for _ in range(3))


def neg(a, b, **params):
    return Eqn(prims.neg_p, [a], [b], params)


@pytest.mark.parametrize(("program", "words"), [
    (Jaxpr([], [A], [neg(C, B)], [B]),
     "check: equation 0 `b:f32[3] = neg a`: operand 0 is a variable of type f32[3] that is not bound before"),
    (Jaxpr([], [A], [neg(A, B), neg(A, B)], [B]), "equation 1 `b:f32[3] = neg a`: result 0 is bound already"),
    (Jaxpr([], [A], [neg(A, Var(f32(4)))], []), "equation 0 `b:f32[4] = neg a`: result 0 is f32[4]; neg returns f32[3]"),
    (Jaxpr([], [A], [neg(A, B, axis=3)], [B]), "neg declares the params none; unexpected axis"),
    (Jaxpr([], [A], [Eqn(prims.reduce_sum_p, [A], [B], {})], [B]), "declares the params axes; missing axes"),
    (Jaxpr([], [A], [Eqn(prims.reduce_sum_p, [A], [B], {"axes": (7,)})], [B]), "axis 7 is out of range"),
    (Jaxpr([], [A], [], [B]), "result 0 is a variable of type f32[3] that is not bound"),
    (Jaxpr([], [A, A], [], []), "invar 1 must be a variable that is not bound yet"),
    (Jaxpr([], [A], [Eqn(prims.neg_p, [A], [B, C], {})], []), "it has 2 results; neg returns 1"),
    (Jaxpr([], [A], [Eqn(prims.neg_p, [A, A], [B], {})], []), "neg takes 1 operands; got 2"),
    (Jaxpr([], [A], [Eqn(prims.add_p, [A], [B], {})], []), "equation 0 `b:f32[3] = add a`: add takes 2 operands; got 1"),
    (Jaxpr([], [A], [Eqn(prims.neg_p, [Literal("x", f32())], [Var(f32())], {})], []),
     "operand 0 is a literal of type float32[] with the value 'x', which is not a number"),
    (Jaxpr([], [], [], [Literal(np.ones(3), f32())]), "with a value of shape (3,); literals are scalars"),
    (Jaxpr([], [], [], [Literal(1.0, f32(3))]), "result 0 is a literal of type float32[3]; literals are scalars"),
    (Jaxpr([], [A], [], [A], axis_names=frozenset(["i"])), "axis_names must be the free axis names of the equations, "),
    (Jaxpr([], [A], [], [A], effectful=True), "effectful must be False"),
    (ClosedJaxpr(Jaxpr([A], [], [], [A]), [np.ones(4, np.float32)]), "constant 0 must be float32[3]; got float32[4]")])
def test_ill_formed_programs_have_exact_messages(program, words):
    with pytest.raises(ProgramError, match=re.escape(words)):
        check(program)


@pytest.mark.parametrize(("prim", "name", "value", "words"), [
    (prims.reduce_sum_p, "axes", "x", "its param axes must be a tuple of ints; got str: 'x'"),
    (prims.reduce_sum_p, "axes", [0], "its param axes must be a tuple of ints; got list: [0]"),
    (prims.cumsum_p, "reverse", "x", "its param reverse must be a bool; got str: 'x'"),
    (prims.cumsum_p, "axis", True, "its param axis must be an int; got bool: True"),
    (prims.convert_element_type_p, "new_dtype", "float32", "its param new_dtype must be a dtype; got str: 'float32'"),
    (prims.scan_p, "reverse", "x", "its param reverse must be a bool; got str: 'x'"),
    (prims.cond_p, "branches", [], "its param branches must be a tuple of ClosedJaxprs; got list: []"),
    (prims.pad_p, "padding_config", (1,), "its param padding_config must be a tuple of tuples of ints; got tuple: (1,)")])
def test_params_of_wrong_kind_are_rejected(prim, name, value, words):
    good = samples_of(prim)[0]
    ins = [Var(aval_of(a)) for a in good.args]
    made = prim.infer(*[v.aval for v in ins], **good.params)
    outs = [Var(a) for a in (made if prim.multiple else [made])]
    with pytest.raises(ProgramError, match=re.escape(words)):
        check(Jaxpr([], ins, [Eqn(prim, ins, outs, {**good.params, name: value})], []))


def test_third_party_primitive_declares_param_kinds():
    free = Primitive("free", infer=lambda x, **_: x, params=("axes", "reverse"), kinds={"reverse": "bool"})
    check(Jaxpr([], [A], [Eqn(free, [A], [B], {"axes": "any", "reverse": True})], []))
    with pytest.raises(ProgramError, match="its param reverse must be a bool"):
        check(Jaxpr([], [A], [Eqn(free, [A], [B], {"axes": "any", "reverse": 1})], []))


def test_region_cannot_read_variables_of_outer_program():
    inner_in, inner_out, out = Var(f32(3)), Var(f32(3)), Var(f32(3))
    sub = ClosedJaxpr(Jaxpr([], [inner_in], [neg(A, inner_out)], [inner_out]))
    call = Eqn(prims.xla_call_p, [A], [out], {"call_jaxpr": sub, "name": "f", "donated_invars": (), "inline": False,
                                             "device": None, "backend": None})
    with pytest.raises(ProgramError, match=r"check: equation 0 \(xla_call\), program 0: equation 0 `.*`: operand 0 is"):
        check(Jaxpr([], [A], [call], [out]))


def test_dropped_results_cannot_be_read():
    drop = DropVar(f32(3))
    with pytest.raises(ProgramError, match="dropped result"):
        check(Jaxpr([], [A], [neg(A, drop), neg(drop, B)], [B]))


@pytest.mark.parametrize(("other", "same"), [
    ("{ lambda ; b:f32[] x:f32[]. let y:f32[] = sub b x in (y,) }", True),
    ("{ lambda ; b:~f32[] x:f32[]. let y:f32[] = sub b x in (y,) }", True),
    ("{ lambda ; x:f32[] b:f32[]. let y:f32[] = sub b x in (y,) }", False),
    ("{ lambda ; b:f32[] x:f32[]. let y:f32[] = add b x in (y,) }", False),
    ("{ lambda ; b:f32[] x:f32[]. let y:f32[] = sub b x in (b,) }", False),
    ("{ lambda ; b:f32[] x:f32[]. let y:f32[] = sub b 1.0:f32[] in (y,) }", False),
    ("{ lambda ; b:f32[]. let y:f32[] = sub b b in (y,) }", False)])
def test_alpha_equal(other, same):
    assert alpha_equal(parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = sub a b in (c,) }"), parse(other)) is same


def test_alpha_equal_compares_weak_types_only_when_asked():
    a = parse("{ lambda ; a:f32[]. let  in (a,) }")
    b = parse("{ lambda ; a:~f32[]. let  in (a,) }")
    assert alpha_equal(a, b) and not alpha_equal(a, b, weak=True)


def test_alpha_equal_compares_constants_and_params():
    def make(value):
        v = Var(f32(2))
        return ClosedJaxpr(Jaxpr([v], [], [], [v]), [np.array([value, 1], np.float32)])
    assert alpha_equal(make(np.nan), make(np.nan)) and not alpha_equal(make(0), make(1))
    pmap, text = NOTEBOOK["pmap"]
    assert alpha_equal(pmap, parse(text))
    assert not alpha_equal(pmap, parse(text.replace("name=dot", "name=cos")))
    assert not alpha_equal(pmap, NOTEBOOK["pmap of jit"][0])


def test_alpha_equal_distinguishes_one_unnamed_axis_from_two():
    text = """{{ lambda ; a:f32[]. let
        b:f32[] = psum[axes=(<axis 0x1>,) axis_index_groups=None] a
        c:f32[] = psum[axes=(<axis {}>,) axis_index_groups=None] b
      in (c,) }}"""
    one, two = parse(text.format("0x1")), parse(text.format("0x2"))
    assert alpha_equal(one, parse(text.format("0x1"))) and not alpha_equal(one, two) and not alpha_equal(two, one)


def test_literals_compare_by_bits_or_as_nan():
    aval = shaped((), dtypes.as_dtype("float32"))
    program = lambda x: Jaxpr([], [], [], [Literal(x, aval)])  # noqa: E731
    assert alpha_equal(program(2), program(np.float32(2))) and alpha_equal(program(np.nan), program(float("nan")))
    assert not alpha_equal(program(2), program(3))


def test_non_programs_are_rejected():
    with pytest.raises(TypeError, match="check: expected a Jaxpr or a ClosedJaxpr; got int"):
        check(3)
    broken = Jaxpr([], [A], [], [A])
    broken.eqns.append("text")
    with pytest.raises(ProgramError, match="equation 0 must be an Eqn; got str"):
        check(broken)


DOT = ("{ lambda ; a:f32[2,3] b:f32[3,2]. let c:f32[2,2] = dot_general[dimension_numbers=(((1,), (0,)), ((), ())) "
       "precision=None preferred_element_type=None] a b in (c,) }")
FFT = "{ lambda ; a:f32[4]. let b:c64[3] = fft[fft_type=FftType.RFFT fft_lengths=(4,)] a in (b,) }"
REDUCE = "{ lambda ; a:f32[2]. let b:f32[2] = reduce_precision[exponent_bits=5 mantissa_bits=10] a in (b,) }"
GATHER = ("{ lambda ; a:f32[4] b:i32[2,1]. let c:f32[2] = gather[dimension_numbers=GatherDimensionNumbers(offset_dims=(), "
          "collapsed_slice_dims=(0,), start_index_map=(0,), operand_batching_dims=(), start_indices_batching_dims=()) "
          "fill_value=None indices_are_sorted=False mode=GatherScatterMode.CLIP slice_sizes=(1,) unique_indices=False] a b "
          "in (c,) }")
CALL = "{ lambda ; a:f32[]. let b:f32[] = xla_call[call_jaxpr={ lambda ; a:f32[]. let  in (a,) } name=f] a in (b,) }"
BITS = "{ lambda ; a:i8[3]. let b:i8[3] = bitcast_convert_type[new_dtype=int8] a in (b,) }"
IOTA = "{ lambda ; . let a:i32[0,2] = iota[dimension=1 dtype=int32 shape=(0, 2)] in (a,) }"


@pytest.mark.parametrize(("text", "old", "new", "message"), [
    (DOT, "precision=None", "precision=(1+2j)",
     "its param precision must be None, or a pair of enums `Precision`, or an enum `DotAlgorithmPreset`; got complex"),
    (DOT, "precision=None", "precision=(Precision.HIGH,)", "precision must be None, or a pair"),
    (DOT, "((1,), (0,))", "((1,), (True,))", r"dimension_numbers must be .*, four tuples of ints; got tuple: .*True"),
    (DOT, "((), ())", "()", "dimension_numbers must be .*, four tuples of ints"),
    (FFT, "FftType.RFFT", "-1", "fft_type must be an enum `FftType`; got int: -1"),
    (REDUCE, "mantissa_bits=10", "mantissa_bits=1099511627776", r"both below 2\*\*31"),
    (REDUCE, "mantissa_bits=10", "mantissa_bits=FftType.RFFT", "mantissa_bits must be an int; got FftType"),
    (GATHER, "GatherScatterMode.CLIP", "clip", "mode must be an enum `GatherScatterMode`; got str: 'clip'"),
    (GATHER, "collapsed_slice_dims=(0,)", "collapsed_slice_dims=(False,)",
     "a record `GatherDimensionNumbers` of tuples of ints"),
    (CALL, "name=f", "name=f backend=7", "backend must be a string or None; got int: 7"),
    (CALL, "name=f", "name=f donated_invars=(1,)", "donated_invars must be a tuple of bools"),
    (BITS, "new_dtype=int8", "new_dtype=int4", "less than 8 bits must be converted to one of as many bits"),
    (IOTA, ", 2)", ", 9223372036854775808)", "integers of at most 64 bits"),
    (IOTA, "i32[0,2]", "i32[0,9223372036854775808]", r"result 0 must have axes shorter than 2\*\*63")])
def test_params_of_wrong_kinds_are_rejected_by_name(text, old, new, message):
    check(parse(text))
    with pytest.raises(ProgramError, match=message):
        check(parse(text.replace(old, new)))


def test_shared_program_is_checked_under_each_set_of_bound_axes():
    """Random numbers vary over all bound axes, so a program with an unmarked type of them is valid only outside maps."""
    inner = parse("{ lambda ; a:f32[]. let b:f32[] = rng_uniform[shape=()] a 1.0:f32[] in (b,) }")
    call = parse(CALL).eqns[0]
    x, y, z = Var(f32()), Var(f32()), Var(f32().with_varying_axes(frozenset("i")))
    a, b = Var(f32(2)), Var(f32(2))
    first = call.replace(invars=[x], outvars=[y], params={**call.params, "call_jaxpr": inner})
    body = ClosedJaxpr(Jaxpr([], [z], [first.replace(invars=[z], outvars=[v := Var(z.aval)])], [v]))
    check(ClosedJaxpr(Jaxpr([], [x], [first], [y])))
    pmap = parse("""{ lambda ; a:f32[2]. let b:f32[2] = xla_pmap[axis_name=i axis_size=2 backend=None
        call_jaxpr={ lambda ; a:f32[]. let  in (a,) } devices=None donated_invars=(False,) global_arg_shapes=(None,)
        global_axis_size=None in_axes=(0,) name=f out_axes=(0,)] a in (b,) }""").eqns[0]
    mapped = pmap.replace(invars=[a], outvars=[b], params={**pmap.params, "call_jaxpr": body})
    for eqns in ([mapped], [first, mapped], [mapped, first]):
        with pytest.raises(ProgramError, match=r"\(xla_call\), program 0: equation 0 `b:f32\[\] = rng_uniform"):
            check(ClosedJaxpr(Jaxpr([], [x, a], eqns, [b])))


# --- primitives that are completed after their creation ---
def late_primitive(rule, *, several=False, effects=False):
    prim = Primitive("late")
    prim.multiple_results = several
    (prim.def_effectful_abstract_eval if effects else prim.def_abstract_eval)(rule)
    return prim


def test_primitive_completed_later_takes_any_params():
    prim = late_primitive(lambda x, **params: x)
    check(ClosedJaxpr(Jaxpr([], [A], [Eqn(prim, [A], [B], {"k": 3, "name": "n"})], [B])))
    assert prim.expected_params(["k"]) == ("k",) and prims.sin_p.expected_params(["k"]) == ()


BAD_TYPE_RULES = [
    (lambda x: None, {}, "must return a type; got NoneType: None"),
    (lambda x: [x], {}, "must return a type; got list"),
    (lambda x: np.zeros(3), {}, "must return a type; got ndarray"),
    (lambda x: x, {"several": True}, "must return a sequence of types; got ShapedArray"),
    (lambda x: [x, 3], {"several": True}, "must return types; got int: 3"),
    (lambda x: x, {"effects": True}, r"must return a pair \(types, effects\); got ShapedArray"),
    (lambda x: (None, set()), {"effects": True}, "must return a type; got NoneType: None"),
]


@pytest.mark.parametrize("rule, facts, words", BAD_TYPE_RULES, ids=[words for *_, words in BAD_TYPE_RULES])
def test_type_rule_that_returns_no_type_is_named_with_its_line(rule, facts, words):
    with pytest.raises(ProgramError, match=rf"`late`: its type rule at .*test_check.py:\d+ {words}"):
        late_primitive(rule, **facts).infer(f32(3))


def test_type_rule_may_return_objects_with_shape_and_dtype():
    struct = ShapeDtypeStruct((3,), np.float32)
    assert late_primitive(lambda x: struct).infer(f32(3)) == f32(3)
    assert late_primitive(lambda x: [struct, x], several=True).infer(f32(3)) == [f32(3), f32(3)]
    assert late_primitive(lambda x: (struct, {"effect"}), effects=True).infer(f32(3)) == f32(3)
