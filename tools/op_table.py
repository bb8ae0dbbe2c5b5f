"""Writes `docs/ops.md`, every primitive beside what each transformation does with it, and `docs/ops/`, what each is: operands,
params, results, version, meaning. All is read from the live tables, and from `lamina_ir.op_specs`.

usage: python tools/op_table.py [--check] [--out FILE]

`--check` writes nothing and fails where a page differs from the tables. The pages of the families go beside FILE.
"""
from __future__ import annotations

import argparse
import dataclasses
import enum
import inspect
import re
import sys
from pathlib import Path
from typing import Any

from lamina_ir.params import plain_text, type_named

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "ops.md"
HEAD = """# Operations

Written by `tools/op_table.py` from the live tables; do not edit. One row per primitive, one column per room. Each op's
operands, params, results and meaning stand on the page of its family; [conventions](op-conventions.md) hold for all of them,
and [param types](ops/param-types.md) lists the enums and records that stand in params.

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
        lines += [f"## {family}", "", f"[What they are](ops/{family}.md).", "",
                  "| op | params | jvp | transpose | batching | lowering |", "| --- | --- | --- | --- | --- | --- |"]
        for op in ops:
            params = " ".join(f"`{name}`" for name in op.params)
            lines.append(f"| `{op.name}` | {params} | {cell(op, autodiff.jvp_rules, jvp_cell(op, autodiff))} | "
                         f"{cell(op, autodiff.transpose_rules)} | {cell(op, batching.batching_rules)} | "
                         f"{cell(op, lowering.lowering_rules)} |")
        lines.append("")
    if reasons:
        lines += ["## Reasons", "", *(f"{number}. {text}" for number, text in enumerate(reasons, 1)), ""]
    return "\n".join(lines)


def _operands(op: Any, spec: Any) -> str:
    return f"{op.name}({', '.join(spec.operands)})"


def _default(op: Any, param: str) -> str:
    return f"`{plain_text(op.defaults[param])}`" if param in op.defaults else ""


def family_page(family: str, ops: list[Any]) -> str:
    """What the ops of a family are."""
    from lamina_ir.op_specs import intro_of, kind_of_param, meaning_of_param, spec_of
    lines = [f"# {family}", "", "Written by `tools/op_table.py` from `lamina_ir.prims` and `lamina_ir.op_specs`; do not edit. "
             "What holds for all ops: [conventions](../op-conventions.md).", "", intro_of(family), ""]
    for op in ops:
        spec = spec_of(op)
        lines += [f"## `{op.name}`", "", f"`{_operands(op, spec)}`, version {op.version}; source: {op.spec}.", "",
                  f"- Result: {spec.result}.", f"- Meaning: {spec.meaning}"]
        if op.effectful:
            lines.append("- It has an effect beside its results.")
        lines.append("")
        if op.params:
            lines += ["| param | holds | default | meaning |", "| --- | --- | --- | --- |"]
            lines += [f"| `{p}` | {kind_of_param(op, p)} | {_default(op, p)} | {meaning_of_param(op, p)} |" for p in op.params]
            lines.append("")
    return "\n".join(lines)


def _fields(kind: type) -> list[tuple[str, str]]:
    """(field, meaning) of a record, as the `Args` of its docstring say."""
    text = inspect.getdoc(kind) or ""
    _, _, args = re.sub(r"\b(Args|Attributes):\n", "Fields:\n", text).partition("Fields:\n")
    found: dict[str, str] = {}
    for part in re.split(r"\n  (?=\w)", "\n" + args.split("\n\n")[0].split("\nRaises:")[0].rstrip()):
        name, colon, words = part.strip().partition(": ")
        if colon:
            found[name] = " ".join(words.split())
    names = getattr(kind, "_fields", None) or [f.name for f in dataclasses.fields(kind)]
    return [(name, found.get(name, "")) for name in names]


def types_page() -> str:
    """The enums and records that stand in params of built-in ops."""
    from lamina_ir import prims
    from lamina_ir.binds import Indexed, Split
    kinds = sorted({kind for module in prims.FAMILIES for kind in vars(module).values()
                    if isinstance(kind, type) and type_named(kind.__name__) is kind and kind is not prims.Rule}
                   | {Indexed, Split}, key=lambda k: k.__name__)
    lines = ["# Types that stand in params", "", "Written by `tools/op_table.py`; do not edit. In saved programs an enum is `"
             "{\"enum\": [type, member]}`, a record `{\"record\": [type, {field: value}]}`. A field that a file leaves out has "
             "its default.", ""]
    for kind in kinds:
        words = (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")
        lines += [f"## `{kind.__name__}`", "", words, ""]
        if issubclass(kind, enum.Enum):
            lines += [f"An enum: {', '.join(f'`{m.name}`' for m in kind)}.", ""]
            continue
        lines += ["| field | meaning |", "| --- | --- |", *(f"| `{name}` | {meaning} |" for name, meaning in _fields(kind)), ""]
    return "\n".join(lines)


def pages(main: Path) -> dict[Path, str]:
    """Every page, by where it belongs."""
    from lamina_ir import prims
    families: dict[str, list[Any]] = {}
    for op in prims.ALL:
        families.setdefault(op.family, []).append(op)
    folder = main.parent / "ops"
    return {main: page(), folder / "param-types.md": types_page(),
            **{folder / f"{family}.md": family_page(family, ops) for family, ops in families.items()}}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", type=Path, default=PAGE)
    options = parser.parse_args(argv)
    found = pages(options.out)
    if not options.check:
        for path, text in found.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        print(f"op_table: wrote {options.out} and {len(found) - 1} pages in {options.out.parent / 'ops'}")
        return 0
    behind = [path for path, text in found.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in behind:
        print(f"op_table: {path} is behind the tables; run `python tools/op_table.py`")
    if not behind:
        print("op_table: the pages are what the tables say")
    return 1 if behind else 0


if __name__ == "__main__":
    sys.exit(main())
