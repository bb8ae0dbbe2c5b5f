"""What the reference says beyond docstrings: what transformations do with an op, what it takes, what is otherwise in JAX.

Read from the live tables, from what the type rules accept, and from the lists of exceptions that tests and pages hold.
"""
from __future__ import annotations

import ast
import fnmatch
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from op_table import jvp_cell

ROOT = Path(__file__).resolve().parent.parent
KINDS = {"boolean": ("bool",), "integer": ("int32", "uint32"), "float": ("float32",), "complex": ("complex64",)}
SLOPES = {"slope": "a slope", "linear": "linear", "bilinear": "linear in each of two", "zero": "zero", "rule": "a rule",
          "split": "a rule"}


def primitive_of(name: str) -> Any:
    """The primitive that a function of `lax` is named after; None where there is none of that name."""
    from lamina_ir import prims
    return next((op for op in prims.ALL if op.name == name), None)


def kinds_of(op: Any) -> str:
    """The kinds of numbers that an op whose operands share one dtype takes, by its type rule; "" for other ops."""
    from lamina_ir import ShapedArray
    from lamina_ir.testing.samples import samples_of

    def takes(row: Any, name: str) -> bool:
        try:
            op.infer(*(ShapedArray(a.shape, np.dtype(name)) for a in row.args), **row.params)
        except Exception:
            return False
        return True

    rows = [row for row in samples_of(op) if row.args and all(isinstance(a, np.ndarray) for a in row.args)
            and len({a.dtype for a in row.args}) == 1]
    if not rows or op.flow is not None or op.axis_params or len(rows) != len(samples_of(op)) and not op.elementwise:
        return ""
    found = [kind for kind, names in KINDS.items() if any(takes(row, name) for row in rows for name in names)]
    return "all" if len(found) == len(KINDS) else ", ".join(found)


def facts(op: Any) -> dict[str, str]:
    """Column -> cell, for one primitive: derivative, transpose, batching, lowering, numbers, what its meaning follows."""
    import lamina_parallel  # noqa: F401  (fills the rows of the collectives)
    from lamina_autodiff import tables as autodiff
    from lamina_batching import tables as batching
    from lamina_lowering import tables as lowering

    def has(table: Any) -> str:
        return "yes" if op in table else "no" if op in table.holes else "-"

    if op.own_bind is not None:
        return {"family": "made of others"} | dict.fromkeys(("derivative", "transposed", "batched", "lowered", "takes"), "")
    slope = jvp_cell(op, autodiff)
    return {"family": op.family, "derivative": SLOPES.get(slope, slope) if slope else has(autodiff.jvp_rules),
            "transposed": has(autodiff.transpose_rules), "batched": has(batching.batching_rules),
            "lowered": has(lowering.lowering_rules), "takes": kinds_of(op)}


def sentence(op: Any) -> str:
    """The same as one line of text."""
    found = facts(op)
    derivative = {"no": "no derivative", "-": "no derivative", "zero": "its derivative is zero",
                  "linear": "linear", "linear in each of two": "linear in each of two operands"}.get(
        found["derivative"], f"its derivative is {found['derivative']}")
    parts = [derivative, "batched by `vmap`" if found["batched"] == "yes" else "not batched"]
    if found["takes"]:
        parts.append("takes numbers of all kinds" if found["takes"] == "all" else f"takes {found['takes']} numbers")
    return f"**Operation** `{op.name}`: {'; '.join(parts)}."


# --- what is otherwise in JAX -------------------------------------------------------------------------------------
class Differences:
    """What tests and `docs/coming-from-jax.md` say is otherwise in JAX 0.4.30, looked up by dotted name."""

    def __init__(self) -> None:
        self.parameters = list(rows_of_page((ROOT / "docs" / "coming-from-jax.md").read_text(encoding="utf-8")))
        self.forms = forms_of_test((ROOT / "tests" / "roof" / "test_call_forms.py").read_text(encoding="utf-8"))

    def lines(self, path: str, name: str, value: Any) -> list[str]:
        """Lines about the function `name` of the module `path`, both without `lamina`."""
        dotted = f"{path}.{name}".lstrip(".")
        try:
            taken = set(inspect.signature(value).parameters)
        except (TypeError, ValueError):
            taken = set()
        found = [(", ".join(f"`{p}`" for p in params) + ": " if params else "") + f"in JAX {there}, here {here}: {why}."
                 for pattern, params, there, here, why in self.parameters
                 if fnmatch.fnmatchcase(dotted, pattern) and why and (not params or taken & set(params) or "*" not in pattern)]
        found += [f"`{form}`: {why}." for form, why in self.forms.get(dotted, {}).items()]
        return [f"- {line}" for line in found]


def rows_of_page(text: str) -> Iterator[tuple[str, list[str], str, str, str]]:
    """(pattern of a dotted name, parameters, there, here, why) of each function that the page's table names."""
    why = ""
    for line in text.splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")]
        if not line.startswith("| ") or len(cells) != 4 or cells[0] in ("where", "---"):
            continue
        why = why if cells[3] == "likewise" else cells[3]
        named, _, after = cells[0].partition(": ")
        params, prefix = re.findall(r"`(\w+)`", after), ""
        for quoted in re.findall(r"`([^`]+)`", named):
            call, _, inside = quoted.partition("(")
            prefix = call.rpartition(".")[0] or prefix
            own = [part.partition("=")[0].strip(" )") for part in inside.split(",") if part] or params
            yield (call if "." in call or not prefix else f"{prefix}.{call}"), own, cells[1], cells[2], why


def forms_of_test(text: str) -> dict[str, dict[str, str]]:
    """Dotted name -> {call: why it means something else here}, from `OTHERWISE` of `test_call_forms.py`."""
    scope: dict[str, Any] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant | ast.Dict):
            exec(compile(ast.Module([node], []), "test_call_forms.py", "exec"), scope)
    found: dict[str, dict[str, str]] = {}
    for form, why in scope["OTHERWISE"].items():
        call = re.match(r"(jnp|jax|J)\.([\w.]+)\(", form)
        if call:
            prefix = {"jnp": "numpy.", "jax": "", "J": "Array."}[call.group(1)]
            found.setdefault(prefix + call.group(2), {})[form] = why
    return found
