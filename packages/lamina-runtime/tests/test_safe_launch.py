import gc
import sys
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from lamina_ir import ShapeError
from lamina_parallel import pmap
from lamina_runtime import device_put, devices, live_arrays
from lamina_runtime._backend import client_state, deletion, launch_guards
from lamina_tracing import jit, lax


class Fake:
    nbytes = 4
    ready = False
    aval = property(lambda self: ("bytes", self.nbytes))
    _sharding = SimpleNamespace(_internal_device_list=())

    def __init__(self, deleted=False):
        self.deleted = deleted

    def _rewrap_with_aval_and_sharding(self, aval, sharding):
        assert aval is deletion.INTERNAL_AVAL
        return self

    def is_deleted(self):
        return self.deleted

    def is_ready(self):
        return self.ready


def test_window_waits_for_the_oldest(monkeypatch):
    waited = []
    monkeypatch.setattr(launch_guards, "_wait", waited.append)
    w, outs = launch_guards.Window(), [Fake() for _ in range(20)]
    for o in outs:
        w.note_launch([o])
    step = launch_guards.STRIDE  # one launch of each stride represents the earlier ones
    assert waited == outs[:20 - launch_guards.WINDOW:step]
    w.drain()
    assert waited == outs[::step]


def test_window_tracks_each_change_of_devices(monkeypatch):
    waited, kinds = [], [SimpleNamespace(_internal_device_list=(i,)) for i in range(3)]
    monkeypatch.setattr(launch_guards, "_wait", waited.append)
    w, outs = launch_guards.Window(), [Fake() for _ in range(12)]
    for i, o in enumerate(outs):
        o._sharding = kinds[i % 3]
        w.note_launch([o])
    w.drain()
    assert waited == outs


def test_window_holds_the_smallest_result(monkeypatch):
    waited = []
    monkeypatch.setattr(launch_guards, "_wait", waited.append)
    w, outs, large = launch_guards.Window(), [Fake() for _ in range(20)], [Fake() for _ in range(20)]
    for o, more in zip(outs, large):
        more.nbytes = launch_guards.MAX_HELD_BYTES // 4
        w.note_launch([more, o])
    assert waited == outs[:17]  # a little more than three are in flight
    w.drain()
    waited.clear()
    for o, more in zip(outs, large):
        more.nbytes = launch_guards.MAX_HELD_BYTES
        w.note_launch([o, more])
    w.note_launch([])
    assert waited == outs


def test_window_releases_finished_large_results(monkeypatch):
    monkeypatch.setattr(launch_guards, "_wait", lambda x: None)
    w, outs = launch_guards.Window(), [Fake() for _ in range(4)]
    for i, o in enumerate(outs):
        o.nbytes = launch_guards.MAX_HELD_BYTES // 4
        w.note_launch([o])
        o.ready = i < 2
    assert w._pending[0] == (outs[3], 2, launch_guards.MAX_HELD_BYTES // 2)  # represents the third; the first two are finished
    w.drain()
    assert not w._pending


def test_waiting_loop_creates_one_window_array(monkeypatch):
    made = []
    monkeypatch.setattr(Fake, "_rewrap_with_aval_and_sharding", lambda self, *types: made.append(self) or self)
    for size in (4, launch_guards.MAX_HELD_BYTES // 2):
        w, outs = launch_guards.Window(), [Fake() for _ in range(launch_guards.WINDOW)]
        for o in outs:
            o.nbytes = size
            w.note_launch([o])
            o.ready = True
        assert made == outs[:1] and not w._pending  # the first launch on its devices
        outs[-1].ready = False  # from here on the loop does not wait
        for o in (more := [Fake() for _ in range(launch_guards.STRIDE)]):
            o.nbytes = 4
            w.note_launch([o])
        assert made[-1] is more[launch_guards.STRIDE - 2 if size == 4 else 0] and len(w._pending) == 1
        made.clear()


def test_window_holds_no_user_array():
    f = pmap(lambda x: lax.psum(x, "i"), axis_name="i")
    x = pmap(lambda x: x)(np.ones((8, 2), np.float32))
    before = {id(a) for a in live_arrays()}
    outs = [f(x) for _ in range(launch_guards.WINDOW)]
    refs = [weakref.ref(o) for o in outs]
    del outs
    gc.collect()
    assert not any(r() is not None for r in refs)
    assert not [a for a in live_arrays() if id(a) not in before]


@pytest.mark.oldest_jaxlib
@pytest.mark.parametrize("loss", [False, True])
def test_loop_memory_is_bounded_by_the_window(loss):
    n = launch_guards.MAX_HELD_BYTES // 8  # eight of these exceed the limit
    if loss:
        f = pmap(lambda p, x: (lax.pmean(lax.add(p, x), "i"), lax.psum(lax.slice(x, (0,), (1,)), "i")), axis_name="i")
    else:
        f = pmap(lambda p, x: (lax.pmean(lax.add(p, x), "i"),), axis_name="i")
    x = pmap(lambda i: lax.broadcast_in_dim(i, (n,), ()))(np.arange(8, dtype=np.float32))
    p, client = x, devices()[0].client
    window = launch_guards.client_window(client)
    if not window.is_limited:
        pytest.skip("this jaxlib needs no limit")
    window.drain()
    for _ in range(6):
        p = f(p, x)[0]
        alive = [a.aval for a in client.live_arrays()]
        assert p.is_ready() and not any(t is deletion.INTERNAL_AVAL for t in alive)
        assert sum(t is not None and t.shape == (8, n) for t in alive) <= 2


@pytest.mark.parametrize("blocks", [False, True])
def test_launches_are_limited_only_if_they_block(monkeypatch, blocks):
    client = devices()[0].client
    monkeypatch.setattr(launch_guards._jaxlib, "COLLECTIVES_BLOCK_LAUNCHES", blocks)
    monkeypatch.setattr(client_state.current, "windows", {})
    assert launch_guards.client_window(client) is launch_guards.client_window(client)
    assert launch_guards.client_window(client).is_limited == blocks
    f = pmap(lambda x: lax.psum(x, "i"), axis_name="i")
    x = np.ones(8, np.float32)
    assert np.asarray(f(x)).tolist() == [8] * 8 and np.asarray(jit(f)(x)).tolist() == [8] * 8


def test_one_device_has_the_fast_path_after_several():
    f, seen = jit(lambda x: lax.add(x, x)), []
    many = pmap(lambda x: x)(np.ones((8, 2), np.float32))
    one = {n: device_put(np.full(n, n, np.float32)) for n in (3, 4)}
    for _ in range(3):
        assert np.asarray(f(many)).tolist() == [[2, 2]] * 8
        assert all(np.asarray(f(x)).tolist() == [2 * n] * n for n, x in one.items())
    sys.setprofile(lambda frame, event, argument: seen.append(frame.f_code.co_name) if event == "call" else None)
    f(one[3]), f(one[4])
    sys.setprofile(None)
    assert not seen


def test_window_with_donated_results(monkeypatch):
    waited = []
    monkeypatch.setattr(launch_guards, "_wait", waited.append)
    w = launch_guards.Window()
    gap, worst = 0, 0
    for _ in range(100):
        before, new = len(waited), Fake()
        w.note_launch([new])
        gap = 0 if len(waited) > before else gap + 1
        worst = max(worst, gap)
        new.deleted = True
    assert worst <= 2 * launch_guards.WINDOW and len(waited) > 5


@pytest.mark.parametrize("mapped", [False, True])
def test_one_array_donated_by_two_threads(mapped):
    if mapped:
        give, new = pmap(lambda v: lax.add(v, v), donate_argnums=0), pmap(lambda v: v)
    else:
        give, new = jit(lambda v: lax.add(v, v), donate_argnums=0), device_put
    for k in range(30):
        x, barrier, found = new(np.ones((8, 500), np.float32)), threading.Barrier(2), []

        def work(x=x, barrier=barrier, found=found):
            barrier.wait()
            try:
                found.append(np.asarray(give(x)).sum())
            except RuntimeError as e:
                found.append(str(e))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        lost, = [f for f in found if isinstance(f, str)]
        assert "donated" in lost and 8000 in found


@pytest.mark.parametrize("size", [3, 300])
def test_captured_donated_array_is_refused(size):
    held = device_put(np.ones(size, np.float32))
    f = jit(lambda x: lax.add(lax.broadcast_in_dim(x, (size,), ()), held))
    f(np.float32(1))
    f(np.float32(1))
    jit(lambda v: lax.neg(v), donate_argnums=0)(held)
    seen, new = np.float32(1), 1.0
    for x in (seen, new) if size > 64 else (new,):  # small arrays are constants of the program
        with pytest.raises(RuntimeError, match="deleted or donated"):
            f(x)


@pytest.mark.parametrize("shape", [(2**31, 2**31), (2**61,), (2**40, 2**40)])
def test_arrays_larger_than_the_address_space_are_refused(shape):
    with pytest.raises(ShapeError, match="bytes"):
        lax.broadcast_in_dim(np.float32(1), shape, ())
    with pytest.raises(ShapeError, match="bytes"):
        jit(lambda x: lax.reduce_sum(lax.broadcast_in_dim(x, shape, ()), axes=tuple(range(len(shape)))))(np.float32(1))
