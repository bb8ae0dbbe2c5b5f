"""Kernels on blocks against loops in Python."""
import functools
import itertools

import lamina_numpy as jnp
import lamina_pallas as pl
import numpy as np
import pytest
from lamina_ir import ShapeDtypeStruct
from lamina_pallas import tpu, triton
from lamina_refs import new_ref
from lamina_tracing import jit, lax, make_jaxpr

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 8)).astype(np.float32)
Y = RNG.standard_normal((8, 6)).astype(np.float32)
ROW = np.arange(5, dtype=np.float32)


def run(kernel, out, *args, **options):
    """Call a kernel; `out` is an array or (shape, dtype)."""
    shape = ShapeDtypeStruct(*out) if isinstance(out, tuple) else out
    return pl.pallas_call(kernel, shape, interpret=True, **options)(*args)


def blocks(size):
    return pl.BlockSpec((size,), lambda i: (i,))


def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def add_one(x_ref, o_ref):
    o_ref[...] = x_ref[...] + 1


# --- blocks ---------------------------------------------------------------------------------------------------------
def run_in_python(kernel, x, shape, grid, in_spec, out_spec):
    """Run a kernel of arrays: pad, loop over the grid, cut."""
    (xb, xmap), (ob, omap) = in_spec, out_spec
    padded = np.pad(x, [(0, -n % b) for n, b in zip(x.shape, xb)], constant_values=np.nan)
    out = np.full([n + -n % b for n, b in zip(shape, ob)], np.nan, np.float32)

    def part(array, size, index):
        starts = [min(i * b, n - b) for i, b, n in zip(index, size, array.shape)]
        return array[tuple([slice(s, s + b) for s, b in zip(starts, size)])]

    for position in itertools.product(*map(range, grid)):
        kernel(part(padded, xb, xmap(*position)), part(out, ob, omap(*position)))
    return out[tuple([slice(n) for n in shape])]


@pytest.mark.parametrize("seed", range(8))
def test_blocks_of_any_size_are_read_and_written(seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(rng.integers(1, 9, 2)).astype(np.float32)
    shape, size, grid = (tuple(rng.integers(1, n, 2).tolist()) for n in (9, 5, 4))
    a, b = rng.integers(-1, 3, 2).tolist()

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    in_map, out_map = lambda i, j: (max(i + a, 0), j), lambda i, j: (i, max(j + b, 0))
    traced = [lambda i, j: (jnp.maximum(i + a, 0), j), lambda i, j: (i, jnp.maximum(j + b, 0))]
    expected = run_in_python(kernel, x, shape, grid, (size, in_map), (size, out_map))
    got = run(kernel, (shape, np.float32), x, grid=grid, in_specs=[pl.BlockSpec(size, traced[0])],
              out_specs=pl.BlockSpec(size, traced[1]))
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype,value", [(np.float32, np.nan), (np.int32, -2 ** 31), (np.int8, -128), (np.uint8, 0),
                                         (bool, False), ("bfloat16", np.nan), (np.complex64, np.nan + 0j)])
def test_elements_that_nothing_writes_to(dtype, value):
    got = np.asarray(run(lambda o_ref: None, ((2,), dtype)))
    np.testing.assert_array_equal(got.real.astype(np.float64), np.full(2, value).real.astype(np.float64))


def test_elements_beyond_the_end_are_not_specified():
    x = np.arange(5)
    got = run(copy, ((6,), np.int32), x, grid=(3,), in_specs=[blocks(2)], out_specs=blocks(2))
    assert got.tolist() == [0, 1, 2, 3, 4, -2 ** 31]
    assert run(add_one, ROW, ROW, grid=3, in_specs=[blocks(2)], out_specs=blocks(2)).tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("entry", [None, pl.squeezed, pl.Squeezed()])
def test_squeezed_axes_are_absent_in_the_kernel(entry):
    def kernel(x_ref, o_ref):
        assert x_ref.shape == (8,) and o_ref.shape == (8,)
        o_ref[...] = x_ref[...] * 2

    spec = pl.BlockSpec((entry, pl.Blocked(8)), lambda i: (i, 0))
    np.testing.assert_array_equal(run(kernel, X, X, grid=4, in_specs=[spec], out_specs=spec), 2 * X)


def test_blocks_of_elements_overlap():
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...].sum()[None]

    spec = pl.BlockSpec((pl.Element(2),), lambda i: (i,))
    assert run(kernel, ((4,), np.float32), ROW, grid=4, in_specs=[spec], out_specs=blocks(1)).tolist() == [1, 3, 5, 7]
    padded = pl.BlockSpec((pl.Element(2, (1, 2)),), lambda i: (2 * i,))
    got = run(copy, ((8,), np.float32), ROW, grid=4, in_specs=[padded], out_specs=blocks(2))
    np.testing.assert_array_equal(got, [np.nan, 0, 1, 2, 3, 4, np.nan, np.nan])


@pytest.mark.parametrize("specs", [{}, {"in_specs": [pl.BlockSpec()]}, {"in_specs": [None]}, {"in_specs": pl.BlockSpec((4, 8))},
                                   {"in_specs": [pl.BlockSpec(memory_space=pl.ANY)]},
                                   {"in_specs": [pl.BlockSpec(None, lambda i: (0, 0))]}])
def test_block_is_the_whole_array_by_default(specs):
    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[pl.program_id(0)][None]

    got = run(kernel, X, X, grid=4, out_specs=pl.BlockSpec((1, 8), lambda i: (i, 0)), **specs)
    np.testing.assert_array_equal(got, X)


def test_trees_of_arguments_and_results():
    def kernel(xs, o_ref, p_ref):
        o_ref["s"][...], p_ref[...] = xs["a"][...] + xs["b"][...], xs["a"][...]

    half = pl.BlockSpec((2, 8), lambda i: (i, 0))
    other = pl.BlockSpec((2, 8), lambda i: (1 - i, 0))
    got = run(kernel, [{"s": X}, X], {"a": X, "b": X}, grid=2, in_specs=[{"a": half, "b": other}], out_specs=[half, other])
    flipped = np.concatenate([X[2:], X[:2]])
    assert type(got) is tuple
    np.testing.assert_array_equal(got[0]["s"], X + flipped)
    np.testing.assert_array_equal(got[1], flipped)


def test_aliased_result_starts_with_the_argument():
    def kernel(x_ref, o_ref):
        o_ref[0] = o_ref[1] + x_ref[1]

    assert run(kernel, ROW, ROW, input_output_aliases={0: 0}).tolist() == [2, 1, 2, 3, 4]
    assert ROW.tolist() == [0, 1, 2, 3, 4]


def test_writes_to_arguments_are_dropped():
    def kernel(x_ref, o_ref):
        x_ref[...] += 1
        o_ref[...] = x_ref[...]

    assert run(kernel, ROW, ROW).tolist() == [1, 2, 3, 4, 5]


# --- the grid -------------------------------------------------------------------------------------------------------
def test_positions_run_with_the_last_axis_fastest():
    def kernel(o_ref, count_ref):
        assert pl.num_programs(0) == 2 and pl.num_programs(1) == 3
        pl.when((pl.program_id(0) == 0) & (pl.program_id(1) == 0))(lambda: count_ref.__setitem__(0, np.int32(0)))
        o_ref[pl.program_id(0), pl.program_id(1)] = count_ref[0]
        count_ref[0] += 1

    got = run(kernel, ((2, 3), np.int32), grid=(2, 3), scratch_shapes=[tpu.SMEM((1,), np.int32)])
    np.testing.assert_array_equal(got, np.arange(6).reshape(2, 3))


def test_blocks_accumulate_over_positions():
    def kernel(x_ref, o_ref):
        @pl.when(pl.program_id(0) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref[...])

        o_ref[...] += x_ref[...]

    got = run(kernel, ((2,), np.float32), np.arange(6.), grid=3, in_specs=[blocks(2)], out_specs=pl.BlockSpec((2,)))
    assert got.tolist() == [6, 9]


@pytest.mark.parametrize("grid,expected", [((), 1), ((0,), np.nan), ((1, 1), 1), (1, 1)])
def test_grids_of_few_positions(grid, expected):
    np.testing.assert_array_equal(run(add_one, np.zeros(2, np.float32), np.zeros(2, np.float32), grid=grid), [expected] * 2)


def test_grid_may_be_traced():
    def kernel(o_ref):
        o_ref[pl.program_id(0)] = pl.program_id(0) + pl.num_programs(0)

    got = jit(lambda n: run(kernel, ((4,), np.int32), grid=(n,)))(3)
    assert got.tolist() == [3, 4, 5, -2 ** 31]


def test_program_id_has_the_dtype_int32():
    def kernel(o_ref):
        assert pl.program_id(0).dtype == np.int32 and (pl.program_id(0) + np.int8(1)).dtype == np.int32
        o_ref[...] = pl.program_id(0)

    assert run(kernel, ((), np.int32), grid=3) == 2


def test_grid_spec_has_the_other_options():
    spec = pl.GridSpec(grid=(5,), in_specs=[blocks(1)], out_specs=blocks(1))
    assert run(add_one, ROW, ROW, grid_spec=spec).tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="pallas_call: grid_spec has grid, .*leave these out"):
        run(add_one, ROW, ROW, grid_spec=spec, grid=(1,))
    with pytest.raises(TypeError, match="grid_spec must be a GridSpec; got tuple"):
        run(add_one, ROW, ROW, grid_spec=(5,))


def test_index_maps_read_prefetched_scalars():
    order = np.int32([3, 1, 0, 2])
    spec = tpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(4,), in_specs=[pl.BlockSpec((1, 8), lambda i, s: (s[i], 0))],
        out_specs=pl.BlockSpec((1, 8), lambda i, s: (i, 0)))

    def kernel(order_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...] + order_ref[pl.program_id(0)]

    np.testing.assert_array_equal(run(kernel, X, order, X, grid_spec=spec), X[order] + order[:, None].astype(np.float32))
    with pytest.raises(ValueError, match="num_scalar_prefetch=1; got 0 arguments"):
        run(lambda o_ref: None, X, grid_spec=spec)


# --- kernels --------------------------------------------------------------------------------------------------------
def test_temporary_memory_is_shared_by_the_positions():
    def kernel(o_ref, sum_ref):
        sum_ref[...] = jnp.where(pl.program_id(0) == 0, 1., sum_ref[...] * 2)
        o_ref[...] = sum_ref[...]

    memory = {"sum_ref": tpu.VMEM((1,), jnp.float32)}
    for scratch in (memory, [*memory.values()], [ShapeDtypeStruct((1,), np.float32)]):
        got = run(kernel, ((3,), np.float32), grid=3, out_specs=blocks(1), scratch_shapes=scratch)
        assert got.tolist() == [1, 2, 4]


def test_control_flow_of_kernels():
    def kernel(x_ref, o_ref):
        @pl.loop(0, 4, step=2)
        def _(i):
            o_ref[i] = x_ref[i] * 3

        total = pl.loop(1, 3, init_carry=np.float32(0))(lambda i, c: c + x_ref[i])
        o_ref[1] = total
        n = lax.while_loop(lambda n: x_ref[n] < 2, lambda n: n + 1, 0)
        o_ref[3] = lax.cond(n == 2, lambda: x_ref[n] * 10, lambda: x_ref[0])
        o_ref[4] = lax.fori_loop(0, 5, lambda i, c: c + x_ref[i], np.float32(0))
        pl.when(False)(lambda: o_ref.__setitem__(0, 99))

    assert run(kernel, ROW, ROW).tolist() == jit(lambda x: run(kernel, ROW, x))(ROW).tolist() == [0, 3, 6, 20, 10]


def test_parts_with_traced_starts():
    def kernel(x_ref, o_ref):
        i = pl.program_id(0)
        o_ref[pl.ds(i + 1, 3)] = x_ref[pl.ds(i, 3)]

    assert np.asarray(run(kernel, ROW, ROW, grid=1))[1:4].tolist() == [0, 1, 2]
    last = jit(lambda i: run(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[pl.ds(i, 3)]), ((3,), np.float32), ROW))
    assert last(3).tolist() == [2, 3, 4]

    def columns(x_ref, o_ref):
        o_ref[:, pl.ds(2, 2)] = x_ref[pl.ds(1, 2), pl.ds(0, 2, stride=2)]
        o_ref[..., pl.ds(0, 2)] = x_ref.at[pl.ds(0, 2)][:, 1:3]

    np.testing.assert_array_equal(run(columns, ((2, 4), np.float32), X), np.concatenate([X[:2, 1:3], X[1:3, 0:3:2]], 1))


@pytest.mark.parametrize("given,expected", [((3,), pl.Slice(0, 3)), ((1, 3), pl.Slice(1, 3)), ((1, 3, 2), pl.Slice(1, 3, 2)),
                                            ((None, 3), pl.Slice(0, 3))])
def test_slices(given, expected):
    assert pl.ds(*given) == pl.dslice(*given) == expected


def test_masks_of_loads_and_stores():
    def kernel(x_ref, o_ref):
        at = pl.ds(pl.program_id(0) * 4, 4)
        mask = pl.program_id(0) * 4 + np.arange(4) < 5
        pl.store(o_ref, at, pl.load(x_ref, (at,), mask=mask, other=-1.) + 1, mask=mask)

    assert run(kernel, ROW, ROW, grid=2).tolist() == [1, 2, 3, 4, 5]
    ref = new_ref(ROW)
    assert pl.load(ref, pl.ds(3, 4), mask=np.arange(4) < 2, other=7.).tolist() == [3, 4, 7, 7]
    assert pl.load(ref, pl.ds(3, 4), mask=np.arange(4) < 2)[:2].tolist() == [3, 4]
    assert pl.swap(ref, pl.ds(0, 2), 9., mask=np.array([False, True])).tolist() == [0, 1]
    assert ref[...].tolist() == [0, 9, 2, 3, 4]


def test_masks_of_views():
    def kernel(x_ref, o_ref):
        at, mask = pl.ds(pl.program_id(0) * 4, 4), pl.program_id(0) * 4 + np.arange(4) < 5
        triton.store(o_ref.at[at], triton.load(x_ref.at[at], mask=mask, other=-1.) + 1, mask=mask)
        triton.debug_barrier()

    assert run(kernel, ROW, ROW, grid=2, compiler_params=triton.CompilerParams(num_warps=4)).tolist() == [1, 2, 3, 4, 5]
    ref = new_ref(X)
    triton.store(ref.at[0].at[1:3], np.float32(0))
    triton.store(ref.at[1].at[pl.ds(6, 4)], np.float32(0), mask=np.arange(4) < 1)
    assert ref[0, 1:3].tolist() == [0, 0] and ref[1, 6] == 0 and ref[1, 7] == X[1, 7]
    np.testing.assert_allclose(triton.dot(X, X, trans_a=True), X.T @ X, rtol=1e-5)
    assert triton.dot(np.ones((2, 2), np.int8), np.ones((2, 2), np.int8)).dtype == np.int32
    assert triton.max_contiguous(triton.approx_tanh(np.float32(0)), 2) == 0


def test_atomic_functions():
    ref = new_ref(np.int32([1, 2, 3]))
    assert pl.atomic_add(ref, np.array([0, 0]), np.int32([5, 5])).tolist() == [1, 1] and ref[0] == 11
    assert pl.atomic_add(ref, slice(None), 1, mask=np.array([True, False, True])).tolist() == [11, 2, 3]
    assert ref[...].tolist() == [12, 2, 4] and pl.atomic_xchg(ref, 0, 5) == 12
    assert pl.atomic_max(ref, 1, 7) == 2 and pl.atomic_min(ref, 2, 0) == 4 and ref[...].tolist() == [5, 7, 0]
    scalar = new_ref(np.int32(3))
    assert pl.atomic_cas(scalar, 4, 9) == 3 and pl.atomic_cas(scalar, 3, 9) == 3 and scalar[...] == 9


def test_scoped_memory():
    def kernel(x_ref, o_ref):
        def scaled(s_ref, *, t_ref):
            s_ref[...], t_ref[...] = x_ref[...], x_ref[...] * 2
            o_ref[...] = s_ref[...] + t_ref[...]

        pl.run_scoped(scaled, tpu.VMEM((5,), np.float32), t_ref=tpu.VMEM((5,), np.float32))

    np.testing.assert_array_equal(run(kernel, ROW, ROW), 3 * ROW)


def test_product_of_matrices():
    def kernel(x_ref, y_ref, z_ref, acc_ref, *, activation):
        @pl.when(pl.program_id(2) == 0)
        def _():
            acc_ref[...] = jnp.zeros_like(acc_ref[...])

        acc_ref[...] += x_ref[...] @ y_ref[...]

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _():
            z_ref[...] = activation(acc_ref[...])

    got = run(functools.partial(kernel, activation=jnp.tanh), ((4, 6), np.float32), X, Y, grid=(2, 2, 4),
              in_specs=[pl.BlockSpec((2, 2), lambda i, j, k: (i, k)), pl.BlockSpec((2, 3), lambda i, j, k: (k, j))],
              out_specs=pl.BlockSpec((2, 3), lambda i, j, k: (i, j)), scratch_shapes=[tpu.VMEM((2, 3), np.float32)],
              compiler_params=tpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")))
    np.testing.assert_allclose(got, np.tanh(X @ Y), rtol=1e-5)


def test_kernel_is_traced_once():
    traces = []
    run(lambda x_ref, o_ref: traces.append(copy(x_ref, o_ref)), ((6,), np.float32), np.arange(6.), grid=3,
        in_specs=[blocks(2)], out_specs=blocks(2))
    assert len(traces) == 1
    assert "while" in str(make_jaxpr(lambda x: run(add_one, x, x, grid=3))(ROW)) or "scan" in str(
        make_jaxpr(lambda x: run(add_one, x, x, grid=3))(ROW))


def test_interpret_mode_is_forced_in_a_block():
    call = pl.pallas_call(add_one, ROW)
    with tpu.force_tpu_interpret_mode():
        assert call(ROW).tolist() == [1, 2, 3, 4, 5]
        with tpu.force_tpu_interpret_mode(tpu.InterpretParams()):
            pass
        call(ROW)
    with pytest.raises(ValueError, match="interpret must be True"):
        call(ROW)


# --- errors ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("call,error,text", [
    (lambda: pl.pallas_call(copy, ROW)(ROW), ValueError, "interpret must be True"),
    (lambda: run(lambda x_ref, o_ref: x_ref[...], ROW, ROW), ValueError, "the kernel must return None"),
    (lambda: run(copy, X, X, in_specs=[pl.BlockSpec((4,))]), ValueError, "the block_shape of argument 0"),
    (lambda: run(copy, X, X, grid=1, out_specs=pl.BlockSpec((4, 8), lambda i: (i,))), ValueError,
     "the index_map of result 0 must return 2 indices.*; got 1"),
    (lambda: run(copy, ROW, ROW, in_specs=[blocks(0)]), ValueError, "must be a positive int, None, Blocked"),
    (lambda: run(copy, ROW, ROW, in_specs=[blocks("x")]), ValueError, "must be a positive int, None, Blocked"),
    (lambda: run(copy, ROW, ROW, in_specs=[]), ValueError, "in_specs must have a BlockSpec for each argument"),
    (lambda: run(copy, ROW, ROW, out_specs=[None, None]), ValueError, "out_specs must have a BlockSpec for each result"),
    (lambda: run(copy, ROW, ROW, in_specs=[(4,)]), ValueError, "in_specs must have a BlockSpec"),
    (lambda: run(copy, ROW, ROW, in_specs=["x"]), TypeError, "in_specs must hold BlockSpecs; got str"),
    (lambda: run(copy, ROW, ROW, input_output_aliases={0: 1}), ValueError, "input_output_aliases must map .*got 0: 1"),
    (lambda: run(copy, X, ROW, input_output_aliases={0: 0}), ValueError, "arguments and results of one type"),
    (lambda: run(copy, ROW, "x"), TypeError, "argument 0: expected an array or a number; got str"),
    (lambda: run(copy, ROW, np.arange(5)), ValueError, "dtype float32 must have this dtype; got int32"),
    (lambda: run(lambda o_ref: o_ref.__setitem__(..., pl.program_id(1)), ((), np.int32), grid=2), ValueError,
     r"program_id: axis must be an axis of the grid \(2,\); got 1"),
    (lambda: pl.program_id(0), ValueError, "program_id: no kernel runs"),
    (lambda: pl.num_programs(0), ValueError, "num_programs: no kernel runs"),
    (lambda: pl.ds(0, np.float32(2)), TypeError, "ds: size must be an int"),
    (lambda: pl.ds(0, -1), ValueError, "ds: size must be at least 0"),
    (lambda: pl.ds(0, 1, 0), ValueError, "ds: stride must be at least 1"),
    (lambda: new_ref(ROW)[pl.ds(0, 6)], IndexError, "a block of 6 elements .*outside of axis 0, which has 5"),
    (lambda: new_ref(ROW)[pl.ds(3, 3)], IndexError, "a block of 3 elements with start 3 .*outside of axis 0"),
    (lambda: pl.empty((2,), np.float32, out_sharding=1), ValueError, "out_sharding must be None"),
    (lambda: pl.multiple_of(3, 2), ValueError, "x must be a multiple of 2; got 3"),
    (lambda: pl.next_power_of_2(0), ValueError, "x must be positive")])
def test_wrong_arguments_are_named(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_program_id_ends_with_the_kernel():
    def kernel(o_ref):
        raise KeyError("stop")

    with pytest.raises(KeyError):
        run(kernel, ROW, grid=2)
    with pytest.raises(ValueError, match="no kernel runs"):
        pl.program_id(0)
