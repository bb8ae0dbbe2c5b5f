"""`help()` of every public name starts with what it does, and signatures have typed parameters."""
import enum
import inspect
import pydoc
import re
from collections.abc import Hashable, Iterator
from types import GenericAlias, ModuleType
from typing import Any, get_origin

import lamina
import numpy as np
import pytest
from lamina_ir.config import Option

# Values of these names are types of annotations, or Python's and NumPy's own objects.
NOT_OURS = {"lamina.numpy.dtype", "lamina.numpy.iterable", "lamina.numpy.object_", "lamina.numpy.printoptions",
            "lamina.numpy.set_printoptions", "lamina.numpy.ComplexWarning", "lamina.stages.CompilerOptions"}
# Classes that jaxlib or lamina makes objects of, and those with any keywords.
NOT_CALLED = {"lamina.Device", "lamina.sharding.Sharding", "lamina.profiler.ProfileData", "lamina.profiler.ProfileEvent",
              "lamina.profiler.ProfileLine", "lamina.profiler.ProfilePlane", "lamina.profiler.ProfileOptions",
              "lamina.profiler.TraceAnnotation", "lamina.experimental.pallas.tpu.CompilerParams",
              "lamina.experimental.pallas.tpu.InterpretParams", "lamina.experimental.pallas.triton.CompilerParams"}


def public_names(module: ModuleType, path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield (path, object) of the public names below a module, each object once."""
    for name in getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]:
        value = getattr(module, name)
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, ModuleType):
            if value.__name__.startswith("lamina"):
                yield f"{path}.{name}", value
                yield from public_names(value, f"{path}.{name}", seen)
        else:
            yield f"{path}.{name}", value


def is_annotation(value: Any) -> bool:
    return (isinstance(value, GenericAlias) or get_origin(value) is not None or getattr(value, "_is_protocol", False)
            or value is Any or value is Hashable)


NAMES = [(path, value) for path, value in public_names(lamina, "lamina", set())
         if path not in NOT_OURS and not is_annotation(value) and (callable(value) or isinstance(value, ModuleType))]


def test_walk_finds_the_public_names():
    paths = {path for path, _ in NAMES}
    assert len(paths) > 1500
    assert {"lamina.numpy", "lamina.numpy.linalg.svd", "lamina.grad", "lamina.scipy.stats.gamma.pdf"} <= paths


@pytest.mark.parametrize("kind", ["module", "class", "function", "setting"])
def test_help_starts_with_a_sentence(kind):
    wrong = []
    for path, value in NAMES:
        is_class, is_module = isinstance(value, type), isinstance(value, ModuleType)
        if kind != ("module" if is_module else "class" if is_class else "setting" if isinstance(value, Option) else "function"):
            continue
        text = inspect.getdoc(value) or ""
        first = " ".join(text.split("\n\n")[0].split())
        # Names of functions and modules may begin the sentence: "`python -m lamina program.py`: run a program".
        if not re.match(r"[A-Z0-9`'\"(]|lamina|jax|float|[a-z_]+[:(.]", first) or not re.search(r"[.:]([`)\"']*)$", first):
            wrong.append((path, first[:100]))
        elif first.replace("|", "") not in " ".join(re.sub(r".\x08", "", pydoc.render_doc(value)).replace("|", "").split()):
            wrong.append((path, "help() does not show it"))
    assert not wrong


def test_signatures_have_typed_parameters():
    wrong = []
    for path, value in NAMES:
        if isinstance(value, ModuleType | Option | enum.Enum) or path in NOT_CALLED:
            continue
        if isinstance(value, type) and issubclass(value, enum.Enum | BaseException | np.generic):
            continue
        try:
            parameters = inspect.signature(value).parameters.values()
        except (ValueError, TypeError) as error:
            wrong.append((path, repr(error)))
            continue
        untyped = [p.name for p in parameters if p.annotation is p.empty]
        if untyped:
            wrong.append((path, untyped))
    assert not wrong


def test_versions_of_new_names_are_newer_than_the_first_one():
    wrong = []
    for path, value in NAMES:
        for version in re.findall(r"^\s*\.\. versionadded::(.*)$", inspect.getdoc(value) or "", re.MULTILINE):
            if not re.fullmatch(r" \d+\.\d+\.\d+", version) or tuple(map(int, version.split("."))) <= (0, 1, 0):
                wrong.append((path, version))
    assert not wrong
