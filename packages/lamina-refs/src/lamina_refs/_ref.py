"""`Ref`, a mutable reference to an array, and the trace that handles primitives applied to one.

A reference belongs to the program that is being staged when it is made, or to none. There its value is a Python attribute:
a read returns it, a write replaces it. So derivatives, maps and compilation see only arrays. In a program nested in that
one, reads and writes are equations, until the equation that calls the program is bound: see `_discharge`.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from typing_extensions import override
from lamina_ir import Primitive, UnnamedAxis, Var, dtypes, prims, shaped, ShapedArray, trees
from lamina_ir.errors import DTypeError, LeakedTracerError, ShapeError
from lamina_ir.typing import Params, Tree, Value
from lamina_tracing import hooks, lax
from lamina_tracing.extend import EVALUATION, StagingTrace, StagingTracer, Trace, Tracer, bind, trace_state, typeof

from ._parts import find_part_type, is_whole, read_index, update_index
from ._types import RefType, ref_get_p, ref_set_p

__all__ = ["REF_TRACE", "Ref", "RefView", "add_to_part", "convert", "make_ref"]

Outputs = Any


class _RefTrace(Trace):
    """Handle primitives that have a reference among their operands, whatever else is traced.

    Attributes:
      bind_discharged: binds a primitive with regions; set by `_discharge`.
    """

    bind_discharged: Callable[[Primitive, Sequence[Value], Params], Outputs]

    @override
    def process(self, prim: Primitive, args: Sequence[Value], params: Params) -> Outputs:
        if prim is ref_get_p:
            return args[0].read()
        if prim is ref_set_p:
            return args[0].write(args[1]) or ()
        if prim.region_signature is None:
            at = next(i for i, a in enumerate(args) if isinstance(a, Ref))
            raise TypeError(f"{prim.name}: operand {at} must be an array; got the mutable reference "
                            f"{args[at].aval.str_long()}. Read its value with ref[...]")
        return self.bind_discharged(prim, args, params)

    @override
    def process_custom_call(self, call: Any, args: Sequence[Value]) -> list[Value]:
        # Derivative rules and the function itself take the reference as it is; only a staged call is an equation.
        trace = trace_state.trace
        for a in args:
            if isinstance(a, Tracer) and not isinstance(a, Ref) and a._trace.level > trace.level:
                trace = a._trace
        return trace.process_custom_call(call, args)


REF_TRACE = _RefTrace(sys.maxsize)


class Ref(Tracer):
    """A mutable reference to an array: `new_ref` makes one.

    `ref[...]` reads the value, `ref[index]` a part of it; `ref[index] = value` and `ref[index] += value` write. Functions
    that are transformed may read and write references that they close over, take as arguments, or make.

    Attributes:
      shape, dtype, ndim, size: those of its value.

    >>> from lamina_refs import new_ref
    >>> ref = new_ref(np.zeros(3, np.float32))
    >>> ref[1:] += 2
    >>> ref
    Ref([0., 2., 2.], dtype=float32)
    """

    __slots__ = ("_home", "_depth", "_value", "_var", "_is_frozen", "_is_owned")

    aval: RefType

    def __init__(self, aval: RefType, home: Trace, value: Value, var: Var | None = None) -> None:
        super().__init__(REF_TRACE, aval)
        self._home = home
        self._depth = trace_state.depth
        self._value = value
        self._var = var  # of an argument: its variable in the program of `_home`
        self._is_frozen = False
        self._is_owned = False  # no other object holds the value, so a compiled program may reuse its memory

    @property
    def is_lasting(self) -> bool:
        """Whether the reference was made outside of all transformations."""
        return self._home is EVALUATION and not self._depth

    # --- the value
    def _check_usable(self, call: str) -> None:
        if self._is_frozen:
            raise ValueError(f"{call}: the reference {self.aval.str_long()} was frozen, so it must not be used. Use the "
                             "array that freeze returned, or make another reference with new_ref")
        if not self._home.alive or self._home.level > trace_state.trace.level:
            raise LeakedTracerError(f"{call}: the reference {self.aval.str_long()} was made in a transformed function that "
                                    "has ended. Return its value, ref[...], from the function, or make the reference "
                                    "outside and write to it")

    @property
    def _is_local(self) -> bool:
        return self._var is None and self._home is trace_state.trace

    def _bind(self, prim: Primitive, *values: Value) -> Outputs:
        """Record a read or write as an equation of the program that is being staged."""
        trace: Any = trace_state.trace
        if not isinstance(trace, StagingTrace):
            raise LeakedTracerError(f"Ref: the reference {self.aval.str_long()} belongs to a program that is being "
                                    "traced, and cannot be used in ensure_compile_time_eval")
        own = self._var is not None and self._home is trace
        operand = StagingTracer(trace, self.aval, self._var) if own else self  # type: ignore[arg-type]
        return trace.process(prim, (operand, *values), {})

    def read(self, call: str = "Ref") -> Value:
        """Return the value."""
        self._check_usable(call)
        if not self._is_local:
            return self._bind(ref_get_p)
        self._is_owned = False
        return self._value

    def take(self, call: str) -> tuple[Value, bool]:
        """Return the value for a call that replaces it, and whether the call may reuse its memory."""
        self._check_usable(call)
        return self._value, self._is_owned

    def replace(self, value: Value, is_owned: bool) -> None:
        """Set the value after `take`."""
        self._value, self._is_owned = value, is_owned

    def write(self, value: Value, call: str = "Ref") -> None:
        """Replace the value by one of the same type."""
        self._check_usable(call)
        level = self._depth if self._is_local else trace_state.trace.level
        is_traced = isinstance(value, Tracer) and value._trace.level > level
        if trace_state.map_level > level:
            raise ValueError(f"{call}: a write under vmap to the reference {self.aval.str_long()}, which is not mapped: each "
                             "example would write to the same one. Pass the reference as an argument that in_axes maps, "
                             "or return the values and write them after vmap")
        if is_traced:
            raise ValueError(f"{call}: the value of a write to the reference {self.aval.str_long()} is {value._trace.verb} "
                             "by a transformation that began after the reference was made. Make the reference in the "
                             "transformed function, write lax.stop_gradient(value), or return the value")
        value = vary_over_axes(value)
        if self._is_local:
            self._value, self._is_owned = value, False
        else:
            self._bind(ref_set_p, value)

    def freeze(self) -> Value:
        """Return the value; the reference must not be used after it."""
        value = self.read("freeze")
        if not self._is_local:
            raise ValueError(f"freeze: the reference {self.aval.str_long()} was not made in this function; only the function "
                             "that made it may freeze it. Read it with ref[...]")
        self._is_frozen, self._value = True, None
        return value

    # --- as an array
    def __getitem__(self, index: Tree) -> Value:
        return read_part(self, index)

    @override
    def __setitem__(self, index: Tree, value: Value) -> None:
        write_part(self, index, value)

    @property
    def at(self) -> _At:
        """`ref.at[index]`: a view of a part, which is read and written as a reference."""
        return _At(self)

    def addupdate(self, x: Value, idx: Tree = ...) -> None:
        """Perform `ref[idx] += x`; an index array that names an element twice adds to it twice."""
        add_to_part(self, Ellipsis if idx is None else idx, x)

    def _peek(self, name: str) -> Value:
        """Return the value for its attribute `name`; it stays the only holder."""
        self._check_usable(name)
        return self._value if self._is_local else self._bind(ref_get_p)

    def unsafe_buffer_pointer(self) -> int:
        """Return the address of the value's memory, of a reference on one device."""
        return self._peek("unsafe_buffer_pointer").unsafe_buffer_pointer()

    @property
    def sharding(self) -> Any:
        """The sharding of the value."""
        return self._peek("sharding").sharding

    @property
    def committed(self) -> bool:
        """Whether the value is committed to its devices."""
        return self._peek("committed").committed

    @override
    def __eq__(self, other: object) -> bool:
        return self is other

    @override
    def __ne__(self, other: object) -> bool:
        return self is not other

    __hash__ = object.__hash__

    @override
    def __iter__(self) -> Any:
        return iter([self[i] for i in range(len(self))])

    @override
    def _need_value(self, use: str) -> str:
        return (f"`{use}` needs an array; got the mutable reference {self.aval.str_long()}. Read its value with ref[...]")

    @override
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError(self._need_value("array"))

    @override
    def __bool__(self) -> bool:
        raise TypeError(self._need_value("bool"))

    @override
    def __deepcopy__(self, memo: object) -> Ref:
        return make_ref(self.read("deepcopy"), "deepcopy")

    @override
    def __reduce__(self) -> tuple[Callable[..., Ref], tuple[Value]]:
        return make_ref, (self.read("pickle"),)

    @override
    def __repr__(self) -> str:
        value = self._value
        if self._is_frozen or value is None or isinstance(value, Tracer):
            return f"Ref({'frozen ' if self._is_frozen else ''}{self.aval.inner.str_long()})"
        return f"Ref({repr(value).partition('(')[2]}"


def read_part(ref: Ref | RefView, index: Tree) -> Value:
    """Return `ref[index]`."""
    value = ref.read()
    return value if is_whole(index) else read_index(value, index)


def write_part(ref: Ref | RefView, index: Tree, value: Value) -> None:
    """Perform `ref[index] = value`."""
    if is_whole(index):
        ref.write(convert("Ref", value, shaped(ref.shape, ref.dtype)))
        return
    old = ref.read()
    ref.write(update_index(old, index, convert("Ref", value, find_part_type(old, index)), "set"))


def add_to_part(ref: Ref | RefView, index: Tree, value: Value) -> None:
    """Perform `ref[index] += value`; repeated indices add repeatedly."""
    old = ref.read()
    if is_whole(index):
        ref.write(lax.add(old, convert("addupdate", value, shaped(ref.shape, ref.dtype))))
        return
    ref.write(update_index(old, index, convert("addupdate", value, find_part_type(old, index)), "add"))


class _At:
    """`ref.at`: indexing makes a view."""

    __slots__ = ("_ref",)

    def __init__(self, ref: Ref | RefView) -> None:
        self._ref = ref

    def __getitem__(self, index: Tree) -> RefView:
        return RefView(self._ref, index)


class RefView:
    """A view of a part of a reference, from `ref.at[index]`: it is read and written as a reference.

    >>> from lamina_refs import new_ref
    >>> ref = new_ref(np.zeros((2, 2), np.float32))
    >>> ref.at[1][0] = 5
    >>> ref
    Ref([[0., 0.],
           [5., 0.]], dtype=float32)
    """

    __slots__ = ("_ref", "_index")

    def __init__(self, ref: Ref | RefView, index: Tree) -> None:
        self._ref, self._index = ref, index

    def read(self) -> Value:
        """Return the value of the part."""
        return read_part(self._ref, self._index)

    def write(self, value: Value) -> None:
        """Replace the value of the part."""
        write_part(self._ref, self._index, value)

    @override
    def __repr__(self) -> str:
        return f"RefView({self._ref!r}.at[{self._index!r}])"

    parent = property(lambda self: self._ref)
    index = property(lambda self: self._index)
    shape = property(lambda self: typeof(self.read()).shape)
    dtype = property(lambda self: self._ref.dtype)
    ndim = property(lambda self: len(self.shape))
    at = property(lambda self: _At(self))

    def __getitem__(self, index: Tree) -> Value:
        return read_part(self, index)

    def __setitem__(self, index: Tree, value: Value) -> None:
        write_part(self, index, value)


# --- views as trees -----------------------------------------------------------------------------------------------
_ARRAY = object()  # in the place of an array of an index


def _flatten_view(view: RefView) -> tuple[tuple[Value, ...], tuple[Any, ...]]:
    """Return the reference and the arrays of the index, and the rest of the index."""
    entries = view._index if type(view._index) is tuple else (view._index,)
    arrays = [i for i in entries if hasattr(i, "dtype")]
    rest = [_ARRAY if hasattr(i, "dtype") else (slice, i.start, i.stop, i.step) if type(i) is slice else i for i in entries]
    return (view._ref, *arrays), tuple(rest)


def _unflatten_view(rest: tuple[Any, ...], children: Sequence[Value]) -> RefView:
    ref, *arrays = children
    each = iter(arrays)
    return RefView(ref, tuple([next(each) if i is _ARRAY else slice(*i[1:]) if type(i) is tuple and i[:1] == (slice,) else i
                               for i in rest]))


trees.register_pytree_node(RefView, _flatten_view, _unflatten_view)


# --- values that are written -------------------------------------------------------------------------------------
def convert(call: str, value: Value, aval: ShapedArray) -> Value:
    """Convert a value that is written to the type of what it replaces: broadcast it, and give Python numbers the dtype."""
    got = _get_array_type(call, "the value of a write", value)
    if got.dtype != aval.dtype:
        fits = got.weak_type and _promotes_to(aval.dtype, got.dtype)
        if not fits:
            raise DTypeError(f"{call}: the value of a write to a reference of dtype {dtypes.long_name(aval.dtype)} must have "
                             f"this dtype; got {got.str_long()}. Convert it with astype")
    if got.dtype != aval.dtype or got.weak_type:
        value = bind(prims.convert_element_type_p, value, new_dtype=aval.dtype, weak_type=False)
    elif isinstance(value, (np.ndarray, np.generic, bool)):
        value = _to_array(value, aval.dtype)
    if got.shape == aval.shape:
        return value
    fit = len(got.shape) <= len(aval.shape) and all(
        m in (1, n) for m, n in zip(reversed(got.shape), reversed(aval.shape)))
    if not fit:
        raise ShapeError(f"{call}: the value of a write must have shape {aval.shape}, or one that broadcasts to it; got "
                         f"{got.str_long()}")
    keep = [i for i, m in enumerate(got.shape) if m == aval.shape[i - len(got.shape)]]
    first = len(aval.shape) - len(got.shape)
    value = lax.reshape(value, tuple([got.shape[i] for i in keep]))
    return lax.broadcast_in_dim(value, aval.shape, tuple([first + i for i in keep]))


def _get_array_type(call: str, argument: str, value: Value) -> ShapedArray:
    try:
        aval = typeof(value)
    except TypeError as error:
        raise TypeError(f"{call}: {argument} must be an array or a number; {error}") from None
    if aval.is_reference:
        raise TypeError(f"{call}: {argument} must be an array; got the mutable reference {aval.str_long()}. Read its value "
                        "with ref[...]")
    return aval


def _promotes_to(dtype: np.dtype, weak: np.dtype) -> bool:
    try:
        return dtypes.promote((dtype, False), (weak, True))[0] == dtype
    except TypeError:  # strict promotion
        return False


def _to_array(value: Value, dtype: np.dtype) -> Value:
    """Copy a host array, which its owner may write to later."""
    copy = np.array(value, dtype)
    copy.flags.writeable = False
    return hooks.evaluator.array(copy, shaped(copy.shape, dtype))


def vary_over_axes(value: Value) -> Value:
    """Return a value with a type that varies over all named axes in scope, so that the type of a reference is fixed."""
    if not trace_state.axes:
        return value
    for frame in trace_state.axes:
        if type(frame.name) is not UnnamedAxis and frame.name not in typeof(value).varying_axes:
            index = lax.axis_index(frame.name)  # not negative
            value = lax.select(lax.lt(index, np.int32(0)), lax.full_like(value, 0), value)
    return value


def make_ref(value: Value, call: str = "new_ref") -> Ref:
    """Make a reference that belongs to the program that is being staged, if any."""
    aval = _get_array_type(call, "the initial value", value)
    inner = shaped(aval.shape, aval.dtype)
    value = vary_over_axes(convert(call, value, inner))
    return Ref(RefType(inner.with_varying_axes(typeof(value).varying_axes)), trace_state.trace, value)


def _make_argument(trace: Any, aval: RefType, var: Var) -> Ref:
    return Ref(aval, trace, None, var)


RefType.make_argument = staticmethod(_make_argument)
