"""Run the tests of `lamina.distributed.ray` with a pinned Ray, in a folder of its own below .cache.

usage: python tests/ray_cluster/run.py [--sample] [pytest arguments]

`--sample` runs some of the tests. It passes if Ray cannot be installed, and says why.
"""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[0] = str(HERE.parent / "libraries")
from library_sets import NoPackageIndexError, install_pins  # noqa: E402

# One of each kind: a loss within two nodes, output, errors, and Ray Train.
SAMPLE = ("test_killed_worker_rejoins_and_training_is_as_accurate", "test_output_has_index_in_front_and_variables_are_set",
          "test_missing_resources_are_named", "test_function_that_cannot_be_pickled_is_refused",
          "test_workers_of_ray_train_join")
NO_WHEEL = "No matching distribution found"  # for this Python, or this machine


def main(arguments: list[str]) -> int:
    """Install Ray and run the tests; return the exit status."""
    is_sample = "--sample" in arguments
    try:
        folder = install_pins(HERE / "requirements.txt", ROOT / ".cache" / "ray", sys.executable)
    except (NoPackageIndexError, RuntimeError) as e:
        if not isinstance(e, NoPackageIndexError) and NO_WHEEL not in str(e):
            raise
        print(f"{e}\nRay cannot be installed on this machine: the tests of a Ray cluster were NOT run\n"
              "===== 0 failed, 0 passed, 1 skipped in 0.00s =====")
        return 0 if is_sample else 1
    # The packages that Ray needs come after those of the environment, which the workers share.
    paths = [*sorted(map(str, ROOT.glob("packages/*/src"))), str(HERE), str(ROOT / "examples" / "clusters"), str(folder)]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2",
                 "RAY_USAGE_STATS_ENABLED": "0", "PYTHONWARNINGS": "ignore"}
    rest = [a for a in arguments if a != "--sample"]
    chosen = ["-k", " or ".join(SAMPLE)] if is_sample else []
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=12", *chosen,
               *rest, str(HERE / "ray_checks.py")]
    return subprocess.run(command, env=variables, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
