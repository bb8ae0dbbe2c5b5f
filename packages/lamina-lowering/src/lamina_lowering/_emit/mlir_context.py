"""MLIR contexts in which modules are built, and others into which finished modules are parsed for a compiler.

A context for building has cached types and attributes, and is used by one lowering after another until it is replaced.
Types and constants live as long as their context. So a context is replaced after a thousand modules, or when the
constants written into it exceed a few megabytes. Modules keep their context alive.

A context belongs to one lowering at a time, and no lock is held during a lowering: it runs user rules, which may lower
a program themselves or wait for a thread that does. Writing and printing modules needs no lock either, because jaxlib
holds the GIL meanwhile.

A compiler rewrites its module and adds types and dialects to the module's context, without the GIL. No other thread may
build, print or parse in that context meanwhile. So contexts in which modules are built are not used for this. Given
bytecode, the compiler would make a context for each module and load a dozen dialects into it. That is a large part of
the compile time of a small program. A reused context has these dialects already.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np

from lamina_ir import DTypeError, ShapedArray, ShapeError, dtypes
from lamina_ir.typing import CacheKey

from .. import _jaxlib
from .source_map import EQUATION_FILE
from .._typing import AttributeValue, IrAttribute, IrContext, IrLocation, IrModule, IrType

__all__ = ["Session", "borrow_context", "element_type_name", "use_parsed_module"]

_T = TypeVar("_T")
_MAX_FREE = 4
_MODULES_PER_CONTEXT = 1000
_CONSTANT_BYTES_PER_CONTEXT = 1 << 24
_PARSED_BYTES_PER_CONTEXT = 1 << 22

_ELEMENTS = {"bool": "i1", "bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64",
             "complex64": "complex<f32>", "complex128": "complex<f64>"}
_ELEMENTS.update({f"int{bits}": f"i{bits}" for bits in (2, 4, 8, 16, 32, 64)})
_ELEMENTS.update({f"uint{bits}": f"ui{bits}" for bits in (2, 4, 8, 16, 32, 64)})
_ELEMENTS.update({name: "f" + name.removeprefix("float").upper().replace("_E", "E") for name in (
    "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn")})
# Dtypes whose NumPy memory MLIR takes as it is.
_NATIVE = frozenset(np.dtype(name) for name in (
    "bool", "float16", "float32", "float64", "complex64", "complex128", "int8", "int16", "int32", "int64", "uint8",
    "uint16", "uint32", "uint64")) | {dtypes.bfloat16}


_MAX_BYTES = 1 << 63  # XLA counts bytes in signed 64-bit integers and aborts the process on overflow


def element_type_name(dtype: np.dtype) -> str:
    """Return the name of a dtype in MLIR.

    Args:
      dtype: the dtype.
    Returns:
      The name, as text.
    Raises:
      DTypeError: it has no StableHLO element type.

    >>> element_type_name(np.dtype("uint8"))
    'ui8'
    """
    name = _ELEMENTS.get(dtype.name)
    if name is None:
        raise DTypeError(f"lower: dtype {dtype} has no StableHLO element type")
    return name


class _Types(dict[ShapedArray, IrType]):
    """aval -> tensor type."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session

    def __missing__(self, aval: ShapedArray) -> IrType:
        ir = _jaxlib.ir
        if aval.size * aval.dtype.itemsize >= _MAX_BYTES:
            raise ShapeError(f"{aval.str_long()} has {aval.size * aval.dtype.itemsize} bytes; a compiled program takes "
                             "arrays of less than 2**63")
        t = self[aval] = ir.RankedTensorType.get(list(aval.shape), self.session.element(aval.dtype),
                                                 loc=self.session.loc)
        return t


class _Parsed(dict[str, IrAttribute]):
    """Text -> attribute."""

    def __init__(self, context: IrContext) -> None:
        super().__init__()
        self.context = context

    def __missing__(self, text: str) -> IrAttribute:
        a = self[text] = _jaxlib.ir.Attribute.parse(text, self.context)
        return a


class _Locations(dict[tuple[str, int], IrLocation]):
    """(name, number) -> the location of the operations of an equation, which the compiler copies into metadata and
    profiles.

    It contains the equation's number instead of a file and line. The module must not change when lines move, because it
    is the key of the compiled program in the disk cache. The numbers of every module begin at 1, so modules share these
    locations.
    """

    _MAX_ENTRIES = 1 << 14

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self._files: list[IrLocation] = []

    def __missing__(self, key: tuple[str, int]) -> IrLocation:
        ir, context = _jaxlib.ir, self.session.context
        name, number = key
        # The location of a number is shared by all names.
        files = self._files
        while number >= len(files):
            files.append(ir.Location.file(EQUATION_FILE, len(files), 0, context))
        # Names contain scopes and calls, so unlike numbers they are not bounded by the size of modules.
        if len(self) >= self._MAX_ENTRIES:
            self.clear()
        made = self[key] = ir.Location.name(name, files[number], context)
        return made


class Session:
    """An MLIR context and its caches. Cached `types[aval]`, `parsed[text]` and `located[name, number]` are plain dict
    lookups."""

    def __init__(self) -> None:
        ir = _jaxlib.load_mlir()
        self.ir = ir
        self.context = _jaxlib.new_context()
        self.loc = ir.Location.unknown(self.context)
        self.locations = _Locations(self)
        self.types = _Types(self)
        self.parsed = _Parsed(self.context)
        self._shardy = False
        self.unit = ir.UnitAttr.get(self.context)
        self._elements: dict[np.dtype, IrType] = {}
        self._attrs: dict[CacheKey, IrAttribute] = {}
        self._constants: dict[CacheKey, IrAttribute] = {}
        self.modules = 0
        self.constant_bytes = 0

    def load_shardy(self) -> None:
        """Load the `sdy` dialect into the context."""
        if not self._shardy:
            _jaxlib.add_shardy(self.context)
            self._shardy = True

    def element(self, dtype: np.dtype) -> IrType:
        """Return the element type of a dtype."""
        t = self._elements.get(dtype)
        if t is None:
            t = self._elements[dtype] = self.ir.Type.parse(element_type_name(dtype), self.context)
        return t

    def attr(self, value: AttributeValue) -> IrAttribute:
        """Return the attribute of a bool, int (i64), float (f64), str, or a sequence of bools or ints (dense arrays).
        """
        if value.__class__ is list:
            value = tuple(value)
        # True == 1 == 1.0 and (True,) == (1,) in Python, but their attributes differ, so classes are part of the key.
        key = (value.__class__, value[0].__class__ if value.__class__ is tuple and value else None, value)
        try:
            return self._attrs[key]
        except KeyError:
            made = self._attrs[key] = self._make_attribute(value)
            return made

    def _make_attribute(self, value: AttributeValue) -> IrAttribute:
        ir, context = self.ir, self.context
        if isinstance(value, bool | np.bool_):
            return ir.BoolAttr.get(bool(value), context)
        if isinstance(value, int | np.integer):
            return ir.IntegerAttr.get(ir.IntegerType.get_signless(64, context), int(value))
        if isinstance(value, str):
            return ir.StringAttr.get(value, context)
        if isinstance(value, float):
            return ir.FloatAttr.get(ir.F64Type.get(context), value, loc=self.loc)
        if isinstance(value, Sequence):
            if value and all(isinstance(v, bool | np.bool_) for v in value):
                return ir.DenseBoolArrayAttr.get([bool(v) for v in value], context)
            if all(isinstance(v, int | np.integer) for v in value):
                return ir.DenseI64ArrayAttr.get([int(v) for v in value], context)
        raise TypeError(f"ctx.op: attribute must be an ir.Attribute, bool, int, float, str or a sequence of ints or "
                        f"bools; got {value!r}")

    def i32(self, value: int) -> IrAttribute:
        return self.parsed[f"{value} : i32"]

    def matrix(self, rows: np.ndarray) -> IrAttribute:
        """Return a rank-2 integer constant attribute, as used for replica groups and paddings."""
        rows = np.ascontiguousarray(rows, np.int64)
        key = (rows.shape, rows.tobytes())
        try:
            return self._attrs[key]
        except KeyError:
            t = self.ir.RankedTensorType.get(list(rows.shape), self.ir.IntegerType.get_signless(64, self.context),
                                             loc=self.loc)
            made = self._attrs[key] = self.ir.DenseElementsAttr.get(rows, type=t, context=self.context)
            return made

    def dense(self, array: np.ndarray, aval: ShapedArray) -> IrAttribute:
        """Return constant data of type `aval`; a rank-0 array fills the whole shape."""
        # Small constants recur in most programs. Hashing large ones would cost as much as making the attribute.
        small = array.size <= 4
        if small:
            key = (array.tobytes(), array.shape, aval.dtype, aval.shape)
            made = self._constants.get(key)
            if made is not None:
                return made
        else:
            # MLIR never frees an attribute, so these bytes stay as long as the context.
            self.constant_bytes += array.nbytes
        t = self.types[aval]
        if array.dtype in _NATIVE:
            made = self.ir.DenseElementsAttr.get(np.ascontiguousarray(array).reshape(array.shape), type=t,
                                                 context=self.context)
        else:  # one byte per element, reinterpreted by MLIR as the element type
            if array.shape != aval.shape:
                array = np.broadcast_to(array, aval.shape)
            bits = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            made = self.ir.Attribute.parse(f'dense<"0x{bits.tobytes().hex().upper()}"> : {t}', self.context)
        if small:
            self._constants[key] = made
        return made


_free: list[Session] = []  # contexts not in use; the most recently used one is last


@contextmanager
def borrow_context() -> Iterator[Session]:
    """Borrow a session to build one module; no other thread uses it meanwhile."""
    # No lock: `pop` and `append` of a list are atomic, and a popped session belongs to this thread alone.
    try:
        s = _free.pop()
    except IndexError:
        s = Session()
    # The old session is dropped, not closed: modules that were made in it keep its context alive.
    if s.modules >= _MODULES_PER_CONTEXT or s.constant_bytes >= _CONSTANT_BYTES_PER_CONTEXT:
        s = Session()
    s.modules += 1
    try:
        yield s
    finally:
        # Also after an error: a module that was not finished does not change the caches of its context.
        if len(_free) < _MAX_FREE:
            _free.append(s)


# --- contexts for compilers ---------------------------------------------------------------------------------------
class _ParseContext:
    """A context and the amount of data parsed into it: types, names and constants stay in the context."""

    def __init__(self) -> None:
        self.context = _jaxlib.new_context()
        self.shardy = False
        self.modules = self.bytes = 0

    def is_old(self) -> bool:
        return self.modules >= _MODULES_PER_CONTEXT or self.bytes >= _PARSED_BYTES_PER_CONTEXT


_free_parse_contexts: list[_ParseContext] = []  # not in use; the most recently used one is last


def use_parsed_module(bytecode: bytes, shardy: bool, use: Callable[[IrModule], _T]) -> _T:
    """Return `use(module)` for a module parsed in an unshared context. `use` may rewrite the module, but must not keep
    it.

    Args:
      bytecode: the module.
      shardy: whether it contains Shardy operations.
      use: the function to call, as a compiler.
    Returns:
      The result of `use`.
    """
    try:
        reader = _free_parse_contexts.pop()
    except IndexError:
        reader = _ParseContext()
    if shardy and not reader.shardy:
        _jaxlib.add_shardy(reader.context)
        reader.shardy = True
    reader.modules += 1
    reader.bytes += len(bytecode)
    # The module must be deleted before its context is reused: it exists only during the call. If `use` raises, the
    # context is not reused, because the traceback may hold the module.
    found = use(_jaxlib.read_bytecode(bytecode, reader.context))
    if len(_free_parse_contexts) < _MAX_FREE and not reader.is_old():
        _free_parse_contexts.append(reader)
    return found
