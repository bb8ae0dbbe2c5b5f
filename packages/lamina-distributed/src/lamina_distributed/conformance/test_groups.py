"""A group forms, its devices and collectives are right, and it ends."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lamina_distributed.conformance.groups import DEVICES, check_status, run

COUNT = 3
N = COUNT * DEVICES
PROGRAM = """
from lamina_distributed import has_waiting_processes, share_newest_state
from lamina_parallel import Mesh, PartitionSpec, all_gather, all_to_all, pmax, pmin, ppermute, psum_scatter
from lamina_runtime.extend import GatherSeries, begin_gather
n = 2 * count
report(alone=is_initialized())
report(bad=[error_of(initialize, addresses[0], count, count), error_of(initialize, addresses[0], 0, 0),
            error_of(initialize, addresses[0], "three", 0), error_of(initialize, "no address", count, rank)])
base = join()
report(joined=is_initialized(), twice=error_of(join))
report(index=rt.process_index(), count=rt.process_count(), devices=[d.process_index for d in rt.devices()],
       ids=[d.id for d in rt.devices()], own=[d.process_index for d in rt.local_devices()])
rows = np.arange(n * n * 3, dtype=np.float32).reshape(n, n, 3)[2 * rank:2 * rank + 2]
run = lambda f, x=rows: np.asarray(pmap(f, axis_name="i")(x)).tolist()
report(psum=run(lambda x: psum(x, "i")), pmax=run(lambda x: pmax(x, "i")), pmin=run(lambda x: pmin(x, "i")),
       gathered=run(lambda x: all_gather(x, "i")), scattered=run(lambda x: psum_scatter(x, "i")),
       transposed=run(lambda x: all_to_all(x, "i", 0, 0)), shifted=run(lambda x: ppermute(x, "i", [
           (k, (k + 1) % n) for k in range(n)])), whole=run(lambda x: psum(x, "i"), rows.astype(np.int32)))
sharding = rt.NamedSharding(Mesh(np.array(rt.devices(), object), "d"), PartitionSpec("d"))
x = rt.make_array_from_process_local_data(sharding, base)
report(summed=float(np.asarray(jit(lambda x: lax.reduce(x, np.float32(0), lax.add, (0,)))(x))))
step = pmap(lambda x: psum(x, "i") / n, axis_name="i")
for _ in range(40):
    base = np.asarray(step(base))
report(repeated=base.tolist())
with begin_gather("test") as gather:
    report(first=gather.gather(rank=rank), second=gather.gather(name=f"process {rank}"))
series = GatherSeries()
for i in range(2):
    with series.begin("test") as gather:
        report(**{f"series{i}": gather.gather(i=i, rank=rank)})
with begin_gather("test") as gather:
    gather.gather()
    begun = time.monotonic()
    if rank == 0:
        time.sleep(0.3)
    gather.wait_for_process_0()
    report(waited=time.monotonic() - begun)
def fail():
    with begin_gather("test") as gather:
        if rank == 1:
            raise ValueError("no data")
        gather.gather()
report(failed=error_of(fail))
nothing = share_newest_state(None, None)
state, step = share_newest_state({"w": np.float64([rank, 0.1])} if rank else None, rank or None)
report(nothing=nothing, newest=[state["w"].tolist(), str(state["w"].dtype), step], awaited=has_waiting_processes())
local = pmap(lambda x: psum(x, "i"), axis_name="i", devices=rt.local_devices())
report(local=np.asarray(local(np.float32([1, 2]))).tolist(), doubled=float(double(np.float32(3))))
kept = rt.device_put(np.float32([rank, 1]))
shutdown()
report(left=not is_initialized(), kept=np.asarray(kept).tolist(), count_after=rt.process_count(),
       after=float(double(np.float32(4))), devices_after=rt.device_count())
shutdown()
"""


X = np.arange(N * N * 3, dtype=np.float32).reshape(N, N, 3)


def values() -> list[dict[str, Any]]:
    """Return what each process of the group reports."""
    return check_status(run(PROGRAM, COUNT))


def check(name: str, expected: np.ndarray) -> None:
    """Compare the rows of all processes with `expected`, whose axis 0 is the devices."""
    found = np.concatenate([np.asarray(v[name]) for v in values()])
    np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=name)


def test_devices_are_those_of_all_processes() -> None:
    for rank, v in enumerate(values()):
        assert (v["alone"], v["joined"], v["index"], v["count"]) == (False, True, rank, COUNT)
        assert v["devices"] == [r for r in range(COUNT) for _ in range(DEVICES)] and v["own"] == [rank] * DEVICES
        assert len({*v["ids"]}) == N and v["ids"] == values()[0]["ids"]


def test_wrong_arguments_are_errors_before_anything_is_joined() -> None:
    for v in values():
        index, number, kind, address = v["bad"]
        assert "ValueError" in index and "process_id" in index[-1]
        assert "ValueError" in number and "num_processes" in number[-1]
        assert "TypeError" in kind and "num_processes" in kind[-1]
        assert "ValueError" in address
        assert "RuntimeError" in v["twice"]


@pytest.mark.collectives
def test_reductions_equal_numpy() -> None:
    check("psum", np.broadcast_to(X.sum(0), X.shape))
    check("pmax", np.broadcast_to(X.max(0), X.shape))
    check("pmin", np.broadcast_to(X.min(0), X.shape))
    check("whole", np.broadcast_to(X.sum(0), X.shape))
    check("scattered", X.sum(0))


@pytest.mark.collectives
def test_exchanges_equal_numpy() -> None:
    check("gathered", np.broadcast_to(X, (N, *X.shape)))
    check("transposed", X.swapaxes(0, 1))
    check("shifted", np.roll(X, 1, 0))


@pytest.mark.collectives
def test_repeated_launches_are_in_one_order() -> None:
    check("repeated", np.full(N, (N - 1) / 2))


@pytest.mark.collectives
def test_compiled_program_over_a_mesh_equals_numpy() -> None:
    assert [v["summed"] for v in values()] == [N * (N - 1) / 2] * COUNT


def test_local_programs_need_no_other_process() -> None:
    for v in values():
        assert v["local"] == [3.0, 3.0] and v["doubled"] == 6.0


def test_values_are_gathered_on_the_host() -> None:
    for v in values():
        assert v["first"] == [{"rank": r} for r in range(COUNT)]
        assert v["second"] == [{"name": f"process {r}"} for r in range(COUNT)]
        for i in range(2):
            assert v[f"series{i}"] == [{"i": i, "rank": r} for r in range(COUNT)]


def test_newest_state_is_sent_to_all() -> None:
    for v in values():
        assert v["nothing"] == [None, None] and v["newest"] == [[COUNT - 1, 0.1], "float64", COUNT - 1]
        assert v["awaited"] is False


def test_process_0_is_waited_for() -> None:
    assert min(v["waited"] for v in values()) > 0.2


def test_error_of_one_process_is_raised_by_the_gather_of_all() -> None:
    for rank, v in enumerate(values()):
        assert ("ValueError" if rank == 1 else "RuntimeError") in v["failed"] and "no data" in v["failed"][-1]


def test_shutdown_leaves_the_group() -> None:
    for rank, v in enumerate(values()):
        assert v["left"] and v["kept"] == [rank, 1] and v["count_after"] == 1 and v["devices_after"] == DEVICES
        assert v["after"] == 8.0
