"""A process ends: the others get an exception, work alone, and form a smaller group."""
from __future__ import annotations

from typing import Any

import pytest

from lamina_distributed.conformance.groups import DEVICES, check_status, run

COUNT = 3
REFORM = """
base = join()
np.asarray(total(base))
if rank == VICTIM:
    os.kill(os.getpid(), signal.SIGKILL)
def wait():
    for _ in range(300):
        np.asarray(total(base))
        time.sleep(0.05)
begun = time.monotonic()
try:
    wait()
except ProcessLostError as e:
    report(lost=e.process_indices, seconds=time.monotonic() - begun, is_runtime_error=isinstance(e, RuntimeError))
report(again=error_of(lambda: np.asarray(total(base))), doubled=float(double(np.float32(3))))
local = pmap(lambda x: psum(x, "i"), axis_name="i", devices=rt.local_devices())
report(local=np.asarray(local(np.float32([1, 2]))).tolist())
shutdown()
me = rank - (rank > VICTIM)
report(left=not is_initialized())
base = join(addresses[1], count - 1, me)
report(sum=np.asarray(total(base)).tolist(), count=rt.process_count(), doubled_later=float(double(np.float32(5))))
shutdown()
"""


def remaining(program: str, victim: int) -> list[dict[str, Any]]:
    """Return the values of the processes that remain when `victim` is killed."""
    found = check_status(run(program.replace("VICTIM", str(victim)), COUNT), killed=victim)
    return [v for rank, v in enumerate(found) if rank != victim]


@pytest.mark.loss
def test_loss_is_an_exception_that_names_the_process() -> None:
    for v in remaining(REFORM, COUNT - 1):
        assert v["lost"] == [COUNT - 1] and v["is_runtime_error"] and v["seconds"] < 15
        assert "ProcessLostError" in v["again"]


@pytest.mark.loss
def test_processes_work_alone_after_a_loss() -> None:
    for v in remaining(REFORM, COUNT - 1):
        assert v["lost"] and v["doubled"] == 6.0 and v["local"] == [3.0, 3.0]


@pytest.mark.reform
def test_smaller_group_forms() -> None:
    n = (COUNT - 1) * DEVICES
    for v in remaining(REFORM, COUNT - 1):
        assert v["left"] and v["count"] == COUNT - 1 and v["sum"] == [n * (n - 1) / 2] * DEVICES and v["doubled_later"] == 10.0


@pytest.mark.reform
def test_smaller_group_forms_without_process_0() -> None:
    n = (COUNT - 1) * DEVICES
    for v in remaining(REFORM, 0):
        assert v["lost"] == [0] and v["count"] == COUNT - 1 and v["sum"] == [n * (n - 1) / 2] * DEVICES
