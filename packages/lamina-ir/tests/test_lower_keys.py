"""`lower_keys`: programs on PRNG keys become programs on uint32 key data; arithmetic rejects keys."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import (ClosedJaxpr, DTypeError, Eqn, Jaxpr, Literal, ProgramError, ShapeError, Var, alpha_equal, aval_of,
                       check, dtypes, dumps,
                       evaluate, jaxpr_text, loads, parse, prims, shaped, walk)
from lamina_ir.extend import has_keys, lower_keys, lower_key_aval, get_key_data

FRY = dtypes.key_type("fry")
WORDS = np.arange(12, dtype=np.uint32).reshape(6, 2)
KEYS = WORDS.view(FRY).reshape(6)

PROGRAMS = [
    "{ lambda ; a:key<fry>[6]. let b:key<fry>[2] = slice[limit_indices=(5,) start_indices=(1,) strides=(3,)] a in (b,) }",
    "{ lambda ; a:key<fry>[6]. let b:key<fry>[2,3] = reshape[dimensions=None new_sizes=(2, 3)] a "
    "c:key<fry>[3,2] = transpose[permutation=(1, 0)] b d:key<fry>[3,2] = rev[dimensions=(0,)] c in (d, b) }",
    "{ lambda ; a:key<fry>[6]. let b:u32[6,2] = random_unwrap[use=data] a c:key<fry>[6] = random_wrap[impl=fry] b "
    "d:key<fry>[12] = concatenate[dimension=0] a c in (d, b) }",
    "{ lambda ; a:key<fry>[6]. let b:key<fry>[6] = rev[dimensions=(0,)] a c:bool[6] = eq a b d:bool[6] = ne a b "
    "e:key<fry>[6] = select c a b in (c, d, e) }",
    "{ lambda ; a:key<fry>[6]. let b:key<fry>[2,6] = broadcast_in_dim[broadcast_dimensions=(1,) shape=(2, 6)] a "
    "c:key<fry>[1,1] = dynamic_slice[slice_sizes=(1, 1)] b 1:i32[] 4:i32[] in (c, b) }",
    "{ lambda ; a:key<fry>[6]. let b:key<fry>[6] = broadcast_in_dim[broadcast_dimensions=() shape=(6,)] 0:key<fry>[] "
    "c:bool[6] = eq a b in (b, c) }",
    """{ lambda ; h:key<fry>[] a:key<fry>[6]. let b:key<fry>[] c:key<fry>[6] = scan[
         jaxpr={ lambda ; d:key<fry>[] e:key<fry>[]. let f:bool[] = eq d e g:key<fry>[] = select f d e in (g, d) }
         length=6 num_carry=1 num_consts=0 reverse=False unroll=1] h a in (b, c) }""",
]


@pytest.mark.parametrize("text", PROGRAMS)
def test_program_on_key_data_computes_equal_results(text):
    program = parse(text)
    check(program)
    args = [KEYS[3] if a.shape == () else KEYS for a in program.in_avals]
    bare = lower_keys(program)
    check(bare)
    assert has_keys(program) and not has_keys(bare) and lower_keys(bare) is bare and lower_keys(program) is bare
    assert not any(dtypes.is_key(v.aval.dtype) for e in walk(bare) for v in (*e.invars, *e.outvars))
    for wanted, got, aval in zip(evaluate(program, *args), evaluate(bare, *map(get_key_data, args)), program.out_avals):
        np.testing.assert_array_equal(get_key_data(wanted) if dtypes.is_key(aval.dtype) else wanted, got)
        assert lower_key_aval(aval) == aval_of(got)


@pytest.mark.parametrize("text", PROGRAMS)
def test_keys_are_printed_and_saved(text):
    program = parse(text)
    assert jaxpr_text(parse(jaxpr_text(program))) == jaxpr_text(program)
    assert alpha_equal(loads(dumps(program)), program)


def test_key_can_be_a_constant():
    v = Var(shaped((6,), FRY))
    program = ClosedJaxpr(Jaxpr([v], [], [], [v]), [KEYS])
    check(program)
    again = loads(dumps(program))
    np.testing.assert_array_equal(again.consts[0], KEYS)
    np.testing.assert_array_equal(evaluate(lower_keys(again))[0], WORDS)


@pytest.mark.parametrize("prim, params", [
    (prims.neg_p, {}), (prims.sin_p, {}), (prims.not_p, {}), (prims.reduce_sum_p, {"axes": (0,)}),
    (prims.sort_p, {"dimension": 0, "is_stable": True, "num_keys": 1}),
    (prims.convert_element_type_p, {"new_dtype": np.dtype("int32"), "weak_type": False})])
def test_arithmetic_rejects_keys(prim, params):
    with pytest.raises(DTypeError, match=r"key<fry>\[6\]"):
        prim.infer(shaped((6,), FRY), **params)
    if not params:
        return
    with pytest.raises(DTypeError):
        dtypes.promote((FRY, False), (np.dtype("int32"), True))


def test_lower_keys_rejects_primitive_without_key_support():
    x, y = Var(shaped((6,), FRY)), Var(shaped((6,), FRY))
    pad = Eqn(prims.pad_p, [x, Var(shaped((), FRY))], [y], {"padding_config": ((0, 0, 0),)})
    with pytest.raises(DTypeError, match="pad: expected numbers; got PRNG keys.*random.key_data"):
        lower_keys(ClosedJaxpr(Jaxpr([], [x, pad.invars[1]], [pad], [y])))


def test_facts_of_key_types():
    assert dtypes.is_key(FRY) and not dtypes.is_key(np.dtype("float32")) and not dtypes.is_key(dtypes.float0)
    assert dtypes.issubdtype(FRY, dtypes.prng_key) and dtypes.issubdtype(FRY, dtypes.extended)
    assert dtypes.issubdtype(dtypes.prng_key, dtypes.extended) and not dtypes.issubdtype(dtypes.extended, dtypes.prng_key)
    assert not dtypes.issubdtype("float32", dtypes.prng_key) and not dtypes.issubdtype(FRY, np.number)
    with pytest.raises(ShapeError, match=r"uint32\[..., 2\]; got uint32\[3\]"):
        prims.random_wrap_p.infer(shaped((3,), "uint32"), impl="fry")
    with pytest.raises(DTypeError, match="random_wrap: impl must be one of .*; got 'x'"):
        prims.random_wrap_p.infer(shaped((2,), "uint32"), impl="x")
    with pytest.raises(DTypeError, match="expected keys; got uint32"):
        prims.random_unwrap_p.infer(shaped((2,), "uint32"), use="bits")


def test_literal_keys_are_printed_as_key_data():
    key = np.array([3, 5], np.uint32).view(FRY)[0]
    a = Var(shaped((2,), FRY))
    eqn = Eqn(prims.broadcast_in_dim_p, [Literal(key, shaped((), FRY))], [a], {"shape": (2,), "broadcast_dimensions": ()})
    program = ClosedJaxpr(Jaxpr((), (), [eqn], [a]), ())
    assert "3.5:key<fry>[]" in str(program)
    for again in (program, parse(str(program)), loads(dumps(program))):
        assert get_key_data(evaluate(again)[0]).tolist() == [[3, 5], [3, 5]]
        assert evaluate(lower_keys(again))[0].tolist() == [[3, 5], [3, 5]]
    with pytest.raises(ProgramError, match="expected a literal of type"):
        parse(str(program).replace("3.5", "3.5.7"))


def test_float0_values_become_booleans():
    program = parse("{ lambda ; a:float0[3] z:f32[2]. let b:float0[1,3] = reshape[dimensions=None new_sizes=(1, 3)] a "
                    "c:float0[2] d:f32[2] = scan[jaxpr={ lambda ; e:f32[]. let in (0:float0[], e) } length=2 num_carry=0 "
                    "num_consts=0 reverse=False unroll=1] z in (b, d) }")
    bare = lower_keys(program)
    check(bare)
    assert has_keys(program) and not has_keys(bare)
    assert [a.str_short() for a in bare.out_avals] == ["bool[1,3]", "f32[2]"]
    assert lower_key_aval(shaped((3,), dtypes.float0)) == shaped((3,), "bool")
    assert get_key_data(np.zeros(3, dtypes.float0)).dtype == bool
