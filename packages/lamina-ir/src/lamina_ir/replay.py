"""Files of failed calls: a program, its arguments, settings and versions, in one file that runs anywhere.

`lamina.replay` writes them. `python -m lamina_ir.replay FILE` runs one with NumPy alone. A file is a zip archive:
`numpy.load` opens it, and loading it executes nothing. docs/reference/saved-calls.md describes the members.
"""
from __future__ import annotations

import io
import json
import math
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import config
from ._core.jaxpr import ClosedJaxpr, Eqn
from ._core.printer import jaxpr_text
from ._core.rewrite import rewrite, walk
from ._evaluate.evaluator import evaluate
from ._evaluate.nonfinite import NonFinite, find_nonfinite_equation, nonfinite_kind
from ._serialize.binary import dumps, loads
from ._types import dtypes
from ._typing import Json
from ._util.short_repr import short_repr
from ._version import __version__
from .errors import CheckError, LaminaError, ProgramError
from .prims.callbacks import HostFunction, debug_callback_p
from .typing import Value

__all__ = ["FORMAT", "FailedCall", "Failure", "KINDS", "NonFinite", "describe_error", "find_nonfinite_equation", "load",
           "main", "nonfinite_kind", "run", "save", "settings_of_file", "using_settings"]

FORMAT = 1
KINDS = ("error", "nonfinite", "difference")
_ABOUT, _PROGRAM, _TEXT = "about.json", "program.lamina", "program.txt"
_CHECKS = frozenset(("debug_nans", "debug_infs", "check_tracer_leaks"))  # they raise where the file is to show what is wrong
_MAX_ABOUT = 1 << 20  # bytes of about.json
_NPY_HEADER = 1 << 14  # bytes by which a .npy member may be longer than its data


class Failure(NamedTuple):
    """What was wrong with a call.

    Attributes:
      kind: "error", "nonfinite" (a result has a NaN or an infinity) or "difference" (from the NumPy evaluation).
      message: one sentence.
      error: the name of the exception class, and its code, if it has one: ("CheckError", "LAM1502"). (): no exception.
      primitive, line: those of the equation that failed first; "": unknown.
    """

    kind: str
    message: str
    error: tuple[str, ...] = ()
    primitive: str = ""
    line: str = ""


class FailedCall(NamedTuple):
    """A call that failed, with all that is needed to repeat it.

    Attributes:
      name: the name of the function.
      call: the kind of call: "jit", "pmap", "evaluation".
      program: the program; its devices are numbers. None if it cannot be saved.
      arguments: the flat arguments, of the types of the program's invars.
      failure: what was wrong.
      results: the flat results of the call, if it has any.
      settings: the settings on which programs depend, if their values are not the initial ones.
      versions: name of a package -> version; also "python" and "platform".
      placement: how the program was placed on devices, as JSON; {} for one device.
      text: the text of the program.
    """

    name: str
    call: str
    program: ClosedJaxpr | None
    arguments: Sequence[np.ndarray]
    failure: Failure
    results: Sequence[np.ndarray] = ()
    settings: dict[str, Any] = {}
    versions: dict[str, str] = {}
    placement: dict[str, Any] = {}
    text: str = ""


# --- writing ----------------------------------------------------------------------------------------------------------
def settings_of_file() -> dict[str, Any]:
    """Return the settings on which programs depend, in this thread, that a file can hold and that are not the initial ones.

    >>> with config.enable_x64(True):
    ...     settings_of_file()
    {'enable_x64': True}
    """
    values = config.keyed_values(config.cache_key())
    return {name: value for name, value in sorted(values.items())
            if name in config.options and name not in _CHECKS and type(value) in (bool, int, str)
            and value != config.options[name].initial}


@contextmanager
def using_settings(failed: FailedCall) -> Iterator[None]:
    """Run a block with the settings of a failed call, in this thread.

    Settings on which programs do not depend, and unknown ones, are ignored: a file cannot change them.
    """
    known = config.keyed_values(config.cache_key())
    with ExitStack() as blocks:
        for name, value in failed.settings.items():
            if name in known and name in config.options and name not in _CHECKS and type(value) in (bool, int, str):
                blocks.enter_context(config.options[name](value))
        yield


def _number_devices(program: ClosedJaxpr) -> ClosedJaxpr:
    """Replace the devices in the params of maps by their ids."""
    def number(devices: Sequence[Any]) -> tuple[int, ...]:
        return tuple([d if isinstance(d, int) else int(getattr(d, "id", i)) for i, d in enumerate(devices)])

    def change(e: Eqn) -> list[Eqn] | None:
        params = dict(e.params)
        if params.get("devices") is not None:
            params["devices"] = number(params["devices"])
        mesh = params.get("mesh")
        if type(mesh) is tuple and len(mesh) == 3 and mesh[2] is not None:
            params["mesh"] = (*mesh[:2], number(mesh[2]))
        if params == e.params:
            return None
        return [Eqn(e.primitive, e.invars, e.outvars, params, e.source)]

    return rewrite(program, change)


def _is_check(e: Eqn) -> bool:
    return e.primitive is debug_callback_p and e.params["callback"].checks


def _drop_prints(program: ClosedJaxpr) -> ClosedJaxpr:
    """Remove effects without results except checks: their Python functions cannot be saved."""
    return rewrite(program, lambda e: [] if e.primitive.effectful and not e.outvars and not _is_check(e) else None)


def _restore_checks(program: ClosedJaxpr, names: Sequence[str]) -> ClosedJaxpr:
    """Give the checks of a loaded program a function that raises, in place of the message that was not saved."""
    def make(name: str) -> HostFunction:
        def fail(*operands: Value) -> tuple[Value, ...]:
            raise CheckError(f"{name}: the check failed")

        return HostFunction.of(fail, name)._replace(checks=True)

    def change(e: Eqn) -> list[Eqn] | None:
        if e.primitive is not debug_callback_p or e.params["callback"].name not in names:
            return None
        return [Eqn(e.primitive, e.invars, e.outvars, {**e.params, "callback": make(e.params["callback"].name)}, e.source)]

    return rewrite(program, change) if names else program


def _array_member(a: np.ndarray) -> bytes:
    """Return a .npy file; types that NumPy does not have are stored as bytes."""
    out = io.BytesIO()
    plain = a if a.dtype.isbuiltin == 1 else np.ascontiguousarray(a).reshape(-1).view(np.uint8)
    np.lib.format.write_array(out, plain, allow_pickle=False)
    return out.getvalue()


def save(path: str | Path, failed: FailedCall) -> None:
    """Write a failed call to a file.

    Args:
      path: the file, which is replaced.
      failed: the call. If its program cannot be saved (`dumps`), the file has its text only, and says why.
    Raises:
      OSError: the file cannot be written.
    """
    about: dict[str, Json] = {
        "format": FORMAT, "name": failed.name, "call": failed.call, "failure": failed.failure._asdict(),
        "settings": dict(failed.settings), "versions": dict(failed.versions), "placement": dict(failed.placement),
        "arguments": [_type_json(a) for a in failed.arguments], "results": [_type_json(a) for a in failed.results]}
    program, text = None, failed.text
    if failed.program is not None:
        text = jaxpr_text(failed.program)
        kept = _drop_prints(failed.program)
        about["checks"] = sorted({e.params["callback"].name for e in walk(kept) if _is_check(e)})
        functions = sorted({e.params["callback"].name for e in walk(kept)
                            if e.primitive.family == "callbacks" and not _is_check(e)})
        try:
            if functions:
                raise ProgramError(f"it calls the Python functions {', '.join(functions)}")
            program = dumps(_number_devices(kept), sources=True)
        except (LaminaError, TypeError) as e:
            about["unsaved"] = str(e)
    members = {_ABOUT: json.dumps(about, indent=1).encode(), _TEXT: text.encode()}
    if program is not None:
        members[_PROGRAM] = program
    members |= {f"argument_{i}.npy": _array_member(a) for i, a in enumerate(failed.arguments)}
    members |= {f"result_{i}.npy": _array_member(a) for i, a in enumerate(failed.results)}
    # Written under another name first, so that a file is complete or absent.
    path = Path(path)
    part = path.with_name(f".{path.name}.part")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _type_json(a: np.ndarray) -> Json:
    return [dtypes.portable_name(a.dtype), list(a.shape)]


# --- reading ----------------------------------------------------------------------------------------------------------
def load(path: str | Path) -> FailedCall:
    """Read a failed call from a file. Nothing in the file is executed, so it may come from an untrusted source.

    Args:
      path: a file written by `save` or `lamina.replay`.
    Raises:
      ProgramError: it is not such a file, is damaged, or was written by a newer version.
      OSError: it cannot be read.
    """
    with Path(path).open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return _read(archive)
        except ProgramError as e:
            raise ProgramError(f"load: {path}: {e}") from None
        except Exception as e:  # the readers of damaged zip, JSON and .npy data raise many kinds
            raise ProgramError(f"load: {path} must be a file of a failed call, written by lamina.replay; got other or "
                               f"damaged data ({type(e).__name__}: {e})") from e


def _read(archive: zipfile.ZipFile) -> FailedCall:
    about = json.loads(_read_member(archive, _ABOUT, _MAX_ABOUT))
    if about["format"] > FORMAT:
        raise ProgramError(f"the format is {about['format']}; this version reads formats 1 to {FORMAT}. Use a newer lamina-ir")
    failure = Failure(**{**about["failure"], "error": tuple(about["failure"]["error"])})
    if failure.kind not in KINDS:
        raise ProgramError(f"the kind of failure must be one of {KINDS}; got {short_repr(failure.kind)}")
    names = archive.namelist()
    program = None
    if _PROGRAM in names:
        program = _restore_checks(loads(_read_member(archive, _PROGRAM)), [str(n) for n in about.get("checks", ())])
    arguments = [_read_array(archive, f"argument_{i}.npy", t) for i, t in enumerate(about["arguments"])]
    results = [_read_array(archive, f"result_{i}.npy", t) for i, t in enumerate(about["results"])]
    if program is not None and [_type_json(a) for a in arguments] != [[dtypes.portable_name(a.dtype), list(a.shape)]
                                                                      for a in program.in_avals]:
        raise ProgramError("the types of the arguments are not those of the program")
    text = _read_member(archive, _TEXT).decode() if _TEXT in names else ""
    if "unsaved" in about:
        text += f"\nThe program could not be saved: {about['unsaved']}"
    return FailedCall(str(about["name"]), str(about["call"]), program, arguments, failure, results,
                      dict(about["settings"]), dict(about["versions"]), dict(about["placement"]), text)


def _read_member(archive: zipfile.ZipFile, name: str, limit: int = 1 << 62) -> bytes:
    if archive.getinfo(name).file_size > limit:
        raise ProgramError(f"{name} has {archive.getinfo(name).file_size:,} bytes, more than {limit:,}")
    return archive.read(name)


def _read_array(archive: zipfile.ZipFile, name: str, declared: Json) -> np.ndarray:
    dtype, shape = dtypes.from_short_name(declared[0]), tuple([int(n) for n in declared[1]])
    n_bytes = dtype.itemsize * math.prod(shape)
    # `ZipFile.read` stops at the size of the member, so a small file cannot expand to more than its arguments.
    data = io.BytesIO(_read_member(archive, name, n_bytes + _NPY_HEADER))
    header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    found_shape, is_fortran, found = header[np.lib.format.read_magic(data)](data)
    plain = (dtype, shape) if dtype.isbuiltin == 1 else (np.dtype(np.uint8), (n_bytes,))
    rest = data.read()
    if (found, found_shape, len(rest)) != (*plain, n_bytes):
        raise ProgramError(f"{name} must be {declared}; got {found}{list(found_shape)} of {len(rest)} bytes")
    return np.frombuffer(rest, dtype).reshape(shape, order="F" if is_fortran else "C").copy()


# --- running with NumPy -----------------------------------------------------------------------------------------------
def describe_error(error: BaseException) -> tuple[str, ...]:
    """Return what identifies the kind of an error: its class, its code, and the status of the backend, if they are known.

    >>> from lamina_ir import ExecutionError
    >>> describe_error(ExecutionError("jit of `f`: the compiled program failed: RESOURCE_EXHAUSTED: Out of memory"))
    ('ExecutionError', 'LAM1500', 'RESOURCE_EXHAUSTED')
    """
    status = re.search(r"(RESOURCE_EXHAUSTED|INTERNAL|INVALID_ARGUMENT|UNIMPLEMENTED|UNKNOWN): ", str(error))
    names = [type(error).__name__, getattr(error, "code", ""), status[1] if status else ""]
    return tuple([name for name in names if name])


def run(failed: FailedCall) -> tuple[bool, str]:
    """Repeat a failed call with the NumPy evaluator.

    Args:
      failed: the call.
    Returns:
      (whether it failed in the same way, a sentence). A difference can only be compared with the saved results: it is
      found again if these are not those of NumPy.
    """
    program, kind = failed.program, failed.failure.kind
    if program is None:
        return False, "the file has the text of the program only, so it cannot be run. Read it with --text"
    if kind == "nonfinite":
        found = find_nonfinite_equation(program, failed.arguments)
        if found is None:
            return False, "with NumPy all results are finite, so the compiled program differs from it"
        return True, f"`{found.eqn.primitive.name}` produced {found.kind} in its result{found.where}"
    try:
        with np.errstate(all="ignore"):
            outs = evaluate(program, *failed.arguments)
    except Exception as e:
        return kind == "error" and describe_error(e) == failed.failure.error, f"{type(e).__name__}: {e}"
    if kind == "error":
        return False, "NumPy runs it without an error"
    differing = [i for i, (a, b) in enumerate(zip(failed.results, outs)) if not _is_roughly_equal(a, b)]
    if not differing:
        return False, "the saved results are those of NumPy"
    return True, f"result {differing[0]} of the compiled program is not that of NumPy"


def _is_roughly_equal(a: np.ndarray, b: np.ndarray) -> bool:
    if not dtypes.is_inexact(a.dtype):
        return bool(np.array_equal(a, b))
    wide = np.complex128 if dtypes.is_complex(a.dtype) else np.float64
    eps = float(dtypes.finfo(a.dtype).eps)
    return bool(np.allclose(a.astype(wide), b.astype(wide), rtol=100 * eps, atol=100 * eps, equal_nan=True))


_USAGE = """usage: python -m lamina_ir.replay [--text] [--json] FILE

Run a failed call, which lamina.replay wrote to FILE, with NumPy. The exit status is 1 if it fails in the same way, 0 if it
does not, 2 if the file cannot be used.

  --text  print the program instead of running it
  --json  print the result as one line of JSON"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command `python -m lamina_ir.replay`.

    Args:
      arguments: those of the command line; None: those of this process.
    Returns:
      The exit status: 1 if the call fails in the same way, 0 if it does not, 2 if the file cannot be used.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    paths = [a for a in given if not a.startswith("-")]
    options = {a for a in given if a.startswith("-")}
    if options & {"-h", "--help"}:
        print(_USAGE)
        return 0
    if len(paths) != 1 or options - {"--text", "--json"}:
        print(_USAGE, file=sys.stderr)
        return 2
    try:
        failed = load(paths[0])
    except (OSError, ProgramError) as e:
        print(f"replay: {e}", file=sys.stderr)
        return 2
    if "--text" in options:
        print(failed.text)
        return 0
    with using_settings(failed):
        failed_again, sentence = run(failed)
    if "--json" in options:
        print(json.dumps({"file": paths[0], "name": failed.name, "kind": failed.failure.kind,
                          "failure": failed.failure.message, "failed_again": failed_again, "result": sentence}))
    else:
        equations = "" if failed.program is None else f", {len(failed.program.eqns)} equations"
        print(f"{failed.call} of `{failed.name}`{equations}, lamina-ir {failed.versions.get('lamina-ir', __version__)}\n"
              f"failed:  {failed.failure.message}\nNumPy:   {sentence}")
    return 2 if failed.program is None else int(failed_again)


if __name__ == "__main__":
    raise SystemExit(main())
