"""Explanations of public names that a package does not have: what to use, or that they are planned.

The package lists them in its module `_absent_names`, which is imported when the first absent name is looked up:
`ABSENT`, dotted name below the package -> the end of the error message. An entry of a module is also that of its
submodules.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from importlib import import_module
from opcode import opmap
from types import CodeType, FrameType, ModuleType
from typing import Any

__all__ = ["explain_absent_names", "find_explanation"]

_TABLE = "_absent_names"


def explain_absent_names(namespace: MutableMapping[str, Any]) -> None:
    """Let a module explain the names that it does not have; called at the end of the module.

    `module.name` raises AttributeError, `from module import name` raises ImportError. In the root package, `import
    package.name` of an absent module raises ModuleNotFoundError too. Present names are looked up as before.
    `dir(module)` also lists names of `__all__` that are not loaded yet, unless the module has its own `__dir__`.

    Args:
      namespace: the globals of the module. Its `__getattr__`, if it has one, is asked first.

    >>> namespace = {"__name__": "lamina_ir.dtypes"}  # a package without a table
    >>> explain_absent_names(namespace)
    >>> namespace["__getattr__"]("__wrapped__")
    Traceback (most recent call last):
    AttributeError: module 'lamina_ir.dtypes' has no attribute '__wrapped__'
    """
    module: str = namespace["__name__"]
    lookup: Callable[[str], Any] | None = namespace.get("__getattr__")

    def __getattr__(name: str) -> Any:
        plain = None
        if lookup is not None:
            try:
                return lookup(name)
            except AttributeError as error:
                plain = error
        # Python asks modules for special names all the time; these do not load the table.
        explanation = None if name.startswith("__") else find_explanation(f"{module}.{name}")
        if explanation is None:
            raise plain or AttributeError(f"module {module!r} has no attribute {name!r}") from None
        if _is_from_import(sys._getframe(1)):
            # An AttributeError would be replaced by an ImportError without the explanation.
            raise ImportError(f"cannot import name {name!r} from {module!r}: {explanation}", name=module,
                              path=namespace.get("__file__")) from None
        # With a name and without an object Python does not add "Did you mean: ...".
        raise AttributeError(f"module {module!r} has no attribute {name!r}: {explanation}", name=name) from None

    namespace["__getattr__"] = __getattr__
    namespace.setdefault("__dir__", lambda: sorted({*namespace, *namespace.get("__all__", ())}))
    if "." not in module:
        _install_finder(module)


def find_explanation(dotted: str) -> str | None:
    """Return why a name is absent and what to use, or None for a name that its package does not list.

    Args:
      dotted: the full name, such as `lamina.experimental.sparse.BCOO`.
    Returns:
      The entry of the name, or of the first module around it that has one.
    """
    package, _, rest = dotted.partition(".")
    table: Mapping[str, str] = import_module(f"{package}.{_TABLE}").ABSENT
    parts = rest.split(".")
    return next((table[name] for end in range(1, len(parts) + 1) if (name := ".".join(parts[:end])) in table), None)


def _is_from_import(frame: FrameType) -> bool:
    """Whether a frame is at the part of `from module import name` that looks up the name."""
    return frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]


class _AbsentModuleFinder:
    """Entry at the end of `sys.meta_path`: it finds nothing, and explains imports of modules that a package lists."""

    def __init__(self, package: str) -> None:
        self.prefix = f"{package}."

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """Raise ModuleNotFoundError for an absent module; the arguments are those of all finders."""
        if not name.startswith(self.prefix) or name == f"{self.prefix}{_TABLE}" or _is_question(sys._getframe(1)):
            return
        explanation = find_explanation(name)
        if explanation is not None:
            raise ModuleNotFoundError(f"No module named {name!r}: {explanation}", name=name)


def _is_question(frame: FrameType | None) -> bool:
    """Whether `importlib.util.find_spec` is asking, which returns None for a module that does not exist."""
    code: CodeType | None = getattr(getattr(sys.modules.get("importlib.util"), "find_spec", None), "__code__", None)
    outer = frame.f_back if frame is not None else None  # the function that asks all finders is in between
    return code is not None and outer is not None and outer.f_code is code


def _install_finder(package: str) -> None:
    if not any(isinstance(finder, _AbsentModuleFinder) and finder.prefix == f"{package}." for finder in sys.meta_path):
        sys.meta_path.append(_AbsentModuleFinder(package))
