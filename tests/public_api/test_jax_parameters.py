"""Public functions have the parameters of JAX 0.4.30, or the page for users of JAX lists the difference.

`jax_parameters.tsv` contains JAX's parameters, one function per line: `python test_jax_parameters.py jax` in an
environment with JAX prints it. Differences must be in the table of `docs/coming-from/jax.md`.
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
    """Return the text of a literal default; "..." for others."""
    text = repr(value)
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return "..."
    return text


def parameters(fun):
    """Return for each parameter: name, mark of its kind, text of its default ("" if it has none)."""
    return [(p.name, MARKS.get(p.kind, ""), "" if p.default is p.empty else literal(p.default))
            for p in inspect.signature(fun).parameters.values()]


def holder(system, path):
    """Return a module of a system by its path; None if the path is that of a class."""
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
    """Return dotted name -> parameters of the public functions and classes with a signature."""
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


def format_line(name, found):
    return "\t".join([name, *(f"{mark}{n}{'=' if default else ''}{default}" for n, mark, default in found)])


def parse_line(line):
    name, *fields = line.split("\t")
    found = []
    for field in fields:
        bare = field.lstrip("/*!")
        n, _, default = bare.partition("=")
        found.append((n, field[:len(field) - len(bare)], default))
    return name, found


def differences(theirs, ours):
    """Yield the parameters whose use in JAX is not possible here, with the difference."""
    by_name = {n: (mark, default) for n, mark, default in ours if mark in ("", "!")}
    by_position = [n for n, mark, _ in ours if mark in ("", "/")]
    any_position, any_name = (any(mark == m for _, mark, _ in ours) for m in ("*", "**"))
    for i, (n, mark, default) in enumerate(theirs):
        if mark in ("", "!") and n not in by_name and not any_name:
            yield n, "is not accepted by name"
        elif mark in ("", "/") and not any_position and (
                i >= len(by_position) or mark == "" and n in by_position and by_position[i] != n):
            yield n, "is not accepted at its position"
        elif n in by_name and default and not by_name[n][1]:
            yield n, "is required"
        elif n in by_name and default and default != by_name[n][1] and "..." not in (default, by_name[n][1]):
            yield n, f"is {by_name[n][1]} by default, {default} there"
    if not any(mark == "*" for _, mark, _ in theirs):
        positions = sum(mark in ("", "/") for _, mark, _ in theirs)
        for i, (n, mark, default) in enumerate(ours):
            if not default and (mark == "!" or mark in ("", "/") and i >= positions) and n not in [m for m, *_ in theirs]:
                yield n, "is required here only"


if __name__ == "__main__":
    for name, found in functions(sys.argv[1]).items():
        print(format_line(name, found))
    sys.exit()

def listed_differences(text):
    """Yield (pattern of a dotted name, parameters) of each function in the page's table."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| ") or len(cells) != 4 or cells[0] in ("name", "---"):
            continue
        functions, _, rest = cells[0].partition(": ")
        parameters, prefix = re.findall(r"`(\w+)`", rest), ""
        for quoted in re.findall(r"`([^`]+)`", functions):
            call, _, inside = quoted.partition("(")
            prefix = call.rpartition(".")[0] or prefix
            own = [part.partition("=")[0].strip(" )") for part in inside.split(",") if part] or parameters
            yield call if "." in call or not prefix else f"{prefix}.{call}", own


PAGE = list(listed_differences((HERE.parent.parent / "docs" / "coming-from" / "jax.md").read_text(encoding="utf-8")))


def is_listed(name, parameter):
    """Return whether the page lists a parameter of a function; a row without parameters lists all."""
    return any(fnmatch.fnmatchcase(name, pattern) and (not names or parameter in names) for pattern, names in PAGE)


def test_every_difference_from_jax_is_listed():
    ours = functions("lamina")
    unlisted = [f"{name}: {n} {what}" for name, theirs in map(parse_line, TABLE.read_text(encoding="utf-8").splitlines())
              if name in ours for n, what in differences(theirs, ours[name]) if not is_listed(name, n)]
    assert not unlisted, "\n".join(unlisted)


def test_differences_are_found():
    theirs = [("x", "", ""), ("axis", "", "None"), ("keepdims", "!", "False")]
    assert list(differences(theirs, theirs)) == []
    assert list(differences(theirs, theirs[:1])) == [
        ("axis", "is not accepted by name"), ("keepdims", "is not accepted by name")]
    assert list(differences(theirs, [theirs[1], theirs[0], theirs[2]])) == [
        ("x", "is not accepted at its position"), ("axis", "is not accepted at its position")]
    assert list(differences(theirs, [*theirs[:2], ("keepdims", "!", "True")])) == [
        ("keepdims", "is True by default, False there")]
