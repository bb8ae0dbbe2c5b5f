"""The programs of the table of errors that need several processes raise their errors."""
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "public_api")]
from error_examples import EXAMPLES  # noqa: E402
from processes import run  # noqa: E402

pytestmark = pytest.mark.slow

RUN = """
import pickle
sys.path.append({folder!r})
from error_examples import run
error = run({code!r})
print(error.code, pickle.loads(pickle.dumps(error)).__notes__ == error.__notes__, flush=True)
"""


@pytest.mark.parametrize("code", [code for code, example in EXAMPLES.items() if example.processes > 1 and example.program])
def test_program_raises_its_error(code):
    folder = str(Path(__file__).parents[1] / "public_api")
    outputs = run(RUN.format(folder=folder, code=code), EXAMPLES[code].processes, devices=1)
    assert outputs[0] == f"{code} True"  # a process that comes later may report that this one is gone
