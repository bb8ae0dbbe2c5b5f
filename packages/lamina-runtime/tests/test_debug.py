import linecache

import numpy as np
import pytest
from lamina_batching import vmap
from lamina_ir import ShapeDtypeStruct, config
from lamina_parallel import Mesh, PartitionSpec as P, pmap, shard_map
from lamina_runtime import devices
from lamina_tracing import debug, io_callback, jit, lax, pure_callback


def line_of(text):
    return next(i for i in range(1, 400) if text in linecache.getline(__file__, i))


def test_debug_nans_raises_at_the_source_line():
    f = jit(lambda x: lax.log(x))
    with config.debug_nans(True):
        assert float(f(1.0)) == 0
        for _ in range(2):
            with pytest.raises(FloatingPointError, match="NaN"):
                f(-1.0)
        with pytest.raises(FloatingPointError, match=f"`log`.*test_debug.py:{line_of('eager ' + 'line')}"):
            lax.log(-2.0)  # eager line
    f(-1.0)


def compute(x):
    y = lax.sub(x, 2.0)
    z = lax.sqrt(y)  # the culprit
    return lax.add(z, 1.0)


@pytest.mark.parametrize("how", [jit, lambda f: jit(vmap(f)), lambda f: jit(jit(f)),
                                 lambda f: jit(lambda x: lax.add(jit(f)(x), 1.0))])
def test_error_in_compiled_code_names_primitive_and_line(how):
    f = how(compute)
    good, bad = np.full(3, 5, "float32"), np.array([5, 1, 5], "float32")
    where = rf"`sqrt` produced a NaN.*float32\[3\] at .*test_debug.py:{line_of('the ' + 'culprit')} .*in \[-1, 3\]"
    with config.debug_nans(True):
        with pytest.raises(FloatingPointError, match=where):
            f(bad)
        f(good)
        with pytest.raises(FloatingPointError, match=where):  # second call on the fast path
            f(bad)


def test_nan_inside_control_flow():
    def body(carry, x):
        return lax.log(carry), x  # in the loop

    looped = jit(lambda x: lax.scan(body, x, np.arange(4, dtype="float32")))
    chosen = jit(lambda x: lax.cond(x > 0, lambda v: v, lambda v: lax.sqrt(v), x))  # in the branch
    with config.debug_nans(True):
        with pytest.raises(FloatingPointError, match=rf"`log`.*test_debug.py:{line_of('in the ' + 'loop')} "):
            looped(np.float32(2))
        with pytest.raises(FloatingPointError, match=rf"`sqrt`.*test_debug.py:{line_of('in the ' + 'branch')} "):
            chosen(np.float32(-2))


def test_callbacks_are_not_called_again_to_locate_a_nan(capsys):
    def f(x):
        debug.print("once {x}", x=x)
        return lax.log(x)

    with config.debug_nans(True), pytest.raises(FloatingPointError, match="`log`"):
        jit(f)(-1.0)
    assert capsys.readouterr().out == "once -1.0\n"


def test_nan_with_donated_arguments():
    x = lax.full((3,), -1.0)
    f = jit(lambda x: lax.log(x), donate_argnums=0)
    for _ in range(2):
        with config.debug_nans(True), pytest.raises(FloatingPointError, match=r"`log`.*operands were float32\[.*-1"):
            f(lax.add(x, 0.0))


def test_nan_in_eager_control_flow_names_the_inner_primitive():
    with config.debug_nans(True), pytest.raises(FloatingPointError,
                                                match=f"`log`.*test_debug.py:{line_of('scanned ' + 'line')}"):
        lax.scan(lambda c, x: (lax.log(lax.sub(c, x)), c), 1.0, np.arange(4, dtype=np.float32))  # scanned line


@pytest.mark.parametrize("call, operands", [
    (lambda: lax.log(-1.0), r"float32\[\] -1"),
    (lambda: lax.log(np.array([[-2, 4]], "float32")), r"float32\[1,2\] in \[-2, 4\]"),
    (lambda: lax.div(lax.full((2, 3), 0, "bfloat16"), lax.full((2, 3), 0, "bfloat16")),
     r"bfloat16\[2,3\] in \[0, 0\], bfloat16\[2,3\] in \[0, 0\]"),
    (lambda: lax.log(np.full(2, np.nan, "float32")), r"float32\[2\] all NaN"),
    (lambda: lax.mul(np.full(2, np.inf, "complex64"), np.zeros(2, "complex64")), r"complex64\[2\], complex64\[2\]"),
    (lambda: jit(lambda x: lax.pow(-1.0, x))(np.float32(0.5)), r"float32\[\] -1, float32\[\] 0.5"),
    (lambda: vmap(lax.log)(np.array([-1, 1], "float32")), r"float32\[2\] in \[-1, 1\]")])
def test_nan_error_has_types_and_ranges_of_operands(call, operands):
    for _ in range(2):  # the second call is on the fast path
        with config.debug_nans(True), pytest.raises(FloatingPointError,
                                                    match=rf"; its operands were {operands} \(config.debug_nans is on\)$"):
            call()


def test_debug_infs_reports_infinities_only():
    with config.debug_infs(True):
        with pytest.raises(FloatingPointError, match=r"`div` produced an infinity.*debug_infs is on"):
            jit(lambda x: lax.div(1.0, x))(0.0)
        assert np.isnan(float(jit(lambda x: lax.log(x))(-1.0)))


def test_nan_on_several_devices():
    x = np.array([1.0, -1.0], "float32")
    where = rf"`log` produced .* in its result float32\[\] at .*test_debug.py:{line_of('mapped ' + 'line')} .*on device cpu:1, "

    def g(x):
        return lax.psum(lax.log(x), "i")  # mapped line

    for f in (pmap(g, axis_name="i"), pmap(g, axis_name="i", donate_argnums=0), jit(pmap(g, axis_name="i"))):
        for _ in range(2):
            with config.debug_nans(True), pytest.raises(FloatingPointError, match=where):
                f(lax.add(x, 0.0))


def test_nan_on_several_devices_with_effects(capsys):
    def g(x):
        debug.print("once {x}", x=x)
        return lax.log(x)

    for f in (pmap(g), jit(pmap(g))):
        with config.debug_nans(True), pytest.raises(FloatingPointError, match="`log` produced a NaN.* on device cpu:1, "):
            f(np.array([1.0, -1.0], "float32"))
        assert sorted(capsys.readouterr().out.splitlines()) == ["once -1.0", "once 1.0"]


def test_nan_in_a_program_with_a_shard_map():
    every = devices()[:4][::-1]
    doubled = shard_map(lambda x: lax.mul(x, 2.0), mesh=Mesh(every, "a"), in_specs=P("a"), out_specs=P("a"))
    x = np.ones((4, 2), np.float32)
    x[2] = -1
    logs = pmap(lambda r: lax.add(lax.log(r), lax.psum(r, "a")), "a")
    for f in (lambda x: logs(doubled(x)), lambda x: doubled(logs(x))):
        where = f"on device {every[2]}, at index 2 of axis 'a' of 4"
        with config.debug_nans(True), pytest.raises(FloatingPointError, match=where):
            jit(f)(x)


def test_error_has_the_line_of_the_failing_call():
    library_function = jit(lax.log)  # a library function: one program for all callers
    library_function(1.0)
    with config.debug_nans(True), pytest.raises(FloatingPointError, match=f"test_debug.py:{line_of('this ' + 'call')} "):
        library_function(-1.0)  # this call


# --- loop iteration, batch index --------------------------------------------------------------------------------------
def descending(x):
    def body(c, a):
        y = lax.sub(c, a)
        return y, lax.log(y)  # the log
    return lax.scan(body, x, np.arange(4, dtype="float32"))[1]  # the scan


def report(f, *args):
    with config.debug_nans(True), pytest.raises(FloatingPointError) as found:
        f(*args)
    return str(found.value)


def test_error_names_the_loop_iteration():
    text = report(jit(descending), np.float32(4.5))
    assert f"test_debug.py:{line_of('the ' + 'log')} (body)" in text
    assert f"at index 3 of the scan at {__file__}:{line_of('the ' + 'scan')} (descending)" in text
    text = report(jit(lambda x: lax.while_loop(lambda c: lax.lt(c[0], 9), lambda c: (lax.add(c[0], 1), lax.log(c[1])), (0, x))),
                  20.0)
    assert "`log`" in text and "at index 4 of the while" in text


def test_error_names_the_iteration_on_several_devices():
    x = np.array([20, 4.5], "float32")
    for f in (pmap(descending), jit(pmap(descending)), pmap(jit(descending))):
        text = report(f, x)
        assert f"at index 3 of the scan at {__file__}:{line_of('the ' + 'scan')} (descending)" in text
        assert "on device cpu:1, " in text

    def four(x):
        return lax.while_loop(lambda c: lax.lt(c[0], 4), lambda c: (lax.add(c[0], 1), lax.log(c[1])), (0, x))

    text = report(pmap(four), x)
    assert "`log`" in text and "at index 3 of the while" in text and "on device cpu:1, " in text
    summed = pmap(lambda x: lax.fori_loop(0, 4, lambda i, c: lax.psum(lax.log(lax.sub(c, 5.0)), "i"), x), axis_name="i")
    text = report(summed, x)
    assert "at index 0 of the " in text and "on device cpu:1, " in text
    text = report(jit(lambda x: lax.scan(lambda c, _: (lax.sub(c, 10.0), pmap(descending)(c)), x, None, length=3)),
                  np.array([20, 25], "float32"))
    assert text.index("at index 1 of the scan") < text.index("at index 2 of the scan") and "on device cpu:0, " in text
    text = report(pmap(vmap(descending)), np.array([[20, 10], [10, 4.5]], "float32"))
    assert "at index 1 of the batch of 2, at index 3 of the scan" in text and "on device cpu:1, " in text


def test_effects_are_not_repeated_to_locate_a_nan():
    seen = []

    def note(x):
        seen.append(float(x))
        return x

    def effect(c, _):
        debug.callback(note, c)
        return lax.sub(c, 1.0), c

    def value(c, _):
        return lax.sub(io_callback(note, ShapeDtypeStruct((), "float32"), c), 1.0), c

    for body, words in ((effect, "`log` produced a NaN"), (value, "effects with results, which would happen twice")):
        seen.clear()
        for f in (jit, lambda f: (lambda x: jit(lambda y: jit(f)(y))(x))):
            assert words in report(f(lambda x: lax.log(lax.scan(body, x, None, length=3)[1])), 1.0)
        assert seen == [1, 0, -1] * 2


def test_error_names_the_batch_index():
    xs = np.array([10.0, 20.0, 4.5, 30.0], "float32")
    text = report(jit(vmap(descending)), xs)
    assert "at index 2 of the batch of 4, at index 3 of the scan" in text
    text = report(jit(vmap(vmap(descending, axis_name="j"), axis_name="i")), xs.reshape(2, 2))
    assert "at index 1 of axis 'i' of 2, index 0 of axis 'j' of 2, at index 3 of the scan" in text
    text = report(vmap(lambda x: lax.log(x)), np.array([1, -1, 2, -3], "float32"))
    assert "at index 1 of the batch of 4 (and in 1 more)" in text


def test_error_names_the_batch_index_with_in_axes():
    bad = np.ones((3, 3), "float32")
    bad[2, 0] = -1
    text = report(jit(vmap(lambda row: lax.log(lax.mul(row, 2.0)), in_axes=1)), bad)
    assert "at index 0 of the batch of 3" in text


def test_error_in_the_backward_pass_names_line_and_index():
    grad = pytest.importorskip("lamina_autodiff").grad
    xs = np.array([4.0, 0.0, 9.0], "float32")

    def loss(x):
        return lax.mul(lax.sqrt(x), lax.mul(x, 0.0))  # the loss

    for how in (jit, lambda f: f):
        text = report(how(grad(lambda v: lax.reduce_sum(vmap(loss)(v), (0,)))), xs)
        assert f"test_debug.py:{line_of('the ' + 'loss')} (loss) [backward], at index 1 of the batch of 3" in text


def test_error_names_the_index_if_debug_nans_was_set_late():
    f = jit(vmap(descending))
    f(np.array([10.0, 20.0], "float32"))
    assert "at index 1 of the batch of 2" in report(f, np.array([10.0, 4.5], "float32"))


def test_callback_error_names_the_calling_line():
    from lamina_ir import CallbackError

    def wrong(x):
        raise ValueError("no good")

    @jit
    def f(x):
        return pure_callback(wrong, ShapeDtypeStruct((), "float32"), x)  # the call

    where = f"test_debug.py:{line_of('the ' + 'call')}"
    with pytest.raises(CallbackError, match=f"`wrong` raised ValueError: no good; called at .*{where}"):
        f(1.0).block_until_ready()
