"""Evaluate calls of public functions, given as expressions, and record their results.

usage: python call_forms.py ROOT FORMS.json

Evaluates every form of the file with the package ROOT (`lamina`, or JAX as reference) and writes the results of those
that it
accepts: types, shapes and a digest of the numbers. `test_call_forms.py` compares lamina with the results of JAX 0.4.30
in `call_forms.json`. To add a form, add it there with null and run this program with JAX. Numbers are compared with
three digits: a form must be accepted, and have the same meaning.
"""
from __future__ import annotations

import collections
import importlib
import json
import sys
import warnings
from typing import Any

import numpy as np

Point = collections.namedtuple("Point", "x y")


class Holder:
    """An object with `__jax_array__`."""

    def __jax_array__(self) -> Any:
        return importlib.import_module(f"{ROOT}.numpy").arange(3.0)


ROOT = "lamina"


def names(root: str) -> dict[str, Any]:
    """Return the names that forms use."""
    jax = importlib.import_module(root)
    jnp = importlib.import_module(f"{root}.numpy")
    for module in ("nn", "nn.initializers", "random", "tree_util", "dtypes", "lax", "lax.linalg", "tree"):
        importlib.import_module(f"{root}.{module}")
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    m = np.array([[4, 1, 2], [1, 5, 3], [0, 2, 6]], np.float32)
    return {"jax": jax, "jnp": jnp, "np": np, "A": a, "J": jnp.asarray(a), "S": a[:1, :1], "M": m,
            "V6": np.arange(6, dtype=np.float32), "J6": jnp.arange(6.0), "I": np.array([3, 1, 2, 1, 0, 5, 4, 1], np.int32),
            "A4": np.arange(64.0, dtype=np.float32).reshape(4, 4, 4),
            "IMG": np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4),
            "KER": np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2), "Point": Point, "Holder": Holder,
            "SPD": np.array([[4, 1, 0.5], [1, 5, 1], [0.5, 1, 6]], np.float32), "K": jax.random.PRNGKey(0)}


def digest(x: Any) -> str:
    """Return an array's numbers with a few digits; a sum if it is long."""
    values = np.asarray(x)
    if values.dtype.name in ("bfloat16", "float8_e4m3fn", "float16"):
        values = values.astype(np.float32)
    if values.dtype.kind in "fc":
        scale = 3 if str(getattr(x, "dtype", "")) not in ("bfloat16", "float16") else 2
        values = np.round(values, scale) + 0.0
    if values.dtype.kind == "O":
        return "objects"
    if values.size > 12:
        flat = np.nan_to_num(values.ravel().astype(np.complex128), posinf=9.0, neginf=-9.0)
        total = (flat * np.cos(np.arange(flat.size))).sum()
        return f"~{total.real:.0f},{total.imag:.0f}"
    kind = values.dtype.kind
    return " ".join(f"{v:.3g}" if kind == "f" else f"{v.real:.3g}{v.imag:+.3g}j" if kind == "c" else str(v)
                    for v in values.ravel())


def describe(x: Any, deep: int = 0) -> Any:
    """Describe a result, in the same form for every system."""
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        if not hasattr(x, "__array__"):
            return f"type {x.dtype}{tuple(x.shape)}"
        weak = "*" if getattr(x, "weak_type", False) else ""
        return f"{x.dtype}{weak}{tuple(x.shape)}: {digest(x)}".replace(" ", "_")
    if isinstance(x, (list, tuple)) and deep < 4:
        return [describe(y, deep + 1) for y in x]
    if isinstance(x, dict):
        return {str(k): describe(v, deep + 1) for k, v in x.items()}
    if isinstance(x, (bool, int, float, complex, str, type(None))):
        return f"{type(x).__name__} {x:.4g}" if isinstance(x, float) else f"{type(x).__name__} {x}"
    if isinstance(x, np.dtype):
        return f"dtype {x.name}"
    if type(x).__name__ in ("finfo", "iinfo"):
        return f"{type(x).__name__} {x.dtype}"
    return "object"


def evaluate(form: str, scope: dict[str, Any]) -> Any:
    """Evaluate a form; return the description of its result, or the class of its exception."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return describe(eval(form, dict(scope)))  # the forms above
    except Exception as error:
        kind = next(c for c in type(error).__mro__ if c.__module__ == "builtins")
        return f"! {kind.__name__}"


def is_error(out: Any) -> bool:
    """Return whether a form raised an exception."""
    return isinstance(out, str) and out.startswith("! ")


def main() -> None:
    global ROOT
    ROOT, path = sys.argv[1:]
    scope = names(ROOT)
    with open(path, encoding="utf-8") as file:
        table = {form: out for form in json.load(file) if not is_error(out := evaluate(form, scope))}
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(table, indent=0, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
