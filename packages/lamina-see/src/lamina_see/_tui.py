"""A report in the terminal: text in colour with rich, and tables in tabs with textual."""
from __future__ import annotations

import io
import sys
from typing import Any

from ._text import Table, report_tables

__all__ = ["make_app", "rich_text", "run_terminal"]

Row = dict[str, Any]
_MAX_ROWS = 1000  # of a table on the screen
_MISSING = "the terminal interface needs rich and textual; install lamina-see[tui]"


def rich_text(facts: Row) -> str:
    """Return a report as text with colours.

    Raises:
      ImportError: rich is not installed.
    """
    try:
        from rich.console import Console  # noqa: PLC0415 (optional)
        from rich.table import Table as RichTable  # noqa: PLC0415 (optional)
    except ModuleNotFoundError:
        raise ImportError(_MISSING) from None
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=_width())
    for title, head, rows in report_tables(facts):
        table = RichTable(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
        for k, name in enumerate(head):
            width = max(len(row[k]) for row in (head, *rows))  # the last column is cut to the terminal
            table.add_column(name, style="cyan" if name == "line" else "", no_wrap=True, overflow="ellipsis",
                             min_width=min(width, 12) if k == len(head) - 1 else width)
        for row in rows:
            table.add_row(*[text.replace("[", "\\[") for text in row])
        console.print(table)
        console.print()
    for text in facts["problems"]:
        console.print(f"[yellow]Not measured:[/yellow] {text}", highlight=False)
    return str(output.getvalue())


def _width() -> int:
    import shutil  # noqa: PLC0415 (on demand)
    return max(80, shutil.get_terminal_size().columns) if sys.stdout.isatty() else 160


def make_app(facts: Row) -> Any:
    """Return the application that shows a report, with one tab for each table.

    Raises:
      ImportError: textual is not installed.
    """
    try:
        from textual.app import App, ComposeResult  # noqa: PLC0415 (optional)
        from textual.widgets import DataTable, Footer, Header, Static, TabbedContent, TabPane  # noqa: PLC0415 (optional)
    except ModuleNotFoundError:
        raise ImportError(_MISSING) from None
    tables: list[Table] = report_tables(facts, _MAX_ROWS)

    class ReportApp(App[None]):
        """The tables of a report; the keys are shown at the bottom."""

        TITLE = "lamina-see"
        BINDINGS = [("q", "quit", "Quit"), ("d", "toggle_dark", "Dark or light")]

        def compose(self) -> ComposeResult:
            yield Header()
            with TabbedContent():
                for k, (title, _, _) in enumerate(tables):
                    with TabPane(title.partition(":")[0].partition("(")[0][:30], id=f"table-{k}"):
                        yield Static(title, markup=False)
                        yield DataTable(id=f"data-{k}", cursor_type="row", zebra_stripes=True)
                if facts["problems"]:
                    with TabPane("Not measured"):
                        yield Static("\n".join(facts["problems"]), markup=False)
            yield Footer()

        def on_mount(self) -> None:
            for k, (_, head, rows) in enumerate(tables):
                data = self.query_one(f"#data-{k}", DataTable)
                data.add_columns(*head)
                data.add_rows(rows)

        def action_toggle_dark(self) -> None:
            app: Any = self
            app.theme = "textual-light" if app.theme == "textual-dark" else "textual-dark"

    return ReportApp()


def run_terminal(facts: Row) -> None:
    """Show a report in the terminal until the user ends it.

    Raises:
      ImportError: textual is not installed.
    """
    make_app(facts).run()
