"""A lowering for another target than XLA: programs to NumPy source text, with its own rule table.

A rule is `rule(use, *operands, **params) -> expression`. Operands are expressions in the text; `use` has the equation's
types and writes nested programs as functions. For a primitive with several results the expression is a tuple.
"""
from __future__ import annotations

import keyword
import string
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, Literal, ShapedArray, dtypes, prims
from lamina_ir.extend import RuleTable

__all__ = ["Use", "numpy_text", "numpy_text_rules"]

numpy_text_rules = RuleTable("NumPy text", "outside/numpy_text")


class Use(NamedTuple):
    """One use of a primitive: its equation, and the writer of the text."""

    eqn: Eqn
    writer: _Writer

    @property
    def out(self) -> ShapedArray:
        """The type of the (first) result."""
        return self.eqn.outvars[0].aval

    @property
    def avals(self) -> list[ShapedArray]:
        """The types of the operands."""
        return [a.aval for a in self.eqn.invars]

    def function(self, closed: ClosedJaxpr, hint: str) -> str:
        """Return the name of a function that computes a nested program: arrays to a tuple of arrays."""
        return self.writer.function(closed, hint)

    def cast(self, text: str) -> str:
        """Return an expression in the result's dtype, which NumPy may have widened."""
        return f"({text}).astype({numpy_dtype(self.out.dtype)})"


class _Writer:
    """The functions written so far. A program is written as one function, even if it is used several times."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.names: dict[int, tuple[ClosedJaxpr, str]] = {}  # a reference to the program prevents the reuse of its id
        self.constants: list[str] = []

    def function(self, closed: ClosedJaxpr, hint: str, name: str | None = None) -> str:
        found = self.names.get(id(closed))
        if found is None:
            if not hint.isidentifier() or keyword.iskeyword(hint):
                hint = "program"
            found = self.names[id(closed)] = closed, name or f"{hint}_{len(self.names)}"
            self.functions.append(self._text(closed, found[1]))
        return found[1]

    def helper(self, name: str) -> str:
        """Return the name of a helper function below, which is written once, before its users."""
        text = _HELPERS[name].lstrip()
        if text not in self.functions:
            self.functions.insert(0, text)
        return name

    def _text(self, closed: ClosedJaxpr, name: str) -> str:
        jaxpr = closed.jaxpr
        atoms: dict[Any, str] = {}
        for v, value in zip(jaxpr.constvars, closed.consts):
            atoms[v] = f"CONSTANTS[{len(self.constants)}]"
            self.constants.append(_array(np.asarray(value)))
        for v in jaxpr.invars:
            atoms[v] = f"v{len(atoms)}"
        lines = [f"def {name}({', '.join(atoms[v] for v in jaxpr.invars)}):"]

        def read(a: Any) -> str:
            return _number(a.val, a.aval.dtype) if type(a) is Literal else atoms[a]

        for e in jaxpr.eqns:
            text = numpy_text_rules[e.primitive](Use(e, self), *map(read, e.invars), **e.params)
            for v in e.outvars:
                atoms[v] = f"v{len(atoms)}"
            left = [atoms[v] for v in e.outvars]
            lines.append(f"{', '.join(left)}{',' * (e.primitive.multiple and len(left) == 1)} = {text}"
                         if left else text)
        lines.append(f"return {tuple_text(list(map(read, jaxpr.outvars)))}")
        return "\n    ".join(lines) + "\n"


def tuple_text(items: Sequence[str]) -> str:
    return f"({', '.join(items)}{',' * (len(items) == 1)})"


def numpy_dtype(dtype: np.dtype) -> str:
    if dtype.kind not in "biufc":
        raise NotImplementedError(f"NumPy text has no {dtype} numbers: NumPy itself has bools, integers, floats and complex")
    return f"np.{'bool_' if dtype.kind == 'b' else dtype.name}"


def _number(value: Any, dtype: np.dtype) -> str:
    text = repr(np.asarray(value, dtype).item())
    return f"{numpy_dtype(dtype)}({text.replace('nan', 'np.nan').replace('inf', 'np.inf')})"


def _array(value: np.ndarray) -> str:
    text = repr(value.ravel().tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    return f"np.array({text}, {numpy_dtype(value.dtype)}).reshape({value.shape})"


def numpy_text(closed: ClosedJaxpr, name: str = "main") -> str:
    """Return the NumPy source text of a program.

    Args:
      closed: the program. The text contains its constants.
      name: the name of the function that computes it, which takes one array per argument and returns a tuple of arrays.
    Raises:
      MissingRuleError: a primitive has no rule in `numpy_text_rules`; the error names the file for it.
      NotImplementedError: NumPy does not have a dtype.

    >>> from lamina_ir import parse
    >>> print(numpy_text(parse("{ lambda ; a:f32[3]. let b:f32[3] = sin a c:f32[3] = mul b 2.0:f32[] in (c,) }")))
    import numpy as np
    <BLANKLINE>
    def main(v0):
        v1 = np.sin(v0)
        v2 = np.multiply(v1, np.float32(2.0))
        return (v2,)
    <BLANKLINE>
    """
    writer = _Writer()
    writer.function(closed, "main", name)
    constants = [f"CONSTANTS = [{', '.join(writer.constants)}]\n"] if writer.constants else []
    return "\n".join(["import numpy as np\n", *constants, *writer.functions])


# --- one NumPy function ---------------------------------------------------------------------------------------------
def _plain(call: str) -> Callable[..., str]:
    return lambda use, /, *xs: f"{call}({', '.join(xs)})"


for _op, _call in {
        prims.neg_p: "negative", prims.sin_p: "sin", prims.cos_p: "cos", prims.tan_p: "tan", prims.tanh_p: "tanh",
        prims.sinh_p: "sinh", prims.cosh_p: "cosh", prims.asin_p: "arcsin", prims.acos_p: "arccos", prims.atan_p: "arctan",
        prims.asinh_p: "arcsinh", prims.acosh_p: "arccosh", prims.atanh_p: "arctanh", prims.exp_p: "exp",
        prims.exp2_p: "exp2", prims.expm1_p: "expm1", prims.log_p: "log", prims.log1p_p: "log1p", prims.sqrt_p: "sqrt",
        prims.cbrt_p: "cbrt", prims.floor_p: "floor", prims.ceil_p: "ceil", prims.abs_p: "abs", prims.sign_p: "sign",
        prims.square_p: "square", prims.real_p: "real", prims.imag_p: "imag", prims.conj_p: "conj",
        prims.is_finite_p: "isfinite", prims.add_p: "add", prims.sub_p: "subtract", prims.mul_p: "multiply",
        prims.max_p: "maximum", prims.min_p: "minimum", prims.atan2_p: "arctan2", prims.nextafter_p: "nextafter",
        prims.eq_p: "equal", prims.ne_p: "not_equal", prims.lt_p: "less", prims.le_p: "less_equal", prims.gt_p: "greater",
        prims.ge_p: "greater_equal", prims.and_p: "bitwise_and", prims.or_p: "bitwise_or", prims.xor_p: "bitwise_xor",
        prims.not_p: "invert", prims.select_p: "where"}.items():
    numpy_text_rules.define(_op, _plain("np." + _call))
_define = numpy_text_rules.define
for _op in (prims.copy_p, prims.stop_gradient_p, prims.name_p):
    _define(_op, lambda use, x, /, **_: x)
_define(prims.optimization_barrier_p, lambda use, /, *xs: tuple_text(xs))
_define(prims.complex_p, lambda use, x, y, /: use.cast(f"{x} + 1j * {y}"))
_define(prims.clamp_p, lambda use, lo, x, hi, /: f"np.minimum(np.maximum({x}, {lo}), {hi})")
_define(prims.convert_element_type_p, lambda use, x, /, *, new_dtype, weak_type: _convert(use, x))


def _convert(use: Use, x: str) -> str:
    old, new = use.avals[0].dtype, use.out.dtype
    if dtypes.is_inexact(old) and not (dtypes.is_inexact(new) or new.kind == "b"):
        raise NotImplementedError(f"NumPy text does not convert {old} to {new}: NumPy wraps where XLA saturates")
    return use.cast(f"np.real({x})" if old.kind == "c" and new.kind not in "cb" else x)


def _inexact(text: Callable[..., str]) -> Callable[..., str]:
    """Return a rule for inexact dtypes; NumPy rounds and wraps integer division, powers and shifts differently."""
    def rule(use: Use, /, *xs: str, **params: Any) -> str:
        if not all(dtypes.is_inexact(a.dtype) for a in use.avals):
            raise NotImplementedError(f"NumPy text of `{use.eqn.primitive.name}` is written for inexact dtypes; got "
                                      f"{', '.join(a.str_long() for a in use.avals)}")
        return use.cast(text(*xs, **params))
    return rule


_define(prims.div_p, _inexact(lambda x, y: f"np.divide({x}, {y})"))
_define(prims.pow_p, _inexact(lambda x, y: f"np.power({x}, {y})"))
_define(prims.integer_pow_p, _inexact(lambda x, *, y: f"np.power({x}, {y})" if y >= 0 else f"1 / np.power({x}, {-y})"))
_define(prims.logistic_p, _inexact(lambda x: f"1 / (1 + np.exp(-{x}))"))
_define(prims.rsqrt_p, _inexact(lambda x: f"1 / np.sqrt({x})"))


# --- shapes, sums, products -----------------------------------------------------------------------------------------
def _broadcast(use: Use, x: str, /, *, broadcast_dimensions: Any, shape: Any) -> str:
    """Place the operand's axes at `broadcast_dimensions`; the others are new."""
    new = tuple(i for i in range(len(shape)) if i not in broadcast_dimensions)
    return f"np.broadcast_to(np.expand_dims({x}, {new}), {shape})"


def _slice(use: Use, x: str, /, *, start_indices: Any, limit_indices: Any, strides: Any) -> str:
    steps = strides or (1,) * len(start_indices)
    cuts = ", ".join(f"{a}:{b}:{s}" for a, b, s in zip(start_indices, limit_indices, steps))
    return f"{x}[{cuts}]" if cuts else x


def _dot_general(use: Use, x: str, y: str, /, *, dimension_numbers: Any, **_: Any) -> str:
    """Write `einsum` with a letter per axis: batch axes, then the left operand's free axes, then the right one's."""
    (cx, cy), (bx, by) = dimension_numbers
    letters = iter(string.ascii_letters)
    left: dict[int, str] = {}
    right: dict[int, str] = {}
    for i, j in [*zip(bx, by), *zip(cx, cy)]:
        left[i] = right[j] = next(letters)
    free_left = [left.setdefault(i, next(letters)) for i in range(use.avals[0].ndim) if i not in left]
    free_right = [right.setdefault(j, next(letters)) for j in range(use.avals[1].ndim) if j not in right]
    one, other = ("".join(names[i] for i in range(len(names))) for names in (left, right))
    out = "".join([*(left[i] for i in bx), *free_left, *free_right])
    wide = numpy_dtype(use.out.dtype)
    return use.cast(f'np.asarray(np.einsum("{one},{other}->{out}", np.asarray({x}, {wide}), np.asarray({y}, {wide})))')


def _reduction(call: str) -> Callable[..., str]:
    return lambda use, x, /, *, axes: use.cast(f"np.asarray({call}({x}, axis={tuple(axes)}))")


def _min_or_max(call: str, end: str) -> Callable[..., str]:
    """Return the rule of max or min. NumPy needs an initial value for empty arrays: the lowest or highest number."""
    def rule(use: Use, x: str, /, *, axes: Any) -> str:
        dtype = use.out.dtype
        if dtype.kind == "b":
            return f"np.{'any' if end == 'min' else 'all'}({x}, axis={tuple(axes)})"
        if dtype.kind == "c":
            raise NotImplementedError(f"NumPy text does not order complex numbers, as `{use.eqn.primitive.name}` requires")
        kind = "iinfo" if dtype.kind in "iu" else "finfo"
        initial = f"np.{kind}({numpy_dtype(dtype)}).{end}" if kind == "iinfo" else ("-np.inf" if end == "min" else "np.inf")
        return use.cast(f"np.asarray({call}({x}, axis={tuple(axes)}, initial={initial}))")
    return rule


_define(prims.broadcast_in_dim_p, _broadcast)
_define(prims.slice_p, _slice)
_define(prims.dot_general_p, _dot_general)
_define(prims.reshape_p, lambda use, x, /, *, new_sizes, dimensions: f"np.reshape({x}, {new_sizes})" if dimensions is None else
        f"np.reshape(np.transpose({x}, {dimensions}), {new_sizes})")
_define(prims.transpose_p, lambda use, x, /, *, permutation: f"np.transpose({x}, {permutation})")
_define(prims.squeeze_p, lambda use, x, /, *, dimensions: f"np.reshape({x}, {use.out.shape})")
_define(prims.expand_dims_p, lambda use, x, /, *, dimensions: f"np.reshape({x}, {use.out.shape})")
_define(prims.rev_p, lambda use, x, /, *, dimensions: f"np.flip({x}, {tuple(dimensions)})")
_define(prims.concatenate_p, lambda use, /, *xs, dimension: f"np.concatenate({tuple_text(xs)}, {dimension})")
_define(prims.iota_p, lambda use, /, *, dimension, dtype, shape: use.cast(
    f"np.broadcast_to(np.expand_dims(np.arange({shape[dimension]}), "
    f"{tuple(i for i in range(len(shape)) if i != dimension)}), {shape})"))
_define(prims.reduce_sum_p, _reduction("np.sum"))
_define(prims.reduce_prod_p, _reduction("np.prod"))
_define(prims.reduce_max_p, _min_or_max("np.max", "min"))
_define(prims.reduce_min_p, _min_or_max("np.min", "max"))
_define(prims.reduce_and_p, lambda use, x, /, *, axes: f"np.asarray(np.bitwise_and.reduce({x}, axis={tuple(axes)}))")
_define(prims.reduce_or_p, lambda use, x, /, *, axes: f"np.asarray(np.bitwise_or.reduce({x}, axis={tuple(axes)}))")
for _op, _call in ((prims.cumsum_p, "np.cumsum"), (prims.cumprod_p, "np.cumprod")):
    _define(_op, lambda use, x, /, *, axis, reverse, _call=_call: use.cast(
        f"np.flip({_call}(np.flip({x}, {axis}), {axis}), {axis})" if reverse else f"{_call}({x}, {axis})"))


# --- primitives with nested programs --------------------------------------------------------------------------------
def _call_rule(use: Use, /, *xs: str, call_jaxpr: ClosedJaxpr, name: str = "call", **_: Any) -> str:
    return f"{use.function(call_jaxpr, name)}({', '.join(xs)})"


def _cond(use: Use, index: str, /, *xs: str, branches: Sequence[ClosedJaxpr]) -> str:
    """Write a call of a branch; an index out of range selects the last one."""
    names = [use.function(b, "branch") for b in branches]
    last = len(branches) - 1
    return f"{tuple_text(names)}[{index} if 0 <= {index} <= {last} else {last}]({', '.join(xs)})"


def _while(use: Use, /, *xs: str, cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr, cond_nconsts: int, body_nconsts: int,
           max_iters: int | None) -> str:
    test, body = use.function(cond_jaxpr, "condition"), use.function(body_jaxpr, "body")
    n = cond_nconsts + body_nconsts
    return (f"{use.writer.helper('_loop')}({test}, {body}, {tuple_text(xs[:cond_nconsts])}, {tuple_text(xs[cond_nconsts:n])}, "
            f"{tuple_text(xs[n:])}, {max_iters})")


def _scan(use: Use, /, *xs: str, jaxpr: ClosedJaxpr, length: int, num_carry: int, num_consts: int, reverse: bool,
          unroll: int) -> str:
    body, n = use.function(jaxpr, "step"), num_consts + num_carry
    empty = [f"np.zeros({v.aval.shape}, {numpy_dtype(v.aval.dtype)})" for v in use.eqn.outvars[num_carry:]]
    return (f"{use.writer.helper('_scan')}({body}, {tuple_text(xs[:num_consts])}, {tuple_text(xs[num_consts:n])}, "
            f"{tuple_text(xs[n:])}, {length}, {reverse}, {tuple_text(empty)})")


_HELPERS = {"_loop": '''
def _loop(test, body, test_consts, consts, carry, max_iters):
    i = 0
    while i != max_iters and test(*test_consts, *carry)[0]:
        carry, i = body(*consts, *carry), i + 1
    return tuple(carry)
''', "_scan": '''
def _scan(body, consts, carry, xs, length, reverse, stacks):
    for i in reversed(range(length)) if reverse else range(length):
        out = body(*consts, *carry, *(x[i] for x in xs))
        carry, rows = out[:len(carry)], out[len(carry):]
        for stack, row in zip(stacks, rows):
            stack[i] = row
    return (*carry, *stacks)
'''}


for _op in (prims.xla_call_p, prims.custom_jvp_call_p, prims.custom_vjp_call_p, prims.custom_vmap_call_p, prims.remat_p):
    _define(_op, _call_rule)
_define(prims.cond_p, _cond)
_define(prims.while_p, _while)
_define(prims.scan_p, _scan)

# --- primitives without a rule, and the reasons ---------------------------------------------------------------------
_WHY = {"collectives": "the text is for one device", "callbacks": "text cannot contain a Python function of the program",
        "random_bits": "the counter-based generators are not NumPy's", "special": "NumPy has no such function; SciPy has"}
for _op in prims.ALL:
    if not numpy_text_rules.has_rule_or_reason(_op):
        numpy_text_rules.declare_missing(_op, _WHY.get(_op.family, "not implemented"))
