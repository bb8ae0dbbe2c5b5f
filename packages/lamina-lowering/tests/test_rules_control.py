"""Lowered control flow: unrolled loops, module size independent of the length, branch indices out of range."""
import numpy as np
import pytest
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Var, aval_of, parse, prims
from lamina_ir.testing.samples import samples_of
from lamina_lowering import lower
from lamina_lowering.testing import check_lowering, single_eqn_program, run_lowered

STEP = parse("""{ lambda ; w:f32[2] a:f32[2] x:f32[2]. let
    b:f32[2] = mul a w
    c:f32[2] = add b x
  in (c, b) }""")


def scan(length, unroll=1, reverse=False):
    return dict(jaxpr=STEP, length=length, num_carry=1, num_consts=1, reverse=reverse, unroll=unroll)


def args(length):
    rng = np.random.default_rng(0)
    return [rng.normal(size=s).astype(np.float32) for s in ((2,), (2,), (length, 2))]


@pytest.mark.parametrize("length", [0, 1, 2, 5, 6])
@pytest.mark.parametrize("unroll", [1, 2, 3, 6, 9])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_unrolls_lengths_that_do_not_divide(length, unroll, reverse):
    check_lowering(prims.scan_p, args(length), scan(length, unroll, reverse))


def size(length, unroll=1):
    return len(lower(single_eqn_program(prims.scan_p, [aval_of(a) for a in args(length)], scan(length, unroll))).bytecode())


def test_module_size_does_not_depend_on_scan_length():
    assert abs(size(10) - size(100_000)) < 16
    assert size(100, 4) > size(100)


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 3, 2**31 - 1, -2**31])
def test_cond_index_out_of_range_is_clamped(index):
    sample = samples_of(prims.cond_p)[0]
    check_lowering(prims.cond_p, [np.int32(index), *sample.args[1:]], sample.params)


def test_large_constants_of_a_body_become_arguments_of_main():
    data = np.arange(1000, dtype=np.float32)
    body = parse("{ lambda k:f32[1000] ; a:f32[1000]. let b:f32[1000] = add a k in (b,) }", [data])
    params = dict(jaxpr=body, length=3, num_carry=1, num_consts=0, reverse=False, unroll=1)
    a = Var(aval_of(data))
    out = Var(aval_of(data))
    lowered = lower(ClosedJaxpr(Jaxpr([], [a], [Eqn(prims.scan_p, [a], [out], params)], [out])))
    assert len(lowered.const_args) == 1
    np.testing.assert_array_equal(run_lowered(lowered, np.zeros(1000, np.float32))[0], 3 * data)


def test_constant_index_lowers_one_branch():
    program = parse("""{ lambda ; x:f32[2]. let
        i:i32[] = platform_index[has_default=True platforms=(('cuda', 'rocm'),)]
        y:f32[2] = cond[branches=({ lambda ; a:f32[2]. let b:f32[2] = sin a in (b,) }, { lambda ; c:f32[2]. let
          d:f32[2] = cos c in (d,) })] i x
      in (y,) }""")
    cases = (("cpu", "stablehlo.cosine", "stablehlo.sine"), ("rocm", "stablehlo.sine", "stablehlo.cosine"))
    for platform, found, other in cases:
        text = lower(program, platform=platform).as_text()
        assert found in text and other not in text and "stablehlo.case" not in text


def test_platform_without_a_branch_is_refused():
    program = parse("{ lambda ; . let i:i32[] = platform_index[has_default=False platforms=(('cuda',),)] in (i,) }")
    with pytest.raises(NotImplementedError, match="for cuda only, and the program is lowered for tpu"):
        lower(program, platform="tpu")


def test_initial_stacks_have_distinct_values():
    # XLA merges equal initial stacks and then copies them.
    body = "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b, a) }"
    loop = f"scan[jaxpr={body} length=4 num_carry=0 num_consts=0 reverse=False unroll=1]"
    text = lower(parse("{ lambda ; a:f32[4,3]. let b:f32[4,3] c:f32[4,3] = %s a d:f32[4,3] e:f32[4,3] = %s b in (c, d, e) }"
                       % (loop, loop))).as_text()
    assert all(text.count(f"dense<{n}.000000e+00> : tensor<4x3xf32>") == 1 for n in (2, 3, 4, 5))
