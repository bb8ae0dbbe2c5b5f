"""Processes that launch different programs get an error."""
from __future__ import annotations

import pytest

from lamina_distributed.conformance.groups import check_status, run

PROGRAM = """
base = join()
np.asarray(total(base))
other = pmap(lambda x: psum(x * 2, "i") - 1, axis_name="i")
report(error=error_of(lambda: np.asarray((other if rank else total)(base))))
report(after=np.asarray(total(base)).tolist())
shutdown()
"""


@pytest.mark.agreement
def test_different_launches_raise_in_all_processes_and_the_next_is_right() -> None:
    for v in check_status(run(PROGRAM, 2)):
        assert v["error"] and v["after"] == [6.0, 6.0]
