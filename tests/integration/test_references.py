"""`lamina.new_ref` with compiled programs: memory, maps over devices, keys, files, threads."""
import subprocess
import sys
import threading

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax

W = jnp.linspace(-1, 1, 1 << 16)
XS = jnp.linspace(-1, 1, 8)


def loss(w, x):
    return jnp.sum(jnp.tanh(w * x) ** 2)


def accumulate(w, total, xs):
    def step(_, x):
        total[...] += lamina.grad(loss)(w, x)
        return None, None
    lax.scan(step, None, xs)


def test_gradient_accumulation_needs_the_memory_of_one_gradient():
    def f(w, xs):
        total = lamina.new_ref(jnp.zeros_like(w))
        accumulate(w, total, xs)
        return lamina.freeze(total)

    compiled = lamina.jit(f).lower(W, XS).compile()
    memory = compiled.memory_analysis()
    assert memory.output_size_in_bytes == W.nbytes
    assert memory.temp_size_in_bytes < W.nbytes // 8
    expected = sum(lamina.grad(loss)(W, x) for x in XS)
    np.testing.assert_allclose(compiled(W, XS), expected, rtol=1e-4, atol=1e-5)

    total = lamina.new_ref(jnp.zeros_like(W))
    lamina.jit(accumulate)(W, total, XS)
    np.testing.assert_allclose(total[...], expected, rtol=1e-4, atol=1e-5)


IN_PLACE = """
import lamina
import lamina.numpy as jnp
f = lamina.jit(lambda r, x: lamina.ref.addupdate(r, ..., x))
ref, pointers = lamina.new_ref(jnp.zeros(1 << 16)), []
for _ in range(4):
    f(ref, 1.)
    pointers.append(ref.unsafe_buffer_pointer())
assert len(set(pointers[1:])) == 1
held = ref[...]
f(ref, 1.)
assert held[0] == 4 and ref[0] == 5
"""


def test_jit_updates_a_reference_in_place():
    """In a process without other threads, because several CPU devices copy donated arrays while there are some."""
    done = subprocess.run([sys.executable, "-c", IN_PLACE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_values_that_a_pullback_holds_are_not_reused():
    ref = lamina.new_ref(jnp.ones(4))
    double = lamina.jit(lambda: ref.__setitem__(..., ref[...] * 2))
    double()
    y, pull = lamina.vjp(lamina.jit(lambda x: x * ref[...]), jnp.ones(4))
    double()
    double()
    np.testing.assert_array_equal(pull(jnp.ones(4))[0], [2, 2, 2, 2])
    np.testing.assert_array_equal(ref[...], [8] * 4)


def test_pmap_and_shard_map_make_and_read_references():
    n, scale = 4, lamina.new_ref(3.)

    def f(x):
        local = lamina.new_ref(jnp.zeros(2))

        def step(c, i):
            local[0] += x * scale[...]
            local[1] += lax.psum(x, "i")
            return c, None

        lax.scan(step, 0., jnp.arange(2))
        return lamina.freeze(local)

    x = jnp.arange(n, dtype=jnp.float32)
    expected = np.stack([6 * np.asarray(x), np.full(n, 12)], 1)
    np.testing.assert_array_equal(lamina.vmap(f, axis_name="i")(x), expected)
    np.testing.assert_array_equal(lamina.jit(lamina.vmap(f, axis_name="i"))(x), expected)
    if lamina.device_count() >= n:
        np.testing.assert_array_equal(lamina.pmap(f, axis_name="i")(x), expected)
        mesh = lamina.make_mesh((n,), ("i",))
        g = lamina.shard_map(lambda x: f(x[0])[None], mesh=mesh, in_specs=lamina.P("i"), out_specs=lamina.P("i"))
        np.testing.assert_array_equal(g(x), expected)
        np.testing.assert_array_equal(lamina.jit(g)(x), expected)


def test_references_are_not_divided_by_pmap():
    ref = lamina.new_ref(jnp.zeros(1))
    mesh = lamina.make_mesh((1,), ("i",), devices=lamina.devices()[:1])
    for write in (lambda x: ref.addupdate(1.), lambda x: (ref.addupdate(x), x)[1]):
        with pytest.raises(ValueError, match="which all members share"):
            lamina.shard_map(write, mesh=mesh, in_specs=lamina.P("i"), out_specs=lamina.P("i"))(jnp.zeros(1))
    with pytest.raises(TypeError, match="mutable references are not divided"):
        lamina.pmap(lambda r: None)(ref)
    with pytest.raises(ValueError, match="which all members share"):
        lamina.pmap(lambda x: ref.__setitem__(0, 1.))(jnp.zeros(1))


def test_keys_in_references():
    ref = lamina.new_ref(lamina.random.key(0))

    def draw():
        ref[...], sub = lamina.random.split(ref[...])
        return lamina.random.uniform(sub)

    a, b = draw(), lamina.jit(draw)()
    key, first = lamina.random.split(lamina.random.key(0))
    assert a == lamina.random.uniform(first) and b == lamina.random.uniform(lamina.random.split(key)[1])


def test_export_holds_programs_with_their_own_references():
    def f(x):
        ref = lamina.new_ref(x)
        lax.fori_loop(0, 3, lambda i, _: ref.__setitem__(i, 2. * i), None)
        return ref[...]

    exported = lamina.export.export(lamina.jit(f))(jnp.ones(4))
    np.testing.assert_array_equal(exported.call(jnp.ones(4)), [0, 2, 4, 1])
    with pytest.raises(NotImplementedError, match="a mutable reference"):
        lamina.export.export(lamina.jit(lambda r: r[...]))(lamina.new_ref(1.))


def test_lower_refuses_references():
    ref = lamina.new_ref(1.)
    for f, args in ((lambda r: r[...], (ref,)), (lambda: ref[...], ())):
        with pytest.raises((ValueError, NotImplementedError), match="mutable reference.*discharge"):
            lamina.jit(f).lower(*args)


def test_checkpoint_of_a_function_with_references():
    def f(x):
        ref = lamina.new_ref(x)
        lax.fori_loop(0, 3, lambda i, _: ref.__setitem__(..., jnp.sin(ref[...]) * x), None)
        return jnp.sum(ref[...])

    x = jnp.array([.3, .7])
    expected = lamina.grad(f)(x)
    for g in (lamina.checkpoint(f), lamina.jit(lamina.checkpoint(f))):
        np.testing.assert_allclose(lamina.grad(g)(x), expected, rtol=1e-5)
    outside = lamina.new_ref(0.)
    g = lamina.checkpoint(lambda x: (lamina.ref.addupdate(outside, ..., 1.), jnp.sum(x * x))[1])
    np.testing.assert_allclose(lamina.grad(lambda x: g(x))(x), 2 * x, rtol=1e-6)
    assert outside[...] == 1


def test_each_thread_may_use_its_own_references():
    def work(results, k):
        ref = lamina.new_ref(jnp.zeros(3))
        for _ in range(20):
            update(ref, float(k))
        results[k] = ref[0]

    update, results = lamina.jit(lambda r, x: lamina.ref.addupdate(r, 0, x)), {}
    threads = [threading.Thread(target=work, args=(results, k)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert {k: float(v) for k, v in results.items()} == {k: 20. * k for k in range(4)}


def test_large_integers_and_64_bits():
    with lamina.enable_x64():
        ref = lamina.new_ref(np.arange(3.))
        lamina.jit(lambda r: lamina.ref.addupdate(r, ..., 1))(ref)
        assert ref.dtype == np.float64 and ref[2] == 3
