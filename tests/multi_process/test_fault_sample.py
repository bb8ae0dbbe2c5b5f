"""A sample of the fault injector: one seed for most kinds of faults. `nox -s faults -- 200` injects many, at random moments."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `inject_faults`
import inject_faults  # noqa: E402

# Seeds of small groups: a kill while joining, a kill in a save, a double kill, a short stop and a long stop.
SEEDS = (2174, 1389, 995, 172, 293)


@pytest.mark.parametrize("seed", SEEDS)
def test_living_processes_end_right_or_name_exactly_the_lost_ones(seed):
    run = inject_faults.Run(seed)
    run.execute()
    assert not run.problems, f"{run}: {run.problems}"
