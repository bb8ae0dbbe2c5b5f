"""The shared error classes. Each also inherits from the built-in exceptions that users expect to catch.

    LaminaError
      ShapeError (ValueError, TypeError)         shapes, axes or sizes do not fit
      DTypeError (TypeError, ValueError)         an element type is not accepted
      MissingRuleError (NotImplementedError)  a rule table has no rule for a primitive
        UnboundedLoopError, CallbackRuleError (also ValueError)
      SimplifiedTraceback                  never raised
      ShardingTypeError (TypeError, ValueError)  the sharding of a result is ambiguous, on a mesh with `Explicit` axes
      ProgramError (ValueError)            an ill-formed program, text or saved file
      UnboundAxisError (NameError, ValueError, TypeError)  an axis name that is not bound
      ExecutionError (RuntimeError)        a program could not be compiled, or failed while it ran
        CallbackError                      a host callback raised, or returned wrong types
          CheckError                       a `debug.check` failed while the program ran
            OutOfBoundsError (also IndexError)   an index out of bounds, with `debug_bounds`
      KeyReuseError (TypeError)            a random key used twice, with `debug_key_reuse`
      LeakedTracerError (RuntimeError, TypeError)  a tracer used after its trace ended
      ConcretizationError (TypeError)      a tracer used where a concrete value is needed
        TracerBoolError, TracerArrayError, TracerIntegerError
        TracerIndexError (also IndexError)
        StaticArgumentError (also ValueError)  a static argument is a tracer, or is not hashable
"""

__all__ = ["CallbackError", "CallbackRuleError", "CheckError", "ConcretizationError", "DTypeError", "ExecutionError",
           "KeyReuseError", "LaminaError",
           "LeakedTracerError", "MissingRuleError", "OutOfBoundsError", "ProgramError", "ShapeError", "ShardingTypeError",
           "SimplifiedTraceback",
           "StaticArgumentError", "TracerArrayError", "TracerBoolError", "TracerIndexError", "TracerIntegerError",
           "UnboundAxisError", "UnboundedLoopError"]


class LaminaError(Exception):
    """Base class of all errors that lamina raises on purpose."""


class ShapeError(LaminaError, ValueError, TypeError):
    """Incompatible shapes, axes or sizes. Array libraries raise ValueError or TypeError for these, so it is both."""


class DTypeError(LaminaError, TypeError, ValueError):
    """An unsupported dtype. Array libraries raise TypeError or ValueError for these, so it is both."""


class ShardingTypeError(LaminaError, TypeError, ValueError):
    """The sharding of a result does not follow from those of the operands, on a mesh with `Explicit` axes."""


class MissingRuleError(LaminaError, NotImplementedError):
    """A transformation has no rule for a primitive; the message gives the declared reason, if any."""


class UnboundedLoopError(MissingRuleError, ValueError):
    """Reverse-mode differentiation of a loop whose number of iterations is unknown."""


class CallbackRuleError(MissingRuleError, ValueError):
    """A transformation that callbacks do not support: differentiation, or batching of ordered ones."""


class SimplifiedTraceback(LaminaError):
    """Never raised; it exists for programs that catch it. lamina removes its frames from the traceback itself."""


class ProgramError(LaminaError, ValueError):
    """An ill-formed program, program text or saved program."""


class UnboundAxisError(LaminaError, NameError, ValueError, TypeError):
    """An axis name that no enclosing map binds.

    It may be a scoping error (NameError) or a wrong argument (ValueError, TypeError), so it is all of them.
    """


class ExecutionError(LaminaError, RuntimeError):
    """A program could not be compiled, or failed while it ran. `__cause__` is the error of the backend."""


class CallbackError(ExecutionError):
    """A Python function called from a program raised, or returned values of other types than declared."""


class CheckError(CallbackError):
    """A `debug.check` failed while the program ran."""


class OutOfBoundsError(CheckError, IndexError):
    """An index is out of bounds, with `debug_bounds`."""


class KeyReuseError(LaminaError, TypeError):
    """With `debug_key_reuse`: a random key is used for a draw or a split a second time, which repeats the same
    numbers."""


class LeakedTracerError(LaminaError, RuntimeError, TypeError):
    """A tracer was used after the end of its trace. It is not a value any more, so this is a TypeError too."""


class ConcretizationError(LaminaError, TypeError):
    """A tracer was used where Python needs a concrete value."""


class TracerBoolError(ConcretizationError):
    """A tracer was used as a Python bool."""


class TracerArrayError(ConcretizationError):
    """A tracer was converted to a NumPy array."""


class TracerIntegerError(ConcretizationError):
    """A tracer was converted to a Python integer, for example as an index."""


class TracerIndexError(ConcretizationError, IndexError):
    """A tracer was used as an index, and the shape of the result would depend on its value."""


class StaticArgumentError(ConcretizationError, ValueError):
    """A static argument, such as a size, an axis or a flag, is a tracer or is not hashable."""
