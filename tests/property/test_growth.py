"""Work is proportional to the program, and caches are bounded. Calls are counted; time is not measured.

From 1,000 to 16,000 equations the number of Python and C calls may grow as n^1.15 at most.
"""
from __future__ import annotations

import functools
import gc
import inspect
import os
import sys
import tracemalloc

import lamina
import lamina_ir
import lamina_numpy
import lamina_parallel
import lamina_runtime
import numpy as np
import pytest
from lamina import lax
from lamina_ir import cse, dce, dumps, fold_constants, inline_calls, jaxpr_text, loads, parse, partial_eval, rewrite
from lamina_ir.testing.programs import chain
from lamina_lowering import lower

SMALL, LARGE = 1_000, 16_000
MANY = 10_000 if int(os.environ.get("LAMINA_LAWS", "3")) > 20 else 2_000
X = np.float32(0.5)


def count_calls(fn, *args):
    """Return the number of Python and C calls that `fn(*args)` makes."""
    count = 0

    def watch(frame, event, arg):
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    collecting = gc.isenabled()
    gc.disable()
    sys.setprofile(watch)
    try:
        fn(*args)
    finally:
        sys.setprofile(None)
        if collecting:
            gc.enable()
    return count


def waves(n):
    def f(x):
        for _ in range(n // 2):
            x = lax.mul(lax.sin(x), 0.9)
        return x
    return f


def trace_waves(n):
    return lamina.make_jaxpr(waves(n))(X)


def prepare_lowering(n):
    lower(trace_waves(n))  # fills the cache of source locations by equation number, which all programs share
    return functools.partial(lower, trace_waves(n))


STAGED = {
    "make_jaxpr": lambda n: (lambda: trace_waves(n)),
    "jvp": lambda n: (lambda: lamina.make_jaxpr(lambda x: lamina.jvp(waves(n), (x,), (x,)))(X)),
    "grad": lambda n: (lambda: lamina.make_jaxpr(lamina.grad(waves(n)))(X)),
    "vmap": lambda n: (lambda: lamina.make_jaxpr(lamina.vmap(waves(n)))(np.ones(3, np.float32))),
    "lower": prepare_lowering,
    "remat": lambda n: (lambda: lamina.make_jaxpr(lamina.grad(lamina.checkpoint(waves(n))))(X)),
}
PROGRAMS = {
    "print": jaxpr_text, "print and parse": lambda p: parse(jaxpr_text(p)), "dumps": dumps,
    "dumps and loads": lambda p: loads(dumps(p)), "check": lamina_ir.check, "dce": dce, "cse": cse,
    "rewrite": lambda p: rewrite(p, lambda e: None), "inline_calls": inline_calls, "fold_constants": fold_constants,
    "partial_eval": lambda p: partial_eval(p, [True]), "partial_eval, unknown": lambda p: partial_eval(p, [False]),
    "alpha_equal": lambda p: lamina_ir.alpha_equal(p, p)}


def assert_proportional(make):
    make(SMALL)()  # work that is done once
    small, large = count_calls(make(SMALL)), count_calls(make(LARGE))
    assert large <= small * (LARGE / SMALL) ** 1.15, f"{small} calls for {SMALL} equations, {large} for {LARGE}"


@pytest.mark.parametrize("name", [n if n == "grad" else pytest.param(n, marks=pytest.mark.slow) for n in STAGED])
def test_transformation_work_is_proportional_to_the_program(name):
    assert_proportional(STAGED[name])


@pytest.mark.parametrize("name", [n if n in ("dce", "dumps") else pytest.param(n, marks=pytest.mark.slow) for n in PROGRAMS])
def test_pass_work_is_proportional_to_the_program(name):
    assert_proportional(lambda n: functools.partial(PROGRAMS[name], chain(n)))


def test_files_and_text_are_proportional_to_the_program():
    for write in (dumps, jaxpr_text):
        assert len(write(chain(LARGE))) < len(write(chain(SMALL))) * (LARGE / SMALL) ** 1.15


def test_cost_of_a_failed_hasattr_does_not_depend_on_the_program():
    def probe(n):
        found = []

        def f(x):
            x = waves(n)(x)
            found.append(count_calls(lambda: [hasattr(x, "__array_interface__nope") for _ in range(100)]) / 100)
            return x
        lamina.make_jaxpr(f)(X)
        return found[0]
    small, large = probe(SMALL), probe(LARGE)
    assert large <= small + 1 and large <= 25, f"{small} and {large} calls for a probe"


def test_scan_tracing_does_not_depend_on_the_length():
    def loop(n):
        return lambda: lamina.make_jaxpr(lambda x: lax.scan(lambda c, _: (lax.sin(c), c), x, None, length=n))(X)
    loop(10)()
    assert count_calls(loop(10_000)) <= count_calls(loop(10)) * 1.1 + 20


def doubled(f):
    return lambda x: lax.mul(f(x), 2.0)


def with_custom_jvp(f):
    made = lamina.custom_jvp(doubled(f))
    made.defjvp(lambda primals, tangents: (made(*primals), tangents[0]))
    return made


NESTS = {"jit": lambda f: lamina.jit(doubled(f)), "custom_jvp": with_custom_jvp,
         "scan": lambda f: lambda x: lax.scan(lambda c, _: (doubled(f)(c), None), x, None, length=2)[0]}


@pytest.mark.parametrize("nest", NESTS)
@pytest.mark.parametrize("transform", [lamina.vmap, lambda f: lambda x: lamina.linearize(f, x)[0]])
def test_work_for_nested_programs_is_proportional_to_the_depth(nest, transform):
    def deep(depth):
        f = lax.sin
        for _ in range(depth):
            f = NESTS[nest](f)
        return lambda: lamina.make_jaxpr(transform(f))(np.ones(3, np.float32))
    deep(10)()
    small, large = count_calls(deep(10)), count_calls(deep(40))
    assert large <= small * 4 ** 1.15, f"{small} calls for depth 10, {large} for depth 40"


@lamina.jit
def block(x, w):
    return lax.add(lax.tanh(lax.add(lax.dot(x, w), 0.5)), x)


def blocks(count):
    def f(x, w):
        for _ in range(count):
            x = block(x, w)
        return lax.reduce_sum(x, (0, 1))
    return f


SHARING = {"plain": (lambda f: f, 1), "grad": (lamina.grad, 2), "both": (lambda f: lamina.grad(f, (0, 1)), 2),
           "jvp": (lambda f: lambda x, w: lamina.jvp(f, (x, w), (w, x)), 1),
           "vmap": (lambda f: lambda x, w: lamina.vmap(f, (0, None))(lax.broadcast(x, (2,)), w), 1),
           "vmap of grad": (lambda f: lambda x, w: lamina.vmap(lamina.grad(f), (0, None))(lax.broadcast(x, (2,)), w), 3),
           "grad of checkpoint": (lambda f: lamina.grad(lamina.checkpoint(f)), 3)}


@pytest.mark.parametrize("use", SHARING)
def test_calls_of_one_function_share_its_body(use):
    """One function per direction, and a second backward one if the last call has another cotangent; not one per call."""
    transform, bodies = SHARING[use]
    x = np.ones((3, 3), np.float32)
    small, large = (lower(lamina.make_jaxpr(transform(blocks(n)))(x, x)).as_text().count("func.func private")
                    for n in (10, 100))
    assert 1 <= small <= bodies and large <= bodies


def sliced_blocks(count):
    def f(x, ws):
        for k in range(count):
            x = block(x, lax.index_in_dim(ws, k, keepdims=False))
        return lax.reduce_sum(x, (0, 1))
    return f


def many_calls(use, count):
    """Return the staged program of `count` calls under a transformation, each call with the same weights."""
    x = np.ones((3, 3), np.float32)
    return lamina.make_jaxpr(SHARING[use][0](blocks(count)))(x, x)


@pytest.mark.parametrize("use", ["plain", "grad", "both", "jvp", "vmap", "vmap of grad"])
def test_module_size_does_not_depend_on_the_number_of_rolled_calls(use):
    texts = [lower(many_calls(use, n)).as_text() for n in (60, 300)]
    assert texts[0].count("\n") == texts[1].count("\n") and texts[0].count("stablehlo.while") in (1, 2)


@pytest.mark.parametrize("transform", [lambda f: f, lambda f: lamina.grad(f, (0, 1))])
def test_module_size_does_not_depend_on_the_number_of_sliced_calls(transform):
    x = np.ones((3, 3), np.float32)
    programs = [lamina.make_jaxpr(transform(sliced_blocks(n)))(x, np.ones((n, 3, 3), np.float32)) for n in (60, 300)]
    small, large = [lower(program).as_text().count("\n") for program in programs]
    assert small == large


@pytest.mark.parametrize("use", ["plain", "grad", "both", "jvp", "vmap", "vmap of grad"])
def test_work_is_proportional_to_the_number_of_calls(use):
    many_calls(use, 10)
    for work in (functools.partial(many_calls, use), lambda n: functools.partial(lower, many_calls(use, n))()):
        small, large = count_calls(work, 30), count_calls(work, 300)
        assert large <= small * 10 ** 1.1, f"{small} calls for 30, {large} for 300"
    assert len(many_calls(use, 300).eqns) <= len(many_calls(use, 30).eqns) * 10


@pytest.mark.parametrize("use", SHARING)
def test_work_is_proportional_to_the_depth_of_calls(use):
    """Each function calls the previous one, twice if nothing is saved: 2**20 calls, with one body per level. A gradient saves a
    residual in each call."""
    twice = use in ("plain", "jvp", "vmap")

    def deep(depth):
        f = block
        for _ in range(depth):
            f = lamina.jit(lambda x, w, f=f: lax.mul(f(f(x, w) if twice else x, w), 0.5))
        x = np.ones((3, 3), np.float32)
        return lamina.make_jaxpr(SHARING[use][0](lambda x, w: lax.reduce_sum(f(x, w), (0, 1))))(x, x)
    deep(3)
    for work in (deep, lambda n: lower(deep(n))):
        small, large = count_calls(work, 5), count_calls(work, 20)
        assert large <= small * 4 ** 1.1, f"{small} calls for depth 5, {large} for depth 20"


PACKAGES = (lamina_ir, lamina_parallel, lamina_runtime, lamina_numpy, lamina)


def lamina_modules():
    return [m for name, m in list(sys.modules.items()) if name.startswith("lamina") and m is not None]


def test_every_memo_is_bounded():
    unbounded = [f"{m.__name__}.{name}" for m in lamina_modules() for name, value in list(vars(m).items())
                 if hasattr(value, "cache_info") and value.cache_info().maxsize is None
                 and inspect.signature(value).parameters]
    assert unbounded == []


def table_sizes():
    sizes = {}
    for m in lamina_modules():
        for name, value in list(vars(m).items()):
            if isinstance(value, (dict, list, set)) and not name.startswith("__"):
                sizes[f"{m.__name__}.{name}"] = len(value)
    return sizes


def visit(shapes):
    for n in shapes:
        x = lamina.ShapeDtypeStruct((n,), np.float32)
        lamina.eval_shape(lambda a: lax.reduce_sum(lax.sin(a) * 2.0, (0,)), x)
        lamina.make_jaxpr(lamina.grad(lambda a: lax.reduce_sum(lax.sin(a) * 2.0, (0,))))(x)


@pytest.mark.slow
def test_memory_is_bounded_for_many_shapes():
    visit(range(1, 9_000 if MANY > 5_000 else 1_000))  # fills the bounded caches
    gc.collect()
    before = table_sizes()
    tracemalloc.start()
    try:
        start = 20_000
        visit(range(start, start + 200))
        gc.collect()
        first = tracemalloc.get_traced_memory()[0]
        visit(range(start + 200, start + MANY))
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - first
    finally:
        tracemalloc.stop()
    # full caches exchange entries: the newest may need up to a kilobyte more than the oldest
    assert grown < 8_000_000 if MANY > 5_000 else grown < MANY * 6_000
    after = table_sizes()
    tables = {name: (n, after[name]) for name, n in before.items() if after[name] > n + MANY // 2}
    assert tables == {}
