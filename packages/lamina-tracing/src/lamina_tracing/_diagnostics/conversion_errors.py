"""Texts of errors about traced values: conversions that need a concrete value, and values that left their function.

`Tracer` imports this module when it raises such an error.
"""
from __future__ import annotations

import sys
from functools import lru_cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
from lamina_ir import Source

from .._core.tracer import Tracer
from .._core.tracer_provenance import Provenance, find_provenance, find_transformed_function
from .leak_holders import describe_creation, describe_holder
from .user_code import Construct, converts_array, find_construct, find_user_frame

__all__ = ["ambiguous_text", "conversion_text", "converts_array", "leak_text", "library_name", "user_line"]

_NEEDS = {  # conversion -> (construct if unknown, what it needs)
    "bool": ("a condition (`if`, `while`, `and`, `not`)", "a Python truth value"),
    "in": ("`in`", "a Python truth value"),
    "int": ("a conversion", "a Python int"), "float": ("a conversion", "a Python float"),
    "complex": ("a conversion", "a Python complex"),
    "index": ("an integer (a length, a shape, an axis, `range`, a position in a list)", "a Python integer"),
    "array": ("a conversion", "a NumPy array"), "item": ("`item`", "a Python number"),
    "tolist": ("`tolist`", "a Python list"), "format": ("formatting", "a Python number"),
    "hash": ("a dictionary key or a static argument", "a hashable Python value"),
    "iter": ("iteration", "a sequence")}
# Functions of `math` and `cmath` -> those of NumPy, where the names differ.
_MATH_NAMES = {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
               "atan2": "arctan2", "atanh": "arctanh", "fabs": "abs", "fsum": "sum", "phase": "angle", "pow": "power"}
_BUILTIN_NAMES = {"abs": "abs", "all": "all", "any": "any", "max": "maximum", "min": "minimum", "pow": "power",
                  "round": "round", "sorted": "sort", "sum": "sum"}
_STATIC_CALLS = ("jit", "pjit", "make_jaxpr", "checkpoint", "remat")
_SIZED = ("arange", "broadcast_to", "empty", "eye", "full", "linspace", "ones", "repeat", "reshape", "tile", "zeros")


def user_line() -> str:
    """Return the user's line that is executed now, as text for messages; "" if there is none.

    >>> user_line()
    ' at <doctest ...>:1 (<module>)'
    """
    frame = find_user_frame()
    return "" if frame is None else f" at {Source(frame.f_code, frame.f_lasti)}"


def conversion_text(x: Tracer, use: str) -> str:
    """Return the error text for a conversion of a traced value.

    Args:
      x: the tracer.
      use: the conversion, a key of `_NEEDS`.
    Returns:
      The construct and its line, the value's origin, and the remedy.
    """
    found = find_construct()
    is_leaked = not x._trace.alive
    provenance = find_provenance(x, found, _creation(x) if is_leaked else "")
    construct, need = _NEEDS[use]
    lead = (found.text or construct) + (f" at {found.where}" if found.where else "")
    if is_leaked:
        return (f"{lead} needs {need}, but this traced value {x.aval.str_long()} has no known number, and its trace has "
                f"ended.{provenance.text} {_stored(x, provenance)}")
    remedy = _remedy(use, found, x)
    if x._concrete_value() is not None and use not in ("format", "hash", "iter"):
        return (f"{lead}: {need} of a {x.aval.str_long()} that is being differentiated would lose its derivative."
                f"{provenance.text} Use {remedy}, or lax.stop_gradient(x) first where a constant is meant.")
    return (f"{lead} needs {need}, but a traced value {x.aval.str_long()} has no known number.{provenance.text} Use "
            f"{remedy}{_make_concrete(use, provenance)}.")


def _creation(x: Tracer) -> str:
    """Return text for the primitive and the line that made a leaked value; "" if it is unknown."""
    return describe_creation(x, getattr(x, "made_by", None), find_transformed_function(x))


def _stored(x: Tracer, provenance: Provenance) -> str:
    holder = describe_holder(x, provenance.function) or "a global, an attribute or a closure of the transformed function"
    return f"It was stored in {holder}. Return it from the function instead."


def ambiguous_text(x: Tracer) -> str:
    """Return the error text for the truth value of a traced array with several elements."""
    found = find_construct()
    at = f" at {found.where}" if found.where else ""
    more = "" if x._concrete_value() is not None else f", and {_remedy('bool', found, x)}"
    return (f"{found.text or 'a condition'}{at}: the truth value of an array with several elements is ambiguous; got "
            f"{x.aval.str_long()}. Use .any() or .all(){more}")


def leak_text(tracer: Tracer | None, use: str) -> str:
    """Return the error text for the use of a traced value whose trace has ended.

    Args:
      tracer: the value; None if unknown.
      use: what got it, such as "`sin`".
    """
    lead = f"{use}{user_line()} was given a traced"
    if tracer is None:
        return f"{lead} value whose trace has ended. Return it from the transformed function instead."
    names = sorted(map(repr, tracer.aval.varying_axes))
    kind = tracer.aval.str_long() + (f" with the named axis {' and '.join(names)}" if names else "")
    provenance = find_provenance(tracer, made=_creation(tracer))
    left = f", that of {provenance.left}" if provenance.left else ""
    # The function is described once; the second time its name is enough.
    name = provenance.left.partition(" at ")[0].partition(",")[0]
    origin = provenance.text.replace(provenance.left, name) if provenance.left else provenance.text
    return f"{lead} {kind} whose trace has ended{left}.{origin} {_stored(tracer, provenance)}"


def _make_concrete(use: str, provenance: Provenance) -> str:
    """Return how to make the value concrete: a static or an unmapped argument; "" if that is not possible."""
    names = " and ".join([f"argument {name}" if name.isdigit() else name for name in provenance.scalars])
    if not provenance.scalars or provenance.is_partial or use == "iter" and provenance.call == "vmap":
        return ""
    if provenance.call == "vmap":
        return f", or do not map {names} (None in in_axes)"
    if provenance.call == "pmap":
        return f", or pass {names} as a static argument (static_broadcasted_argnums)"
    return f", or pass {names} as a static argument (static_argnums)" if provenance.call in _STATIC_CALLS else ""


@lru_cache(maxsize=1)
def library_name() -> str:
    """Return the module that has NumPy's functions for traced values; "" if lamina-numpy is not installed."""
    if find_spec("lamina_numpy") is None:
        return ""
    return "lamina.numpy" if find_spec("lamina") is not None else "lamina_numpy"


class _Names:
    """Names of array functions as the user writes them."""

    def __init__(self, found: Construct) -> None:
        self.library = library_name()
        self.alias = self.library or "numpy"
        for name, value in [] if found.frame is None or not self.library else list(found.frame.f_globals.items()):
            if isinstance(value, ModuleType) and value.__name__ in ("lamina.numpy", "lamina_numpy"):
                self.alias = name

    def find(self, name: str) -> str:
        """Return the function's name with its module; "" if there is no such function."""
        # Not imported here: importing lamina_numpy changes the operators of arrays.
        module: Any = sys.modules.get(self.library, np)
        return f"{self.alias}.{name}" if hasattr(module, name) else ""


def _remedy(use: str, found: Construct, x: Tracer) -> str:
    """Return what to write instead."""
    names = _Names(found)
    if found.kind == "call":
        remedy = _call_remedy(use, found.function, names)
        if remedy:
            return remedy
    return _REMEDIES[use](found.kind, found.function, names)


def _call_remedy(use: str, function: Any, names: _Names) -> str:
    """Return what to call instead of a function that converts a traced value; "" if that is unknown."""
    module, name = getattr(function, "__module__", None) or "", getattr(function, "__name__", "")
    if module in ("math", "cmath"):
        if name in ("erf", "erfc", "lgamma"):
            return f"lax.{name}"
        return names.find(_MATH_NAMES.get(name, name))
    if function is range:
        return "lax.fori_loop to count to it"
    if use in ("int", "float", "complex", "array") and isinstance(function, type) and module in ("builtins", "numpy"):
        return f"x.astype({'' if module == 'builtins' else 'numpy.'}{name})"
    if module == "builtins" or isinstance(getattr(function, "__self__", None), ModuleType) and not module:
        return names.find(_BUILTIN_NAMES[name]) if name in _BUILTIN_NAMES else ""
    if use == "index" and name in _SIZED:
        return "a size that is known while the function is traced, and a mask"
    if module.partition(".")[0] == "numpy" or isinstance(function, np.ufunc):
        if name in ("array", "asarray", "asanyarray", "ascontiguousarray"):
            stack = "numpy.stack(...) to make one array of several"
            return f"{names.find('asarray')}, or {stack}" if names.library else f"the traced value itself, or {stack}"
        return names.find(name) if names.library else ""
    return ""


def _condition_remedy(kind: str, function: Any, names: _Names) -> str:
    where = names.find("where")
    return {"while": "lax.while_loop", "if": f"lax.cond, or {where} to select between two arrays",
            "conditional expression": f"{where}(condition, a, b), or lax.cond",
            "and": f"{names.find('logical_and')} (`a & b`)", "or": f"{names.find('logical_or')} (`a | b`)",
            "not": f"{names.find('logical_not')} (`~a`)", "comparison": "`(a < x) & (x < b)`",
            "comprehension": f"{where} to mask elements",
            "in": f"{names.find('any')}(x == value)",
            "assert": "debug.callback to check the value when the program runs",
            }.get(kind, f"{where} or lax.cond")


def _index_remedy(kind: str, function: Any, names: _Names) -> str:
    if kind == "index":
        take = f"{names.find('take')}(values, i)" if names.library else "lax.dynamic_index_in_dim(values, i)"
        return f"{take} with an array of the values"
    if kind == "operator":
        return "a length that is known while the function is traced"
    return ("x[i] on an array or lax.dynamic_index_in_dim to pick by it, lax.fori_loop to count to it, or a size that is "
            "known while the function is traced")


def _array_remedy(kind: str, function: Any, names: _Names) -> str:
    if names.library:
        return f"the {names.alias} function of the same name, numpy.stack(...) to make one array of several"
    return "a function of lax, numpy.stack(...) to make one array of several, or pure_callback to call NumPy"


def _number_remedy(dtype: str) -> Any:
    def remedy(kind: str, function: Any, names: _Names) -> str:
        if kind == "format":
            return "debug.print to print it when the program runs"
        return f"x.astype({dtype})" + (", or pure_callback to call the function on its value" if kind == "call" else "")
    return remedy


def _iter_remedy(kind: str, function: Any, names: _Names) -> str:
    if kind == "for":
        return "lax.fori_loop to count to it"
    return "an array of rank 1 or more"


def _hash_remedy(kind: str, function: Any, names: _Names) -> str:
    take = f"{names.find('take')}(values, i)" if names.library else "lax.dynamic_index_in_dim(values, i)"
    return f"a key that is known while the function is traced, {take} to pick a value, lax.switch to pick a function"


_REMEDIES: dict[str, Any] = {
    "bool": _condition_remedy, "in": _condition_remedy, "index": _index_remedy, "array": _array_remedy,
    "int": _number_remedy("int"), "float": _number_remedy("float"), "complex": _number_remedy("complex"),
    "item": lambda *_: "the array itself", "tolist": lambda *_: "the array itself", "iter": _iter_remedy,
    "format": lambda *_: "debug.print to print it when the program runs", "hash": _hash_remedy}
