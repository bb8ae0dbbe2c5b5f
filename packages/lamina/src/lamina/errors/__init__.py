"""`lamina.errors`: the error classes of `lamina_ir`, the names that older programs catch, and `error_details`.

Each class has a stable `code`, which tracebacks show in their last line: `[LAM1101] lamina.errors, docs/reference/errors`.
The docstring of the class has the cause and the fix. That page of the documentation lists all codes, with examples.

    LAM10xx           the base class of all errors
    LAM11xx           arguments: shapes, dtypes, axis names, keys of dicts
    LAM12xx           tracing: traced values where Python needs known ones
    LAM13xx           missing rules of transformations
    LAM14xx           programs that are not well formed
    LAM15xx           compiled programs, callbacks and checks
    LAM16xx           several processes
    LAM17xx           checkpoints, symbolic sizes, sparse arrays
    LAM18xx           packages that are plugins
    LAM19xx           classes that are never raised
    LAM20xx           built-in exceptions of public functions: TypeError, ValueError and others

`error_details(error)` reads code, call, argument, expected, got and fix.
"""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
import typing as _typing
from importlib import import_module as _import_module

from lamina_ir import (CallbackError, CallbackRuleError, CheckError, ConcretizationError, DTypeError, ExecutionError,
                       KeyReuseError, LaminaError,
                       LeakedTracerError, MissingRuleError, OutOfBoundsError, OutOfMemoryError, ProgramError, ShapeError,
                       ShardingMismatchError, ShardingTypeError, SimplifiedTraceback,
                       StaticArgumentError, TracerArrayError, TracerBoolError, TracerIndexError, TracerIntegerError,
                       UnboundAxisError, UnboundedLoopError)
from lamina_ir import ConcretizationError as ConcretizationTypeError
from lamina_ir import ConcretizationError as JAXTypeError
from lamina_ir import ExecutionError as JaxRuntimeError
from lamina_ir import LeakedTracerError as UnexpectedTracerError
from lamina_ir import ProgramError as JaxprTypeError
from lamina_ir import TracerArrayError as TracerArrayConversionError
from lamina_ir import TracerBoolError as TracerBoolConversionError
from lamina_ir import TracerIndexError as JAXIndexError
from lamina_ir import TracerIndexError as NonConcreteBooleanIndexError
from lamina_ir import TracerIntegerError as TracerIntegerConversionError
from lamina_ir.errors import ErrorDetails, error_details
from lamina_ir.layers import explain_absent_names as _explain_absent_names

__all__ = ["CallbackError", "CallbackRuleError", "CheckError", "ConcretizationError", "ConcretizationTypeError",
           "DTypeError", "ErrorDetails", "ExecutionError", "InconclusiveDimensionOperation", "JAXIndexError",
           "JAXTypeError", "JaxRuntimeError", "JaxprTypeError", "KeyReuseError", "LaminaError", "LeakedTracerError",
           "MissingRuleError", "NonConcreteBooleanIndexError", "OutOfBoundsError", "OutOfMemoryError", "ProgramError",
           "ShapeError", "ShardingMismatchError", "ShardingTypeError", "SimplifiedTraceback", "StaticArgumentError",
           "TracerArrayConversionError", "TracerArrayError", "TracerBoolConversionError", "TracerBoolError", "TracerIndexError",
           "TracerIntegerConversionError", "TracerIntegerError", "UnboundAxisError", "UnboundedLoopError",
           "UnexpectedTracerError", "error_details"]

if _typing.TYPE_CHECKING:
    from lamina_export import InconclusiveDimensionOperation as InconclusiveDimensionOperation
else:
    def __getattr__(name: str) -> _typing.Any:
        if name != "InconclusiveDimensionOperation":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return _import_module("lamina_export").InconclusiveDimensionOperation  # few programs have symbolic sizes


_explain_absent_names(globals())
