"""Writes `docs/ops.md`: every primitive beside what each transformation does with it, read from the live tables.

usage: python tools/op_table.py [--check] [--out FILE]

`--check` writes nothing and fails where the page differs from the tables.
"""
from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "ops.md"
HEAD = """# Operations

Written by `tools/op_table.py` from the live tables; do not edit. One row per primitive, one column per room.

- **jvp**: *slope*: an elementwise derivative; *linear* / *bilinear*: the op itself, applied to the tangents; *zero*:
  the derivative is zero; *rule*: a row of its own.
- **transpose**, **batching**, **lowering**: *rule* where there is a row. A transpose is only asked for where an op is
  linear in an operand.
- A number in brackets points to the reason, at the end of the page, why there is no row.
"""


def jvp_cell(op: Any, tables: Any) -> str:
    """How the op's forward derivative comes about."""
    return getattr(tables.jvp_rules[op], "kind", "rule") if op in tables.jvp_rules else ""


def page() -> str:
    """The whole page."""
    import lamina_parallel  # noqa: F401  (fills the collectives' rows in the tables of the rooms below it)
    from lamina_autodiff import tables as autodiff
    from lamina_batching import tables as batching
    from lamina_ir import prims
    from lamina_lowering import tables as lowering

    reasons: list[str] = []

    def cell(op: Any, table: Any, found: str = "") -> str:
        if found or op in table:
            return found or "rule"
        if op in table.holes:
            text = f"{table.name}: {table.holes[op]}"
            if text not in reasons:
                reasons.append(text)
            return f"[{reasons.index(text) + 1}]"
        return "-"

    families: dict[str, list[Any]] = {}
    for op in prims.ALL:
        families.setdefault(op.family, []).append(op)
    lines = [HEAD, f"{len(prims.ALL)} primitives in {len(families)} families.", ""]
    for family, ops in families.items():
        lines += [f"## {family}", "", "| op | params | jvp | transpose | batching | lowering |",
                  "| --- | --- | --- | --- | --- | --- |"]
        for op in ops:
            params = " ".join(f"`{name}`" for name in op.params)
            lines.append(f"| `{op.name}` | {params} | {cell(op, autodiff.jvp_rules, jvp_cell(op, autodiff))} | "
                         f"{cell(op, autodiff.transpose_rules)} | {cell(op, batching.batching_rules)} | "
                         f"{cell(op, lowering.lowering_rules)} |")
        lines.append("")
    if reasons:
        lines += ["## Reasons", "", *(f"{number}. {text}" for number, text in enumerate(reasons, 1)), ""]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", type=Path, default=PAGE)
    options = parser.parse_args(argv)
    text = page()
    if not options.check:
        options.out.write_text(text, encoding="utf-8")
        print(f"op_table: wrote {options.out}")
        return 0
    if options.out.exists() and options.out.read_text(encoding="utf-8") == text:
        print("op_table: the page is what the tables say")
        return 0
    print(f"op_table: {options.out} is behind the tables; run `python tools/op_table.py`")
    return 1


if __name__ == "__main__":
    sys.exit(main())
