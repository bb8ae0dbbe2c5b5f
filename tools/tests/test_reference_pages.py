"""The reference: each public name is told of once, every link leads somewhere, and nothing depends on the run."""
from __future__ import annotations

import importlib
import inspect
import re
from enum import Enum
from pathlib import Path

import numpy as np
import pytest
import reference_facts
import reference_pages
import reference_text as text

FOLDER = Path(__file__).resolve().parent.parent.parent / "docs"


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference_pages.Reference().pages()


def test_every_public_name_has_a_line(pages: dict[str, str]) -> None:
    for module, names in reference_pages.public_modules().items():
        page = reference_pages.page_of(module)
        for name in names:
            value = getattr(importlib.import_module(module), name)
            if inspect.ismodule(value) or type(value).__name__ == "Primitive":
                continue
            assert f"`{f'{module}.{name}'.removeprefix(page + '.')}`" in pages[f"{page}.md"], f"{module}.{name}"


def test_every_link_leads_somewhere(pages: dict[str, str]) -> None:
    anchors = {name: set(reference_pages.anchors([line[3:] for line in page.splitlines() if line.startswith("## ")]).values())
               for name, page in pages.items()}
    for name, page in pages.items():
        for where, anchor in re.findall(r"\]\(([\w./]*)(?:#([\w-]*))?\)", page):
            if where.startswith("../"):
                assert where == "../coverage.md" or (FOLDER / "reference" / where).exists(), f"{name}: {where}"
            else:
                assert where in pages or where == "", f"{name}: {where}"
                assert not anchor or anchor in anchors[where or name], f"{name}: {where}#{anchor}"


def test_no_page_depends_on_the_run(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        assert " at 0x" not in page and "jaxlib._jax" not in page, name
    assert reference_pages.Reference().pages() == pages


def test_the_pages_are_of_a_size_to_read(pages: dict[str, str]) -> None:
    assert sum(map(len, pages.values())) < 1_200_000 and max(map(len, pages.values())) < 150_000


def test_a_function_of_lax_says_what_transformations_do_with_its_op(pages: dict[str, str]) -> None:
    told, table = pages["lamina.lax.md"], pages["lamina.extend.core.primitives.md"]
    assert "**Operation** `sin`: its derivative is a slope; batched by `vmap`; takes float, complex numbers." in told
    assert "**Operation** `floor`: its derivative is zero;" in told
    assert "| `sin_p` | elementwise | a slope | no | yes | yes | float, complex |" in table
    assert "| `add_p` | elementwise | linear | yes | yes | yes | all |" in table


def test_what_is_otherwise_in_jax_stands_at_the_function(pages: dict[str, str]) -> None:
    assert '- `optimize`: in JAX `"optimal"`, here `"auto"`' in pages["lamina.numpy-products.md"]
    assert "- `jnp.cumsum(A, dtype=bool)`: booleans hold no running total." in pages["lamina.numpy-reductions.md"]


def test_check_fails_on_pages_that_are_behind(tmp_path: Path) -> None:
    args = ["--out", str(tmp_path / "reference")]
    assert reference_pages.main(args) == 0
    assert reference_pages.main(["--check", *args]) == 0
    stray = tmp_path / "reference" / "lamina.gone.md"
    stray.write_text("of a module that is gone\n")
    assert reference_pages.main(["--check", *args]) == 1
    assert reference_pages.main(args) == 0 and not stray.exists()
    page = tmp_path / "reference" / "lamina.lax.md"
    page.write_text(page.read_text() + "by hand\n")
    assert reference_pages.main(["--check", *args]) == 1


class Side(Enum):
    LEFT = 1


def test_defaults_are_written_as_in_programs() -> None:
    values = (None, 1.5, Side.LEFT, np.float32, np.dtype("int8"), np.int64(3), (1,), object(), len)
    assert [text.default_text(v) for v in values] == ["None", "1.5", "Side.LEFT", "float32", "int8", "3", "(1,)", "...", "len"]


def test_docstrings_become_markdown() -> None:
    made = text.markdown("What comes out. More.\n\nArgs:\n  a, b: numbers,\n    of any kind.\n  *more: others.\n"
                         "Returns:\n  a sum.\n\n>>> 1 + 1\n2\n")
    assert made == ("What comes out. More.\n\n**Args:**\n\n- `a`, `b`: numbers,\n  of any kind.\n- `*more`: others.\n\n"
                    "**Returns:** a sum.\n\n```python\n>>> 1 + 1\n2\n```")
    assert text.summary("What comes out, e.g. this. More.\n\nArgs:") == "What comes out, e.g. this."


def test_kinds_of_numbers_are_those_that_the_type_rule_takes() -> None:
    from lamina_ir import prims
    assert reference_facts.kinds_of(prims.and_p) == "boolean, integer" and reference_facts.kinds_of(prims.add_p) == "all"
    assert reference_facts.kinds_of(prims.erf_p) == "float" and reference_facts.kinds_of(prims.gather_p) == ""
