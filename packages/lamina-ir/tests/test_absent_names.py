"""Explanations of absent names, in a package made for the test."""
import importlib
import importlib.util
import sys

import pytest

MODULE = "from lamina_ir.layers import explain_absent_names\nPRESENT = 1\n{}\nexplain_absent_names(globals())\n"
LAZY = "def __getattr__(name):\n    if name == 'lazy': return 2\n    raise AttributeError('text of the module')\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Make `shop`, which explains `core`, `inner.gone` and `plain.Name`, and return its root module."""
    (tmp_path / "shop" / "inner").mkdir(parents=True)
    for path, text in (("__init__", ""), ("inner/__init__", ""), ("plain", LAZY)):
        (tmp_path / "shop" / f"{path}.py").write_text(MODULE.format(text))
    table = {"core": "use x", "inner.gone": "use y", "plain.Name": "use z"}
    (tmp_path / "shop" / "_absent_names.py").write_text(f"ABSENT = {table}\n")
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    yield importlib.import_module("shop")
    sys.meta_path[:] = finders
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


@pytest.mark.parametrize("line, error, message", [
    ("shop.core", AttributeError, "module 'shop' has no attribute 'core': use x"),
    ("from shop import core", ImportError, "cannot import name 'core' from 'shop': use x"),
    ("import shop.core", ModuleNotFoundError, "No module named 'shop.core': use x"),
    ("import shop.core.deep", ModuleNotFoundError, "No module named 'shop.core': use x"),
    ("from shop.inner import gone", ImportError, "cannot import name 'gone' from 'shop.inner': use y"),
    ("from shop.plain import Name", ImportError, "cannot import name 'Name' from 'shop.plain': use z"),
    ("import shop.plain; shop.plain.Name", AttributeError, "module 'shop.plain' has no attribute 'Name': use z"),
    ("import shop.plain; shop.plain.other", AttributeError, "text of the module"),
    ("shop.other", AttributeError, "module 'shop' has no attribute 'other'"),
    ("import shop.other", ModuleNotFoundError, "No module named 'shop.other'")])
def test_errors_about_absent_names(package, line, error, message):
    with pytest.raises(error) as raised:
        exec(line, {"shop": package})
    assert type(raised.value) is error and str(raised.value) == message


def test_present_names_are_found(package):
    from shop import inner, plain
    assert package.PRESENT == inner.PRESENT == plain.PRESENT == 1 and plain.lazy == 2 and package.inner is inner
    assert not hasattr(package, "core") and getattr(plain, "Name", 3) == 3
    assert importlib.util.find_spec("shop.core") is None and importlib.util.find_spec("shop.plain") is not None


def test_from_import_is_recognized_under_a_tracer(package):
    def tracer(*args):
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        with pytest.raises(ImportError, match="use x"):
            exec("from shop import core")
    finally:
        sys.settrace(before)


def test_table_is_imported_at_the_first_absent_name(package):
    assert "shop._absent_names" not in sys.modules and not hasattr(package, "__wrapped__")
    assert "shop._absent_names" not in sys.modules and not hasattr(package, "other")
    assert "shop._absent_names" in sys.modules
