"""Documentation pages that need only lamina-ir: their examples run without any other package."""
import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL


@pytest.mark.skipif(not DOCS.is_dir(), reason="the pages are not part of the package")
@pytest.mark.parametrize("page", ["contributing/writing-a-pass.md", "reference/program-json.md"])
def test_page_examples_run_with_lamina_ir_only(page):
    failed, tried = doctest.testfile(str(DOCS / page), module_relative=False, optionflags=FLAGS)
    assert tried > 5 and not failed
