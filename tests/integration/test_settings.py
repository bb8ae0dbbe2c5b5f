"""Settings apply in their block and thread, affect compiled code, and are explained."""
import os
import subprocess
import sys
import threading
import warnings

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import config
from lamina_tracing.extend import jaxpr_as_fun


# --- 64 bits --------------------------------------------------------------------------------------------------------
def test_enable_x64_is_scoped():
    f = lamina.jit(lambda x: x * 2)
    wide = config.enable_x64.value
    for _ in range(2):
        with lamina.enable_x64():
            assert f(np.ones(2)).dtype == "float64" and jnp.arange(3).dtype == "int64"
            with lamina.experimental.disable_x64():
                assert f(np.ones(2)).dtype == "float32"
            assert f(np.ones(2)).dtype == "float64"
        assert config.enable_x64.value is wide


def test_enable_x64_is_thread_local():
    f = lamina.jit(lambda x: jnp.sin(x) + 1)
    inside, seen, errors = threading.Barrier(2, timeout=60), {}, []

    def run(on):
        try:
            with lamina.experimental.enable_x64(on):
                for i in range(20):
                    inside.wait()
                    seen[on, i] = f(np.ones(3)).dtype.name, jnp.zeros(i + 1).dtype.name
        except Exception as e:
            errors.append(e)

    threads = [threading.Thread(target=run, args=(on,)) for on in (True, False)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    assert all(v == (("float64",) * 2 if on else ("float32",) * 2) for (on, _), v in seen.items())


@pytest.mark.parametrize("name,value,text,shown", [
    ("LAMINA_ENABLE_X64", "1", "lamina.numpy.ones(1).dtype", "float64"),
    ("JAX_ENABLE_X64", "true", "lamina.numpy.ones(1).dtype", "float64"),
    ("LAMINA_NUMPY_RANK_PROMOTION", "raise", "lamina.config.jax_numpy_rank_promotion", "raise"),
    ("LAMINA_DEFAULT_MATMUL_PRECISION", "highest", "lamina.config.read('default_matmul_precision')", "highest")])
def test_environment_sets_initial_values(name, value, text, shown):
    done = subprocess.run([sys.executable, "-c", f"import lamina; print({text})"], env={**os.environ, name: value},
                          capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == shown, done.stderr


# --- promotion --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("how", [lambda f: f, lamina.jit])
def test_rank_promotion(how):
    f = how(lambda x, y: jnp.add(x, y))
    x, y = np.ones((2, 3), "float32"), np.ones(3, "float32")
    f(x, y)
    with lamina.numpy_rank_promotion("raise"):
        with pytest.raises(ValueError, match="rank promotion"):
            f(x, y)
        f(x, 1.0), f(x, x[:1])
    with lamina.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match="rank promotion") as warned:
        f(x, y)
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(x, y)


@pytest.mark.parametrize("how", [lambda f: f, lamina.jit])
def test_strict_dtype_promotion(how):
    f = how(lambda x, y: jnp.add(x, y))
    x, i = np.ones(3, "float32"), np.ones(3, "int32")
    f(x, i)
    with lamina.numpy_dtype_promotion("strict"):
        with pytest.raises(TypeError, match="strict"):
            f(x, i)
        f(x, 2.0)
    f(x, i)


def test_matmul_precision_is_scoped_and_reaches_the_program():
    f = lamina.jit(lambda x: x @ x)
    x = np.ones((2, 2), "float32")
    with lamina.default_matmul_precision("highest"):
        assert "HIGHEST" in f.lower(x).as_text()
    assert "HIGHEST" not in f.lower(x).as_text()


def test_keyed_settings_have_separate_cache_entries():
    f = lamina.jit(lambda x: x + 1)
    f(1.0)
    sizes = [f._cache_size()]
    for block in (lamina.threefry_partitionable(True), lamina.default_matmul_precision("high"),
                  lamina.numpy_rank_promotion("warn"), lamina.numpy_dtype_promotion("strict"), lamina.enable_x64()):
        with block:
            f(1.0)
            f(1.0)
        sizes.append(f._cache_size())
    f(1.0)
    assert sizes == list(range(sizes[0], sizes[0] + 6)) and f._cache_size() == sizes[-1]


# --- rules that run later ---------------------------------------------------------------------------------------------
OTHER = {"random_seed_offset": 1, "default_matmul_precision": "highest", "default_device": lambda: lamina.devices()[1],
         "mesh": lambda: lamina.make_mesh((2,), "x").token, "serial_loops": (("l", 2),)}
KEYED = sorted(name for name, option in config.options.items() if option.keyed)


def other_value(option):
    """Return a value of the option that differs from the current one."""
    if option.name in OTHER:
        value = OTHER[option.name]
        return value() if callable(value) else value
    return next(v for v in option.choices if v != option.value) if option.choices else not option.value


def recording_function(rule_kind, seen):
    """Return a function whose rule records all settings it runs under."""
    def note():
        seen.append({name: config.options[name].value for name in KEYED})

    if rule_kind == "custom_jvp":
        f = lamina.custom_jvp(lambda x: jnp.sin(x))
        f.defjvp(lambda p, t: note() or (jnp.sin(p[0]), 2 * t[0]))
        return f
    f = lamina.custom_vjp(lambda x: jnp.sin(x))
    f.defvjp(lambda x: note() or (jnp.sin(x), x), lambda x, ct: note() or (2 * ct,))
    return f


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
@pytest.mark.parametrize("name", KEYED)
@pytest.mark.parametrize("mapped", [False, True], ids=["", "mapped"])
@pytest.mark.filterwarnings("ignore:config .* has no effect")
def test_later_rules_run_under_the_settings_of_their_call(name, kind, mapped):
    option = config.options[name]
    value, before = other_value(option), option.value
    seen = []
    f = recording_function(kind, seen)
    with option(value):
        x = jnp.ones(3, "float32")
        program = lamina.make_jaxpr(lamina.vmap(f) if mapped else f)(x)
        wanted = {name: config.options[name].value for name in KEYED}
    assert option.value == before and not seen
    run = jaxpr_as_fun(program)
    lamina.vjp(lambda x: run(x)[0], x)[1](jnp.ones(3, "float32"))
    assert seen and all(values == wanted for values in seen)


# --- explanations -----------------------------------------------------------------------------------------------------
def messages(caplog):
    found = [r.getMessage() for r in caplog.records]
    caplog.clear()
    return "\n".join(found)


def test_cache_misses_are_explained(caplog):
    f = lamina.jit(lambda d, n: d["w"] * n, static_argnums=1)
    w = np.ones(3, "float32")
    with lamina.explain_cache_misses():
        f({"w": w}, 2)
        assert "first call of this function" in messages(caplog)
        f({"w": w}, 2)
        assert messages(caplog) == ""
        for args, text in (
                (({"w": np.ones(4, "float32")}, 2), "args[0]['w']: shape changed from (3,) to (4,)"),
                (({"w": np.ones(3, "int32")}, 2), "args[0]['w']: dtype changed from float32 to int32"),
                (({"w": np.float32(1)}, 2), "args[0]['w']: shape changed"),
                (({"w": 1.0}, 2), "args[0]['w']: weak_type changed from False to True"),
                (({"w": w}, 3), "static argument 1 changed from 2 to 3"),
                (({"w": w, "b": w}, 3), "has the extra keys ['b']")):
            f(*args)
            logged = messages(caplog)
            assert text in logged and "test_settings.py:" in logged, logged
        with lamina.enable_x64():
            f({"w": w}, 2)
            assert "config enable_x64 changed from False to True" in messages(caplog)
        f({"w": lamina.device_put(w, lamina.devices()[1])}, 2)
        assert "devices changed from [cpu:0] to [cpu:1]" in messages(caplog)
        for _ in range(2):
            lamina.jit(lambda x: x + 1)(1.0)
        assert "new function object: another one made at" in messages(caplog)
    f({"w": np.ones(9, "float32")}, 2)
    assert messages(caplog) == ""


def test_compiles_are_logged(caplog):
    with lamina.log_compiles():
        lamina.jit(lambda x: x * 3.25)(np.ones(3, "float32"))
    logged = messages(caplog)
    assert "`<lambda>`: staged in" in logged and "`<lambda>` (float32[3]) for [cpu:0]:" in logged
    caplog.clear()
    with lamina.log_compiles():
        lamina.pmap(lambda x: x * 3.25)(np.ones(2, "float32"))
    logged = messages(caplog)
    assert "pmap of `<lambda>`: staged in" in logged and "`<lambda>` (float32[2]) for [cpu:0, cpu:1]:" in logged


@pytest.mark.usefixtures("small_heap")
def test_checking_leaks_finds_leaks():
    leaked = []
    with lamina.checking_leaks():
        assert float(lamina.jit(lamina.grad(lambda x: jnp.sin(x) * x))(0.0)) == 0
        assert lamina.jit(lamina.vmap(lambda x: lamina.jit(jnp.tanh)(x)))(np.zeros(3)).shape == (3,)
        with pytest.raises(RuntimeError, match=r"checking_leaks: .*float32\[\].*held by list"):
            lamina.jit(lambda x: leaked.append(x) or x)(1.0)


LEAKING = {
    "jit": lamina.jit, "grad": lamina.grad, "make_jaxpr": lamina.make_jaxpr,
    "vmap": lambda f: lambda x: lamina.vmap(f)(x[None]),
    "jvp": lambda f: lambda x: lamina.jvp(f, (x,), (x,)), "vjp": lambda f: lambda x: lamina.vjp(f, x),
    "linearize": lambda f: lambda x: lamina.linearize(f, x), "hessian": lamina.hessian,
    "checkpoint": lambda f: lamina.grad(lamina.checkpoint(f)), "jit of grad": lambda f: lamina.jit(lamina.grad(f)),
    "scan": lambda f: lambda x: lamina.lax.scan(lambda c, _: (f(c), None), x, None, length=2),
    "cond": lambda f: lambda x: lamina.lax.cond(True, f, lambda x: x, x)}


@pytest.mark.usefixtures("small_heap")
@pytest.mark.parametrize("way", [w if w in ("jit", "scan") else pytest.param(w, marks=pytest.mark.slow) for w in LEAKING])
def test_leak_error_names_the_source_line(way):
    leaked = []

    def f(x):
        y = jnp.sin(x)
        if leaking:
            leaked.append(y)
        return x * y

    line = f.__code__.co_firstlineno + 1
    leaking = False
    with lamina.checking_leaks():
        LEAKING[way](f)(jnp.float32(1))
    leaking = True

    def fresh(x):
        return f(x)

    with lamina.checking_leaks(), pytest.raises(RuntimeError, match=rf"the result of `sin` at .*{__file__}:{line} \(f\)"):
        LEAKING[way](fresh)(jnp.float32(1))
    with lamina.checking_leaks():  # an earlier error is not reported again
        assert float(lamina.jit(lambda x: x * 2)(1.0)) == 2


@pytest.mark.usefixtures("small_heap")
def test_leaks_from_linear_transpose():
    leaked = []
    with lamina.checking_leaks():
        assert float(lamina.linear_transpose(lambda x: x * 2, 1.0)(3.0)[0]) == 6
        with pytest.raises(RuntimeError, match=r"checking_leaks: .*the result of `mul` at"):
            lamina.linear_transpose(lambda x: leaked.append(x * 3) or x, 1.0)


# --- transfers --------------------------------------------------------------------------------------------------------
def test_transfer_guards():
    f = lamina.jit(lambda x: x + 1)
    x, host = jnp.ones(3), np.ones(3, "float32")
    f(x), f(host)
    with lamina.transfer_guard("disallow"):
        f(x)
        lamina.device_put(host), lamina.device_get(x)
        lamina.device_put(x, lamina.devices()[1])
        with pytest.raises(RuntimeError, match="Disallowed host-to-device"):
            f(host)
        with lamina.transfer_guard_host_to_device("allow"):
            f(host)
    for move, call in [(lamina.device_put, "device_put"), (jnp.asarray, "array")]:
        with lamina.transfer_guard_host_to_device("disallow_explicit"):
            with pytest.raises(RuntimeError, match=f"^{call}: the transfer guard refuses .* host-to-device"):
                move(host)
    with lamina.transfer_guard_device_to_device("disallow_explicit"):
        with pytest.raises(RuntimeError, match="device-to-device"):
            lamina.device_put(x, lamina.devices()[1])
    f(host)
    with pytest.raises(ValueError, match="expected one of"), lamina.transfer_guard("never"):
        pass


def test_transfer_guard_is_thread_local():
    seen = []
    with lamina.transfer_guard("disallow"):
        t = threading.Thread(target=lambda: seen.append(float(lamina.jit(lambda x: x + 1)(np.float32(1)))))
        t.start()
        t.join()
    assert seen == [2.0]
