"""Which PRNG keys a program consumes: tracked by index through data movement and nested programs."""
from __future__ import annotations

import numpy as np
import pytest

from lamina_ir import KeyReuseError, parse
from lamina_ir.extend import check_key_uses, find_key_uses

DRAW = "random_unwrap[use=bits]"


def program(arguments, body, results="", lets=True):
    return parse(f"{{ lambda ; {arguments}. let {body} in ({results}) }}")


@pytest.mark.parametrize("arguments, body", [
    ("a:key<fry>[]", f"b:u32[2] = {DRAW} a c:u32[2] = {DRAW} a"),
    ("a:key<fry>[]", f"b:u32[2] = random_unwrap[use=split] a c:u32[2] = {DRAW} a"),
    ("a:key<rbg>[3]", f"b:u32[3,4] = {DRAW} a c:key<rbg>[1] = slice[limit_indices=(2,) start_indices=(1,) strides=None] a "
                      f"d:u32[1,4] = {DRAW} c"),
    ("a:key<fry>[]", f"b:key<fry>[1] = reshape[dimensions=None new_sizes=(1,)] a c:u32[2] = {DRAW} a d:u32[1,2] = {DRAW} b"),
    ("a:key<fry>[1]", f"b:key<fry>[2] = concatenate[dimension=0] a a c:u32[2,2] = {DRAW} b"),
    ("a:key<fry>[] b:key<fry>[] p:bool[]", f"c:key<fry>[] = select p a b d:u32[2] = {DRAW} c e:u32[2] = {DRAW} b"),
    ("a:key<fry>[3] i:i32[]", f"b:key<fry>[1] = dynamic_slice[slice_sizes=(1,)] a i c:u32[1,2] = {DRAW} b "
                              f"d:u32[3,2] = {DRAW} a"),
    ("a:key<fry>[]", f"b:u32[3,2] = scan[length=3 num_consts=1 num_carry=0 reverse=False unroll=1 "
                     f"jaxpr={{ lambda ; c:key<fry>[]. let d:u32[2] = {DRAW} c in (d,) }}] a"),
    ("a:key<fry>[]", f"b:key<fry>[] = scan[length=3 num_consts=0 num_carry=1 reverse=False unroll=1 "
                     f"jaxpr={{ lambda ; c:key<fry>[]. let d:u32[2] = {DRAW} c in (c,) }}] a"),
    ("a:key<fry>[40]", f"b:u32[40,2] = scan[length=40 num_consts=0 num_carry=0 reverse=True unroll=1 "
                       f"jaxpr={{ lambda ; c:key<fry>[]. let d:u32[2] = {DRAW} c in (d,) }}] a "
                       "e:key<fry>[1] = slice[limit_indices=(1,) start_indices=(0,) strides=None] a "
                       f"f:u32[1,2] = {DRAW} e"),
    ("a:key<fry>[] p:i32[]", "b:u32[2] = cond[branches=({ lambda ; c:key<fry>[]. let d:u32[2] = random_unwrap[use=data] c "
                             f"in (d,) }}, {{ lambda ; c:key<fry>[]. let d:u32[2] = {DRAW} c in (d,) }})] p a "
                             f"e:u32[2] = {DRAW} a")])
def test_key_used_twice_is_found(arguments, body):
    with pytest.raises(KeyReuseError, match=r"a random key is used twice: it is (drawn from|split).*random\.clone"):
        check_key_uses(program(arguments, body))


@pytest.mark.parametrize("arguments, body", [
    ("a:key<fry>[]", f"b:u32[2] = {DRAW} a c:u32[2] = random_unwrap[use=fold_in] a d:u32[2] = random_unwrap[use=data] a"),
    ("a:key<fry>[]", f"b:u32[2] = random_unwrap[use=clone] a c:key<fry>[] = random_wrap[impl=fry] b d:u32[2] = {DRAW} a "
                     f"e:u32[2] = {DRAW} c"),
    ("a:key<fry>[2]", f"b:key<fry>[1] = slice[limit_indices=(1,) start_indices=(0,) strides=None] a c:u32[1,2] = {DRAW} b "
                      f"d:key<fry>[1] = slice[limit_indices=(2,) start_indices=(1,) strides=None] a e:u32[1,2] = {DRAW} d"),
    ("a:key<fry>[]", f"b:key<fry>[3] = broadcast_in_dim[broadcast_dimensions=() shape=(3,)] a c:u32[3,2] = {DRAW} b"),
    ("a:key<fry>[3]", f"b:u32[3,2] = scan[length=3 num_consts=0 num_carry=0 reverse=False unroll=1 "
                      f"jaxpr={{ lambda ; c:key<fry>[]. let d:u32[2] = {DRAW} c in (d,) }}] a"),
    ("a:key<fry>[] p:i32[]", f"b:u32[2] = cond[branches=({{ lambda ; c:key<fry>[]. let d:u32[2] = {DRAW} c in (d,) }}, "
                             f"{{ lambda ; c:key<fry>[]. let d:u32[2] = {DRAW} c in (d,) }})] p a"),
    ("a:f32[]", "b:f32[] = sin a")])
def test_keys_used_once_are_accepted(arguments, body):
    check_key_uses(program(arguments, body))


def test_key_results_report_their_indices():
    found = find_key_uses(program("a:key<fry>[4] b:f32[]",
                                  "c:key<fry>[2] = slice[limit_indices=(3,) start_indices=(1,) strides=None] a "
                                  f"d:u32[2,2] = {DRAW} c", "c, b"))
    assert found.outs[0].tolist() == [1, 2] and found.outs[1] is None and found.ins[0].tolist() == [0, 1, 2, 3]
    assert {i: use.kind for i, use in found.used.items()} == {1: "bits", 2: "bits"} and not found.depends_on_values


def test_argument_values_resolve_dynamic_key_index():
    closed = program("a:key<fry>[3] i:i32[]", "b:key<fry>[1] = dynamic_slice[slice_sizes=(1,)] a i "
                     f"c:u32[1,2] = {DRAW} b", "b")
    vague = find_key_uses(closed)
    assert vague.depends_on_values and sorted(vague.used) == [0, 1, 2]
    known = find_key_uses(closed, lambda: [None, np.int32(1)])
    assert not known.depends_on_values and sorted(known.used) == [1] and known.outs[0].tolist() == [1]
