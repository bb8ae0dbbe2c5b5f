"""`host_callback`: values passed to taps, their number and order, and values that taps do not change.

The numbers and texts are those of JAX 0.4.30 on CPU.
"""
import io

import numpy as np
import pytest
from lamina_autodiff import checkpoint, grad, jvp
from lamina_batching import vmap
from lamina_ir import CallbackError, MissingRuleError, ShapeDtypeStruct
from lamina_parallel import pmap
from lamina_runtime import device_put, devices, effects_barrier
from lamina_runtime.host_callback import (CallbackException, barrier_wait, call, id_print, id_tap,
                                          stop_outfeed_receiver)
from lamina_tracing import jit, lax

X = np.arange(3, dtype="float32")
ONE_BATCH = (("batch", {"batch_dims": (0,)}),)


class Log(list):
    def __call__(self, x, transforms, **more):
        assert isinstance(x, np.ndarray)
        self.append((x.tolist(), transforms, *more.values()))

    def tap(self, x, **how):
        return id_tap(self, x, **how)


def run_tapped(f, *args):
    """Return the result of `f(tap, *args)` and the values passed to the taps."""
    log = Log()
    out = f(log.tap, *args)
    barrier_wait()
    return out, [*log]


def untransformed(*values):
    return [(v, ()) for v in values]


@pytest.mark.parametrize("make, x, result, shown", [
    (lambda tap: lambda x: tap(x), 3.0, 3, untransformed(3)),
    (lambda tap: jit(lambda x: tap(x * 2) + 1), 3.0, 7, untransformed(6)),
    (lambda tap: jit(lambda x: (tap(x * 2), x)[1]), 3.0, 3, untransformed(6)),
    (lambda tap: vmap(lambda x: tap(x * 2) + 1), X, [1, 3, 5], [([0, 2, 4], ONE_BATCH)]),
    (lambda tap: jit(vmap(lambda x: tap(x * 2) + 1)), X, [1, 3, 5], [([0, 2, 4], ONE_BATCH)]),
    (lambda tap: vmap(lambda x: tap(5.0, result=x)), X, [0, 1, 2], untransformed(5)),
    (lambda tap: vmap(lambda x: tap(x), in_axes=1), X[None], [[0], [1], [2]],
     [([[0, 1, 2]], (("batch", {"batch_dims": (1,)}),))]),
    (lambda tap: vmap(vmap(tap)), X[None], [[0, 1, 2]], [([[0, 1, 2]], ONE_BATCH * 2)]),
    (lambda tap: grad(lambda x: tap(x * 2)**2), 3.0, 24, untransformed(6)),
    (lambda tap: grad(lambda x: tap(x * 2, result=x**2)), 3.0, 6, untransformed(6)),
    (lambda tap: jit(grad(lambda x: tap(x * 2)**2)), 3.0, 24, untransformed(6)),
    (lambda tap: grad(jit(lambda x: tap(x * 2)**2)), 3.0, 24, untransformed(6)),
    (lambda tap: vmap(grad(lambda x: tap(x * 2)**2)), X[:2], [0, 8], [([0, 2], ONE_BATCH)]),
    (lambda tap: grad(grad(lambda x: tap(x * 2)**3)), 3.0, 144, untransformed(6)),
    (lambda tap: grad(checkpoint(lambda x: lax.sin(tap(x * 2)))), 3.0, 2 * np.cos(6), untransformed(6, 6)),
    (lambda tap: lambda c: lax.scan(lambda c, x: (tap(c + x), x), c, X)[0], 0.0, 3, untransformed(0, 1, 3)),
    (lambda tap: grad(lambda c: lax.scan(lambda c, x: (tap(c * x), x), c, X[1:])[0]), 2.0, 2, untransformed(2, 4)),
    (lambda tap: jit(lambda p: lax.cond(p, lambda: tap(1.0), lambda: tap(2.0))), False, 2, untransformed(2)),
    (lambda tap: jit(lambda n: lax.while_loop(lambda x: x < n, lambda x: tap(x) + 1, 0)), 3, 3, untransformed(0, 1, 2)),
    (lambda tap: vmap(lambda n: lax.while_loop(lambda x: x < n, lambda x: tap(x) + 1, 0)), np.array([1, 3], "int32"), [1, 3],
     [(v, ONE_BATCH) for v in ([0, 0], [1, 1], [1, 2])]),
    (lambda tap: jit(lambda x: tap(tap(tap(x) + 1) + 1)), 1.0, 3, untransformed(1, 2, 3)),
])
def test_values_passed_to_a_tap(make, x, result, shown):
    out, seen = run_tapped(lambda tap: make(tap)(x))
    np.testing.assert_allclose(out, result, rtol=1e-6)
    assert seen == shown


def test_jvp_of_a_tap_reports_the_primal():
    (out, tangent), seen = run_tapped(lambda tap: jvp(lambda x: tap(x * 2)**2, (3.0,), (1.0,)))
    assert (out, tangent) == (36, 24) and seen == untransformed(6)


def test_batch_dims_of_each_leaf():
    seen = []
    f = vmap(vmap(lambda x, y: id_tap(lambda v, t: seen.append((v[0].shape, v[1].shape, t)), (x, y)), in_axes=(0, None)),
             in_axes=(None, 1))
    outs = f(X[:2], np.ones((2, 3), "float32"))
    barrier_wait()
    assert [o.shape for o in outs] == [(3, 2), (3, 2, 2)]
    assert seen == [((2,), (2, 3), (("batch", {"batch_dims": (0, None)}), ("batch", {"batch_dims": (None, 1)})))]


def test_tap_with_device_in_pmap():
    here = devices()[:2]
    out, seen = run_tapped(lambda tap: pmap(lambda x: tap(x * 2, tap_with_device=True), devices=here)(X[:2]))
    assert [*out] == [0, 2]
    assert sorted(seen, key=lambda s: s[0]) == [(0, (), here[0]), (2, (), here[1])]


@pytest.mark.parametrize("how", [lambda f: f, jit, lambda f: lambda x: vmap(f)(x)])
def test_tap_with_device_is_the_device_of_the_data(how):
    there = devices()[1]
    out, seen = run_tapped(lambda tap: how(lambda x: tap(x * 2, tap_with_device=True) + 1)(device_put(X, there)))
    assert [*out] == [1, 3, 5] and [(s[0], s[2]) for s in seen] == [([0, 2, 4], there)]


def test_one_compiled_program_on_two_devices():
    log = Log()
    f = jit(lambda x: log.tap(x, tap_with_device=True))
    for d in devices()[:2]:
        f(device_put(1.0, d))
    barrier_wait()
    assert [s[2] for s in log] == [*devices()[:2]]


def test_pytree_result_keeps_its_dtypes():
    log = Log()
    tree = {"a": (True, np.int8(2)), "b": [np.zeros((2, 0), "float32"), 1j, None], "c": lax.convert_element_type(2, "bfloat16")}
    out = jit(lambda x: log.tap(x, result=tree))(1.0)
    assert [str(v.dtype) for v in (*out["a"], *out["b"][:2], out["c"])] == ["bool", "int8", "float32", "complex64", "bfloat16"]
    assert out["b"][2] is None and out["b"][1] == 1j and bool(out["a"][0])


@pytest.mark.parametrize("value, how, text", [
    ((X, 2), {}, "( [0. 1. 2.] 2 )\n"),
    ((X, 2), dict(what="hi", n=3), "n: 3 what: hi\n( [0. 1. 2.] 2 )\n"),
    (((), [], {}, None), {}, "( (  ) [  ] {  } None )\n"),
    ((1.5, 2 + 1j), {}, "( 1.5 2.+1.j )\n"),
    ({"a": X.astype("int32"), "b": [np.float32(1.5), True]}, dict(result=3), "{ a=[0 1 2] b=[ 1.5 True ] }\n"),
    (np.arange(30.0, dtype="float32"), dict(threshold=5), "[ 0.  1.  2. ... 27. 28. 29.]\n"),
])
def test_id_print_output(value, how, text):
    out = io.StringIO()
    id_print(value, output_stream=out, **how)
    assert out.getvalue() == text


def test_id_print_with_transforms_and_device(capsys):
    vmap(lambda x: id_print(x, what="v", tap_with_device=True))(X[:2])
    barrier_wait()
    assert capsys.readouterr().out == (f"device: {devices()[0]} transforms: [('batch', {{'batch_dims': (0,)}})] what: v\n"
                                       "[0. 1.]\n")


def test_call_results():
    out = jit(lambda x: call(lambda v: (np.sin(v), v.sum()), x, result_shape=(X, np.float32(0))))(X)
    np.testing.assert_allclose(out[0], np.sin(X), rtol=1e-6)
    assert out[1] == 3
    assert call(lambda v: 5, X) is None
    assert call(lambda v, device: np.int32(device.id), 3.0, result_shape=np.int32(0), call_with_device=True) == 0
    assert call(lambda v: v["a"] + 1, {"a": 1}, result_shape=ShapeDtypeStruct((), "int32")) == 2


@pytest.mark.parametrize("transform", [vmap, lambda f: grad(lambda x: f(x).sum())])
def test_call_under_vmap_or_grad_is_refused(transform):
    with pytest.raises(MissingRuleError, match="callback `<lambda>`"):
        transform(lambda x: call(lambda v: v, x, result_shape=x))(X)


@pytest.mark.parametrize("run, error, message", [
    (lambda: id_tap(3, 1.0), TypeError, "id_tap: expected a function; got int"),
    (lambda: id_tap(print, "a"), TypeError, "id_tap of `print`"),
    (lambda: id_tap(print, 1.0, foo=1), TypeError, "'foo'"),
    (lambda: id_tap(print, 1.0, tap_with_device=1), TypeError, "tap_with_device must be True or False; got 1"),
    (lambda: id_tap(print, 1.0, device_index=1), ValueError, "device_index must be 0"),
    (lambda: call(print, 1.0, result_shape="a"), TypeError, "result_shape must be a tree"),
    (lambda: call(lambda v: (v, v), 1.0, result_shape=np.float32(0)), CallbackError, "must return the tree"),
    (lambda: call(lambda v: X, 1.0, result_shape=np.float32(0)), CallbackError, r"float32\[\]"),
    (lambda: barrier_wait(3), TypeError, "logging_name"),
])
def test_invalid_arguments_are_refused(run, error, message):
    with pytest.raises(error, match=message):
        run()


def boom(x, transforms):
    raise ValueError("boom")


def test_exception_in_a_tap():
    with pytest.raises(CallbackError, match="boom"):
        id_tap(boom, 1.0)
    with pytest.raises(CallbackError, match="boom"):
        jit(lambda x: id_tap(boom, x))(1.0).block_until_ready()
    clear_pending_errors()


def clear_pending_errors():
    try:
        effects_barrier()
    except CallbackError:
        pass


def test_barrier_raises_pending_errors():
    with pytest.raises(CallbackError, match="boom"):
        pmap(lambda x: id_tap(boom, x), devices=devices()[:2])(X[:2])
        barrier_wait("here")
    clear_pending_errors()
    stop_outfeed_receiver()


def test_barrier_raises_callback_exception(monkeypatch):
    def fails():
        raise CallbackError("boom")
    monkeypatch.setattr("lamina_runtime._execute.effects.effects_barrier", fails)
    with pytest.raises(CallbackException, match="here: boom"):
        barrier_wait("here")


def test_tap_in_a_branch_receives_the_whole_batch():
    seen = []

    def tapped(x):
        return id_tap(lambda v, transforms: seen.append((v.tolist(), transforms)), x)

    chosen = vmap(lambda p, x: lax.cond(p, tapped, lambda x: -x, x))
    np.testing.assert_array_equal(chosen(np.array([True, False, True]), np.float32([1, 2, 3])), [1, -2, 3])
    barrier_wait()
    assert seen == [([1, 2, 3], (("batch", {"batch_dims": (0,)}),))]


@pytest.mark.parametrize("x,dtype", [(2.5, "float32"), (3, "int32"), (True, "bool"), (np.arange(3.), "float32")])
def test_python_scalars_are_returned_as_arrays(x, dtype):
    def shown(x):
        return id_tap(lambda v, transforms: None, {"a": x})["a"]

    for f in (shown, jit(shown)):
        assert f(x).dtype == dtype and not isinstance(f(x), (np.ndarray, np.generic))
