"""`RefType`, the type of a mutable reference, and the primitives that programs hold for its reads and writes."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typing_extensions import override
from lamina_ir import Primitive, ShapedArray, Var
from lamina_ir.extend import register_primitive
from lamina_ir.typing import AxisName

__all__ = ["RefType", "ref_get_p", "ref_set_p"]


class RefType(ShapedArray):
    """The type of a mutable reference to an array.

    Args:
      inner: the type of the array.

    >>> from lamina_ir import shaped
    >>> RefType(shaped((3,), "float32"))
    Ref{float32[3]}
    """

    __slots__ = ("inner",)
    is_reference = True
    make_argument: Callable[[Any, RefType, Var], Any]  # set by `_ref`

    def __init__(self, inner: ShapedArray) -> None:
        super().__init__(inner.shape, inner.dtype)
        self.inner = inner

    def with_inner(self, inner: ShapedArray) -> RefType:
        """Return the type of a reference to another type of array."""
        return RefType(inner)

    @property
    def inner_aval(self) -> ShapedArray:
        """The type of the array, by JAX's name."""
        return self.inner

    @property
    @override
    def varying_axes(self) -> frozenset[AxisName]:  # type: ignore[override]
        """The axes over which the value varies."""
        return self.inner.varying_axes

    def new_argument(self, trace: Any, var: Var) -> Any:
        """Return the reference that stands for an argument of a program that is being staged."""
        return RefType.make_argument(trace, self, var)

    @override
    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is RefType and self.inner == other.inner)

    @override
    def __hash__(self) -> int:
        return hash((RefType, self.inner))

    @override
    def with_varying_axes(self, over: frozenset[AxisName]) -> RefType:
        return RefType(self.inner.with_varying_axes(over))

    @override
    def same_type(self, other: ShapedArray) -> bool:
        return type(other) is RefType and self.inner.same_type(other.inner)

    @override
    def strip_weak_type(self) -> RefType:
        return self

    @override
    def str_short(self, short_dtypes: bool = True) -> str:
        return f"Ref{{{self.inner.str_short()}}}"

    @override
    def str_long(self) -> str:
        return f"Ref{{{self.inner.str_long()}}}"

    @override
    def __repr__(self) -> str:
        return self.str_long()

    __str__ = str_long

    @override
    def __reduce__(self) -> tuple[type[RefType], tuple[ShapedArray]]:
        return RefType, (self.inner,)


def _infer_get(ref: RefType, /) -> ShapedArray:
    return ref.inner


def _infer_set(ref: RefType, value: ShapedArray, /) -> tuple[()]:
    if not ref.inner.same_type(value):
        raise TypeError(f"ref_set: expected {ref.inner.str_long()}; got {value.str_long()}")
    return ()


# Both are about the whole value: a read or write of a part is an index operation on it, as in `x.at[i].set(v)`. They have
# no rules: an equation with a reference among its operands is replaced by one on values before any transformation.
ref_get_p = register_primitive(Primitive("ref_get", infer=_infer_get, effectful=True, varying_axes=lambda total, *_: total,
                                         family="references"))
ref_set_p = register_primitive(Primitive("ref_set", infer=_infer_set, effectful=True, multiple=True, family="references"))
