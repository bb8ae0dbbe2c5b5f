"""Which programs are compiled with the cheap settings, and how that changes their results."""
import numpy as np
import pytest
from lamina_autodiff import custom_jvp, custom_vjp
from lamina_ir import prims
from lamina_runtime import _jaxlib
from lamina_runtime._compile import executable_cache
from lamina_runtime._compile.compile_effort import (_NON_SUMMING, _SELECTING, _EXACT, _LIBRARIES, _MULTIPLY,
                                                    _ROUNDED_ONCE, _SHAPES, _AS_FAST_ROLLED, _STEADY_FAMILIES,
                                                    CompileEffort, compile_effort)
from lamina_tracing import jit, lax, make_jaxpr
from lamina_tracing.extend import bind

X = np.random.default_rng(0).standard_normal((6, 6)).astype(np.float32)
LARGE = np.ones((1000, 100), np.float32)


def twenty(step):
    def f(x):
        for _ in range(20):
            x = step(x)
        return x
    return f


def halves(x):
    return lax.mul(lax.add(x, lax.transpose(x, (1, 0))), 0.5)


def drawn(x):
    key = lax.bitcast_convert_type(lax.slice(x, (0, 0), (1, 2)), np.uint32)
    bits = lax.threefry2x32(lax.squeeze(lax.slice(key, (0, 0), (1, 1)), (0, 1)), np.uint32(3),
                            lax.iota(np.uint32, 40), lax.iota(np.uint32, 40))[0]
    return lax.sub(lax.bitcast_convert_type(lax.bitwise_or(lax.shift_right_logical(bits, np.uint32(9)), np.uint32(0x3F800000)),
                                            np.float32), 1.0)


def ranked(x):
    flat = lax.reshape(x, (36,))
    ordered, places = lax.sort((flat, lax.iota(np.int32, 36)), num_keys=1)
    for _ in range(5):
        fresh = lax.concatenate([lax.full((1,), True, np.bool_), lax.ne(lax.slice(ordered, (1,), (36,)),
                                                                       lax.slice(ordered, (0,), (35,)))], 0)
        places = lax.add(places, lax.cumsum(lax.convert_element_type(fresh, np.int32), 0))
    return ordered, places, lax.select(lax.gt(places, 50), lax.abs(ordered), lax.neg(ordered))


STEADY = {
    "eigh": lambda x: bind(prims.eigh_p, halves(x), lower=True), "lu": lambda x: bind(prims.lu_p, x),
    "svd": lambda x: bind(prims.svd_p, x, compute_uv=True, full_matrices=False), "drawn": drawn, "ranked": ranked,
    "a call": lambda x: jit(lambda v: bind(prims.cholesky_p, v))(lax.mul(halves(x), 3.0)),
    "twenty": twenty(lambda x: lax.neg(lax.transpose(x, (1, 0)))),
    "fft": lambda x: lax.real(lax.fft(lax.convert_element_type(x, np.complex64), "fft", (6,)))}


@pytest.mark.oldest_jaxlib
@pytest.mark.parametrize("name", STEADY)
def test_exact_programs_are_cheap_and_bitwise_equal(name):
    f = STEADY[name]
    assert compile_effort(make_jaxpr(f)(X)).cheap
    cheap = jit(f).lower(X).compile()
    if not _jaxlib.cheap_overrides():
        pytest.skip("this jaxlib has one emitter")
    usual = jit(f).lower(X).compile(compiler_options={name: True for name, _ in _jaxlib.cheap_overrides()})
    for a, b in zip(_leaves(cheap(X)), _leaves(usual(X)), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def _leaves(out):
    return out if isinstance(out, (tuple, list)) else [out]


def joined(x):
    return lax.add(lax.mul(x, 2.0), 1.0)  # may be fused to one instruction


ROUNDING = [twenty(lax.sin), twenty(joined), twenty(lambda x: lax.add(lax.transpose(lax.mul(x, 2.0), (1, 0)), 1.0)),
            twenty(lambda x: lax.add(x, jit(lambda v: lax.mul(v, v))(x))),
            lambda x: [STEADY["svd"](x), lax.reduce_sum(x, (0,))]]


@pytest.mark.parametrize("f", ROUNDING)
def test_rounding_programs_are_cheap_unless_they_draw_random_numbers(f):
    assert compile_effort(make_jaxpr(f)(X)).cheap
    assert not compile_effort(make_jaxpr(lambda x: (f(x), drawn(x)))(X)).cheap


@pytest.mark.oldest_jaxlib
def test_cheap_programs_have_the_same_mean_error():
    """Compares the mean error, in units of the last place, of chains that round; the last digits may differ."""
    if not _jaxlib.cheap_overrides():
        pytest.skip("this jaxlib has one emitter")

    def f(x):
        for _ in range(5):
            x = lax.div(joined(lax.mul(x, lax.sin(x))), lax.add(lax.abs(x), 1.0))
        return lax.sub(x, lax.broadcast_in_dim(lax.reduce_sum(x, (0,)), (6, 6), (1,)))

    def exact(x):
        for _ in range(5):
            x = (x * np.sin(x) * 2.0 + 1.0) / (np.abs(x) + 1.0)
        return x - x.sum(0)

    x = np.random.default_rng(1).standard_normal((40, 6, 6)).astype(np.float32)
    cheap = jit(f).lower(X).compile()
    usual = jit(f).lower(X).compile(compiler_options={name: True for name, _ in _jaxlib.cheap_overrides()})
    a, b = ([np.abs(np.asarray(run(v)) - exact(v.astype(np.float64))).max() for v in x] for run in (cheap, usual))
    assert compile_effort(make_jaxpr(f)(X)).cheap and 0.8 < np.mean(a) / np.mean(b) < 1.25


@pytest.mark.parametrize("f, x", [
    (twenty(lambda x: lax.max(x, 1.0)), X), (twenty(lambda x: lax.add(x, 1.0)), X.astype(np.float16)),
    (twenty(lambda x: lax.neg(x)), LARGE), (lambda x: lax.reduce_sum(x, (0,)), LARGE),
    (lambda x: lax.while_loop(lambda c: lax.lt(lax.reduce_max(c, (0, 1)), 9.0), lambda c: lax.add(c, 1.0), x), X),
])
def test_programs_that_would_lose_accuracy_or_speed_are_not_cheap(f, x):
    assert not compile_effort(make_jaxpr(f)(x)).cheap


def test_few_equations_are_cheap_and_many_are_not():
    assert compile_effort(make_jaxpr(lambda x: lax.mul(lax.sin(x), 2.0))(X)).cheap
    assert not compile_effort(make_jaxpr(lambda x: [twenty(lax.neg)(x) for _ in range(10)])(X)).cheap


def test_tables_name_existing_primitives_and_families():
    assert {*_SELECTING, *_EXACT, *_MULTIPLY, *_ROUNDED_ONCE, *_SHAPES} <= set(prims.ALL)
    assert {*_NON_SUMMING, *_STEADY_FAMILIES, *_LIBRARIES, *_AS_FAST_ROLLED} <= {p.family for p in prims.ALL}


def test_effort_of_custom_rule_functions_is_that_of_their_body():
    def marked(mark, f):
        held = mark(f)
        if mark is custom_jvp:
            held.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
        else:
            held.defvjp(lambda x: (f(x), ()), lambda _, ct: (ct,))
        return held

    for mark in custom_jvp, custom_vjp:
        assert compile_effort(make_jaxpr(marked(mark, lambda x: lax.exp(lax.sub(x, lax.reduce_max(x, (0, 1))))))(X)).cheap
        assert not compile_effort(make_jaxpr(lambda x, f=marked(mark, twenty(lax.sin)): (f(x), drawn(x)))(X)).cheap
        assert not compile_effort(make_jaxpr(marked(mark, lambda x: lax.reduce_sum(x, (0,))))(LARGE)).cheap
        assert not compile_effort(make_jaxpr(lambda x, f=marked(mark, lambda v: lax.mul(v, v)): (drawn(x), twenty(
            lambda v: lax.add(v, f(v)))(x)))(X)).cheap  # may be fused to one instruction


ROWS = np.linspace(-2, 2, 160, dtype=np.float32).reshape(4, 40)
LONG = np.ones((1000, 16), np.float32)


@pytest.mark.parametrize("f, x, expected", [
    (lax.exp, ROWS, CompileEffort(True, True)), (lambda x: lax.add(lax.log(x), 1.0), LARGE, CompileEffort(True, True)),
    (lambda x: lax.argmax(x, 1, np.int32), ROWS, CompileEffort(True, True)),
                                            (lambda x: lax.sort(x), ROWS, CompileEffort(True, True)),
    (lambda x: lax.reduce_max(x, (1,)), ROWS, CompileEffort(True, True)),
                                            (lambda x: lax.cumsum(lax.gt(x, 0.0).astype(np.int32)), ROWS,
                                                                    CompileEffort(True, True)),
    (lambda x: lax.reduce_sum(x, (1,)), ROWS, CompileEffort(True, False)),
                                            (lambda x: lax.cumsum(x, 1), ROWS, CompileEffort(True, False)),
    (lambda x: lax.concatenate([x, x], 1), LONG, CompileEffort(True, False)), (lambda x: lax.argmax(x, 1, np.int32), LONG,
                                                                        CompileEffort(True, False)),
    (lambda x: lax.reduce_sum(lax.exp(x), (1,)), ROWS, CompileEffort()),
                                            (lambda x: lax.tanh(lax.dot(x, x)), X, CompileEffort(True, False)),
    (lambda x: lax.dot(x, lax.transpose(x, (1, 0))), ROWS, CompileEffort()),
    (jit(lambda x: lax.reduce_sum(lax.exp(x), (1,))), ROWS, CompileEffort()),
    (lax.exp, np.ones((20_000, 3), np.float32), CompileEffort()),
                                            (lax.exp, np.ones((20, 3), np.float32), CompileEffort(True, True)),
])
def test_loops_are_rolled_if_no_floats_are_summed(f, x, expected):
    assert compile_effort(make_jaxpr(f)(x)) == expected


@pytest.mark.parametrize("f", [
    lax.exp, lax.log1p, lambda x: lax.tanh(lax.add(lax.mul(x, x), 1.0)), lax.lgamma,
    lambda x: lax.erf(lax.transpose(x, (1, 0))), lambda x: lax.sort(x),
    lambda x: lax.reduce_max(x, (0,)), lambda x: lax.pow(lax.abs(x), 1.7), lax.sin,
    lambda x: lax.concatenate([lax.logistic(x), lax.rev(x, (0,))], 1)])
def test_rolled_loops_are_bitwise_equal(f, monkeypatch):
    assert compile_effort(make_jaxpr(f)(ROWS)).rolled_loops
    rolled = jit(f).lower(ROWS).compile()(ROWS)
    executable_cache._compile_options.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(_jaxlib, "add_extra_options", lambda options, extra: options)
        executable_cache.clear_memory()
        usual = jit(lambda x: f(x)).lower(ROWS).compile()(ROWS)
    executable_cache._compile_options.cache_clear()
    assert np.asarray(rolled).tobytes() == np.asarray(usual).tobytes()


def test_disable_loop_unrolling_is_accepted_by_jaxlib():
    plain = _jaxlib.CompileOptions()
    plain.env_option_overrides = [("xla_cpu_enable_fast_math", False)]
    rolled = _jaxlib.add_extra_options(plain, {"xla_cpu_disable_loop_unrolling": ""})
    assert b"xla_cpu_disable_loop_unrolling" in rolled.SerializeAsString()
    assert b"xla_cpu_enable_fast_math" in rolled.SerializeAsString() and rolled.num_replicas == plain.num_replicas
