"""Marked lines must be errors, and others must not be."""
import check_typed_program
import pytest


@pytest.mark.slow
@pytest.mark.parametrize("line, passes", [
    ("x: int = 'a'  # wrong: a string", True), ("x: int = 'a'", False), ("x: int = 1  # wrong: an integer", False)])
def test_error_without_mark_and_mark_without_error_fail(line: str, passes: bool) -> None:
    assert (check_typed_program.run_checkers({"typed_case.py": line + "\n"}) == 0) == passes
