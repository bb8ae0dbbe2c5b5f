"""Selection of the implementation of each layer: the default one, or a plugin from another distribution.

The package `lamina_x` is a facade: it re-exports the names of `lamina_x._default`, or of the plugin that was selected
for the layer `x`. Packages of higher layers import `lamina_x` in both cases. A plugin is an ordinary package with all
names of the facade and `__contract__`, the version of the conformance tests for which it was written. The first of
these decides, once, when the facade is imported:

1. `use`,
2. the environment variable `LAMINA_LAYERS=batching=yourlab_batching` (empty: default implementations everywhere),
3. an installed distribution with the entry point `batching = yourlab_batching` in the group `lamina.layers`.

The rules of a layer are a layer of their own, `batching.rules`: a module that defines them when it is imported.
"""
from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Any, ClassVar, NamedTuple

from typing_extensions import override

from ._util.absent_names import explain_absent_names
from ._util.former_names import former_attributes, former_parameters
from ._util.gc_pause import pause_gc
from ._util.layer_import import add_rule_module, import_added_rules, import_rules_later, importing_layer
from .errors import LaminaError

__all__ = ["CONTRACTS", "Layer", "LayerError", "add_rule_module", "deprecated_getattr", "explain_absent_names",
           "former_attributes", "former_parameters", "is_default", "layers", "pause_gc", "reexport_implementation", "use"]

# layer -> version of its conformance tests, increased by changes of behaviour that make correct plugins incorrect
CONTRACTS = {"tracing": 1, "autodiff": 1, "batching": 1, "parallel": 1, "lowering": 1, "runtime": 1, "distributed": 1,
             "numpy": 1, "random": 1, "nn": 1, "scipy": 1, "export": 1, "sparse": 1, "autodiff.rules": 1, "batching.rules": 1,
             "lowering.rules": 1}
GROUP = "lamina.layers"
_VARIABLE = "LAMINA_LAYERS"


class LayerError(LaminaError, ImportError):
    """A plugin for a layer cannot be used, or several are installed and none was selected.

    Fix: install a version of the plugin that fits, or select one with `LAMINA_LAYERS` or `layers.use`.
    """

    code: ClassVar[str] = "LAM1801"


class Layer(NamedTuple):
    """The implementation of a layer.

    Attributes:
      layer: as in `use`: `batching`, `batching.rules`.
      module: import name of the implementation; of a default implementation, that of the package.
      distribution, version: of the installed distribution; None for a module that belongs to none.
      file: the file it was loaded from; None if it is not loaded yet.
      contract: the version of the conformance tests it implements.
      chosen: "default", "installed", "LAMINA_LAYERS" or "use".
    """

    layer: str
    module: str
    distribution: str | None
    version: str | None
    file: str | None
    contract: int
    chosen: str


class _Choice(NamedTuple):
    module: str
    chosen: str  # as in `Layer`
    distribution: str | None = None  # of the entry point

    @override
    def __str__(self) -> str:
        return f"{self.module} of {self.distribution}" if self.distribution else self.module


_used: dict[str, _Choice] = {}
_loaded: dict[str, _Choice] = {}  # layer -> the implementation that its facade re-exports
_installed: list[tuple[str, str, str]] = []  # (layer, module, distribution) of entry points, once `_searched`
_searched: list[bool] = []


def use(**choices: str | ModuleType | None) -> None:
    """Select the implementations of layers, before their packages are first imported.

    Args:
      **choices: layer -> import name of a plugin, or the module itself; None or "default": the default implementation.
        The rules of a layer are written with an underscore: `batching_rules="yourlab_rules"`.
    Raises:
      TypeError: an unknown layer, or a choice that is neither a name nor a module.
      LayerError: the package is in use already, with another implementation.

    >>> use(batching=None)
    >>> use(baching="yourlab_batching")
    Traceback (most recent call last):
    TypeError: use: unknown layer `baching`; expected one of tracing, autodiff, batching, parallel, ...
    """
    chosen = {}
    for name, given in choices.items():
        layer = _layer_name(name.replace("_rules", ".rules").replace("_rows", ".rules"))
        if layer not in CONTRACTS:
            raise TypeError(f"use: unknown layer `{name}`; expected one of {', '.join(CONTRACTS)}")
        if not isinstance(given, str | ModuleType | None):
            raise TypeError(f"use: {name}: expected an import name, a module or None; got {type(given).__name__}: "
                            f"{given!r:.60}")
        module = given.__name__ if isinstance(given, ModuleType) else _module_name(given or "default")
        chosen[layer] = choice = _Choice(module, "use")
        # Modules that imported names of the loaded implementation would keep them.
        if layer in _loaded and _loaded[layer].module != choice.module:
            raise LayerError(f"use: {_package(layer)} is in use already, with the implementation {_loaded[layer]}; "
                             f"call use({name}={module!r}) before any other use of lamina, or set "
                             f"{_VARIABLE}={layer}={module}")
    # Only after all are valid: an error must not leave half of the choices.
    _used.update(chosen)


def layers() -> tuple[Layer, ...]:
    """List the implementation of each layer; for layers that are not loaded yet, the one that would be loaded.

    Returns:
      A `Layer` for each, in the order of `CONTRACTS`.
    Raises:
      LayerError: several plugins are installed for a layer, and none was selected.

    >>> next(found.module for found in layers() if found.layer == "batching")
    'lamina_batching'
    """
    return tuple([_describe(layer, _loaded.get(layer) or _choose(layer)) for layer in CONTRACTS])


def is_default(layer: str) -> bool:
    """Return whether a layer, with its rules, has or would get its default implementation. The layer is not imported.

    Args:
      layer: a key of `CONTRACTS`.

    >>> is_default("batching")
    True
    """
    names = [name for name in (layer, f"{layer}.rules") if name in CONTRACTS]
    return all((_loaded.get(name) or _choose(name)).module == "default" for name in names)


@pause_gc
def reexport_implementation(namespace: dict[str, Any], rule_modules: Sequence[str] = (), *, rules_on_demand: bool = False
                            ) -> None:
    """Re-export the implementation of a layer in its facade, with the names in `__all__` of the default implementation.

    Args:
      namespace: the globals of `lamina_x/__init__.py`.
      rule_modules: modules of the package that define its rules; a plugin for `x.rules` replaces them.
      rules_on_demand: whether to import them when a rule is first read; else, and a plugin, at once and first.
    Raises:
      LayerError: the plugin cannot be imported, lacks names, or is written for another version of the conformance
        tests.
    """
    package = namespace["__name__"]
    layer = package.removeprefix("lamina_")
    with importing_layer():
        own_rules = [f"{package}.{name}" for name in rule_modules]
        _import_implementation(namespace, package, layer, own_rules, rules_on_demand)


def _import_implementation(namespace: dict[str, Any], package: str, layer: str, own_rules: list[str],
                           rules_on_demand: bool) -> None:
    choice = _choose(layer)
    is_default = choice.module == "default"
    if own_rules:
        rules = _choose(f"{layer}.rules")
        is_late = rules_on_demand and is_default and rules.module == "default"
        for module in () if is_late else own_rules if rules.module == "default" else [rules.module]:
            _check_plugin(f"{layer}.rules", rules, _import(f"{layer}.rules", rules, module), ())
        _loaded[f"{layer}.rules"] = rules
    if not is_default:
        namespace["__all__"] = _read_default_all(namespace)
    # If the plugin is being imported: it imports inner modules of the package, and so caused the import of this facade.
    importing = _is_importing(choice.module)
    home = sys.modules[choice.module] if importing else _import(
        layer, choice, f"{package}._default" if is_default else choice.module)
    if is_default:
        namespace["__all__"] = home.__all__
    elif not importing:
        # A plugin that is still being imported lacks names that it defines later, so it is not checked.
        _check_plugin(layer, choice, home, namespace["__all__"])
    if own_rules and is_late:
        import_rules_later(layer, own_rules)
    elif own_rules:
        import_added_rules(layer)
    _loaded[layer] = choice
    namespace["__getattr__"] = _make_getattr(package, layer, choice, home)
    namespace["__dir__"] = lambda: sorted({*namespace, *namespace["__all__"]})
    if importing:
        return
    # Not getattr: names that the implementation creates on first use stay with `__getattr__`.
    names = vars(home)
    namespace.update({name: names[name] for name in namespace["__all__"] if name in names})
    if not is_default:
        for name, value in list(names.items()):  # submodules such as `extend`, for imports by dotted path
            if isinstance(value, ModuleType) and value.__name__ == f"{home.__name__}.{name}":
                sys.modules[f"{package}.{name}"] = namespace[name] = value


def deprecated_getattr(module: str, later: Mapping[str, str] = MappingProxyType({})) -> Callable[[str], object]:
    """Return a `__getattr__` for a public module that serves the former names in the `_deprecated` module of its package.

    Args:
      module: dotted name of the public module.
      later: names that few programs use, and so are imported on demand; each with the module of the package that has it.
    Returns:
      A function that returns the value of a name in `later`, or of a former name, which warns when it is called; else it
      raises AttributeError.
    """
    package = module.partition(".")[0]

    def __getattr__(name: str) -> object:
        if name in later:
            return getattr(import_module(f"{package}.{later[name]}"), name)
        if not name.startswith("_"):
            former = import_module(f"{package}._deprecated")
            if name in former.__all__:
                return getattr(former, name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__


def _make_getattr(package: str, layer: str, choice: _Choice, home: ModuleType) -> Callable[[str], object]:
    """Return the `__getattr__` of a facade, for names that the implementation creates on first use."""
    facade = sys.modules[package]

    def __getattr__(name: str) -> object:
        if name == "__path__":  # the implementation is a module, not a package
            raise AttributeError(name)
        try:
            value = getattr(home, name)
        except AttributeError:
            if choice.module != "default" and name in facade.__all__:
                raise _missing_names_error(layer, choice, [name]) from None
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None
        # Store it, so that the next access does not come here.
        setattr(facade, name, value)
        return value

    return __getattr__


def _read_default_all(namespace: dict[str, Any]) -> list[str]:
    """Read `__all__` of the default implementation without importing it: its dependencies may not be installed."""
    # `get_data` also works for a package in a zip file.
    source = namespace["__spec__"].loader.get_data(namespace["__file__"].replace("__init__", "_default"))
    found = [node.value for node in ast.parse(source).body if isinstance(node, ast.Assign)
             and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"]
    return list(ast.literal_eval(found[0]))


def _package(layer: str) -> str:
    return f"lamina_{layer.removesuffix('.rules')}"


def _is_importing(module: str) -> bool:
    """Whether an import of this module is in progress."""
    # The import system sets this attribute of the spec while the module's code runs.
    return bool(getattr(getattr(sys.modules.get(module), "__spec__", None), "_initializing", False))


def _fix(layer: str, choice: _Choice) -> str:
    """Return advice on how to use another implementation, for the end of error messages."""
    if choice.chosen == "use":
        return f"select another one with lamina.use({layer.replace('.', '_')}=...), or none"
    if choice.chosen == "installed":
        return f"upgrade or uninstall {choice.distribution}, or set {_VARIABLE}= (empty) for default implementations"
    return f"set {_VARIABLE} to another one, or empty for default implementations"


def _import(layer: str, choice: _Choice, module: str) -> ModuleType:
    try:
        return import_module(module)
    except Exception as error:
        if choice.module == "default" or isinstance(error, LayerError):
            raise
        absent = isinstance(error, ModuleNotFoundError) and error.name == module.split(".")[0]
        problem = "there is no such module" if absent else f"importing it raised {type(error).__name__}: {error}"
        raise LayerError(f"{choice} was selected ({choice.chosen}) for the layer `{layer}`, but {problem}; "
                         f"{_fix(layer, choice)}") from error


def _missing_names_error(layer: str, choice: _Choice, names: Sequence[str]) -> LayerError:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    package = _package(layer)
    return LayerError(f"{choice} was selected ({choice.chosen}) for the layer `{layer}`, but lacks "
                      f"{', '.join(names[:6])}{more} of {package}.__all__ (`from {package}._default import *` imports the "
                      f"default ones); {_fix(layer, choice)}")


def _check_plugin(layer: str, choice: _Choice, home: ModuleType, names: Sequence[str]) -> None:
    """Raise LayerError for a plugin that is written for another version of the conformance tests or lacks names."""
    if choice.module == "default":
        return
    contract, required = getattr(home, "__contract__", None), CONTRACTS[layer]
    if contract != required:
        version = "has no `__contract__`" if contract is None else f"has contract {contract!r}"
        is_newer = isinstance(contract, int) and contract > required
        raise LayerError(f"{choice} was selected ({choice.chosen}) for the layer `{layer}`, but {version}; this "
                         f"lamina-ir requires {required}; {'upgrade lamina, or ' if is_newer else ''}"
                         f"{_fix(layer, choice)}")
    missing = [name for name in names if name != "__version__" and not hasattr(home, name)]
    if missing:
        raise _missing_names_error(layer, choice, missing)


def _choose(layer: str) -> _Choice:
    """Select the implementation of a layer: by `use`, the environment variable, or installed entry points."""
    if layer in _used:
        return _used[layer]
    variable = os.environ.get(_VARIABLE)
    if variable is not None:
        selected = _parse_variable(variable)
        # An empty variable selects default implementations everywhere, and overrides installed plugins.
        if layer in selected or not selected:
            return _Choice(selected.get(layer, "default"), _VARIABLE if selected else "default")
    found = [_Choice(module, "installed", by) for declared, module, by in _find_plugins() if declared == layer]
    if len({choice.module for choice in found}) > 1:
        names = " and ".join(map(str, found))
        one = found[0].module
        raise LayerError(f"{names} are installed for the layer `{layer}`; select one with {_VARIABLE}={layer}={one} or "
                         f"with lamina.use({layer.replace('.', '_')}={one!r}) before any other use of lamina, or none "
                         f"with {_VARIABLE}= (empty)")
    return found[0] if found else _Choice("default", "default")


def _parse_variable(text: str) -> dict[str, str]:
    """Parse `batching=yourlab_batching,nn=yourlab_nn` to {layer: module}."""
    selected = {}
    for part in filter(None, map(str.strip, text.split(","))):
        layer, mark, module = map(str.strip, part.partition("="))
        layer, module = _layer_name(layer), _module_name(module)
        if not (layer in CONTRACTS and mark and _is_dotted_name(module)):
            known = f"a layer of {', '.join(CONTRACTS)}"
            expected = "layer=module, separated by commas" if layer in CONTRACTS or not mark else known
            raise LayerError(f"{_VARIABLE}={text}: {part!r}: expected {expected}; set it empty for the default "
                             "implementations")
        selected[layer] = module
    return selected


def _layer_name(name: str) -> str:
    """Return the name of a layer; `batching.rows` was the name of `batching.rules`."""
    return name.removesuffix(".rows") + ".rules" if name.endswith(".rows") else name


def _module_name(name: str) -> str:
    """Return the name of an implementation; "stock" was the name of "default"."""
    return "default" if name == "stock" else name


def _is_dotted_name(module: str) -> bool:
    return all(part.isidentifier() for part in module.split("."))


def _find_plugins() -> list[tuple[str, str, str]]:
    """Return (layer, module, distribution) of the entry points of installed distributions; searched once."""
    if not _searched:
        _installed[:] = dict.fromkeys(_entry_points(sys.path))
        _searched.append(True)
    return _installed


def _entry_points(folders: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Find entry points as `importlib.metadata` does, whose import and search take much longer."""
    for folder in folders:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            # The folders in which installers record the entry points of a distribution.
            if name.endswith((".dist-info", ".egg-info")):
                try:
                    with open(f"{folder or '.'}/{name}/entry_points.txt", encoding="utf-8", errors="replace") as file:
                        text = file.read()
                except OSError:
                    continue
                # Most distributions have other entry points only; a substring test is cheaper than parsing.
                if f"[{GROUP}]" in text:
                    distribution = name.rpartition(".")[0].rpartition("-")[0].replace("_", "-")
                    yield from _parse_entry_points(text, distribution or name)


def _parse_entry_points(text: str, distribution: str) -> Iterator[tuple[str, str, str]]:
    in_group = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            in_group = line == f"[{GROUP}]"
        elif in_group and line and line[0] not in "#;":
            layer, mark, module = map(str.strip, line.partition("="))
            layer = _layer_name(layer)
            if layer not in CONTRACTS or not mark or not _is_dotted_name(module):
                raise LayerError(f"{distribution} declares the entry point {line!r} in the group {GROUP}: expected a layer of "
                                 f"{', '.join(CONTRACTS)} and the import name of a module; upgrade or uninstall "
                                 f"{distribution}, or set {_VARIABLE}= (empty) for the default implementations")
            yield layer, module, distribution


def _describe(layer: str, choice: _Choice) -> Layer:
    module = choice.module if choice.module != "default" else _package(layer)
    loaded = sys.modules.get(module)
    known = choice.distribution or (_package(layer).replace("_", "-") if choice.module == "default" else None)
    return Layer(layer, module, *_distribution(module, known), getattr(loaded, "__file__", None),
                 getattr(loaded, "__contract__", CONTRACTS[layer]), choice.chosen)


def _distribution(module: str, known: str | None) -> tuple[str | None, str | None]:
    """Return (name, version) of the distribution that contains a module."""
    from importlib import metadata  # noqa: PLC0415 (on demand: takes milliseconds to import)

    by = known or next(iter(metadata.packages_distributions().get(module.split(".")[0], ())), None)
    try:
        return (by, metadata.version(by)) if by else (None, None)
    except metadata.PackageNotFoundError:
        return None, None
