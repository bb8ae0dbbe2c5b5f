"""The tables of state in docs/design/architecture.md list exactly the state that exists."""
import ast
import re
from pathlib import Path

import list_state

PAGE = Path(__file__).parents[2] / "docs" / "design" / "architecture.md"


def listed():
    """Return (path, name) of every line of the tables in the section on state."""
    text = PAGE.read_text().split("## State that outlives a call")[1].split("\n## ")[0]
    found = set()
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 3 and cells[1].endswith(".py`"):
            found.update((cells[1].strip("`"), name) for name in re.findall(r"`(\w+)`", cells[2]))
    return found


def test_all_state_is_listed():
    missing = sorted(list_state.all_state() - listed())
    assert not missing, ("add these to the section on state of docs/design/architecture.md, with lifetime and bound; "
                         f"names of constants are in capitals: {missing}")


def test_listed_state_exists():
    assert not sorted(listed() - list_state.all_state())


def test_state_is_what_a_module_changes():
    tree = ast.parse("""
_TABLE = {}
names = ("a",)
_memo: dict = {}
_fixed = {"a": 1}
_grown = [1]
now = _Now()
_grown.append(2)
@lru_cache(maxsize=3)
def f(x):
    global count
    count = 1
""")
    assert list_state.state_of(tree) == {"_memo", "_grown", "now", "f", "count"}
