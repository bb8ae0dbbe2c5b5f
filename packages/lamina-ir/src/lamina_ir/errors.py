"""The shared error classes. Each also inherits from the built-in exceptions that users expect to catch.

Each class has a stable `code`. Tracebacks end with the line `[LAM1101] lamina.errors, docs/reference/errors`. It is a note
(PEP 678): the message itself, `str(error)`, does not contain it. `error_details` reads the code and parts of the message of
any error.

    LaminaError
      ShapeError (ValueError, TypeError)         shapes, axes or sizes do not fit
      DTypeError (TypeError, ValueError)         an element type is not accepted
      MissingRuleError (NotImplementedError)  a rule table has no rule for a primitive
        UnboundedLoopError, CallbackRuleError (also ValueError)
      SimplifiedTraceback                  never raised
      ShardingTypeError (TypeError, ValueError)  the sharding of a result is ambiguous, on a mesh with `Explicit` axes
        ShardingMismatchError (also AssertionError)  `with_sharding_constraint` found another sharding
      ProgramError (ValueError)            an ill-formed program, text or saved file
      UnboundAxisError (NameError, ValueError, TypeError)  an axis name that is not bound
      ExecutionError (RuntimeError)        a program could not be compiled, or failed while it ran
        CallbackError                      a host callback raised, or returned wrong types
          CheckError                       a `debug.check` failed while the program ran
            OutOfBoundsError (also IndexError)   an index out of bounds, with `debug_bounds`
        OutOfMemoryError (also MemoryError)  a program needs more memory than there is
      KeyReuseError (TypeError)            a random key used twice, with `debug_key_reuse`
      LeakedTracerError (RuntimeError, TypeError)  a tracer used after its trace ended
      ConcretizationError (TypeError)      a tracer used where a concrete value is needed
        TracerBoolError, TracerArrayError, TracerIntegerError
        TracerIndexError (also IndexError)
        StaticArgumentError (also ValueError)  a static argument is a tracer, or is not hashable
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar, NamedTuple, TypeVar

from typing_extensions import override

__all__ = ["CallbackError", "CallbackRuleError", "CheckError", "ConcretizationError", "DTypeError", "ErrorDetails",
           "ExecutionError", "KeyReuseError", "LaminaError", "LeakedTracerError", "MissingRuleError", "OutOfBoundsError",
           "OutOfMemoryError",
           "ProgramError", "ShapeError", "ShardingMismatchError", "ShardingTypeError", "SimplifiedTraceback",
           "StaticArgumentError", "TracerArrayError", "TracerBoolError", "TracerIndexError", "TracerIntegerError",
           "UnboundAxisError", "UnboundedLoopError", "error_details", "mark_builtin_error"]

_E = TypeVar("_E", bound=BaseException)
_PAGE = "lamina.errors, docs/reference/errors"
# The form of messages: `call: argument must be X; got Y. Fix`, or `call: argument: expected X; got Y. Fix`
_CALL = r"((?:[a-z]+ of )?[A-Za-z_][\w.]*(?: of `[^`]*`)?): "
_EXPECTED = (r"(?s)(?:(?P<argument>[^;]{1,80}?) must (?P<must>be .*?|have .*?)|(?:(?P<named>[^;:]{1,80}): )?"
             r"expected (?P<expected>.*?)); got (?P<rest>.*)")
_FIX = r"\. (?=[A-Z])"
# Codes of built-in exceptions that public functions raise for wrong arguments.
BUILTIN_CODES: dict[type[Exception], str] = {
    TypeError: "LAM2001", ValueError: "LAM2002", IndexError: "LAM2003", OverflowError: "LAM2004",
    ZeroDivisionError: "LAM2005", NotImplementedError: "LAM2006", AttributeError: "LAM2007", BufferError: "LAM2008"}
_BUILTIN_NOTES = {code: f"[{code}] {_PAGE}" for code in BUILTIN_CODES.values()}


class ErrorDetails(NamedTuple):
    """Parts of an error, for programs. A part that the message does not have is None.

    Attributes:
      code: the stable code, such as "LAM1101"; None if the error is foreign.
      call: the function that raised, such as "reshape" or "jit of `f`".
      argument: the name of the wrong argument.
      expected, got: what the argument must be, and what it was.
      fix: what to do.
    """

    code: str | None
    call: str | None
    argument: str | None
    expected: str | None
    got: str | None
    fix: str | None


def error_details(error: BaseException) -> ErrorDetails:
    """Read the code of an error, and the parts of its message.

    Args:
      error: an exception of lamina, or a built-in one that a public function raised.
    Returns:
      An `ErrorDetails`.
    Raises:
      TypeError: `error` is not an exception.

    >>> error_details(DTypeError("fft: x must be complex; got float32[8]. Use rfft"))
    ErrorDetails(code='LAM1102', call='fft', argument='x', expected='complex', got='float32[8]', fix='Use rfft')
    """
    if not isinstance(error, BaseException):
        raise TypeError(f"error_details: error must be an exception; got {type(error).__name__}: {error!r:.60}")
    text, code = str(error), getattr(error, "code", None)
    lead = re.match(_CALL, text)
    text = text[lead.end():] if lead else text
    found = re.match(_EXPECTED, text)
    rest, *fix = re.split(_FIX, found["rest"] if found else text, maxsplit=1)
    return ErrorDetails(code if isinstance(code, str) else None, lead and lead[1],
                        found and (found["argument"] or found["named"]),
                        found and (found["expected"] or found["must"].removeprefix("be ")),
                        rest if found else None, fix[0] if fix else None)


def mark_builtin_error(error: _E) -> _E:
    """Add the code of its family to a built-in exception: the attribute `code`, and the last line of its traceback.

    Args:
      error: an exception that a public function raises. An error with a code, or of another family, stays unchanged.
    Returns:
      The exception.

    >>> error = mark_builtin_error(TypeError("sort: axis must be an int; got str: 'x'"))
    >>> error.code, error.__notes__
    ('LAM2001', ['[LAM2001] lamina.errors, docs/reference/errors'])
    """
    code = BUILTIN_CODES.get(type(error))  # type: ignore[arg-type]
    if code is not None and "code" not in error.__dict__:
        error.__dict__["code"] = code
        error.__dict__.setdefault("__notes__", []).append(_BUILTIN_NOTES[code])
    return error


class LaminaError(Exception):
    """Any error that lamina raises on purpose: the base class of the others.

    Attributes:
      code: the stable code of the class. docs/reference/errors lists all codes.
      call, argument, expected, got, fix: parts of the message, as in `ErrorDetails`; None if the message has no such part.

    Fix: read the message; its last sentence says what to do.
    """

    code: ClassVar[str] = "LAM1000"

    @property  # type: ignore[explicit-override]  # the stubs declare an attribute
    def __notes__(self) -> list[str]:
        """The notes of this error, a list to which notes can be appended. The code is added when it is first read."""
        notes: list[str] = self.__dict__.setdefault("_notes", [])
        if f"[{self.code}] {_PAGE}" not in notes:
            notes.append(f"[{self.code}] {_PAGE}")
        return notes

    @__notes__.setter
    def __notes__(self, notes: Iterable[str]) -> None:
        self._notes = [note for note in notes if note != f"[{self.code}] {_PAGE}"]

    @__notes__.deleter
    def __notes__(self) -> None:
        self.__dict__.pop("_notes", None)

    @override
    def add_note(self, note: str, /) -> None:
        """Add a note in front of the code.

        Args:
          note: the text.
        Raises:
          TypeError: `note` is not a string.
        """
        if not isinstance(note, str):
            raise TypeError(f"add_note: note must be a string; got {type(note).__name__}: {note!r:.60}")
        notes: list[str] = self.__dict__.setdefault("_notes", [])
        notes.insert(len(notes) - (notes[-1:] == [f"[{self.code}] {_PAGE}"]), note)

    call = property(lambda self: error_details(self).call)
    argument = property(lambda self: error_details(self).argument)
    expected = property(lambda self: error_details(self).expected)
    got = property(lambda self: error_details(self).got)
    fix = property(lambda self: error_details(self).fix)


class ShapeError(LaminaError, ValueError, TypeError):
    """Incompatible shapes, axes or sizes. Array libraries raise ValueError or TypeError for these, so it is both.

    Fix: compare the shapes in the message; `reshape`, `expand_dims` or `broadcast_to` the argument.
    """

    code: ClassVar[str] = "LAM1101"


class DTypeError(LaminaError, TypeError, ValueError):
    """An unsupported dtype. Array libraries raise TypeError or ValueError for these, so it is both.

    Fix: convert the argument with `x.astype(dtype)`, or call the function that the message names.
    """

    code: ClassVar[str] = "LAM1102"


class ShardingTypeError(LaminaError, TypeError, ValueError):
    """The sharding of a result does not follow from those of the operands, on a mesh with `Explicit` axes.

    Fix: pass `out_sharding=`, or change the sharding of an operand with `reshard`.
    """

    code: ClassVar[str] = "LAM1105"


class ShardingMismatchError(ShardingTypeError, AssertionError):
    """`with_sharding_constraint` found another sharding: over `Explicit` axes it checks that of the array.

    Fix: give the sharding of the array, or move the array with `reshard`.
    """

    code: ClassVar[str] = "LAM1106"


class MissingRuleError(LaminaError, NotImplementedError):
    """A transformation has no rule for a primitive; the message gives the declared reason, if any.

    Fix: define the rule (docs/contributing/adding-an-op.md), or write the function with other primitives.
    """

    code: ClassVar[str] = "LAM1300"


class UnboundedLoopError(MissingRuleError, ValueError):
    """Reverse-mode differentiation of a loop whose number of iterations is unknown.

    Fix: use `lax.scan` or `fori_loop` with constant bounds, or forward mode (`jvp`, `jacfwd`).
    """

    code: ClassVar[str] = "LAM1301"


class CallbackRuleError(MissingRuleError, ValueError):
    """A transformation that callbacks do not support: differentiation, or batching of ordered ones.

    Fix: wrap the callback in a `custom_jvp` or `custom_vjp` function, or use an unordered callback.
    """

    code: ClassVar[str] = "LAM1302"


class SimplifiedTraceback(LaminaError):
    """Never raised; it exists for programs that catch it. lamina removes its frames from the traceback itself.

    Fix: delete the `except` clause that names it.
    """

    code: ClassVar[str] = "LAM1900"


class ProgramError(LaminaError, ValueError):
    """An ill-formed program, program text or saved program.

    Fix: the message names the equation, line or field; build or save the program again.
    """

    code: ClassVar[str] = "LAM1400"


class UnboundAxisError(LaminaError, NameError, ValueError, TypeError):
    """An axis name that no enclosing map binds.

    It may be a scoping error (NameError) or a wrong argument (ValueError, TypeError), so it is all of them.

    Fix: call the function inside of a map that binds the name: `vmap(f, axis_name="i")`, `pmap`, `xmap` or `shard_map`.
    """

    code: ClassVar[str] = "LAM1103"


class ExecutionError(LaminaError, RuntimeError):
    """A program could not be compiled, or failed while it ran. `__cause__` is the error of the backend.

    Fix: read `__cause__`; if memory is exhausted, use smaller arrays, donation or rematerialization.
    """

    code: ClassVar[str] = "LAM1500"


class CallbackError(ExecutionError):
    """A Python function called from a program raised, or returned values of other types than declared.

    Fix: correct the Python function; `__cause__` is its exception. Its results must have the declared shapes and
    dtypes.
    """

    code: ClassVar[str] = "LAM1501"


class CheckError(CallbackError):
    """A `debug.check` failed while the program ran.

    Fix: correct the values that the message shows, or the condition.
    """

    code: ClassVar[str] = "LAM1502"


class OutOfBoundsError(CheckError, IndexError):
    """An index is out of bounds, with `debug_bounds`.

    Fix: correct the index; `x.at[i].get(mode="clip")` or `mode="fill"` allows indices out of bounds.
    """

    code: ClassVar[str] = "LAM1503"


class OutOfMemoryError(ExecutionError, MemoryError):
    """Memory is exhausted, while a program is compiled or runs. The message lists the largest values, if lamina-see is
    installed.

    Fix: take the change that the message names: donate arguments, recompute with `checkpoint`, compute in parts
    (`SerialLoop`, `lax.map`), or use more devices.
    """

    code: ClassVar[str] = "LAM1510"


class KeyReuseError(LaminaError, TypeError):
    """With `debug_key_reuse`: a random key is used for a draw or a split a second time, which repeats the same
    numbers.

    Fix: split the key before each use: `key, subkey = random.split(key)`.
    """

    code: ClassVar[str] = "LAM1207"


class LeakedTracerError(LaminaError, RuntimeError, TypeError):
    """A tracer was used after the end of its trace. It is not a value any more, so this is a TypeError too.

    Fix: return the value from the function instead of storing it in a global variable, an attribute or a list.
    """

    code: ClassVar[str] = "LAM1206"


class ConcretizationError(LaminaError, TypeError):
    """A tracer was used where Python needs a concrete value.

    Fix: compute the value outside of the traced function, or make the argument static (`static_argnums`).
    """

    code: ClassVar[str] = "LAM1200"


class TracerBoolError(ConcretizationError):
    """A tracer was used as a Python bool.

    Fix: use `lax.cond`, `lax.while_loop` or `jnp.where` instead of `if`, `while`, `and` and `or`; or make the argument
    static.
    """

    code: ClassVar[str] = "LAM1201"


class TracerArrayError(ConcretizationError):
    """A tracer was converted to a NumPy array.

    Fix: use the functions of `lamina.numpy` instead of those of NumPy, or `pure_callback` for code that needs NumPy.
    """

    code: ClassVar[str] = "LAM1202"


class TracerIntegerError(ConcretizationError):
    """A tracer was converted to a Python integer, for example as an index.

    Fix: make the argument static (`static_argnums`), or index an array of `lamina.numpy` with it.
    """

    code: ClassVar[str] = "LAM1203"


class TracerIndexError(ConcretizationError, IndexError):
    """A tracer was used as an index, and the shape of the result would depend on its value.

    Fix: use `jnp.where(mask, x, 0)`, `lax.dynamic_slice`, or `size=` of functions such as `nonzero`.
    """

    code: ClassVar[str] = "LAM1204"


class StaticArgumentError(ConcretizationError, ValueError):
    """A static argument, such as a size, an axis or a flag, is a tracer or is not hashable.

    Fix: pass a value that is known and hashable: a number, a string, a tuple instead of a list or an array.
    """

    code: ClassVar[str] = "LAM1205"
