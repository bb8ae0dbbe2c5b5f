"""The page of all error codes, from the classes and tests/public_api/error_examples.py; docs/_ext/build_docs.py writes it."""
from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from api_pages import as_markdown

EXAMPLES = Path(__file__).resolve().parents[2] / "tests" / "public_api" / "error_examples.py"
HEAD = """# All errors

Generated from the classes, and from programs that raise them. [Errors](../reference/errors.md) shows how to read an error.

The programs start with `import lamina`, `import numpy as np` and `import lamina.numpy as jnp`.
"""
HIDDEN = ("object", "BaseException", "Exception", "LookupError", "ArithmeticError", "OSError")  # not listed as names to catch
BUILTIN = "A public function got a wrong argument. Python or NumPy raise {name} in such a case, so lamina does too."
BUILTIN_FIX = "Correct the argument that the message names."


def families() -> dict[str, str]:
    """Return the title of each family of codes, such as "LAM12", from the docstring of `lamina.errors`."""
    import lamina.errors
    rows = re.findall(r"^ *((?:LAM\d\dxx,? )+) *(.+)$", lamina.errors.__doc__ or "", re.MULTILINE)
    return {family: title for codes, title in rows for family in re.findall(r"(LAM\d\d)xx", codes)}


def find_class(path: str) -> type[Exception]:
    """Import a class by its dotted path."""
    module, _, name = path.rpartition(".")
    found: type[Exception] = getattr(import_module(module), name)
    return found


def section(code: str, example: Any, message: str | None) -> list[str]:
    """Return the section of a code: the names to catch, cause, fix, and an example with its message."""
    error = find_class(example.error)
    name = error.__name__
    about, fix = BUILTIN.format(name=name), BUILTIN_FIX
    if error.__module__ != "builtins":
        about, _, rest = (inspect.getdoc(error) or "").partition("\n\nFix: ")
        fix, _, more = rest.partition("\n\n")
        about = f"{about}\n\n{more}".partition("\n>>> ")[0].strip()
    public = not re.search(r"\._|^builtins", example.error)
    caught = [f"`{example.error}`"] * public + [f"`{base.__name__}`" for base in error.__mro__
                                                 if base.__module__ == "builtins" and base.__name__ not in HIDDEN]
    lines = [f"### {code}: {name}", "", as_markdown(about), "", f"**Fix**: {fix[:1].upper()}{' '.join(fix[1:].split())}", "",
             f"**Catch** {', '.join(dict.fromkeys(caught)) or '`lamina.errors.LaminaError`'}.", ""]
    if example.program:
        where = "two processes of `python -m lamina.launch`" if example.processes > 1 else ""
        lines += [*[f"**Example**, in {where}:", ""] * bool(where), "```python", example.program.strip(), "```", ""]
    if example.reason:
        lines += [f"No example: {example.reason}.", ""]
    return lines + ["```text", message, "```", ""] * (message is not None)  # type: ignore[list-item]




def page() -> str:
    """Return the page of all codes. The programs run in one new process."""
    sys.path.insert(0, str(EXAMPLES.parent))
    examples = import_module("error_examples").EXAMPLES
    done = subprocess.run([sys.executable, str(EXAMPLES)], capture_output=True, text=True, check=True)
    messages, titles, lines, family = json.loads(done.stdout), families(), [HEAD], ""
    for code, example in sorted(examples.items()):
        if code[:5] != family:
            family = code[:5]
            title = titles[family]
            lines += [f"## {family}xx: {title[:1].upper()}{title[1:]}", ""]
        lines += section(code, example, messages.get(code))
    return "\n".join(lines)
