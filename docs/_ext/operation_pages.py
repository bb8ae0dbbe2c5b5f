"""Pages about the primitives, from the rule tables and `lamina_ir.op_specs`; docs/_ext/build_docs.py writes them.

`ops.md` shows what each transformation does with each primitive. `ops/<family>.md` specifies the primitives of a family and
`ops/param-types.md` the types of their parameters, for readers of saved programs in other languages. No documentation generator
knows rule tables.
"""
from __future__ import annotations

import dataclasses
import enum
import inspect
import re
from typing import Any

CONVENTIONS = "docs/reference/op-conventions.md"
HEAD = """# Operations

Generated from the rule tables: one line for each primitive, one column for each transformation. The page of a family specifies
operands, parameters, results and meaning; [conventions](CONVENTIONS) hold for all of them, and
[parameter types](ops/param-types.md) lists the enums and records among the parameters.

- **jvp**: *elementwise*: an elementwise derivative; *linear* / *bilinear*: the primitive itself, applied to the tangents;
  *zero*: the derivative is zero; *rule*: a rule of its own.
- **transpose**, **batching**, **lowering**: *rule* if there is one. A transpose is needed only if a primitive is linear in an
  operand.
- A number in brackets is the reason, at the end of the page, why there is no rule.
"""


def table(*columns: str) -> list[str]:
    """Return the first two lines of a table."""
    return [f"| {' | '.join(columns)} |", "|" + " --- |" * len(columns)]


def families() -> dict[str, list[Any]]:
    """Return the primitives of each family."""
    from lamina_ir import prims
    found: dict[str, list[Any]] = {}
    for prim in prims.ALL:
        found.setdefault(prim.family, []).append(prim)
    return found


def rules_page(conventions: str) -> str:
    """Return the page that shows the rules of all primitives."""
    import lamina_parallel  # noqa: F401  (adds the rules of collectives to the tables)
    from lamina_autodiff.extend import jvp_rules, transpose_rules
    from lamina_batching.extend import batching_rules
    from lamina_lowering.extend import lowering_rules
    reasons: list[str] = []

    def cell(prim: Any, rules: Any) -> str:
        if prim in rules:
            return getattr(rules[prim], "kind", "rule") if rules is jvp_rules else "rule"
        if prim not in rules.missing_rules:
            return "-"
        reason = f"{rules.name}: {rules.missing_rules[prim]}"
        if reason not in reasons:
            reasons.append(reason)
        return f"[{reasons.index(reason) + 1}]"

    lines = [HEAD.replace("CONVENTIONS", conventions)]
    for family, prims in families().items():
        lines += [f"## {family}", "", f"[Specification](ops/{family}.md).", "",
                  *table("primitive", "parameters", "jvp", "transpose", "batching", "lowering")]
        for prim in prims:
            params = " ".join(f"`{name}`" for name in prim.params)
            cells = [cell(prim, rules) for rules in (jvp_rules, transpose_rules, batching_rules, lowering_rules)]
            lines.append(f"| `{prim.name}` | {params} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join([*lines, "## Reasons", "", *(f"{number}. {text}" for number, text in enumerate(reasons, 1)), ""])


def family_page(family: str, prims: list[Any], conventions: str) -> str:
    """Return the specification of the primitives of a family."""
    from lamina_ir.op_specs import intro_of, kind_of_param, meaning_of_param, spec_of
    from lamina_ir._types.param_values import format_param
    lines = [f"# {family}", "", f"Generated from `lamina_ir.op_specs`. These [conventions](../{conventions}) hold for all.",
             "", intro_of(family), ""]
    for prim in prims:
        spec = spec_of(prim)
        lines += [f"## `{prim.name}`", "",
                  f"`{prim.name}({', '.join(spec.operands)})`, version {prim.version}; source: {prim.spec}.", "",
                  f"- Result: {spec.result}.", f"- Meaning: {spec.meaning}", *["- It has an effect."] * prim.effectful, ""]
        if prim.params:
            lines += table("parameter", "type", "default", "meaning")
            for name in prim.params:
                default = f"`{format_param(prim.defaults[name])}`" if name in prim.defaults else ""
                lines.append(f"| `{name}` | {kind_of_param(prim, name)} | {default} | {meaning_of_param(prim, name)} |")
            lines.append("")
    return "\n".join(lines)


def field_meanings(record: type) -> dict[str, str]:
    """Return what the docstring of a record says about each field, in `Args:` or `Attributes:`."""
    _, _, text = re.sub(r"\b(Args|Attributes):\n", "Fields:\n", inspect.getdoc(record) or "").partition("Fields:\n")
    found = re.findall(r"^  (\w+): (.*(?:\n   .*)*)", text.split("\n\n")[0], re.MULTILINE)
    meanings = {name: " ".join(meaning.split()) for name, meaning in found}
    names = getattr(record, "_fields", None) or [field.name for field in dataclasses.fields(record)]
    return {name: meanings.get(name, "") for name in names}


def types_page() -> str:
    """Return the page about the enums and records among the parameters of primitives."""
    from lamina_ir import prims
    from lamina_ir._types.param_values import find_param_type
    types = {t for module in prims.FAMILIES for t in vars(module).values()
             if isinstance(t, type) and find_param_type(t.__name__) is t and t is not prims.Rule} | {prims.Indexed, prims.Split}
    lines = ["# Parameter types", "", 'Generated. A saved program holds an enum as `{"enum": [type, member]}` and a record as '
             '`{"record": [type, {field: value}]}`. A field that a file lacks has its default.', ""]
    for kind in sorted(types, key=lambda t: t.__name__):
        lines += [f"## `{kind.__name__}`", "", " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split()), ""]
        if issubclass(kind, enum.Enum):
            lines += [f"An enum: {', '.join(f'`{member.name}`' for member in kind)}.", ""]
        else:
            lines += [*table("field", "meaning"), *(f"| `{name}` | {text} |" for name, text in field_meanings(kind).items())]
            lines.append("")
    return "\n".join(lines)


def pages(conventions: str) -> dict[str, str]:
    """Return the text of each page by file name; `conventions` is the link from `ops.md` to the page of conventions."""
    return {"ops.md": rules_page(conventions), "ops/param-types.md": types_page(),
            **{f"ops/{family}.md": family_page(family, prims, conventions) for family, prims in families().items()}}
