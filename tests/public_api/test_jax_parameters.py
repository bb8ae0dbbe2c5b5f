"""Whoever calls a public function with the parameters it has in JAX 0.4.30 is understood, or the page on JAX says why not.

`jax_parameters.tsv` holds those parameters, a function a line: `python test_jax_parameters.py jax` in an environment with JAX
prints it. What differs must stand in the table of `docs/tutorials/coming-from-jax.md`.
"""
import ast
import enum
import fnmatch
import importlib
import inspect
import re
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLE = HERE / "jax_parameters.tsv"
KINDS = inspect.Parameter
MARKS = {KINDS.POSITIONAL_ONLY: "/", KINDS.VAR_POSITIONAL: "*", KINDS.KEYWORD_ONLY: "!", KINDS.VAR_KEYWORD: "**"}


def literal(value):
    """The text of a default that every system can have; "..." of others."""
    text = repr(value)
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return "..."
    return text


def parameters(fun):
    """Of each parameter: name, mark of its kind, its default's text ("" where it has none)."""
    return [(p.name, MARKS.get(p.kind, ""), "" if p.default is p.empty else literal(p.default))
            for p in inspect.signature(fun).parameters.values()]


def holder(system, path):
    """A module of a system by its path; None where the path is a class's."""
    found = importlib.import_module(system)
    for part in filter(None, path.split(".")):
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(f"{found.__name__}.{part}")
            except ImportError:
                return None
    return found if inspect.ismodule(found) else None


def functions(system):
    """Dotted name -> parameters, of the public functions and classes that can say what they take."""
    rows = [line.split("\t")[:2] for line in (HERE / "core_names.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    found = {}
    for path, name in rows:
        module = holder(system, path) if name and path.split(".")[0] not in ("Array", "Device") else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = getattr(module, name, None)
        if callable(value) and not isinstance(value, enum.EnumMeta) and not (
                isinstance(value, type) and issubclass(value, BaseException)):
            try:
                found[f"{path}.{name}".lstrip(".")] = parameters(value)
            except (TypeError, ValueError):
                continue
    return found


def written(name, found):
    return "\t".join([name, *(f"{mark}{n}{'=' if default else ''}{default}" for n, mark, default in found)])


def read(line):
    name, *fields = line.split("\t")
    found = []
    for field in fields:
        bare = field.lstrip("/*!")
        n, _, default = bare.partition("=")
        found.append((n, field[:len(field) - len(bare)], default))
    return name, found


def differences(theirs, ours):
    """What a call that JAX takes may not mean here, parameter by parameter."""
    by_name = {n: (mark, default) for n, mark, default in ours if mark in ("", "!")}
    by_place = [n for n, mark, _ in ours if mark in ("", "/")]
    any_place, any_name = (any(mark == m for _, mark, _ in ours) for m in ("*", "**"))
    for i, (n, mark, default) in enumerate(theirs):
        if mark in ("", "!") and n not in by_name and not any_name:
            yield n, "is not taken by name"
        elif mark in ("", "/") and not any_place and (i >= len(by_place) or mark == "" and n in by_place and by_place[i] != n):
            yield n, "is not taken in its place"
        elif n in by_name and default and not by_name[n][1]:
            yield n, "may not be left out"
        elif n in by_name and default and default != by_name[n][1] and "..." not in (default, by_name[n][1]):
            yield n, f"is {by_name[n][1]} by default, {default} there"
    if not any(mark == "*" for _, mark, _ in theirs):
        places = sum(mark in ("", "/") for _, mark, _ in theirs)
        for i, (n, mark, default) in enumerate(ours):
            if not default and (mark == "!" or mark in ("", "/") and i >= places) and n not in [m for m, *_ in theirs]:
                yield n, "is asked for"


if __name__ == "__main__":
    for name, found in functions(sys.argv[1]).items():
        print(written(name, found))
    sys.exit()

def listed_differences(text):
    """(pattern of a dotted name, parameters) of each function that the page's table names."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| ") or len(cells) != 4 or cells[0] in ("where", "---"):
            continue
        functions, _, rest = cells[0].partition(": ")
        parameters, prefix = re.findall(r"`(\w+)`", rest), ""
        for quoted in re.findall(r"`([^`]+)`", functions):
            call, _, inside = quoted.partition("(")
            prefix = call.rpartition(".")[0] or prefix
            own = [part.partition("=")[0].strip(" )") for part in inside.split(",") if part] or parameters
            yield call if "." in call or not prefix else f"{prefix}.{call}", own


PAGE = list(listed_differences((HERE.parent.parent / "docs" / "tutorials" / "coming-from-jax.md").read_text(encoding="utf-8")))


def told(name, parameter):
    """Whether the page tells of a parameter of a function; of one of its rows without parameters, of all."""
    return any(fnmatch.fnmatchcase(name, pattern) and (not names or parameter in names) for pattern, names in PAGE)


def test_every_difference_from_jax_stands_on_the_page():
    ours = functions("lamina")
    untold = [f"{name}: {n} {what}" for name, theirs in map(read, TABLE.read_text(encoding="utf-8").splitlines())
              if name in ours for n, what in differences(theirs, ours[name]) if not told(name, n)]
    assert not untold, "\n".join(untold)


def test_differences_are_seen():
    theirs = [("x", "", ""), ("axis", "", "None"), ("keepdims", "!", "False")]
    assert list(differences(theirs, theirs)) == []
    assert list(differences(theirs, theirs[:1])) == [("axis", "is not taken by name"), ("keepdims", "is not taken by name")]
    assert list(differences(theirs, [theirs[1], theirs[0], theirs[2]])) == [
        ("x", "is not taken in its place"), ("axis", "is not taken in its place")]
    assert list(differences(theirs, [*theirs[:2], ("keepdims", "!", "True")])) == [
        ("keepdims", "is True by default, False there")]
