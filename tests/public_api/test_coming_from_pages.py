"""The tables of calls in `coming-from/numpy.md` are true: each cell is evaluated; no missing parameter is left out.

A cell begins with code: the value of the call, or the exception that it raises; a cell without code is not checked.
`python test_coming_from_pages.py` in an environment with JAX prints the rows whose last column is wrong.
"""
import functools
import importlib
import inspect
import re
import warnings
from pathlib import Path

import numpy as np

if __name__ != "__main__":  # an environment with JAX may lack it
    import pytest

PAGE = Path(__file__).parents[2] / "docs/coming-from/numpy.md"
MODULES = ("fft", "integrate", "linalg", "ndimage", "optimize", "signal", "sparse.linalg", "special", "stats")


def read_rows():
    """Return (call, cells of the other columns) of each row."""
    text = PAGE.read_text(encoding="utf-8").partition("## Calls with different results\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("| `")]
    assert all(len(row) == 4 for row in rows)
    return [(row[0].strip("`"), row[1:]) for row in rows]


ROWS = read_rows()


@functools.cache
def names(numpy, scipy):
    """Return the names that calls use, for the modules with these names."""
    xp, sp = importlib.import_module(numpy), importlib.import_module(scipy)
    for module in MODULES:
        importlib.import_module(f"{scipy}.{module}")
    return {"xp": xp, "sp": sp, "nan": np.nan, "inf": np.inf}


def problem(call, expected, namespace):
    """Return what is wrong with a cell; None if the call gives what the cell says."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = eval(call, {**namespace, "x": namespace["xp"].array([0., 1., 2., 3.])})
    except Exception as error:
        raised = [kind.__name__ for kind in type(error).__mro__]
        return None if expected in raised else f"expected {expected}; raised {type(error).__name__}: {error}"
    if re.fullmatch(r"[A-Z]\w+Error", expected):
        return f"expected {expected}; got {found!r}"
    wanted = eval(expected, {"nan": np.nan, "inf": np.inf})
    if wanted is None or isinstance(wanted, (bool, str)):
        is_equal = found is None if wanted is None else found == wanted
    else:
        is_equal = np.shape(found) == np.shape(wanted) and np.allclose(found, wanted, 1e-4, 1e-6, equal_nan=True)
    return None if is_equal else f"expected {expected}; got {found!r}"


def code(cell):
    """Return the code that a cell begins with; None if there is none."""
    found = re.match(r"`([^`]*)`", cell)
    return found and found[1]


def jax_code(cells, version):
    """Return what a row says about a version of JAX: its own cell, or that of lamina."""
    cell = cells[1] if cells[2] == "as here" else cells[2]
    found = re.search(rf"\b{'0.4.30' if version.startswith('0.4.') else '0.10'} `([^`]*)`", cell)
    return found[1] if found else code(cell)


def numpy_code(cell):
    """Return what a cell says about the NumPy of this environment."""
    found = re.search(r"from 2\.5 on `([^`]*)`", cell)
    return found[1] if found and not np.__version__.startswith("2.4.") else code(cell)


def wrong_jax_cells():
    """Print the rows that are not true of the JAX of this environment."""
    version = importlib.import_module("jax").__version__
    for call, cells in ROWS:
        expected = jax_code(cells, version)
        wrong = expected and problem(call, expected, names("jax.numpy", "jax.scipy"))
        if wrong:
            print(f"{call}: {wrong}")


def missing_parameters(theirs, ours):
    """Return the names of parameters of NumPy's or SciPy's functions that the functions here do not have."""
    found = {}
    for name in dir(ours):
        functions = [getattr(module, name, None) for module in (theirs, ours)]
        if not name.startswith("_") and all(callable(f) and not isinstance(f, type) for f in functions):
            try:
                their, our = (inspect.signature(f).parameters for f in functions)
            except (TypeError, ValueError):
                continue
            for p in their.values():
                if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name not in our:
                    found.setdefault(p.name, []).append(name)
    return found


def test_missing_parameters_are_listed():
    scipy = pytest.importorskip("scipy", "1.17").__name__
    if tuple(map(int, np.__version__.split(".")[:2])) < (2, 4):
        pytest.skip("the table is for NumPy 2.4")
    names("numpy", scipy), names("lamina.numpy", "lamina.scipy")
    paths = ["numpy", "numpy.linalg", "numpy.fft", *(f"scipy.{module}" for module in MODULES)]
    missing = {}
    for path in paths:
        for name, functions in missing_parameters(*(importlib.import_module(p) for p in (path, f"lamina.{path}"))).items():
            missing.setdefault(name, []).extend(f"{path}.{f}" for f in functions)
    table = PAGE.read_text(encoding="utf-8").partition("| parameter | of | instead |\n")[2].partition("\n\n")[0]
    listed = {name for line in table.splitlines()[1:] for name in re.findall(r"`(\w+)`", line.split(" | ")[0])}
    assert not {name: functions for name, functions in missing.items() if name not in listed}
    assert listed - {"disp"} <= set(missing)  # SciPy 1.18 removed `disp`


def pytest_generate_tests(metafunc):
    if "row" not in metafunc.fixturenames:
        return
    metafunc.parametrize("row", ROWS, ids=[call for call, _ in ROWS])


def test_call_has_this_result_here(row):
    call, (_, here, _) = row
    if (expected := code(here)) is not None:
        assert problem(call, expected, names("lamina.numpy", "lamina.scipy")) is None


def test_call_has_this_result_in_numpy_and_scipy(row):
    call, (theirs, _, _) = row
    scipy = pytest.importorskip("scipy", "1.17")
    if tuple(map(int, np.__version__.split(".")[:2])) < (2, 4):
        pytest.skip("the column describes NumPy 2.4")
    if (expected := numpy_code(theirs)) is not None:
        assert problem(call, expected, names("numpy", scipy.__name__)) is None


if __name__ == "__main__":
    wrong_jax_cells()
