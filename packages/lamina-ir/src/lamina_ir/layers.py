"""Which implementation stands for each layer: the stock one, or a stand-in of another distribution.

A room `lamina_x` is a face: its names come from `lamina_x.stock`, or from the stand-in that was chosen for the layer `x`. The
rooms above import `lamina_x` and never know. A stand-in is an ordinary package with all names of the face and a number,
`__contract__`, for the meaning it was written against. A choice is made, in this order, by `use`, by the environment
(`LAMINA_LAYERS=batching=yourlab_batching`; empty: the stock everywhere), by the one distribution installed that declares
the entry point `batching = yourlab_batching` in the group `lamina.layers`. It is asked for once, when the face is imported.

The rows of a layer's table are a layer of their own, `batching.rows`: a module that fills the table when it is imported.
"""
from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from .errors import LaminaError

__all__ = ["CONTRACTS", "Layer", "LayerError", "fill", "layers", "use"]

# layer -> the number of its contract: raised when a stand-in that was right would be wrong by a change of meaning
CONTRACTS = {"tracing": 1, "autodiff": 1, "batching": 1, "parallel": 1, "lowering": 1, "runtime": 1, "numpy": 1, "random": 1,
             "nn": 1, "scipy": 1, "export": 1, "autodiff.rows": 1, "batching.rows": 1, "lowering.rows": 1}
GROUP = "lamina.layers"
_VARIABLE = "LAMINA_LAYERS"


class LayerError(LaminaError, ImportError):
    """A stand-in for a layer cannot be used, or none can be told among several."""


class Layer(NamedTuple):
    """What stands for a layer.

    Attributes:
      layer: as in `use`: `batching`, `batching.rows`.
      module: import name of the implementation; of a stock room its own.
      distribution, version: of what is installed; None where a module lies on the path alone.
      file: where it was loaded from, None where it is not loaded yet.
      contract: the number of the contract it keeps.
      chosen: `stock`, `installed`, `LAMINA_LAYERS` or `use`.
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

    def __str__(self) -> str:
        return f"{self.module} of {self.distribution}" if self.distribution else self.module


_used: dict[str, _Choice] = {}
_faces: dict[str, _Choice] = {}  # layer -> what its face was filled from
_installed: list[tuple[str, str, str]] = []  # (layer, module, distribution) of entry points, once they were looked for
_looked: list[bool] = []


def use(**choices: str | ModuleType | None) -> None:
    """Choose what stands for layers, before their rooms are first imported.

    Args:
      **choices: layer -> import name of a stand-in, or the module itself; None or "stock": the stock. The rows of a layer's
        table are named with an underscore: `batching_rows="yourlab_rows"`.
    Raises:
      TypeError: there is no such layer, or a choice is neither a name nor a module.
      LayerError: the room is in use already, with another choice.

    >>> use(batching=None)
    >>> use(baching="yourlab_batching")
    Traceback (most recent call last):
    TypeError: use: there is no layer `baching`; there are tracing, autodiff, batching, parallel, ...
    """
    made = {}
    for name, given in choices.items():
        layer = name.replace("_rows", ".rows")
        if layer not in CONTRACTS:
            raise TypeError(f"use: there is no layer `{name}`; there are {', '.join(CONTRACTS)}")
        if not isinstance(given, str | ModuleType | None):
            raise TypeError(f"use: {name}: expected an import name, a module or None; got {type(given).__name__}: "
                            f"{given!r:.60}")
        module = given.__name__ if isinstance(given, ModuleType) else given or "stock"
        made[layer] = choice = _Choice(module, "use")
        if layer in _faces and _faces[layer].module != choice.module:
            raise LayerError(f"use: {_room(layer)} is in use already, filled from {_faces[layer]}; call use({name}={module!r}) "
                             f"before anything of lamina is used, or set {_VARIABLE}={layer}={module}")
    _used.update(made)


def layers() -> tuple[Layer, ...]:
    """What stands for each layer, for those not loaded yet what would.

    Returns:
      A `Layer` each, in the order of `CONTRACTS`.
    Raises:
      LayerError: several stand-ins are installed for one, and none was chosen.

    >>> next(found.module for found in layers() if found.layer == "batching")
    'lamina_batching'
    """
    return tuple([_described(layer, _faces.get(layer) or _choose(layer)) for layer in CONTRACTS])


def fill(namespace: dict[str, Any], rows: Sequence[str] = ()) -> None:
    """Fill a face: give a room's module the names of its stock's `__all__`, from the stock or from what was chosen for it.

    Args:
      namespace: the globals of `lamina_x/__init__.py`.
      rows: modules of the room that fill its table, which come first; another's where `x.rows` was chosen.
    Raises:
      LayerError: what was chosen cannot be imported, lacks names, or was written against another contract.
    """
    room = namespace["__name__"]
    layer = room.removeprefix("lamina_")
    if rows:
        choice = _choose(f"{layer}.rows")
        for module in [f"{room}.{name}" for name in rows] if choice.module == "stock" else [choice.module]:
            _checked(f"{layer}.rows", choice, _imported(f"{layer}.rows", choice, module), ())
        _faces[f"{layer}.rows"] = choice
    choice = _choose(layer)
    stock = choice.module == "stock"
    if not stock:
        namespace["__all__"] = _names_of(namespace)
    begun = _begun(choice.module)  # a stand-in that imports the room's inner modules itself, and so began all this
    home = sys.modules[choice.module] if begun else _imported(layer, choice, f"{room}.stock" if stock else choice.module)
    if stock:
        namespace["__all__"] = home.__all__
    elif not begun:
        _checked(layer, choice, home, namespace["__all__"])
    _faces[layer] = choice
    namespace["__getattr__"] = _asking(room, layer, choice, home)
    namespace["__dir__"] = lambda: sorted({*namespace, *namespace["__all__"]})
    if begun:
        return
    held = vars(home)
    namespace.update({name: held[name] for name in namespace["__all__"] if name in held})
    if not stock:
        for name, value in list(held.items()):  # its own `extend` and the like, for those who import it by dotted path
            if isinstance(value, ModuleType) and value.__name__ == f"{home.__name__}.{name}":
                sys.modules[f"{room}.{name}"] = namespace[name] = value


def _asking(room: str, layer: str, choice: _Choice, home: ModuleType) -> Callable[[str], Any]:
    """The `__getattr__` of a face: names that its home gives when they are first asked for."""
    face = sys.modules[room]

    def __getattr__(name: str) -> Any:
        if name == "__path__":  # a module that is no package
            raise AttributeError(name)
        try:
            value = getattr(home, name)
        except AttributeError:
            if choice.module != "stock" and name in face.__all__:
                raise _lacking(layer, choice, [name]) from None
            raise AttributeError(f"module {room!r} has no attribute {name!r}") from None
        setattr(face, name, value)
        return value

    return __getattr__


def _names_of(namespace: dict[str, Any]) -> list[str]:
    """The `__all__` of a room's stock, without running it: it may need what is not installed beside a stand-in."""
    source = namespace["__spec__"].loader.get_data(namespace["__file__"].replace("__init__", "stock"))
    found = [node.value for node in ast.parse(source).body if isinstance(node, ast.Assign)
             and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"]
    return list(ast.literal_eval(found[0]))


def _room(layer: str) -> str:
    return f"lamina_{layer.removesuffix('.rows')}"


def _begun(module: str) -> bool:
    """Whether an import of this module has begun and not ended."""
    return bool(getattr(getattr(sys.modules.get(module), "__spec__", None), "_initializing", False))


def _remedy(layer: str, choice: _Choice) -> str:
    if choice.chosen == "use":
        return f"choose another by lamina.use({layer.replace('.', '_')}=...), or none"
    if choice.chosen == "installed":
        return f"upgrade or uninstall {choice.distribution}, or set {_VARIABLE}= (empty) for the stock layers"
    return f"set {_VARIABLE} to another one, or empty for the stock layers"


def _imported(layer: str, choice: _Choice, module: str) -> ModuleType:
    try:
        return import_module(module)  # which one is known only now
    except Exception as error:
        if choice.module == "stock" or isinstance(error, LayerError):
            raise
        absent = isinstance(error, ModuleNotFoundError) and error.name == module.split(".")[0]
        what = "there is no such module" if absent else f"importing it raised {type(error).__name__}: {error}"
        raise LayerError(f"{choice} was chosen ({choice.chosen}) for the layer `{layer}`, and {what}; "
                         f"{_remedy(layer, choice)}") from error


def _lacking(layer: str, choice: _Choice, names: Sequence[str]) -> LayerError:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    room = _room(layer)
    return LayerError(f"{choice} was chosen ({choice.chosen}) for the layer `{layer}`, and lacks {', '.join(names[:6])}{more} "
                      f"of {room}.__all__ (`from {room}.stock import *` gives the stock's); {_remedy(layer, choice)}")


def _checked(layer: str, choice: _Choice, home: ModuleType, names: Sequence[str]) -> None:
    """Refuse a stand-in of another contract, or without some of the names."""
    if choice.module == "stock":
        return
    contract, ours = getattr(home, "__contract__", None), CONTRACTS[layer]
    if contract != ours:
        kept = "says no `__contract__`" if contract is None else f"keeps contract {contract!r}"
        older = isinstance(contract, int) and contract > ours
        raise LayerError(f"{choice} was chosen ({choice.chosen}) for the layer `{layer}`, and {kept}, where this lamina-ir "
                         f"asks for {ours}; {'upgrade lamina, or ' if older else ''}{_remedy(layer, choice)}")
    missing = [name for name in names if name != "__version__" and not hasattr(home, name)]
    if missing:
        raise _lacking(layer, choice, missing)


def _choose(layer: str) -> _Choice:
    """What stands for a layer, by `use`, the environment, or what is installed."""
    if layer in _used:
        return _used[layer]
    said = os.environ.get(_VARIABLE)
    if said is not None:
        named = _read(said)
        if layer in named or not named:
            return _Choice(named.get(layer, "stock"), _VARIABLE if named else "stock")
    found = [_Choice(module, "installed", by) for declared, module, by in _declared() if declared == layer]
    if len({choice.module for choice in found}) > 1:
        names = " and ".join(map(str, found))
        one = found[0].module
        raise LayerError(f"{names} are installed for the layer `{layer}`; choose one by {_VARIABLE}={layer}={one}, by "
                         f"lamina.use({layer.replace('.', '_')}={one!r}) before anything of lamina is used, or none by "
                         f"{_VARIABLE}= (empty)")
    return found[0] if found else _Choice("stock", "stock")


def _read(said: str) -> dict[str, str]:
    """`batching=yourlab_batching,autodiff=stock` -> {layer: module}."""
    named = {}
    for part in filter(None, map(str.strip, said.split(","))):
        layer, mark, module = map(str.strip, part.partition("="))
        if not (layer in CONTRACTS and mark and _dotted(module)):
            known = f"a layer of {', '.join(CONTRACTS)}"
            wrong = "layer=module, separated by commas" if layer in CONTRACTS or not mark else known
            raise LayerError(f"{_VARIABLE}={said}: {part!r}: expected {wrong}; set it empty for the stock layers")
        named[layer] = module
    return named


def _dotted(module: str) -> bool:
    return all(part.isidentifier() for part in module.split("."))


def _declared() -> list[tuple[str, str, str]]:
    """(layer, module, distribution) of the entry points of all that is installed; looked for once."""
    if not _looked:
        _installed[:] = dict.fromkeys(_entry_points(sys.path))
        _looked.append(True)
    return _installed


def _entry_points(folders: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """As `importlib.metadata` finds them, which takes 20 times as long to import and to read all that is installed."""
    for folder in folders:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                try:
                    with open(f"{folder or '.'}/{name}/entry_points.txt", encoding="utf-8", errors="replace") as file:
                        text = file.read()
                except OSError:
                    continue
                if f"[{GROUP}]" in text:
                    yield from _of_group(text, name.rpartition(".")[0].rpartition("-")[0].replace("_", "-") or name)


def _of_group(text: str, distribution: str) -> Iterator[tuple[str, str, str]]:
    inside = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            inside = line == f"[{GROUP}]"
        elif inside and line and line[0] not in "#;":
            layer, mark, module = map(str.strip, line.partition("="))
            if layer not in CONTRACTS or not mark or not _dotted(module):
                raise LayerError(f"{distribution} declares the entry point {line!r} in the group {GROUP}: expected a layer of "
                                 f"{', '.join(CONTRACTS)} and the import name of a module; upgrade or uninstall "
                                 f"{distribution}, or set {_VARIABLE}= (empty) for the stock layers")
            yield layer, module, distribution


def _described(layer: str, choice: _Choice) -> Layer:
    module = choice.module if choice.module != "stock" else _room(layer)
    loaded = sys.modules.get(module)
    known = choice.distribution or (_room(layer).replace("_", "-") if choice.module == "stock" else None)
    return Layer(layer, module, *_distribution(module, known), getattr(loaded, "__file__", None),
                 getattr(loaded, "__contract__", CONTRACTS[layer]), choice.chosen)


def _distribution(module: str, known: str | None) -> tuple[str | None, str | None]:
    """(name, version) of the distribution that a module came with."""
    from importlib import metadata  # takes milliseconds to load, and few ask

    by = known or next(iter(metadata.packages_distributions().get(module.split(".")[0], ())), None)
    try:
        return (by, metadata.version(by)) if by else (None, None)
    except metadata.PackageNotFoundError:
        return None, None
