"""Pages of the API reference: every public name is in the table of its module, and has one page."""
from __future__ import annotations

import inspect
import re

import api_pages
import lamina
import pytest


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return dict(api_pages.files())


def test_every_public_name_is_in_the_table_of_its_module(files: dict[str, str]) -> None:
    for module, listed in api_pages.entries().items():
        rows = set(re.findall(r"^\| \[?`([^`]+)`", files[f"{module}.md"], re.MULTILINE))
        assert {entry.name for entry in listed} <= rows, module


def test_every_function_and_class_has_a_page_and_links_lead_to_pages(files: dict[str, str]) -> None:
    for name, value in vars(lamina).items():
        if name in lamina.__all__ and inspect.isfunction(value):
            assert f"lamina.{name}.rst" in files
    for name, text in files.items():
        if name.endswith(".md"):
            assert {link for link in re.findall(r"\]\(([\w.]+)\)", text)} <= set(files), name


def test_shared_name_has_one_page(files: dict[str, str]) -> None:
    assert "lamina.sharding.PartitionSpec.rst" in files
    assert [name for name in files if name.endswith(".vmap.rst")] == ["lamina.vmap.rst"]
    assert not [name for name in files if name.startswith("lamina.numpy.dtype.")]  # a class of NumPy


def test_stub_is_filled_by_autodoc(files: dict[str, str]) -> None:
    assert ".. autofunction:: lamina.jit" in files["lamina.jit.rst"]
    assert ".. autoclass:: lamina.sharding.Mesh\n   :members:" in files["lamina.sharding.Mesh.rst"]


def test_docstring_as_markdown() -> None:
    text = ("Add.\n\nArgs:\n  x, y: numbers,\n    or arrays.\n  *more: more.\nReturns:\n  The sum.\n\nDerivative: linear.\n"
            "Source: a page.\n\n>>> add(1, 2)\n3\n")
    assert api_pages.as_markdown(text) == (
        "Add.\n\n**Args**\n\n- `x, y`: numbers,\n  or arrays.\n- `*more`: more.\n\n**Returns**\n\nThe sum.\n\n"
        "Derivative: linear.\n\nSource: a page.\n\n```python\n>>> add(1, 2)\n3\n```")


def test_markdown_page_has_signature_and_example() -> None:
    page = api_pages.markdown_page("lamina.numpy.sin")
    assert page.startswith("# lamina.numpy.sin\n\n```python\nlamina.numpy.sin(x: ArrayLike, /) -> Array\n```\n")
    assert ">>> sin(" in page
