"""The shared error classes. Each is also the built-in kind people expect to catch.

    LaminaError
      ShapeError (ValueError, TypeError)         shapes, axes or sizes do not fit
      DTypeError (TypeError, ValueError)         an element type is not accepted
      MissingRuleError (NotImplementedError)  a table has no row, or a hole, for an op
        UnboundedLoopError, CallbackRuleError (also ValueError)
      SimplifiedTraceback                  never raised
      ProgramError (ValueError)            an ill-formed program, text or saved file
      UnboundAxisError (NameError, ValueError, TypeError)  an axis name nobody has bound
      CallbackError (RuntimeError)         a host callback raised, or returned what it should not
        CheckError                         a `debug.check` failed while the program ran
          OutOfBoundsError (also IndexError)   an index left its axis, with `debug_bounds`
      ExecutionError (RuntimeError)        a compiled program could not be built, or failed while it ran
      KeyReuseError (TypeError)            a random key used twice, with `debug_key_reuse`
      LeakedTracerError (RuntimeError, TypeError)  a traced value used after its trace ended
      ConcretizationError (TypeError)      a traced value used where a known number is needed
        TracerBoolError, TracerArrayError, TracerIntegerError
        TracerIndexError (also IndexError)
        StaticArgumentError (also ValueError)
"""

__all__ = ["CallbackError", "CallbackRuleError", "CheckError", "ConcretizationError", "DTypeError", "ExecutionError",
           "KeyReuseError", "LaminaError",
           "LeakedTracerError", "MissingRuleError", "OutOfBoundsError", "ProgramError", "ShapeError", "SimplifiedTraceback",
           "StaticArgumentError", "TracerArrayError", "TracerBoolError", "TracerIndexError", "TracerIntegerError",
           "UnboundAxisError", "UnboundedLoopError"]


class LaminaError(Exception):
    """Root of the errors lamina raises on purpose."""


class ShapeError(LaminaError, ValueError, TypeError):
    """Shapes, axes or sizes do not fit. Array libraries raise either kind for it, so it is both."""


class DTypeError(LaminaError, TypeError, ValueError):
    """An element type is not accepted here. Array libraries raise either kind for it, so it is both."""


class MissingRuleError(LaminaError, NotImplementedError):
    """A transformation has no row for an op, or a hole with a written reason."""


class UnboundedLoopError(MissingRuleError, ValueError):
    """The reverse derivative of a loop whose number of iterations is not known."""


class CallbackRuleError(MissingRuleError, ValueError):
    """A transformation that a callback does not take: its derivative, or a batch of ordered ones."""


class SimplifiedTraceback(LaminaError):
    """For programs that catch it: nothing raises it, as the frames of lamina are taken out of the traceback itself."""


class ProgramError(LaminaError, ValueError):
    """An ill-formed program, program text or saved program."""


class UnboundAxisError(LaminaError, NameError, ValueError, TypeError):
    """An axis name that no enclosing map has bound: a name of a scope, or a wrong argument where an axis was meant, so it is
    each of them."""


class CallbackError(LaminaError, RuntimeError):
    """A Python function called from a program raised, or returned values of other types than promised."""


class CheckError(CallbackError):
    """What a `debug.check` asks for did not hold, in a program that ran."""


class OutOfBoundsError(CheckError, IndexError):
    """An index outside of its axis, while `debug_bounds` is on."""


class ExecutionError(LaminaError, RuntimeError):
    """A compiled program could not be built, or failed while it ran. The backend's own error is the cause."""


class KeyReuseError(LaminaError, TypeError):
    """With `debug_key_reuse`: a random key is drawn from or split a second time, which would give the same numbers again."""


class LeakedTracerError(LaminaError, RuntimeError, TypeError):
    """A traced value was used after the function that made it had returned: no value any more, so a TypeError too."""


class ConcretizationError(LaminaError, TypeError):
    """A traced value was used where Python needs a known number."""


class TracerBoolError(ConcretizationError):
    """A traced value was used as a Python truth value."""


class TracerArrayError(ConcretizationError):
    """A traced value was converted to a NumPy array."""


class TracerIntegerError(ConcretizationError):
    """A traced value was converted to a Python integer, for example as an index."""


class TracerIndexError(ConcretizationError, IndexError):
    """A traced value was used as an index whose result shape depends on its value."""


class StaticArgumentError(ConcretizationError, ValueError):
    """A traced value was given where a call takes a static argument: a size, an axis, a flag."""
