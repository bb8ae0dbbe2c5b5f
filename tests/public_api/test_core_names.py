"""Public names of JAX in `core_names.tsv`: a name that exists here must not be removed.

`python tests/public_api/test_core_names.py` prints the missing names; with `--write` it updates the table.
"""
import enum
import importlib
import sys
import warnings
from pathlib import Path
from types import ModuleType

TABLE = Path(__file__).with_name("core_names.tsv")


def rows():
    lines = TABLE.read_text(encoding="utf-8").splitlines()[1:]
    return [tuple(line.split("\t")) for line in lines]


def holder(path):
    """Return the module, class or object of a dotted path below `lamina`, or None."""
    import lamina
    if path in ("Array", "Array.at[]"):
        x = lamina.numpy.arange(3.0)
        return x if path == "Array" else x.at[0]
    found = lamina
    for part in filter(None, path.split(".")):
        try:
            found = getattr(found, part)
        except AttributeError:
            return None
    return found


def has_name(found, name):
    if found is None:
        return False
    if not name:
        return isinstance(found, ModuleType) and importlib.import_module(found.__name__) is found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            getattr(found, name)
        except AttributeError:
            return isinstance(found, type) and instances_have(found, name)
        except Exception:
            return True  # it exists, and refuses this use
    return True


def instances_have(kind, name):
    """Return whether instances of a class get a field in `__init__`, or members of an enumeration have it."""
    if issubclass(kind, enum.Enum):
        return hasattr(next(iter(kind)), name)
    if name in getattr(kind, "__dataclass_fields__", ()):
        return True
    makers = [getattr(c.__init__, "__code__", None) for c in kind.__mro__]
    return any(code is not None and name in code.co_names for code in makers)


def look_up_all():
    holders = {}
    for path, name, _ in rows():
        found = holders[path] if path in holders else holders.setdefault(path, holder(path))
        yield path, name, "yes" if has_name(found, name) else "no"


def test_no_name_is_removed():
    removed = [f"{path}.{name}" for (path, name, before), (*_, now) in zip(rows(), look_up_all()) if before == "yes" != now]
    assert not removed


def test_array_members():
    import lamina
    import lamina.numpy as jnp
    import pytest
    x, device = jnp.arange(3), lamina.devices()[-1]
    assert x.to_device(device).devices() == {device} and x.__array_namespace__().sin is jnp.sin
    assert lamina.Array.sum is type(x).sum and lamina.Array.at is type(x).at and x[2].__hex__() == "0x2"
    with pytest.raises(NotImplementedError, match="x.ravel"):
        x.flat
    assert lamina.dtypes.result_type(1, 2.0, return_weak_type_flag=True)[1] and lamina.dtypes.scalar_type_of(x) is int


if __name__ == "__main__":
    found = list(look_up_all())
    if "--write" in sys.argv:
        TABLE.write_text("".join(["\t".join(row) + "\n" for row in [("module", "name", "present"), *found]]), encoding="utf-8")
    missing = {}
    for path, name, there in found:
        if there == "no":
            missing.setdefault(path, []).append(name or "(import)")
    print("\n".join([f"lamina.{path}: {' '.join(names)}" for path, names in missing.items()]))
    print(f"{sum(r[2] == 'yes' for r in found)} of {len(found)} names exist")
