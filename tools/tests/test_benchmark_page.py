"""The benchmark page is made from the numbers of one run."""
import json
from xml.etree import ElementTree

import benchmark_page as page
import pytest

RESULTS = {
    "date": "2026-01-02", "rounds": 2, "cores": 2, "processor": "A", "system": "Linux", "python": "3.11", "jaxlib": "0.10.2",
    "same": "jax 0.10.2",
    "goals": {"eager_add": [0.8, "same"], "trace_chain": [0.3, "best"], "run_x": [1.0, "run_y"],
              "growth_trace": [1.15, "limit"]},
    "microseconds": {"lamina": {"eager_add": 5.0, "trace_chain": 20.0, "run_x": 3.0, "run_y": 6.0, "growth_trace": 1.0},
                     "jax 0.10.2": {"eager_add": 10.0, "trace_chain": 100.0},
                     "jax 0.4.30": {"eager_add": 1.0, "trace_chain": "no"}}}


def test_ratios_use_the_basis_of_the_row():
    assert page.group_rows(RESULTS) == {
        "Eager operations": [("eager_add", 0.5)], "Tracing and lowering": [("trace_chain", 0.2)],
        "Running compiled programs": [("run_x", 0.5)]}


def test_page_says_machine_date_and_command():
    text = page.make_page(RESULTS)
    assert "2026-01-02" in text and "2 cores" in text and "nox -s bench" in text
    assert "| eager add | 5.0 | 10.0 | 1.0 | 0.50 | same |" in text
    assert "| trace chain | 20.0 | 100.0 | fails | 0.20 | best |" in text


@pytest.mark.parametrize("ratio", [1e-6, 0.5, 1.0, 3.0, 1e6])
def test_plot_is_xml_and_bars_stay_inside(ratio):
    root = ElementTree.fromstring(page.draw([("a", ratio)]))
    width = float(root.get("width"))
    for bar in root.iter("{http://www.w3.org/2000/svg}rect"):
        assert page.MARGIN <= float(bar.get("x")) and float(bar.get("x")) + float(bar.get("width")) <= width


def test_stored_numbers_make_a_page():
    assert set(page.pages()) == {"benchmarks.md", "benchmarks.svg"}


def test_readme_has_the_table_of_the_stored_numbers():
    readme, results = page.README.read_text(encoding="utf-8"), json.loads(page.RESULTS.read_text(encoding="utf-8"))
    assert page.with_table(readme, results) == readme, "run python docs/_ext/benchmark_page.py"


def test_readme_without_a_table_raises():
    with pytest.raises(ValueError, match="one table after the line"):
        page.with_table("# lamina\n", RESULTS)
