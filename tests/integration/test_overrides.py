"""Changed rules: `define`, `declare_missing` and `override` of every table affect every kind of call, also when undone."""
import os
import subprocess
import sys
import threading
from contextlib import ExitStack

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import config, lax
from lamina_autodiff.extend import ElementwiseJVP, jvp_rules, transpose_rules
from lamina_batching.extend import batching_rules
from lamina.experimental import sparse
from lamina.experimental.jet import jet
from lamina_ir import MissingRuleError, Primitive, dtypes, prims
from lamina_ir.extend import list_rule_tables
from lamina_ir.testing.samples import samples_of
from lamina_jet.extend import jet_rules
from lamina_sparse import sparse_rules
from lamina_lowering.extend import lowering_rules, platform_rules
from lamina_tracing import hooks
from lamina_tracing.extend import bind

X = np.linspace(0.1, 0.8, 8, dtype="float32")


def cosine(ctx, x, **params):
    return ctx.op("stablehlo.cosine", (x,), ctx.aval_out)


def pulled(f):
    return lambda x: lamina.vjp(f, x)[1](jnp.ones(np.shape(x)))[0]


def pushed(f):
    return lambda x: lamina.jvp(f, (x,), (jnp.ones(np.shape(x)),))[1]


# name of the case: (table, primitive, other rule, use of a function, result outside, result with the other rule)
CASES = {
    "lowering": (lowering_rules, prims.tanh_p, cosine, lambda f: f, np.tanh, np.cos),
    "lowering for cpu": (platform_rules("cpu"), prims.tanh_p, cosine, lambda f: f, np.tanh, np.cos),
    "vmap": (batching_rules, prims.tanh_p, lambda axis, args, dims, **params: (lax.cos(args[0]), dims[0]), lamina.vmap,
             np.tanh, np.cos),
    "elementwise jvp": (jvp_rules, prims.sin_p, lambda primals, tangents, **params: (lax.sin(primals[0]), 7 * tangents[0]),
                       pushed, np.cos, lambda x: 7 + 0 * x),
    "jvp under grad": (jvp_rules, prims.sin_p, ElementwiseJVP(prims.sin_p, lambda x, ans, **params: 7.), pulled, np.cos,
                       lambda x: 7 + 0 * x),
    "jvp of a linear primitive": (jvp_rules, prims.neg_p, lambda primals, tangents: (-primals[0], 7 * tangents[0]), pushed,
                           lambda x: -1 + 0 * x, lambda x: 7 + 0 * x),
    "jet": (jet_rules, prims.sin_p, lambda order, operands: [lax.sin(operands[0][0]), 7 * operands[0][1]],
            lambda f: lambda x: jet(f, (x,), ((jnp.ones(np.shape(x)),),))[1][0], np.cos, lambda x: 7 + 0 * x),
    "sparsify": (sparse_rules, prims.sin_p, lambda args: args[0].replace_data(7 * args[0].data),
                 lambda f: lambda x: sparse.todense(sparse.sparsify(f)(sparse.BCOO.fromdense(x, nse=np.size(x)))), np.sin,
                 lambda x: 7 * x),
    "transpose": (transpose_rules, prims.neg_p, lambda ct, x: 5 * ct, pulled, lambda x: -1 + 0 * x, lambda x: 5 + 0 * x),
}
FUNCTIONS = {prims.tanh_p: lax.tanh, prims.sin_p: lax.sin, prims.neg_p: lax.neg}
INSIDE = {  # the context of the primitive
    "alone": lambda f: f,
    "in a jitted function": lambda f: lamina.jit(f),
    "in a scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0],
    "in a bounded loop": lambda f: lambda x: lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, f(c[1])), (0, x),
                                                            max_iters=2)[1],
    "in a branch": lambda f: lambda x: lax.cond(True, f, lambda y: y, x),
    "in a checkpoint": lambda f: lamina.checkpoint(f),
}
CALLS = {
    "eager": lambda f: f,
    "jit": lambda f: lamina.jit(f),
    "jit of jit": lambda f: lamina.jit(lambda x: lamina.jit(f)(x)),
    "pmap": lambda f: lambda x: lamina.pmap(f)(x.reshape(8, 1)).reshape(8),
    "pmap made once": lambda f: (lambda g: lambda x: g(x.reshape(8, 1)).reshape(8))(lamina.pmap(f)),
    "jit of pmap": lambda f: (lambda g: lambda x: g(x.reshape(8, 1)).reshape(8))(lamina.jit(lamina.pmap(f))),
}


def assert_close(got, wanted, where):
    np.testing.assert_allclose(np.asarray(got), wanted(X), rtol=2e-5, err_msg=where)


def run_in_thread(run):
    errors = []

    def guarded():
        try:
            run()
        except BaseException as e:
            errors.append(e)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def test_every_rule_table_has_a_case():
    here = {t.name for t in list_rule_tables() if t.rules_folder.startswith("lamina_")}
    # The rules of checkify return conditions, and those of explicit shardings return shardings: their packages test them.
    elsewhere = {"checkify", "sharding", "lowering for cuda", "lowering for rocm", "lowering for tpu"}
    assert here - elsewhere <= {case[0].name for case in CASES.values()}


@pytest.mark.parametrize("where", INSIDE)
@pytest.mark.parametrize("case", CASES)
def test_overridden_rule_is_used_inside_block_only(case, where):
    table, op, rule, use, outside, inside = CASES[case]
    f = INSIDE[where](FUNCTIONS[op])
    made = {name: call(use(f)) for name, call in CALLS.items()}
    for name, g in made.items():
        assert_close(g(X), outside, f"{name} before")
    fresh = {name: call(use(INSIDE[where](FUNCTIONS[op]))) for name, call in CALLS.items()}

    def check_inside():
        for name, g in made.items():
            assert_close(g(X), inside, f"{name} made and called before")
            assert_close(g(X), inside, f"{name} made and called before, once more")
        for name, g in fresh.items():
            assert_close(g(X), inside, f"{name} made before")
        for name, call in CALLS.items():
            assert_close(call(use(f))(X), inside, f"{name} made inside")

    with table.override(op, rule):
        check_inside()
        run_in_thread(check_inside)
    for name in CALLS:
        assert_close(made[name](X), outside, f"{name} after")
        assert_close(fresh[name](X), outside, f"{name} first called inside, after")
    with table.override(op, rule):
        assert_close(made["jit"](X), inside, "once more")


@pytest.mark.parametrize("case", CASES)
def test_declared_missing_rule_raises_for_functions_that_ran_before(case):
    table, op, rule, use, outside, inside = CASES[case]
    made = {(name, where): call(use(around(FUNCTIONS[op]))) for name, call in CALLS.items()
            for where, around in INSIDE.items()}
    for g in made.values():
        g(X)
    before = table.get(op)
    table.declare_missing(op, "removed by the test")
    try:
        for key, g in made.items():
            with pytest.raises(MissingRuleError, match="removed by the test"):
                g(X)
                pytest.fail(f"{key} still runs")
        table.define(op, rule)
        for key, g in made.items():
            assert_close(g(X), inside, str(key))
    finally:
        if before is None:
            del table[op]
        else:
            table.define(op, before)
    for key, g in made.items():
        assert_close(g(X), outside, str(key))


def test_interleaved_overrides_of_two_tables():
    f = lamina.jit(lambda x: (lax.tanh(x), lamina.grad(lax.sin)(x)))
    want = {(): (np.tanh(.5), np.cos(.5)), ("a",): (np.cos(.5), np.cos(.5)), ("b",): (np.tanh(.5), 7.),
            ("a", "b"): (np.cos(.5), 7.)}
    blocks = {"a": lambda: lowering_rules.override(prims.tanh_p, cosine),
              "b": lambda: jvp_rules.override(prims.sin_p, ElementwiseJVP(prims.sin_p, lambda x, ans, **params: 7.))}

    def check(*on):
        np.testing.assert_allclose(f(.5), want[on], rtol=1e-5)

    check()
    for first in ("a", "b"):
        a, b = blocks["a"](), blocks["b"]()
        a.__enter__()
        check("a")
        b.__enter__()
        check("a", "b")
        (a if first == "a" else b).__exit__(None, None, None)
        check("b" if first == "a" else "a")
        (b if first == "a" else a).__exit__(None, None, None)
        check()


def test_override_in_one_thread_does_not_affect_others():
    f, stop, errors = lamina.jit(lambda x: lax.tanh(x) + 1), threading.Event(), []
    outside, inside = np.tanh(.5) + 1, np.cos(.5) + 1

    def call():
        n = 0
        while not stop.is_set():
            n += 1
            got = float(f(.5)), float(lamina.jit(lambda x: lax.tanh(x) + 1)(.5)), float(lax.tanh(.5)) + 1
            for value in got:
                if min(abs(value - outside), abs(value - inside)) > 1e-5:
                    errors.append(value)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for t in threads:
        t.start()
    for _ in range(30):
        with lowering_rules.override(prims.tanh_p, cosine):
            assert abs(float(f(.5)) - inside) < 1e-5
        assert abs(float(f(.5)) - outside) < 1e-5 and abs(float(lax.tanh(.5)) + 1 - outside) < 1e-5
    stop.set()
    for t in threads:
        t.join()
    assert not errors and abs(float(f(.5)) - outside) < 1e-5


# --- stages, disk ---------------------------------------------------------------------------------------------------
def test_stages_keep_the_rules_they_were_lowered_with():
    f = lamina.jit(lax.tanh)
    lowered, traced = f.lower(X), f.trace(X)
    compiled = lowered.compile()
    with lowering_rules.override(prims.tanh_p, cosine):
        assert_close(compiled(X), np.tanh, "compiled before")
        assert_close(lowered.compile()(X), np.tanh, "lowered before")
        assert_close(traced.lower().compile()(X), np.cos, "traced before: lowered with the current rule")
        inside = f.lower(X)
        assert "cosine" in inside.as_text() and "tanh" in lowered.as_text()
        compiled_inside = inside.compile()
    assert_close(inside.compile()(X), np.cos, "lowered inside")
    assert_close(compiled_inside(X), np.cos, "compiled inside")
    assert_close(compiled_inside(lamina.device_put(X, lamina.devices()[1])), np.cos, "compiled inside, on another device")
    assert_close(f(X), np.tanh, "the function itself")


def test_disk_cache_is_keyed_by_rules(tmp_path):
    with config.options["compilation_cache_dir"](str(tmp_path)):
        for rule, wanted in ((None, np.tanh), (cosine, np.cos), (None, np.tanh), (cosine, np.cos)):
            lamina.clear_caches()
            if rule is None:
                assert_close(lamina.jit(lambda x: lax.tanh(x) * 1)(X), wanted, "outside")
            else:
                with lowering_rules.override(prims.tanh_p, rule):
                    assert_close(lamina.jit(lambda x: lax.tanh(x) * 1)(X), wanted, "inside")
        assert list(tmp_path.rglob("*"))


PROCESS = """
import sys, numpy as np, lamina
from lamina import lax
from lamina_ir import prims
from lamina_jet.extend import jet_rules
from lamina_sparse import sparse_rules
from lamina_lowering.extend import lowering_rules
from contextlib import nullcontext

rule = lambda ctx, x, **params: ctx.op("stablehlo.cosine", (x,), ctx.aval_out)
with lowering_rules.override(prims.tanh_p, rule) if sys.argv[1] == "cosine" else nullcontext():
    f = lamina.jit(lambda x: lax.tanh(x) * 1)
    print(float(f(np.float32(.5))), lamina.compilation_cache.stats().disk_hits)
print(float(f(np.float32(.5))))
"""


@pytest.mark.slow
def test_processes_with_different_rules_share_a_disk_cache(tmp_path):
    def run(rule):
        found = subprocess.run([sys.executable, "-c", PROCESS, rule], capture_output=True, text=True, check=True,
                               env={**os.environ, "LAMINA_COMPILATION_CACHE_DIR": str(tmp_path)})
        inside, hits, after = found.stdout.split()
        assert float(after) == pytest.approx(np.tanh(.5), rel=1e-5)
        return float(inside), int(hits)

    tanh, cos = pytest.approx(np.tanh(.5), rel=1e-5), pytest.approx(np.cos(.5), rel=1e-5)
    assert run("cosine") == (cos, 0)
    assert run("plain") == (tanh, 1)  # stored by the first process, after its block
    assert run("cosine") == (cos, 1)
    assert run("plain") == (tanh, 1)


# --- a change in the middle of a call --------------------------------------------------------------------------------
class Slow:
    """A static argument that runs an action while jaxlib looks a call up: when it is hashed or compared for the n-th
    time."""

    def __init__(self):
        self.left, self.action = 0, None

    def tick(self):
        self.left -= 1
        if self.left == 0:
            run_in_thread(self.action)

    def __hash__(self):
        self.tick()
        return 7

    def __eq__(self, other):
        self.tick()
        return True


@pytest.mark.parametrize("moment", range(1, 6))
def test_rule_changed_during_cache_lookup(moment):
    """A program made with the new rule must not be cached under the earlier key."""
    f, slow, block = lamina.jit(lambda x, slow: lax.tanh(x) * 1, static_argnums=1), Slow(), ExitStack()
    slow.left, slow.action = moment, lambda: block.enter_context(lowering_rules.override(prims.tanh_p, cosine))
    first = float(f(.5, slow))
    slow.left = 0
    assert min(abs(first - np.tanh(.5)), abs(first - np.cos(.5))) < 1e-5
    run_in_thread(block.close)
    for _ in range(3):
        assert float(f(.5, slow)) == pytest.approx(np.tanh(.5), rel=1e-5)


@pytest.mark.parametrize("moment", range(1, 6))
def test_setting_changed_during_cache_lookup(moment):
    f, slow = lamina.jit(lambda x, slow: jnp.arange(3), static_argnums=1), Slow()
    slow.left, slow.action = moment, lambda: config.update("enable_x64", True)
    try:
        f(np.float32(.5), slow)
        slow.left = 0
    finally:
        config.update("enable_x64", False)
    for _ in range(3):
        assert f(np.float32(.5), slow).dtype == np.int32


# --- unaffected caches ------------------------------------------------------------------------------------------------
def test_first_rule_of_a_primitive_retraces_nothing():
    staged = []

    def f(x):
        staged.append(1)
        return lamina.vmap(lamina.grad(lax.sin))(x)

    jitted, mapped = lamina.jit(f), lamina.pmap(lambda x: f(x[None])[0])
    jitted(X), mapped(X)
    before = config.cache_key()
    for table in list_rule_tables():
        if table.rules_folder.startswith("lamina_"):
            op = Primitive("newcomer_" + table.name.replace(" ", "_"), params=(), infer=lambda x: x, family="elementwise")
            table.define(op, lambda *args, **params: None)
    assert config.cache_key() == before
    jitted(X), mapped(X)
    assert len(staged) == 2


def test_first_rule_is_used_after_an_earlier_lookup():
    op = Primitive("newcomer", params=(), infer=lambda x: x, family="elementwise", linear_in=(0,), elementwise=True,
                   numpy=lambda x: 2 * x)
    lowering_rules.define(op, lambda ctx, x: ctx.op("stablehlo.add", (x, x), ctx.aval_out))
    f = lamina.jit(lambda x: bind(op, x))
    assert_close(f(X), lambda x: 2 * x, "the common rule")
    platform_rules("cpu").define(op, cosine)  # the platform's table was not used before
    assert_close(f(X), np.cos, "the platform's rule")
    push = lamina.jit(lambda x: lamina.jvp(lambda y: bind(op, y), (x,), (x,))[1])
    assert_close(push(X), np.cos, "by linear_in")
    jvp_rules.define(op, lambda primals, tangents: (bind(op, primals[0]), 7 * tangents[0]))
    assert_close(push(X), lambda x: 7 * x, "by its rule")
    for table in (transpose_rules, batching_rules):
        stranger = Primitive("newcomer_" + table.name, params=(), infer=lambda x: x, family="elementwise")
        before = config.cache_key()
        assert stranger not in table
        table.define(stranger, lambda *args, **params: None)
        assert config.cache_key() != before


def test_programs_from_before_a_block_are_reused_after_it():
    staged = []

    @lamina.jit
    def f(x):
        staged.append(1)
        return lamina.grad(lambda y: lax.sin(y))(x)

    def custom_rule(primals, tangents, **params):
        return lax.sin(primals[0]), tangents[0]

    f(.5)
    for _ in range(3):
        with jvp_rules.override(prims.sin_p, custom_rule):
            assert f(.5) == 1
        f(.5)
    assert len(staged) == 2


# --- every primitive --------------------------------------------------------------------------------------------------
FORWARD = {op.name: s for op in prims.ALL if op.family not in ("collectives", "maps")
           and op.name not in ("xla_pmap", "stop_gradient") for s in samples_of(op) if s.differentiable}


@pytest.mark.parametrize("name", FORWARD)
def test_forward_rule_precedes_elementwise_jvp_and_linear_in(name):
    op, args, params = FORWARD[name]
    jitted = lamina.jit(lambda *xs: bind(op, *xs, **params))
    directions = [np.zeros(x.shape, x.dtype if dtypes.is_inexact(x.dtype) else lamina.float0) for x in args]
    calls = []

    def spy(primals, tangents, /, **params):
        calls.append(op)
        out = bind(op, *primals, **params)
        return out, [None] * len(out) if op.multiple else None

    with jvp_rules.override(op, spy):
        lamina.jvp(lambda *xs: bind(op, *xs, **params), args, directions)
        assert calls
        calls.clear()
        lamina.linearize(lambda *xs: bind(op, *xs, **params), *args)
        assert calls
        calls.clear()
        lamina.linearize(jitted, *args)
        assert calls


# --- a primitive whose params have common names -----------------------------------------------------------------------
NAMES = ("axis", "args", "dims", "primals", "tangents", "ans", "ct", "ctx", "prim", "params", "x", "self", "rule", "fun",
         "trace", "avals", "op", "name", "env", "closed", "values", "params_", "row", "xs", "eqn")


def make_third_party_primitive():
    op = Primitive("third_party_scale", params=NAMES, infer=lambda x, /, **params: x, linear_in=(0,), family="elementwise",
                   numpy=lambda x, /, **params: x * np.float32(params["axis"]), elementwise=True)
    full = dict.fromkeys(NAMES, 1) | {"axis": 3}
    lowering_rules.define(op, lambda ctx, x, /, **params: ctx.op(
        "stablehlo.multiply", (x, ctx.const(params["axis"], ctx.aval_out)), ctx.aval_out))
    batching_rules.define(op, lambda axis, args, dims, /, **params: (bind(op, args[0], **params), dims[0]))
    transpose_rules.define(op, lambda ct, x, /, **params: bind(op, ct, **params))
    return op, lambda x: bind(op, x, **full)


@pytest.mark.parametrize("forward", ["linear_in", "rule", "elementwise"])
def test_primitive_with_common_param_names(forward):
    op, f = make_third_party_primitive()
    if forward == "rule":
        jvp_rules.define(op, lambda primals, tangents, /, **params: (bind(op, primals[0], **params),
                                                                     bind(op, tangents[0], **params)))
    elif forward == "elementwise":
        jvp_rules.define(op, ElementwiseJVP(op, lambda x, ans, /, **params: jnp.float32(params["axis"])))
    three = np.float32(3) + 0 * X
    for g, wanted in ((f, 3 * X), (lamina.jit(f), 3 * X), (lamina.vmap(f), 3 * X), (pushed(f), three), (pulled(f), three),
                      (lamina.jit(lamina.vmap(lamina.grad(f))), three), (lambda x: lax.map(f, x), 3 * X),
                      (pulled(lamina.checkpoint(f)), three), (lamina.pmap(f), 3 * X),
                      (pulled(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0]), three),
                      (lambda x: lamina.linear_transpose(f, x)(jnp.ones(8))[0], three),
                      (lambda x: lamina.linearize(f, x)[1](jnp.ones(8)), three)):
        np.testing.assert_allclose(np.asarray(g(X)), wanted, rtol=1e-6)
    assert "third_party_scale" in str(lamina.make_jaxpr(f)(X))


@pytest.mark.parametrize("table, rule", [(batching_rules, lambda axis, args, dims, **params: None),
                                        (jvp_rules, lambda primals, tangents, **params: None),
                                        (transpose_rules, lambda ct, *args, **params: None),
                                        (lowering_rules, lambda ctx, *args, **params: None)],
                         ids=lambda t: getattr(t, "name", ""))
def test_uncallable_rules_are_refused_by_define(table, rule):
    op = Primitive("clashing", params=NAMES, infer=lambda x, /, **params: x, family="elementwise")
    with pytest.raises(TypeError, match=rf"table `{table.name}`: define\(clashing\).*is also the name of a param.*/, "):
        table.define(op, rule)
    with pytest.raises(TypeError, match="ElementwiseJVP of `clashing`: operand 0: the function's parameter"):
        ElementwiseJVP(op, lambda x, ans, **params: x)


# --- hooks ------------------------------------------------------------------------------------------------------------
class Doubling:
    """An evaluator that doubles the results of another."""

    def __init__(self, inner):
        self.inner = inner

    def primitive(self, prim, args, params):
        out = self.inner.primitive(prim, args, params)
        return self.inner.primitive(prims.add_p, (out, out), {}) if prim is prims.tanh_p else out

    def program(self, closed, args):
        return self.inner.program(closed, args)

    def array(self, value, aval):
        return self.inner.array(value, aval)


def test_hooks_can_be_assigned():
    old = hooks.evaluator
    once = float(lax.tanh(.5))
    try:
        hooks.evaluator = Doubling(old)
        assert float(lax.tanh(.5)) == 2 * once and type(hooks.evaluator) is Doubling
        hooks.evaluator = old
        assert float(lax.tanh(.5)) == once
    finally:
        hooks.set_evaluator(old)
    for name, words in (("evaluator", "no primitive, program, array"), ("dispatcher", "no jit, pmap"),
                        ("basis_map", "expected a function"), ("operators", "install")):
        with pytest.raises(TypeError, match=words):
            setattr(hooks, name, 3)


def test_functions_use_a_new_dispatcher():
    old, seen = hooks.dispatcher, []

    class Counting:
        def jit(self, spec):
            inner = old.jit(spec)

            def counted(*args, **kwargs):
                seen.append(spec.name)
                return inner(*args, **kwargs)
            return counted

        def pmap(self, spec):
            inner = old.pmap(spec)

            def counted(*args, **kwargs):
                seen.append(spec.name)
                return inner(*args, **kwargs)
            return counted

    def f(x):
        return x + 1

    jitted, mapped = lamina.jit(f), lamina.pmap(f)
    jitted(X), mapped(X)
    try:
        hooks.dispatcher = Counting()
        for _ in range(2):
            np.testing.assert_array_equal(jitted(X), X + 1)
            np.testing.assert_array_equal(mapped(X), X + 1)
        assert seen == ["f"] * 4
    finally:
        hooks.dispatcher = old
    np.testing.assert_array_equal(jitted(X), X + 1)
    np.testing.assert_array_equal(mapped(X), X + 1)
    assert len(seen) == 4
