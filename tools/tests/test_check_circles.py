"""Circles and hidden imports are found in a small house; the real one has none."""
from __future__ import annotations

from pathlib import Path

import check_circles
import pytest


@pytest.fixture
def house(tmp_path: Path):
    def build(**sources: str) -> Path:
        for name, text in sources.items():
            path = tmp_path / "packages" / "lamina-x" / "src" / "lamina_x" / (name.replace("__", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / "packages" / "lamina-x" / "src" / "lamina_x" / "__init__.py").write_text("from . import a\n")
        return tmp_path
    return build


def test_a_straight_room_passes(house):
    assert not check_circles.breaches(house(a="from .b import f\n", b="import os\n", sub__c="from ..a import f\n"))


@pytest.mark.parametrize("back", ["from .a import g\n", "from . import a\n", "from lamina_x import a\n",
                                  "import lamina_x.a\n", "def f():\n    from .a import g  # later\n",
                                  "if TYPE_CHECKING:\n    from .a import g\n"])
def test_a_circle_is_drawn(house, back):
    found = check_circles.breaches(house(a="from .b import f\n", b=back))
    assert len(found) == 1 and "lamina_x.a (line 1) -> lamina_x.b" in found[0]


def test_the_shortest_circle_is_drawn(house):
    sources = dict(a="from .b import f\n", b="from .c import f\n", c="from .a import f\nfrom .b import g")
    found = check_circles.breaches(house(**sources))
    assert len(found) == 1 and found[0].endswith("lamina_x.b (line 1) -> lamina_x.c (line 2) -> lamina_x.b")


def test_circles_through_folders_are_drawn(house):
    found = check_circles.breaches(house(a="from .sub.c import f\n", sub__c="from .d import f\n", sub__d="from ..a import g"))
    assert len(found) == 1 and "lamina_x.sub.d" in found[0]


def test_imports_inside_functions_say_why(house):
    assert not check_circles.breaches(house(a="def f():\n    import x  # takes a second to load\n"))
    found = check_circles.breaches(house(a="def f():\n    import x\n"))
    assert len(found) == 1 and "a.py:2" in found[0] and "say why" in found[0]


def test_imports_inside_functions_are_few(house):
    many = "def f():\n" + "    import x  # why\n" * (check_circles.MOST_INSIDE + 1)
    assert "at most" in check_circles.breaches(house(a=many))[0]


def test_the_house_has_no_circle():
    assert not check_circles.breaches(check_circles.ROOT)
