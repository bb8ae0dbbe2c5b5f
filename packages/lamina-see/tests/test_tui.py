"""The terminal interface, if its optional packages are installed."""
import asyncio

import numpy as np
import pytest
from lamina_see import see
from lamina_see._tui import make_app, rich_text


@pytest.fixture(scope="module")
def facts():
    return see(lambda x: x @ x, seconds=0)(np.ones((8, 8), np.float32)).json()


def test_text_in_colour_has_the_tables(facts):
    pytest.importorskip("rich")
    text = rich_text(facts)
    assert "Compilations" in text and "test_tui.py" in text and "\x1b[" in text


def test_tabs_show_the_tables_and_q_ends(facts):
    pytest.importorskip("textual")

    async def use():
        app = make_app(facts)
        async with app.run_test() as pilot:
            await pilot.pause()
            assert app.query_one("#data-0").row_count >= 1
            await pilot.press("d")
            await pilot.press("q")

    asyncio.run(use())


def test_missing_packages_are_one_sentence(facts, monkeypatch):
    import sys
    for name in ("rich.console", "textual.app"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"lamina-see\[tui\]"):
        rich_text(facts)
    with pytest.raises(ImportError, match=r"lamina-see\[tui\]"):
        make_app(facts)
