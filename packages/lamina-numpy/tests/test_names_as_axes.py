"""Every public function with an axis argument takes the name of a mapped axis, and is then the positional program, or says
that it takes positional axes only. The meanings are those of docs/how-to/names-as-axes.md."""
import inspect

import numpy as np
import pytest
from lamina_autodiff import grad, jvp
from lamina_batching import vmap
from lamina_ir import UnboundAxisError
from lamina_tracing import make_jaxpr

import lamina_numpy as jnp

N = 4  # positions of the mapped axis "b"; arrays are [N, 3, 5], the first of them mapped
X = np.round(np.random.default_rng(0).normal(size=(N, 3, 5)), 3).astype(np.float32)
ARGUMENTS = {"axis", "axes", "axis1", "axis2", "axisa", "axisb", "axisc", "source", "destination", "start", "dimensions"}
LOTS = inspect.Parameter.VAR_POSITIONAL


def insert_nan(x):
    return np.where(np.abs(x) < 0.4, np.float32(np.nan), x)


# --- reductions: the result is the same at each position -------------------------------------------------------------
SIMPLE = "sum prod mean var std max min amax amin ptp any all average count_nonzero median linalg.vector_norm".split()
NAN = "nansum nanprod nanmax nanmin nanmean nanvar nanstd nanmedian".split()
REDUCTIONS = {name: lambda f, x, axis: f(x, axis=axis) for name in SIMPLE}
REDUCTIONS |= {name: lambda f, x, axis: f(insert_nan_in(x), axis=axis) for name in NAN}
REDUCTIONS |= {"quantile": lambda f, x, axis: f(x, 0.3, axis=axis),
               "percentile": lambda f, x, axis: f(x, np.array([30., 80.], np.float32), axis=axis),
               "nanquantile": lambda f, x, axis: f(insert_nan_in(x), np.float32(0.3), axis=axis, method="nearest"),
               "nanpercentile": lambda f, x, axis: f(insert_nan_in(x), 30, axis=axis),
               "linalg.norm": lambda f, x, axis: f(x, axis=axis) if not isinstance(axis, tuple) or len(axis) < 3 else
               jnp.linalg.vector_norm(x, axis=axis)}
REDUCTIONS |= {"minmax": lambda f, x, axis: jnp.stack(f(x, axis=axis))}
ONE_AXIS = {name: lambda f, x, axis: f(x, axis=axis) for name in "argmax argmin trapezoid".split()}
ONE_AXIS |= {name: lambda f, x, axis: f(insert_nan_in(x), axis=axis) for name in ("nanargmax", "nanargmin")}
ONE_AXIS |= {"vecdot": lambda f, x, axis: f(x, x * 2 - 1, axis=axis),
             "linalg.vecdot": lambda f, x, axis: f(x, x * 2 - 1, axis=axis)}
# --- those that keep the axis: each position gets its own part --------------------------------------------------------
KEEP = {name: lambda f, x, axis: f(x, axis=axis) for name in
        "cumsum cumprod cumulative_sum cumulative_prod sort argsort unwrap fft.fft fft.ifft".split()}
KEEP |= {name: lambda f, x, axis: f(insert_nan_in(x), axis=axis) for name in ("nancumsum", "nancumprod")}
KEEP |= {"partition": lambda f, x, axis: f(x, 1, axis=axis), "argpartition": lambda f, x, axis: f(x, 1, axis=axis),
         "lexsort": lambda f, x, axis: f((x, jnp.round(x)), axis=axis)}
KEEP_SEVERAL = {name: lambda f, x, axis: f(x, axis=axis) for name in ("flip", "gradient")}
KEEP_SEVERAL |= {name: lambda f, x, axis: f(x, axes=axis) for name in
                 "fft.fftn fft.ifftn fft.fftshift fft.ifftshift".split()}
KEEP_SEVERAL |= {"roll": lambda f, x, axis: f(x, 1, axis=axis)}
BY_ITSELF = {"take", "take_along_axis", "size", "fft.fft2", "fft.ifft2"}  # tests of their own below
NO_DERIVATIVE = {"argmax", "argmin", "nanargmax", "nanargmin", "any", "all", "count_nonzero", "argsort", "argpartition",
                 "lexsort", *(name for name in (*KEEP, *KEEP_SEVERAL) if name.startswith("fft."))}
# --- those that no name can mean anything to -----------------------------------------------------------------------
A = {"axis": lambda f, x, b: f(x, axis=b), "axes": lambda f, x, b: f(x, axes=b),
     "two": lambda f, x, b: f(x, 2, axis=b)}
POSITIONAL = {
    **{(name, "axis"): A["axis"] for name in
       "concat concatenate stack unstack diff expand_dims rollaxis squeeze unique fft.rfft fft.irfft fft.hfft "
       "fft.ihfft".split()},
    **{(name, "axis"): lambda f, x, b: f(jnp.asarray(x, np.uint8), axis=b) for name in ("packbits", "unpackbits")},
    **{(name, "axis"): A["two"] for name in "append array_split delete repeat split top_k".split()},
    **{(name, "axes"): A["axes"] for name in
       "permute_dims transpose rot90 fft.rfftn fft.irfftn fft.rfft2 fft.irfft2".split()},
    **{(name, argument): lambda f, x, b, argument=argument: f(x, **{argument: b}) for name in ("diagonal", "trace")
       for argument in ("axis1", "axis2")},
    ("swapaxes", "axis1"): lambda f, x, b: f(x, b, 0), ("swapaxes", "axis2"): lambda f, x, b: f(x, 0, b),
    ("moveaxis", "source"): lambda f, x, b: f(x, b, 0), ("moveaxis", "destination"): lambda f, x, b: f(x, 0, b),
    ("rollaxis", "start"): lambda f, x, b: f(x, 0, b),
    ("apply_along_axis", "axis"): lambda f, x, b: f(lambda line: line, b, x),
    ("apply_over_axes", "axes"): lambda f, x, b: f(jnp.sum, x, b),
    ("compress", "axis"): lambda f, x, b: f(np.array([True, False]), x, axis=b, size=1),
    ("insert", "axis"): lambda f, x, b: f(x, 0, 1., axis=b),
    ("put_along_axis", "axis"): lambda f, x, b: f(x, np.zeros((3, 5), int), 0., b, inplace=False),
    ("tensordot", "axes"): lambda f, x, b: f(x, x, axes=((b,), (0,))),
    ("linalg.tensordot", "axes"): lambda f, x, b: f(x, x, axes=((b,), (0,))),
    ("linalg.tensorsolve", "axes"): lambda f, x, b: f(x[:, :3], x[:, 0], axes=(b,)),
    ("linalg.cross", "axis"): lambda f, x, b: f(x, x, axis=b),
    **{("cross", argument): lambda f, x, b, argument=argument: f(x.T, x.T, **{argument: b}) for argument in
       ("axis", "axisa", "axisb", "axisc")},
    **{(name, "axis"): lambda f, x, b: f(x, x + 1, 4, axis=b) for name in ("linspace", "logspace", "geomspace")},
}
OTHER = {("indices", "dimensions"), *((name, "start") for name in ("arange", "linspace", "logspace", "geomspace"))}  # no axes


def insert_nan_in(x):
    return jnp.where(jnp.abs(x) < 0.4, np.float32(np.nan), x)


def function(name):
    home, _, last = name.rpartition(".")
    return getattr(getattr(jnp, home) if home else jnp, last)


def map_call(call, f, axis):
    return vmap(lambda x: call(f, x, axis), axis_name="b")


def shift_axis(axis):
    """The same axes of the array that holds all positions, the first of its axes being `b`."""
    if isinstance(axis, tuple):
        return tuple(shift_axis(a) for a in axis)
    return 0 if axis == "b" else axis if axis < 0 else axis + 1


def everywhere(y):
    return np.broadcast_to(np.asarray(y), (N, *np.shape(y)))


def assert_same(got, want, exact=False):
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype, (got.shape, want.shape, got.dtype, want.dtype)
    (np.testing.assert_array_equal if exact or want.dtype.kind in "biu" else
     lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5))(got, want)


CASES = [(name, call, axis, everywhere) for name, call in REDUCTIONS.items()
         for axis in ("b", ("b", 0), (-1, "b"), ("b", 0, 1))]
CASES += [(name, call, "b", everywhere) for name, call in ONE_AXIS.items()]
CASES += [(name, call, "b", np.asarray) for name, call in KEEP.items()]
CASES += [(name, call, axis, np.asarray) for name, call in KEEP_SEVERAL.items() for axis in ("b", ("b", 1), (0, "b"))
          if name != "gradient" or axis == "b"]
IDS = [f"{name}-{axis}" for name, _, axis, _ in CASES]


@pytest.mark.parametrize("name, call, axis, spread", CASES, ids=IDS)
def test_a_name_is_the_axis_it_maps(name, call, axis, spread):
    f = function(name)
    if isinstance(axis, str) and name.startswith("fft.") and "axes" in inspect.signature(f).parameters:
        axis = (axis,)  # of `axes`
    assert_same(map_call(call, f, axis)(X), spread(call(f, X, shift_axis(axis))))


@pytest.mark.parametrize("name, call, axis, spread", CASES, ids=IDS)
def test_a_value_without_the_name_is_the_same_at_each_position(name, call, axis, spread):
    f = function(name)
    if name in ("trapezoid", "unwrap") or name.startswith("fft."):
        axis = ("b",) if "axes" in inspect.signature(f).parameters else "b"
    alike = np.stack([X[0]] * N)
    got = vmap(lambda k: (k, call(f, jnp.asarray(X[0]), axis)), axis_name="b")(np.arange(N))[1]
    assert_same(got, spread(call(f, alike, shift_axis(axis))))


@pytest.mark.parametrize("name, call, axis, spread", [c for c in CASES if c[0] not in NO_DERIVATIVE],
                         ids=[i for i, c in zip(IDS, CASES) if c[0] not in NO_DERIVATIVE])
def test_derivatives_are_those_of_the_positional_program(name, call, axis, spread):
    f = function(name)
    weights = np.random.default_rng(1).normal(size=np.shape(map_call(call, f, axis)(X))).astype(np.float32)

    def named(x):
        return (map_call(call, f, axis)(x) * weights).sum()

    def positional(x):
        y = call(f, x, shift_axis(axis))
        return ((jnp.broadcast_to(y, weights.shape) if spread is everywhere else y) * weights).sum()

    assert_same(grad(named)(X), grad(positional)(X))
    tangent = np.cos(np.arange(X.size, dtype=np.float32)).reshape(X.shape)
    assert_same(jvp(named, (X,), (tangent,))[1], jvp(positional, (X,), (tangent,))[1])


@pytest.mark.parametrize("name, argument", POSITIONAL)
def test_others_take_positional_axes_only(name, argument):
    f, call = function(name), POSITIONAL[name, argument]
    shown = f.__name__  # `concat` is `concatenate`
    with pytest.raises(TypeError, match=rf"^{shown}: {argument} takes positional axes only, integers; got the name 'b'(?m:$)"):
        map_call(call, f, "b")(X)
    with pytest.raises(TypeError, match=rf"^{shown}: {argument} takes positional axes only, integers; got the name 'b'(?m:$)"):
        call(f, jnp.asarray(X[0]), "b")  # outside of a map too


def test_every_function_with_an_axis_is_here():
    known = {*REDUCTIONS, *ONE_AXIS, *KEEP, *KEEP_SEVERAL, *BY_ITSELF}
    for home, names in (("", jnp.__all__), ("linalg.", jnp.linalg.__all__), ("fft.", jnp.fft.__all__)):
        for name in names:
            f = function(home + name)
            try:
                arguments = ARGUMENTS.intersection(inspect.signature(f).parameters)
            except (TypeError, ValueError):
                continue
            for argument in arguments if home + name not in known else ():
                if (home + name, argument) not in OTHER:
                    assert (home + name, argument) in POSITIONAL, f"what does {argument} of {home}{name} mean by name?"


@pytest.mark.parametrize("name", [*REDUCTIONS, *ONE_AXIS, *KEEP, *KEEP_SEVERAL])
def test_an_unbound_axis_name_error_lists_the_bound_names(name):
    call = (REDUCTIONS | ONE_AXIS | KEEP | KEEP_SEVERAL)[name]
    with pytest.raises(UnboundAxisError, match="axis name 'c' is not bound; bound here: 'b'"):
        map_call(call, function(name), "c")(X)


# --- single meanings ---------------------------------------------------------------------------------------------
def test_methods_take_names():
    for method in "sum prod mean var std max min ptp any all argmax argmin cumsum cumprod sort argsort".split():
        got = vmap(lambda x: getattr(x, method)("b"), axis_name="b")(X)  # noqa: B023  # called at once
        want = getattr(jnp, method)(X, 0)
        assert_same(got, want if want.shape == X.shape else everywhere(want))


def test_take_along_a_name_reads_positions():
    assert_same(vmap(lambda x: jnp.take(x, np.array([[0, 2], [3, 0]]), axis="b"), axis_name="b")(X),
                everywhere(jnp.take(X, np.array([[0, 2], [3, 0]]), axis=0)))
    places = np.random.default_rng(2).integers(0, N, (N, 3, 5)).astype(np.int32)
    assert_same(vmap(lambda x, i: jnp.take_along_axis(x, i, "b"), axis_name="b")(X, places),
                jnp.take_along_axis(X, places, 0))


def test_two_dimensional_transforms_take_a_name():
    assert_same(vmap(lambda x: jnp.fft.fft2(x, axes=("b", 0)), axis_name="b")(X), jnp.fft.fft2(X, axes=(0, 1)))
    assert_same(vmap(lambda x: jnp.fft.ifft2(x, axes=(1, "b")), axis_name="b")(X), jnp.fft.ifft2(X, axes=(2, 0)))
    with pytest.raises(TypeError, match="fft: axis takes positional axes only where their length changes"):
        vmap(lambda x: jnp.fft.fft(x, 2, axis="b"), axis_name="b")(X)
    with pytest.raises(TypeError, match="cumulative_sum: axis takes positional axes only where their length changes"):
        vmap(lambda x: jnp.cumulative_sum(x, axis="b", include_initial=True), axis_name="b")(X)


def test_size_counts_positions():
    assert vmap(lambda x: (x, [jnp.size(x, "b"), jnp.size(x, ("b", 1)), jnp.size(x)])[1], axis_name="b",
                out_axes=None)(X) == [N, 5 * N, 15]


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
@pytest.mark.parametrize("axis", [("b", 0), (1, "b")])
@pytest.mark.parametrize("keepdims", [False, True])
def test_matrix_norms_of_named_rows_or_columns(order, axis, keepdims):
    got = vmap(lambda x: jnp.linalg.norm(x, order, axis, keepdims), axis_name="b")(X)
    want = jnp.linalg.norm(X, order, shift_axis(axis), keepdims)
    assert_same(got, everywhere(want[0] if keepdims else want))


@pytest.mark.parametrize("order", [0, 1, 2, 3, np.inf, -np.inf])
def test_vector_norms_along_names(order):
    assert_same(vmap(lambda x: jnp.linalg.norm(x, order, "b"), axis_name="b")(X),
                everywhere(jnp.linalg.norm(X, order, 0)))


def test_where_initial_dtype_ddof_and_keepdims():
    keep = X > 0
    for f, settings in ((jnp.sum, dict(initial=2., where=keep)), (jnp.max, dict(initial=-3., where=keep)),
                        (jnp.mean, dict(where=keep)), (jnp.var, dict(where=keep, ddof=1)), (jnp.prod, dict(where=keep)),
                        (jnp.std, dict(ddof=2)), (jnp.all, dict(where=keep)), (jnp.sum, dict(dtype=np.int32))):
        masks = settings.pop("where", None)
        got = vmap(lambda x, m: f(x, axis=("b", 1), keepdims=True, **settings,  # noqa: B023  # called at once
                                  **({} if masks is None else {"where": m})), axis_name="b")(X, keep)  # noqa: B023
        want = f(X, axis=(0, 2), keepdims=True, **settings, **({} if masks is None else {"where": masks}))
        assert_same(got, everywhere(want[0]))


def test_average_weighs_positions():
    w = np.abs(X[:, :, 0])
    got, total = vmap(lambda x, w: jnp.average(x, axis=("b", 0), weights=w, returned=True), axis_name="b")(X, w)
    want, all_ = jnp.average(X, axis=(0, 1), weights=w, returned=True)
    assert_same(got, everywhere(want))
    assert_same(total, everywhere(all_))


def test_half_precision_integers_and_booleans():
    for dtype in ("float16", "int8", "uint8", "bool", "complex64"):
        x = (X * 3).astype(dtype)
        for f in (jnp.sum, jnp.prod, jnp.mean, jnp.any, jnp.all, jnp.max, jnp.min):
            assert_same(vmap(lambda x: f(x, ("b", 0)), axis_name="b")(x), everywhere(f(x, (0, 1))))  # noqa: B023
        assert_same(vmap(lambda x: jnp.argmax(x, "b"), axis_name="b")(x), everywhere(jnp.argmax(x, 0)))


def test_ties_share_over_positions_and_names_together():
    x = np.array([[1., 1.], [1., 0.]], np.float32)
    for f in (jnp.max, jnp.min):
        assert_same(grad(lambda x: vmap(lambda v: f(v, ("b", 0)), axis_name="b", out_axes=None)(x))(x),  # noqa: B023
                    grad(lambda x: f(x))(x))  # noqa: B023


def test_two_names_in_either_order():
    x = np.random.default_rng(3).normal(size=(2, 3, 4)).astype(np.float32)

    def both(f):
        return vmap(vmap(f, axis_name="b"), axis_name="a")(x)

    assert_same(both(lambda v: jnp.sum(v, ("a", "b", 0))), np.full((2, 3), x.sum(dtype=np.float32)))
    assert_same(both(lambda v: jnp.prod(v, ("b", "a"))), np.broadcast_to(x.prod((0, 1)), x.shape))
    assert_same(both(lambda v: jnp.median(v, ("b", "a"))), np.broadcast_to(np.median(x, (0, 1)), x.shape))
    assert_same(both(lambda v: jnp.roll(v, (1, 2), ("b", "a"))), np.roll(x, (1, 2), (1, 0)))


def test_any_hashable_is_a_name_inside_a_tuple_too():
    name = frozenset({"rows"})
    assert_same(vmap(lambda x: jnp.sum(x, name), axis_name=name)(X), everywhere(X.sum(0)))
    assert_same(vmap(lambda x: jnp.sum(x, (("a", 1), 0)), axis_name=("a", 1))(X), everywhere(X.sum((0, 1))))


def test_errors_of_bad_axes_are_unchanged():
    with pytest.raises(TypeError, match="argmax: the axis must be an integer; got"):
        map_call(lambda f, x, axis: f(x, axis), jnp.argmax, ("b", 0))(X)
    with pytest.raises(ValueError, match="name an axis twice"):
        map_call(lambda f, x, axis: f(x, axis), jnp.sum, ("b", "b"))(X)
    with pytest.raises(ValueError, match="axis 5 is out of range for an array with 2 axes"):
        map_call(lambda f, x, axis: f(x, axis), jnp.sum, ("b", 5))(X)
    with pytest.raises(ValueError, match="axis 5 is out of range for an array with 2 axes"):
        map_call(lambda f, x, axis: f(x, 1, axis), jnp.roll, ("b", 5))(X)


def test_reductions_do_not_gather():
    for f in (jnp.sum, jnp.mean, jnp.var, jnp.std, jnp.max, jnp.any, jnp.linalg.norm, jnp.ptp, jnp.average, jnp.argmax):
        program = str(make_jaxpr(lambda x: f(x, axis="b"), axis_env=[("b", N)])(X[0]))  # noqa: B023
        assert "all_gather" not in program and ("psum" in program or "pm" in program)


def test_results_of_reductions_lose_the_name():
    def over(f):
        return make_jaxpr(f, axis_env=[("b", N)])(X[0]).out_avals[0].varying_axes
    for f in (jnp.sum, jnp.prod, jnp.max, jnp.argmax, jnp.median, jnp.std, jnp.any):
        assert not over(lambda x: f(x, axis="b"))  # noqa: B023
    assert over(lambda x: jnp.cumsum(x, "b")) == {"b"} == over(lambda x: jnp.sort(x, "b"))
