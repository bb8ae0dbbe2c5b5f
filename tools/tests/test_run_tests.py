"""The test runner: targets, summary, time limit."""
from __future__ import annotations

import sys
from functools import partial

import pytest
import run_tests


def test_every_package_and_folder_of_tests_is_a_target() -> None:
    targets = run_tests.all_targets()
    assert {"lamina-ir", "lamina", "tests/property", "tests/public_api", "tools", "docs"} <= set(targets)
    assert run_tests.NEEDS_INDEX not in targets and (run_tests.ROOT / run_tests.NEEDS_INDEX).is_dir()
    assert targets[0] == run_tests.SLOW_TARGETS[0] and set(run_tests.SLOW_TARGETS) <= set(targets)


def test_package_target_includes_docstrings_and_readme() -> None:
    arguments = run_tests.pytest_arguments("lamina-ir")
    assert {"--doctest-modules", "packages/lamina-ir/tests", "packages/lamina-ir/README.md", "lamina_ir"} <= set(arguments)


def test_unknown_target_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_tests.main(["lamina-irr"])
    assert "unknown target lamina-irr; expected" in capsys.readouterr().err


def test_program_that_hangs_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_tests, "TIME_LIMIT", 0.5)
    status, output, seconds = run_tests.run([sys.executable, "-c", "import time; print('started', flush=True); time.sleep(60)"])
    assert status and seconds < 30 and "stopped after 0.5 s" in output


def test_summary_has_a_line_for_each_target_and_the_total(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = {"a": lambda: (0, "...\n12 passed, 1 skipped in 0.34s", 1.0),
            "b": lambda: (1, "4 passed in 0.10s\n2 failed, 3 passed in 1.20s", 2.0)}
    assert run_tests.run_all(jobs, 2) == 1
    *_, first, second, total = capsys.readouterr().out.splitlines()
    assert first == "PASSED a: 12 passed, 1 skipped in 0.34s" and second.startswith("FAILED b: 4 passed in 0.10s; 2 failed")
    assert total.startswith("===== 1 of 2 targets failed, 2 failed, 19 passed, 1 skipped in ")


def test_summary_names_the_test_that_hung() -> None:
    output = ('....Timeout (0:06:40)!\nThread 0x1 (most recent call first):\n  File "/p/subprocess.py", line 9 in communicate\n'
              '  File "/w/tests/a/test_x.py", line 12 in test_it\n  File "<frozen runpy>", line 198 in _run_module_as_main\n')
    assert run_tests.summarize(output).endswith("_run_module_as_main; in test_it (test_x.py:12)")


def test_empty_selection_passes_and_empty_target_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_tests, "run", lambda command, cwd: (run_tests.NO_TESTS_COLLECTED, "no tests ran in 0.01s", 0.1))
    assert [run_tests.run_pytest(["x"], extra)[0] for extra in (["-k", "y"], [])] == [0, run_tests.NO_TESTS_COLLECTED]


@pytest.mark.slow
def test_sample_is_every_fourth_test() -> None:
    job = partial(run_tests.run_pytest, ["tools/tests/test_repository.py"], list(run_tests.SAMPLE))
    assert "1 passed, 2 deselected" in job()[1]
