"""Serve `import jax` with lamina's modules.

A finder at the front of `sys.meta_path` makes a view for `jax` and each submodule. A view reads the names of the module of
lamina with the same path, and records the names that are absent. The modules that lamina names otherwise, and inner names of
JAX, come from `lamina_compat.names` and from the modules that `_private_modules` lists.

Child processes inherit the environment: `LAMINA_AS_JAX` holds the level, and `PYTHONPATH` leads to a `sitecustomize` that
installs the finder.
"""
from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dis import opmap
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from typing_extensions import override

from ._missing_names import note_missing
from ._private_modules import PRIVATE_MODULES

__all__ = ["JaxImporter", "as_jax", "install", "installed_level", "installed_version"]

VARIABLE = "LAMINA_AS_JAX"
_SITE = str(Path(__file__).parent / "_site")
# Objects that are passed on as they are: their attributes are assigned, or they are no plain modules.
_UNWRAPPED = frozenset(("config",))
# Modules that are loaded without a view: jaxlib looks for a name in it, which is absent, for each shard.
_UNVIEWED = frozenset(("jax._src.sharding_impls",))


def as_jax(level: str = "0.4.30") -> None:
    """Make `import jax` import lamina, in this process and in the processes that it starts.

    Call it before the first `import jax`: at the top of a notebook or of `conftest.py`. `jax` and its submodules are then
    views of lamina's modules. `jax.__version__` and `importlib.metadata.version("jax")` are "0.4.30", or "0.10.2" from level
    "0.5" on. Settings whose defaults differ between releases follow the level at once, such as the random stream
    (`lamina.config.as_jax` changes these alone).

    Args:
      level: the release of JAX whose interface is offered, from "0.4.30" to "0.12". A later call changes it.
    Raises:
      TypeError: `level` is not a string.
      ValueError: it is not such a release.
      RuntimeError: a real jax is loaded already.

    >>> as_jax("0.3")
    Traceback (most recent call last):
    ValueError: as_jax: level must be a version of JAX from "0.4.30" to "0.12"; got '0.3'
    """
    _set_defaults(level)
    install(level)
    os.environ[VARIABLE] = level
    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p != _SITE]
    os.environ["PYTHONPATH"] = os.pathsep.join([_SITE, *paths])


def installed_level() -> str | None:
    """Return the level of this process; None if `as_jax` was not called."""
    return next((f.level for f in sys.meta_path if isinstance(f, JaxImporter)), None)


def installed_version() -> str:
    """Return `jax.__version__` of this process; that of the default level if `as_jax` was not called."""
    return next((f.version for f in sys.meta_path if isinstance(f, JaxImporter)), "0.4.30")


def install(level: str) -> None:
    """Install the finder in this process only, without loading anything of lamina."""
    importer = next((f for f in sys.meta_path if isinstance(f, JaxImporter)), None)
    if importer is not None:
        importer.set_level(level)
        return
    if "jax" in sys.modules:
        raise RuntimeError("as_jax: a real jax is loaded in this process. Call as_jax before anything imports jax, in a "
                           "process of its own")
    importer = JaxImporter()
    importer.set_level(level)
    sys.meta_path.insert(0, importer)


class JaxImporter(importlib.metadata.DistributionFinder):
    """Finder and loader of `jax`, its submodules, `jaxlib.xla_extension`, and the metadata of the distribution `jax`."""

    level = version = ""

    def set_level(self, level: str) -> None:
        """Change the level, also of modules that are loaded."""
        self.level, self.version = level, "0.4.30" if level.startswith("0.4.") else "0.10.2"
        if "jax" in sys.modules:
            self._show_version(sys.modules["jax"])

    def _show_version(self, view: ModuleType) -> None:
        vars(view).update(__version__=self.version, __version_info__=tuple(map(int, self.version.split("."))))

    @override
    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of a view; None for other modules. ModuleNotFoundError if lamina has no such module of jax."""
        if name == "jaxlib.xla_extension":  # jaxlib 0.5 and later have these names elsewhere
            return None if PathFinder.find_spec(name, path) is not None else ModuleSpec(name, self)  # type: ignore[arg-type]
        if name != "jax" and not name.startswith("jax."):
            return None
        if not _find_parts(name):
            note_missing(name)
            raise ModuleNotFoundError(f"No module named {name!r} in lamina{_explain(name)}", name=name)
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the view, or the module of lamina itself if it must not be wrapped."""
        if spec.name == "jaxlib.xla_extension":
            return View(spec.name, map(importlib.import_module, _find_parts("jax.lib.xla_extension")))
        if spec.name == "jax":
            self._load_lamina()
        parts = [importlib.import_module(part) for part in _find_parts(spec.name)]
        if spec.name in _UNVIEWED:
            return parts[0]
        view = View(spec.name, parts)
        if spec.name == "jax":
            self._show_version(view)
        return view

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the view is complete."""

    def _load_lamina(self) -> None:
        """Import the runtime before `jax` is in `sys.modules`, and choose the defaults of the level."""
        import_module = importlib.import_module
        import_module("lamina_compat._version")
        import_module("lamina").devices  # loads the packages
        import_module("lamina_runtime.stages").Traced.show_program = staticmethod(_show_program)
        import_module("lamina_autodiff").custom_jvp.zero_of_integer = staticmethod(_zero_of_integer)
        import_module("lamina_tracing.extend").hide_frames_of(str(Path(__file__).parent) + os.sep)
        for name in _UNVIEWED:
            if sys.modules.get(name, self) is None:  # the runtime blocks the import of these names
                del sys.modules[name]
        _set_defaults(self.level)

    @override
    def find_distributions(self, context: importlib.metadata.DistributionFinder.Context = (
            importlib.metadata.DistributionFinder.Context())) -> Iterator[importlib.metadata.Distribution]:
        """Yield the distribution `jax` if it is asked for."""
        if (context.name or "").lower() == "jax":
            yield _JaxDistribution(self.version)


def _set_defaults(level: str) -> None:
    """Give the settings of lamina the defaults of a release; an error if there is no such release."""
    importlib.import_module("lamina_ir.config").as_jax(level)


def _show_program(program: Any) -> Any:
    """Return a program in JAX's vocabulary, for `jax.jit(f).trace(...).jaxpr`."""
    return importlib.import_module("lamina_compat._vocabulary").to_jax_program(program)


def _zero_of_integer(aval: Any) -> Any:
    """Return the zero tangent of an integer for a rule: zeros of its own dtype at the level 0.4, else of dtype float0."""
    dtypes, lax = (importlib.import_module(name) for name in ("lamina_ir.dtypes", "lamina_tracing.lax"))
    return lax.full(aval.shape, 0, aval.dtype if installed_version().startswith("0.4.") else dtypes.float0)


class _JaxDistribution(importlib.metadata.Distribution):
    """The metadata of `jax` that libraries read: its name and version."""

    def __init__(self, version: str) -> None:
        self.shown_version = version

    @override
    def read_text(self, filename: str) -> str | None:
        return f"Metadata-Version: 2.1\nName: jax\nVersion: {self.shown_version}\n" if filename == "METADATA" else None

    @override
    def locate_file(self, path: Any) -> Any:
        return Path(__file__).parent / path


def _find_parts(name: str) -> list[str]:
    """Return the modules that a view of `name` reads.

    These are, in this order: the module of `names` with inner names of JAX, modules that a private module of JAX shows, and
    lamina's module of the same path.
    """
    below = name.removeprefix("jax").removeprefix(".")
    found = [f"lamina_compat.names.{below}" if below else "lamina_compat.names"]
    if name in PRIVATE_MODULES:
        for source in PRIVATE_MODULES[name].sources.split():
            found.extend([source] if source.startswith("jaxlib.") else _find_parts(source))
    found.append(f"lamina.{below}" if below else "lamina")
    return [module for module in dict.fromkeys(found) if _exists(module)]


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _explain(name: str) -> str:
    """Return what lamina says about an absent module, after a colon; "" if nothing."""
    module = "lamina." + name.removeprefix("jax.")
    try:
        importlib.import_module(module)
    except ImportError as e:
        # Either Python's own text, or that text, a colon and what to use instead.
        return "".join(str(e).partition(": ")[1:])
    return ""


def _is_from_import(frame: FrameType) -> bool:
    """Whether a frame is at the part of `from module import name` that looks up the name."""
    return frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]


class View(ModuleType):
    """A module whose names are those of other modules; the first that has a name decides. Assignments change that module.

    A name is stored in the view when it is first read, so later reads cost nothing.
    """

    def __init__(self, name: str, parts: Iterable[ModuleType]) -> None:
        super().__init__(name)
        first = next(iter(parts := list(parts)))
        vars(self).update(_parts=parts, __doc__=first.__doc__, __path__=[])

    @override
    def __getattr__(self, name: str) -> Any:
        if name in ("__file__", "__loader__", "__wrapped__", "__getstate__", "_parts"):
            raise AttributeError(name)
        explanation = ""
        for part in vars(self)["_parts"]:
            try:
                value = getattr(part, name)
            except AttributeError as e:
                explanation = explanation or "".join(str(e).partition(": ")[1:])
                continue
            if isinstance(value, ModuleType) and name not in _UNWRAPPED and not isinstance(value, View) and _find_parts(
                    f"{self.__name__}.{name}"):
                return importlib.import_module(f"{self.__name__}.{name}")
            if not name.startswith("__"):
                vars(self)[name] = value
            return value
        if _find_parts(f"{self.__name__}.{name}"):
            return importlib.import_module(f"{self.__name__}.{name}")
        if not name.startswith("_") or name == "_src":  # others are looked up by tools, such as mocks
            note_missing(f"{self.__name__}.{name}")
        text = f"module {self.__name__!r} has no attribute {name!r}{explanation}"
        if explanation and _is_from_import(sys._getframe(1)):
            raise ImportError(f"cannot import name {name!r} from {self.__name__!r}{explanation}", name=self.__name__)
        raise AttributeError(text, name=name)  # without obj=, Python adds no "Did you mean"

    @override
    def __setattr__(self, name: str, value: Any) -> None:
        # The import system sets attributes of the import, and submodules.
        if name.startswith("__") or isinstance(value, ModuleType):
            vars(self)[name] = value
            return
        vars(self).pop(name, None)
        setattr(next((p for p in vars(self)["_parts"] if hasattr(p, name)), vars(self)["_parts"][-1]), name, value)

    @override
    def __delattr__(self, name: str) -> None:
        # `mock.patch` deletes a name that it has assigned, then assigns the former value.
        vars(self).pop(name, None)
        for part in vars(self)["_parts"]:
            if name in vars(part):
                delattr(part, name)
                return

    @override
    def __dir__(self) -> list[str]:
        return sorted({name for part in vars(self)["_parts"] for name in dir(part)})
