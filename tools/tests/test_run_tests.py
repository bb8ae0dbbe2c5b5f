"""The test runner: targets, arguments, summaries, exit status."""
from __future__ import annotations

import os
import sys

import pytest
import run_tests


def test_all_targets_are_the_packages_and_the_top_level_folders() -> None:
    targets = run_tests.all_targets()
    assert {"lamina-ir", "lamina-runtime", "tools", "docs"} <= set(targets)


def test_pytest_arguments_take_a_name_or_a_folder() -> None:
    assert run_tests.pytest_arguments("lamina-ir") == run_tests.pytest_arguments("packages/lamina-ir/")
    assert "packages/lamina-ir/tests" in run_tests.pytest_arguments("lamina-ir")


def test_pytest_arguments_refuse_an_unknown_target() -> None:
    with pytest.raises(SystemExit, match="no tests for 'lamina-nothing'"):
        run_tests.pytest_arguments("lamina-nothing")


@pytest.mark.parametrize("output, summary", [
    ("....\n4 passed in 0.12s\n", "4 passed in 0.12s"),
    ("==== 1 failed, 3 passed in 61.20s (0:01:01) ====", "1 failed, 3 passed in 61.20s (0:01:01)"),
    ("Segmentation fault", "no summary; pytest ended early"),
])
def test_summary_of_finds_the_last_line(output: str, summary: str) -> None:
    assert run_tests.summary_of(output) == summary


def test_main_fails_when_a_target_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    status = {"lamina-ir": 0, "tools": 1}
    monkeypatch.setattr(run_tests, "run", lambda target, extra: (status[target], "1 passed in 0.1s", 0.1))
    assert run_tests.main(["lamina-ir"]) == 0
    assert run_tests.main(["lamina-ir", "tools"]) == 1
    assert "failed: tools" in capsys.readouterr().out


def test_a_program_that_stands_still_is_ended_with_all_it_started_and_its_output_kept() -> None:
    code = ("import subprocess, sys, time; print('begun', flush=True); "
            "subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])")
    status, output = run_tests.run_limited([sys.executable, "-c", code], dict(os.environ), limit=2)
    assert status == run_tests.TIMED_OUT and output.startswith("begun") and "stood still: ended after 2 s" in output


def test_a_program_that_ends_gives_its_status_and_both_streams() -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    status, output = run_tests.run_limited([sys.executable, "-c", code], dict(os.environ))
    assert status == 3 and sorted(output.split()) == ["err", "out"]
