"""Collectives and their derivatives give the same results under vmap and pmap."""
import numpy as np
import pytest
from lamina_autodiff import grad, jvp, vjp
from lamina_batching import vmap
from lamina_ir import prims
from lamina_parallel import (all_gather, all_to_all, axis_index, pmap, pmax, pmean, pmin, ppermute, pshuffle, psum,
                             psum_scatter)
from lamina_tracing import jit, lax, make_jaxpr

N = 4
X = np.random.default_rng(0).normal(size=(N, N, 6)).astype(np.float32)

CASES = {
    "psum": lambda x: psum(x, "i"), "pmax": lambda x: pmax(x, "i"), "pmin": lambda x: pmin(x, "i"),
    "pmean": lambda x: pmean(x, "i"), "all_gather": lambda x: all_gather(x, "i"),
    "all_gather_1": lambda x: all_gather(x, "i", axis=1), "all_gather_tiled": lambda x: all_gather(x, "i", axis=1, tiled=True),
    "psum_scatter": lambda x: psum_scatter(x, "i"),
    "psum_scatter_tiled": lambda x: psum_scatter(x, "i", scatter_dimension=0, tiled=True),
    "all_to_all": lambda x: all_to_all(x, "i", 0, 1), "all_to_all_0": lambda x: all_to_all(x, "i", 0, 0),
    "all_to_all_tiled": lambda x: all_to_all(x, "i", 0, 1, tiled=True),
    "ppermute": lambda x: ppermute(x, "i", [(0, 2), (1, 0)]), "pshuffle": lambda x: pshuffle(x, "i", [2, 0, 3, 1]),
    "axis_index": lambda x: lax.mul(x, lax.convert_element_type(axis_index("i"), "float32")),
}


@pytest.mark.parametrize("name", CASES)
def test_vmap_and_pmap_agree(name):
    f = CASES[name]
    a, b = vmap(f, axis_name="i")(X), pmap(f, axis_name="i")(X)
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mapper", [vmap, pmap])
def test_derivatives_are_those_of_the_mapped_function(name, mapper):
    f = mapper(CASES[name], axis_name="i")
    t = np.random.default_rng(1).normal(size=X.shape).astype(np.float32)
    out, tangent = jvp(f, (X,), (t,))
    ct = np.random.default_rng(2).normal(size=out.shape).astype(np.float32)
    back, = vjp(f, X)[1](ct)
    np.testing.assert_allclose(np.sum(np.asarray(ct) * np.asarray(tangent)), np.sum(np.asarray(back) * t), rtol=1e-3)
    eps = 1e-2
    change = (np.asarray(f(X + eps * t)) - np.asarray(f(X - eps * t))) / (2 * eps)
    np.testing.assert_allclose(np.asarray(tangent), change, rtol=5e-2, atol=5e-2)


def test_any_hashable_names_an_axis_and_psum_of_one_is_its_size():
    name = ("a", 3)
    out = vmap(lambda x: psum(1, (name,)) * x, axis_name=name)(np.ones(5, np.float32))
    assert np.asarray(out).tolist() == [5.0] * 5


def test_nested_axes():
    def normalize(x):
        return x / psum(x, "rows"), x / psum(x, "cols"), x / psum(x, ("rows", "cols"))
    x = np.arange(8.0, dtype=np.float32).reshape(4, 2) + 1
    for outer in (vmap, pmap):
        for inner in (vmap, pmap):
            r, c, both = outer(inner(normalize, axis_name="cols"), axis_name="rows")(x)
            np.testing.assert_allclose(np.asarray(r).sum(0), 1, rtol=1e-6)
            np.testing.assert_allclose(np.asarray(c).sum(1), 1, rtol=1e-6)
            np.testing.assert_allclose(np.asarray(both).sum(), 1, rtol=1e-6)


def test_psum_over_groups():
    groups = [[0, 1], [2, 3]]
    out = pmap(lambda x: psum(x, "i", axis_index_groups=groups), axis_name="i")(X)
    np.testing.assert_allclose(np.asarray(out)[0], X[0] + X[1], rtol=1e-6)
    with pytest.raises(ValueError, match="axis_index_groups must hold all indices 0..3 of the axis 'i'"):
        vmap(lambda x: psum(x, "i", axis_index_groups=[[0, 1], [2]]), axis_name="i")(X)


def test_collectives_inside_jit_inside_a_map():
    for mapper in (vmap, pmap):
        f = mapper(jit(lambda x: psum(x, "i")), axis_name="i")
        np.testing.assert_allclose(np.asarray(f(X))[1], X.sum(0), rtol=1e-5)
    constant = vmap(lambda x: x + jit(lambda: psum(np.float32(2), "i"))(), axis_name="i")
    np.testing.assert_allclose(np.asarray(constant(X)), X + 2 * N)


def test_grad_inside_a_map_includes_other_members():
    f = vmap(grad(lambda x: psum(x * x, "i")), axis_name="i")
    g = pmap(grad(lambda x: psum(x * x, "i")), axis_name="i")
    x = np.arange(4.0, dtype=np.float32)
    np.testing.assert_allclose(np.asarray(f(x)), 2 * 4 * x)
    np.testing.assert_allclose(np.asarray(g(x)), 2 * 4 * x)


def test_normalization_by_psum():
    out = pmap(lambda x: x / psum(x, axis_name="i"), axis_name="i")(np.arange(4.0, dtype=np.float32))
    np.testing.assert_allclose(np.asarray(out), [0, 1 / 6, 1 / 3, 0.5], rtol=1e-6)


def test_pmap_params_are_printed_in_order():
    text = str(make_jaxpr(pmap(lambda x: x, axis_name="i"))(X))
    order = ["axis_name=i", "axis_size=4", "backend=None", "call_jaxpr=", "devices=None", "donated_invars=(False,)",
             "global_arg_shapes=(None,)", "global_axis_size=None", "in_axes=(0,)", "name=<lambda>", "out_axes=(0,)"]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)


@pytest.mark.parametrize("perm", [[(0, 9)], [(0, 1), (0, 2)], [(0, 1), (2, 1)]])
def test_invalid_permutations_are_refused(perm):
    with pytest.raises(ValueError, match="ppermute"):
        vmap(lambda x: ppermute(x, "i", perm), axis_name="i")(X)


def test_every_collective_has_rules():
    from lamina_autodiff.extend import jvp_rules, transpose_rules
    from lamina_batching.extend import batching_rules
    for p in (*(p for p in prims.ALL if p.family == "collectives"), prims.xla_pmap_p):
        assert p in batching_rules and (p in jvp_rules or p.linear_in)
        assert transpose_rules.has_rule_or_reason(p)


@pytest.mark.parametrize("source", [0, N - 1])
def test_pbroadcast_returns_the_value_of_one_member(source):
    got = vmap(lambda x: lax.pbroadcast((x, x > 0, 2.0), "i", source), axis_name="i")(X)
    np.testing.assert_array_equal(got[0], np.broadcast_to(X[source], X.shape))
    np.testing.assert_array_equal(got[1], np.broadcast_to(X[source] > 0, X.shape))
    np.testing.assert_array_equal(pmap(lambda x: lax.pbroadcast(x, "i", source), axis_name="i")(X), got[0])
    back = vjp(vmap(lambda x: lax.pbroadcast(x, "i", source), axis_name="i"), X)[1](X)[0]
    wanted = np.zeros_like(X)
    wanted[source] = X.sum(0)
    np.testing.assert_allclose(back, wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="pbroadcast: source must be one of the indices 0..3"):
        vmap(lambda x: lax.pbroadcast(x, "i", N), axis_name="i")(X)


@pytest.mark.parametrize("mapped", [vmap, pmap])
def test_pdot_and_xeinsum_sum_over_the_mapped_axis(mapped):
    y = X[::-1].copy()

    def check(fun, wanted):
        got = mapped(fun, axis_name="i")(X, y)
        np.testing.assert_allclose(got, np.broadcast_to(wanted, np.shape(got)), rtol=1e-4, atol=1e-4)

    check(lambda a, b: lax.pdot(a, b, "i", ((1,), (1,))), np.einsum("iab,icb->ac", X, y))
    check(lambda a, b: lax.pdot(a, b, ("i",), ((1,), (1,)), ((0,), (0,))), np.einsum("iab,iab->a", X, y))
    check(lambda a, b: lax.xeinsum("ab{i},cb{i}->ca", a, b), np.einsum("iab,icb->ca", X, y))
    check(lambda a, b: lax.xeinsum("ab{i},cb{i}->ca{i}", a, b), np.einsum("iab,icb->ica", X, y))
    check(lambda a, b: lax.xeinsum("ab{i}->b", a), np.einsum("iab->b", X))


@pytest.mark.parametrize("mapper", [vmap, pmap])
def test_integer_axes_are_positional_axes(mapper):
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    for axis in (0, -1):
        assert np.asarray(mapper(lambda v: psum(v, (axis, "i")), axis_name="i")(x)).tolist() == [28] * 4
    for axes in (7, -2, (0, -1)):
        with pytest.raises(ValueError, match="psum: ax"):
            mapper(lambda v: psum(v, axes), axis_name="i")(x)


@pytest.mark.parametrize("mapper", [vmap, pmap])
@pytest.mark.parametrize("name", [0, 3, True])
def test_integer_axis_name_is_refused(mapper, name):
    with pytest.raises(TypeError, match=f"{mapper.__name__} of `<lambda>`: axis_name: {name} cannot name a mapped axis"):
        mapper(lambda v: v, axis_name=name)


@pytest.mark.parametrize("groups", [[[0, 1], [2, 3]], [[2, 0], [1, 3]], [[3], [1], [0], [2]], [[1, 0, 3, 2]]])
@pytest.mark.parametrize("collective", [
    lambda x, g: psum(x, "i", axis_index_groups=g), lambda x, g: psum(x * 0 + 1, "i", axis_index_groups=g),
    lambda x, g: lax.pmean(x, "i", axis_index_groups=g), lambda x, g: lax.pmax(x, "i", axis_index_groups=g),
    lambda x, g: lax.pmin(x, "i", axis_index_groups=g), lambda x, g: lax.all_gather(x, "i", axis_index_groups=g, axis=1),
    lambda x, g: lax.all_gather(x, "i", axis_index_groups=g, tiled=True),
    lambda x, g: lax.psum_scatter(spread(x, len(g[0])), "i", axis_index_groups=g),
    lambda x, g: lax.psum_scatter(spread(x, 2 * len(g[0])), "i", axis_index_groups=g, tiled=True),
    lambda x, g: lax.all_to_all(spread(x, len(g[0])), "i", 0, 1, axis_index_groups=g),
    lambda x, g: lax.all_to_all(spread(x, 2 * len(g[0])), "i", 0, 1, axis_index_groups=g, tiled=True)])
def test_groups_agree_between_vmap_and_pmap(collective, groups):
    x = np.arange(24, dtype=np.float32).reshape(4, 6) ** 2
    mapped = vmap(lambda x: collective(x, groups), axis_name="i")
    np.testing.assert_array_equal(mapped(x), pmap(lambda x: collective(x, groups), axis_name="i")(x))
    np.testing.assert_array_equal(jit(mapped)(x), mapped(x))


def spread(x, n):
    """Broadcast x to [n, 6] with different values in each row."""
    return lax.mul(lax.broadcast_in_dim(x, (n, 6), (1,)), lax.broadcasted_iota(np.dtype("float32"), (n, 6), 0) + 1)


SEVERAL = {
    "all_gather": lambda x, names: all_gather(x, names), "all_gather_1": lambda x, names: all_gather(x, names, axis=1),
    "all_gather_tiled": lambda x, names: all_gather(x, names, axis=1, tiled=True),
    "psum_scatter": lambda x, names: psum_scatter(x, names, scatter_dimension=1),
    "psum_scatter_tiled": lambda x, names: psum_scatter(x, names, scatter_dimension=0, tiled=True),
    "all_to_all": lambda x, names: all_to_all(x, names, 1, 0), "all_to_all_same": lambda x, names: all_to_all(x, names, 1, 1),
    "all_to_all_tiled": lambda x, names: all_to_all(x, names, 0, 1, tiled=True),
    "ppermute": lambda x, names: ppermute(x, names, [(0, 5), (1, 0), (5, 4), (2, 2), (4, 1)]),
    "pshuffle": lambda x, names: pshuffle(x, names, [2, 0, 5, 3, 1, 4]),
}


@pytest.mark.parametrize("names", [("i", "j"), ("j", "i")])
@pytest.mark.parametrize("collective", SEVERAL)
def test_several_axis_names_agree_for_each_mix_of_vmap_and_pmap(collective, names):
    x = np.random.default_rng(3).integers(0, 99, (2, 3, 12, 6)).astype(np.float32)
    t = np.random.default_rng(4).integers(0, 99, x.shape).astype(np.float32)

    def mapped(outer, inner):
        return outer(inner(lambda x: SEVERAL[collective](x, names), axis_name="j"), axis_name="i")

    want = np.asarray(mapped(pmap, pmap)(x))
    back, = vjp(mapped(pmap, pmap), x)[1](want)
    for outer, inner in ((vmap, vmap), (vmap, pmap), (pmap, vmap)):
        np.testing.assert_array_equal(np.asarray(mapped(outer, inner)(x)), want)
        np.testing.assert_array_equal(np.asarray(jvp(mapped(outer, inner), (x,), (t,))[1]), np.asarray(mapped(pmap, pmap)(t)))
        np.testing.assert_array_equal(np.asarray(vjp(mapped(outer, inner), x)[1](want)[0]), np.asarray(back))


def test_ppermute_over_several_names_of_signed_zeros_and_booleans():
    x = np.array([[-0.0, 1.0], [2.0, -0.0]], np.float32)
    f = vmap(vmap(lambda x: ppermute(x, ("i", "j"), [(0, 3), (3, 0)]), axis_name="j"), axis_name="i")
    assert np.signbit(np.asarray(f(x))).tolist() == [[True, False], [False, True]]
    assert np.asarray(f(x != 0)).tolist() == [[False, False], [False, False]]


@pytest.mark.parametrize("name", [("a", 3), ("i",), 1.5, frozenset([1]), b"x", "a b", int, object()])
@pytest.mark.parametrize("mapper", [vmap, pmap, lambda f, **kw: jit(pmap(f, **kw)), lambda f, **kw: jit(vmap(f, **kw))])
def test_hashable_non_string_names_an_axis(mapper, name):
    def all_of_them(v):
        whole = all_gather(v, (name,))
        several = psum(v, (name,)) + ppermute(v, [name], [(0, 1)]) + axis_index((name,)) + lax.reduce_sum(whole, (0,))
        return several + psum_scatter(whole, (name,)) + lax.all_to_all(whole, (name,), 0, 0)[0]
    f, x = mapper(all_of_them, axis_name=name), np.array([1.0, 2.0], np.float32)
    np.testing.assert_array_equal(f(x), [3 + 0 + 0 + 3 + 2 + 1, 3 + 1 + 1 + 3 + 4 + 2])
    back, = vjp(f, x)[1](np.array([1.0, 10.0], np.float32))
    np.testing.assert_array_equal(back, [11 + 10 + 11 + 2 + 1, 11 + 0 + 11 + 20 + 10])


@pytest.mark.parametrize("mapper", [vmap, pmap])
def test_pargmax_and_pargmin(mapper):
    x = np.array([[np.nan, 1, 5, -1], [2, 3, 5, -1], [4, 7, 1, -2], [1, 7, 5, -2]], np.float32)
    largest, smallest = mapper(lambda v: (lax.pargmax({"a": v}, "i"), lax.pargmin(v, ("i",))), axis_name="i")(x)
    assert largest["a"][1].tolist() == [0, 2, 0, 0] and smallest[3].tolist() == [0, 0, 2, 2]
    assert largest["a"].dtype == smallest.dtype == np.int32
    both = mapper(vmap(lambda v: lax.pargmax(v, ("i", "j")), axis_name="j"), axis_name="i")(x)
    assert np.asarray(both).tolist() == [[0] * 4] * 4


@pytest.mark.parametrize("mapper", [vmap, pmap])
def test_pmean_over_groups_and_positional_axes(mapper):
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    uneven = [[0, 3, 1], [2]]
    got = mapper(lambda v: lax.pmean((v, v.astype(np.int32), True), "i", axis_index_groups=np.array(uneven, object)),
                 axis_name="i", out_axes=(0, 0, None))(x)
    wanted = np.stack([x[[0, 1, 3]].mean(0)] * 2 + [x[2]] + [x[[0, 1, 3]].mean(0)])
    np.testing.assert_allclose(got[0], wanted, rtol=1e-6)
    np.testing.assert_allclose(got[1], wanted, rtol=1e-6)
    assert got[1].dtype == np.float32 and got[2] == 1
    sizes = mapper(lambda v: psum((1), "i", axis_index_groups=uneven) + 0 * v[0], axis_name="i")(x)
    assert np.asarray(sizes).tolist() == [3, 3, 1, 3]
    for axis in (0, -1):
        np.testing.assert_allclose(mapper(lambda v: lax.pmean(v, (axis, "i")), axis_name="i")(x), [x.mean()] * 4)
    for call in (lambda v: all_gather(v, "i", axis_index_groups=uneven),
                 lambda v: psum_scatter(v, "i", axis_index_groups=uneven),
                 lambda v: lax.all_to_all(v, "i", 0, 0, axis_index_groups=uneven)):
        with pytest.raises(ValueError, match="groups of one size.*psum, pmean, pmax and pmin take"):
            mapper(call, axis_name="i")(x)


@pytest.mark.parametrize("mapper", [vmap, pmap])
def test_positional_axis_out_of_range_is_refused(mapper):
    x = np.ones((4, 4, 4), np.float32)
    for call in (lambda v: psum_scatter(v, "i", scatter_dimension=2), lambda v: lax.all_to_all(v, "i", 2, 0),
                 lambda v: lax.all_to_all(v, "i", 0, -3), lambda v: all_gather(v, "i", axis=3),
                 lambda v: lax.pmean(v, (2, "i")),
                 lambda v: psum_scatter(v[0, 0], "i"), lambda v: lax.pswapaxes(v, "i", 5), lambda v: lax.pmax(v, (2,))):
        with pytest.raises(ValueError, match="axis|axes"):
            mapper(call, axis_name="i")(x)
    np.testing.assert_array_equal(mapper(lambda v: psum_scatter(v, "i", scatter_dimension=-1), axis_name="i")(x), 4 * x[:, 0])


@pytest.mark.parametrize("outer", [vmap, pmap])
@pytest.mark.parametrize("inner", [vmap, pmap])
@pytest.mark.parametrize("groups", [None, [[0, 1, 2], [3]], [[0, 1], [2, 3]]])
def test_tied_pmax_divides_the_derivative_equally(outer, inner, groups):
    f = outer(inner(lambda v: pmax(v, ("i", "j"), axis_index_groups=groups), axis_name="j"), axis_name="i")
    x, t = np.array([[7, 7], [7, 1]], np.float32), np.array([[6, 60], [600, 6000]], np.float32)
    wanted = np.array({None: [222] * 4, 3: [222] * 3 + [6000], 2: [33, 33, 600, 600]}[groups and len(groups[0])])
    np.testing.assert_array_equal(np.asarray(jvp(f, (x,), (t,))[1]).reshape(-1), wanted)
    back, = vjp(f, x)[1](np.ones((2, 2), np.float32))
    spread = {None: [4 / 3] * 3 + [0], 3: [1] * 4, 2: [1, 1, 2, 0]}[groups and len(groups[0])]
    np.testing.assert_allclose(np.asarray(back).reshape(-1), spread, rtol=1e-6)
