"""`simplify_for_numpy`: same values, NaN and types, with fewer equations."""
import random

import ml_dtypes
import numpy as np
import pytest

from lamina_ir import Builder, ClosedJaxpr, Eqn, Jaxpr, Var, check, evaluate, parse, prims, shaped, walk
from lamina_ir.extend import HostFunction, simplify_for_numpy, make_evaluator
from lamina_ir.testing import assert_close

DTYPES = ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "int8", "int32", "uint16", "bool", "complex64"]


def ops_of(program):
    return [e.primitive.name for e in walk(program)]


def draw_array(rng, dtype, shape, special=False):
    values = rng.integers(-3, 4, shape)
    if dtype == "bool":
        return values > 0
    array = np.abs(values).astype(dtype) if dtype == "uint16" else values.astype(dtype)
    if special and array.size and np.dtype(dtype) in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16):
        array.reshape(-1)[rng.integers(array.size, size=2)] = [np.nan, np.inf]
    return array


def simplify_and_compare(program, *args):
    """Return the simplified program; check that it and its evaluator give the same results."""
    small = simplify_for_numpy(program)
    check(small)
    with np.errstate(invalid="ignore"):  # NumPy warns about products of infinities
        wanted = evaluate(program, *args)
        found = evaluate(small, *args), make_evaluator(program)(list(args))
    for got in found:
        for x, y in zip(got, wanted, strict=True):
            assert_close(x, y, slack=4)
    return small


def draw_product(dice):
    """Draw shapes of two operands, dimension numbers, and the axes along which each operand is repeated."""
    batch, contracted, free = ([dice.choice((0, 1, 2, 3, 3)) for _ in range(dice.randrange(n))] for n in (3, 3, 3))
    other = [dice.choice((1, 2, 4)) for _ in range(dice.randrange(3))]
    sides = []
    for rest in (free, other):
        lengths = [*batch, *contracted, *rest]
        order = dice.sample(range(len(lengths)), len(lengths))  # axis k of the operand is the order[k]-th of those
        places = [order.index(k) for k in range(len(lengths))]
        b, c = tuple(places[:len(batch)]), tuple(places[len(batch):len(batch) + len(contracted)])
        sides.append((tuple(lengths[k] for k in order), c, b))
    (x, lc, lb), (y, rc, rb) = sides
    return (x, y), ((lc, rc), (lb, rb)), [[a for a in range(len(s)) if dice.random() < 0.6] for s in (x, y)]


@pytest.mark.parametrize("seed", range(150))
def test_products_of_repeated_operands_keep_results(seed):
    dice, rng = random.Random(seed), np.random.default_rng(seed)
    shapes, numbers, repeated = draw_product(dice)
    dtype = DTYPES[seed % len(DTYPES)]
    wide = {"float16": "float32", "bfloat16": "float32", "float32": "float16", "int8": "int32"}.get(dtype)
    b, args, operands = Builder(), [], []
    for shape, axes in zip(shapes, repeated):
        kind = dice.choice(("one", "two", "number", "axes", "axes", "full"))
        dims = tuple(a for a in range(len(shape)) if a not in axes or dice.random() < 0.3)
        if kind in ("one", "two"):
            x, dims = np.asarray(1 if kind == "one" else 2).astype(dtype)[()], ()
        else:
            dims = {"number": (), "full": tuple(range(len(shape)))}.get(kind, dims)
            own = tuple(1 if a in axes and kind != "full" else shape[a] for a in dims)
            args.append(draw_array(rng, dtype, own, special=True))
            x = b.input(own, dtype)
        operands.append(b.op("broadcast_in_dim", x, broadcast_dimensions=dims, shape=shape))
    product = b.op("dot_general", *operands, dimension_numbers=numbers, precision=None,
                   preferred_element_type=np.dtype(wide) if wide and dice.random() < 0.5 else None)
    simplify_and_compare(b.build(product), *args)


def test_products_with_ones_are_removed():
    kinds = set()
    for seed in range(60):
        shapes, numbers, _ = draw_product(random.Random(seed))
        b = Builder()
        ones = b.op("broadcast_in_dim", 1.0, broadcast_dimensions=(), shape=shapes[0])
        product = b.op("dot_general", ones, b.input(shapes[1], "float32"), dimension_numbers=numbers)
        if shapes[0]:
            kinds.add(tuple(ops_of(simplify_for_numpy(b.build(product)))))
    assert "dot_general" not in set().union(*kinds) and len(kinds) > 3  # with and without transposes, and repeats


GRADIENT = """{ lambda ; a:f32[4,4] b:f32[4,4]. let
    c:f32[4,4] = dot_general[dimension_numbers=(((1,), (0,)), ((), ())) precision=None preferred_element_type=None] a b
    d:f32[4,4] = dot_general[dimension_numbers=(((1,), (0,)), ((), ())) precision=None preferred_element_type=None] b a
    e:f32[4,4] = dot_general[dimension_numbers=(((1,), (0,)), ((), ())) precision=None preferred_element_type=None] c d
    f:f32[] = reduce_sum[axes=(0, 1)] e
    g:f32[4,4] = broadcast_in_dim[broadcast_dimensions=() shape=(4, 4)] 1.0:f32[]
    h:f32[4,4] = dot_general[dimension_numbers=(((0,), (0,)), ((), ())) precision=None preferred_element_type=None] c g
    i:f32[4,4] = dot_general[dimension_numbers=(((1,), (1,)), ((), ())) precision=None preferred_element_type=None] g d
    j:f32[4,4] = dot_general[dimension_numbers=(((0,), (0,)), ((), ())) precision=None preferred_element_type=None] b h
    k:f32[4,4] = dot_general[dimension_numbers=(((1,), (1,)), ((), ())) precision=None preferred_element_type=None] i b
    l:f32[4,4] = add j k
  in (l,) }"""


@pytest.mark.parametrize("special", [False, True])
def test_gradient_keeps_two_matrix_and_two_vector_products(special):
    rng = np.random.default_rng(1)
    small = simplify_and_compare(parse(GRADIENT), *[draw_array(rng, "float32", (4, 4), special) for _ in range(2)])
    shapes = [e.outvars[0].aval.shape for e in small.eqns if e.primitive.name == "dot_general"]
    assert shapes == [(4, 4), (4, 4), (4, 1), (1, 4)]


ROW = np.float32([[1, np.nan, np.inf], [-0.0, 2, -np.inf]])
ONES = "b:f32[2,3] = broadcast_in_dim[broadcast_dimensions=() shape=(2, 3)] 1.0:f32[]"


@pytest.mark.parametrize("body, left", [
    (ONES + "\n c:f32[2,3] = mul b a in (c,)", []),
    (ONES + "\n c:f32[2,3] = mul a b\n d:f32[2,3] = sin c in (d,)", ["sin"]),
    (ONES.replace("1.0", "2.0") + "\n c:f32[2,3] = mul b a in (c,)", ["broadcast_in_dim", "mul"]),
    (ONES + "\n c:f32[2,3] = add b a in (c,)", ["broadcast_in_dim", "add"]),
    (ONES + "\n c:f32[2,3] = neg b\n d:f32[2,3] = mul c a in (d,)", ["neg", "broadcast_in_dim", "mul"]),
    (ONES + "\n c:f32[2,3] = div b 4.0:f32[]\n d:f32[3,2] = transpose[permutation=(1, 0)] c in (d, a)",
     ["div", "broadcast_in_dim"]),
    (ONES + "\n c:f32[6] = reshape[dimensions=None new_sizes=(6,)] b in (c, a)", ["broadcast_in_dim"]),
    ("b:f32[2,3] = sin a\n c:f32[2,3] = cos a in (b,)", ["sin"])])
def test_remaining_primitives(body, left):
    assert ops_of(simplify_and_compare(parse(f"{{ lambda ; a:f32[2,3]. let {body} }}"), ROW)) == left


@pytest.mark.parametrize("dtype, out, values, wanted", [
    ("int8", "int32", [100, 100, 100], 300), ("int8", None, [100, 100, 100], 44), ("float16", "float32", [2048, 1, 0], 2049),
    ("float16", None, [2048, 1, 1], 2050), ("bfloat16", "float32", [256, 1, 0], 257),
    ("float32", "float16", [2048, 1, 1], 2050),
    ("float32", "float64", [2**24, 1, 0], 2**24 + 1), ("float64", "float32", [2**24, 1, 1], 2**24 + 2)])
def test_sums_use_accumulation_dtype_of_products(dtype, out, values, wanted):
    b, numbers = Builder(), (((0,), (0,)), ((), ()))
    ones = b.op("broadcast_in_dim", np.asarray(1).astype(dtype)[()], broadcast_dimensions=(), shape=(3, 2))
    program = b.build(b.op("dot_general", b.input((3,), dtype), ones, dimension_numbers=numbers, precision=None,
                           preferred_element_type=out and np.dtype(out)))
    small = simplify_and_compare(program, np.asarray(values).astype(dtype))
    assert evaluate(small, np.asarray(values).astype(dtype))[0].tolist() == [wanted] * 2
    assert "dot_general" not in ops_of(small)


def test_products_with_complex_ones_are_kept():
    """One times a complex infinity is NaN in one part."""
    text = """{ lambda ; a:c64[2,3]. let
        b:c64[2,3] = broadcast_in_dim[broadcast_dimensions=() shape=(2, 3)] (1+0j):c64[]
        c:c64[2,3] = mul a b
        d:c64[2,2] = dot_general[dimension_numbers=(((1,), (1,)), ((), ())) precision=None preferred_element_type=None] a b
      in (c, d) }"""
    assert [n for n in ops_of(simplify_for_numpy(parse(text))) if n in ("mul", "dot_general")] == ["mul", "dot_general"]


def test_sum_is_multiplied_after_summation():
    """If v is 0, `v * (inf - inf)` differs from `v * inf - v * inf`."""
    text = """{ lambda ; a:f32[2,3] v:f32[]. let
        b:f32[3,4] = broadcast_in_dim[broadcast_dimensions=() shape=(3, 4)] v
        c:f32[2,4] = dot_general[dimension_numbers=(((1,), (0,)), ((), ())) precision=None preferred_element_type=None] a b
      in (c,) }"""
    small = simplify_and_compare(parse(text), ROW, np.float32(0))
    assert [e.outvars[0].aval.shape for e in small.eqns if e.primitive.name == "dot_general"] == [(2, 1)]


def test_effects_and_arguments_are_kept():
    seen = []
    a, b = Var(shaped((), "float32")), Var(shaped((), "float32"))
    host = HostFunction.of(lambda v: seen.append(float(v)) or (), "report")
    params = dict(batch=(), callback=host, indexed=False, mapped=(), ordered=False, threaded=False)
    reports = [Eqn(prims.debug_callback_p, [a], [], params) for _ in range(2)]
    dead = Eqn(prims.sin_p, [a], [Var(a.aval)], {})
    program = ClosedJaxpr(Jaxpr([], [a, b], [*reports, dead], [b]))
    small = simplify_for_numpy(program)
    assert ops_of(small) == ["debug_callback"] * 2 and len(small.jaxpr.invars) == 2
    make_evaluator(program)([np.float32(1), np.float32(2)])
    assert seen == [1, 1]


def test_callback_receives_repeated_value():
    seen = []
    a, b = Var(shaped((), "float32")), Var(shaped((2,), "float32"))
    repeat = Eqn(prims.broadcast_in_dim_p, [a], [b], dict(broadcast_dimensions=(), shape=(2,)))
    host = HostFunction.of(lambda v: seen.append(v.tolist()) or (), "report")
    params = dict(batch=(), callback=host, indexed=False, mapped=(), ordered=False, threaded=False)
    program = ClosedJaxpr(Jaxpr([], [a], [repeat, Eqn(prims.debug_callback_p, [b], [], params)], [a]))
    assert ops_of(simplify_for_numpy(program)) == ["broadcast_in_dim", "debug_callback"]
    make_evaluator(program)([np.float32(3)])
    assert seen == [[3, 3]]


def test_simplified_program_is_cached_and_unchanged_program_is_returned():
    program = parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")
    assert simplify_for_numpy(program) is program
    longer = parse("{ lambda ; a:f32[]. let b:f32[] = sin a\n c:f32[] = cos a in (b,) }")
    assert (simplify_for_numpy(longer) is simplify_for_numpy(longer) is not longer
            and simplify_for_numpy(simplify_for_numpy(longer)) is simplify_for_numpy(longer))
    assert isinstance(simplify_for_numpy(longer), ClosedJaxpr)


def test_non_programs_are_rejected():
    with pytest.raises(TypeError, match="simplify_for_numpy: closed must be a ClosedJaxpr; got int: 3"):
        simplify_for_numpy(3)
