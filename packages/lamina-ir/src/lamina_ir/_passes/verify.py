"""`check`: verify that a program is well formed. `alpha_equal`: compare two programs up to variable names."""
from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from .._util.recursion_limit import with_recursion_limit
from .._core.arg_checks import PROGRAM, count_operands, check_args
from .._types.avals import Axes, ShapedArray
from .._types.dtypes import long_name
from ..errors import LaminaError, ProgramError
from .varying_axes import explain_bad_varying_axes
from .._core.param_types import explain_bad_param
from .._types.param_values import UnnamedAxis
from .._core.printer import eqn_text
from .._core.jaxpr import Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Var, eqn_axis_names, eqn_has_effects
from .._core.jaxpr import subprograms as _subprograms
from .._core.region_view import RegionView
from ..typing import AxisName, ParamValue, Value

__all__ = ["alpha_equal", "check", "check_all"]


@with_recursion_limit()
def check(program: Jaxpr | ClosedJaxpr) -> None:
    """Raise ProgramError unless a program is well formed.

    - Every variable is bound once and read only after that, in its own program.
    - Types are those that the primitives infer from their operands (ignoring weak types), with at least the inferred
      varying axes.
    - Params are exactly those that the primitive declares.
    - Constants have the types of their constvars.
    - `axis_names` and `effectful` agree with the equations.
    - All of this holds for nested programs too.

    Raises:
      ProgramError: names the equation by number and text, and the problem.

    >>> from lamina_ir import parse
    >>> check(parse("{ lambda ; a:f32[3]. let b:f32[4] = neg a in (b,) }"))
    Traceback (most recent call last):
    lamina_ir.errors.ProgramError: check: equation 0 `b:f32[4] = neg a`: result 0 is f32[4]; neg returns f32[3]
    """
    _check(program, "check: ", {}, frozenset())


def check_all(programs: Sequence[ClosedJaxpr]) -> None:
    """Run `check` on each program, checking shared nested programs once."""
    done: _Done = {}
    for program in programs:
        _check(program, "check: ", done, frozenset())


# Checked programs by id and bound axes. The values keep the programs alive, so that their ids are not reused.
_Done = dict[tuple[int, Axes], object]


def _excerpt(e: Eqn) -> str:
    try:
        text = eqn_text(e)
    except Exception:  # a message about a broken equation must not fail on it
        return e.primitive.name
    line = text.split("\n")[0]
    return line if len(line) <= 100 else line[:97] + "..."


def _check(program: Jaxpr | ClosedJaxpr, where: str, done: _Done, axes: Axes) -> None:
    # Under other bound axes, the varying axes of a program's types may be wrong.
    if (id(program), axes) in done:
        return
    if not isinstance(program, (Jaxpr, ClosedJaxpr)):
        raise TypeError(f"{where}expected a Jaxpr or a ClosedJaxpr; got {type(program).__name__}")
    done[id(program), axes] = program
    if isinstance(program, ClosedJaxpr):
        jaxpr = program.jaxpr
        _check_consts(program, where)
    else:
        jaxpr = program
    # bound: the variables bound so far. An equation may read only these, and must not bind them again.
    bound: set[Var] = set()
    for what, vs in (("constvar", jaxpr.constvars), ("invar", jaxpr.invars)):
        for i, v in enumerate(vs):
            if not isinstance(v, Var) or isinstance(v, DropVar) or v in bound:
                raise ProgramError(f"{where}{what} {i} must be a variable that is not bound yet; got {v!r}")
            if _is_too_long(v.aval):
                raise ProgramError(f"{where}{what} {i} {_TOO_LONG}; got {_type_text(v.aval)}")
            bound.add(v)
    names: set[AxisName] = set()  # read only from equations that passed `_check_eqn`
    for n, e in enumerate(jaxpr.eqns):
        if not isinstance(e, Eqn):
            raise ProgramError(f"{where}equation {n} must be an Eqn; got {type(e).__name__}")
        _check_eqn(e, n, where, bound, done, axes)
        if e.primitive.axis_params or e.primitive.subprograms:
            names |= eqn_axis_names(e)
    for i, a in enumerate(jaxpr.outvars):
        problem = _atom_problem(a, bound)
        if problem:
            raise ProgramError(f"{where}result {i} {problem}")
    if frozenset(names) != jaxpr.axis_names:
        raise ProgramError(f"{where}axis_names must be the free axis names of the equations, {names}; got "
                           f"{set(jaxpr.axis_names)}")
    effectful = any(eqn_has_effects(e) for e in jaxpr.eqns)
    if effectful != bool(jaxpr.effectful):
        raise ProgramError(f"{where}effectful must be {effectful}, as the equations are; got {jaxpr.effectful}")


def _check_consts(program: ClosedJaxpr, where: str) -> None:
    if len(program.consts) != len(program.jaxpr.constvars):
        raise ProgramError(f"{where}{len(program.jaxpr.constvars)} constvars; {len(program.consts)} consts")
    for i, (v, c) in enumerate(zip(program.jaxpr.constvars, program.consts)):
        shape, dtype = getattr(c, "shape", None), getattr(c, "dtype", None)
        if shape is None:
            # A Python scalar has the dtype of its variable; only its shape can be wrong.
            c = np.asarray(c)
            shape, dtype = c.shape, v.aval.dtype
        if tuple(shape) != v.aval.shape or np.dtype(dtype) != v.aval.dtype:
            name = long_name(np.dtype(dtype))
            raise ProgramError(f"{where}constant {i} must be {v.aval.str_long()}; got {name}{list(shape)}")


_TOO_LONG = "must have axes shorter than 2**63"


def _is_too_long(aval: ShapedArray) -> bool:
    return any(n >= 1 << 63 for n in aval.shape if type(n) is int)


def _type_text(aval: ShapedArray) -> str:
    try:
        return aval.str_short()
    except (LaminaError, AttributeError, TypeError):  # malformed params may give a malformed type
        return f"{getattr(aval, 'dtype', aval)!r}{list(getattr(aval, 'shape', ()))}"


def _atom_problem(a: object, bound: set[Var]) -> str | None:
    if isinstance(a, Literal):
        if a.aval.shape != ():
            return f"is a literal of type {a.aval.str_long()}; literals are scalars"
        if np.shape(a.val) != ():
            return f"is a literal of type {a.aval.str_long()} with a value of shape {np.shape(a.val)}; literals are scalars"
        number = isinstance(a.val, (bool, int, float, complex)) or hasattr(a.val, "dtype")
        if number:
            return None
        return f"is a literal of type {a.aval.str_long()} with the value {a.val!r:.40}, which is not a number"
    if isinstance(a, DropVar):
        return "is a dropped result, which cannot be read"
    if not isinstance(a, Var):
        return f"must be a variable or a literal; got {type(a).__name__}"
    return None if a in bound else f"is a variable of type {a.aval.str_short()} that is not bound before it is read"


def _params_problem(e: Eqn) -> str:
    """Describe the first param of an equation that is missing, unexpected or of another kind; "" without one."""
    p = e.primitive
    if set(e.params) != set(p.expected_params(e.params)):
        missing, extra = sorted(set(p.params) - set(e.params)), sorted(set(e.params) - set(p.params))
        return (f"{p.name} declares the params {', '.join(p.params) or 'none'}"
                + (f"; missing {', '.join(missing)}" if missing else "")
                + (f"; unexpected {', '.join(extra)}" if extra else ""))
    for name, kind in p.kinds.items():
        problem = explain_bad_param(kind, e.params[name])
        if problem:
            return f"its param {name} {problem}"
    for name in p.subprograms:
        if not isinstance(e.params[name], (ClosedJaxpr, tuple, list, type(None))):
            return f"its param {name} must be a ClosedJaxpr or a tuple of them; got {type(e.params[name]).__name__}"
    return ""


def _check_eqn(e: Eqn, n: int, where: str, bound: set[Var], done: _Done, axes: Axes) -> None:
    p = e.primitive

    def fail(message: str) -> ProgramError:
        return ProgramError(f"{where}equation {n} `{_excerpt(e)}`: {message}")

    for i, a in enumerate(e.invars):
        problem = _atom_problem(a, bound)
        if problem:
            raise fail(f"operand {i} {problem}")
    # Before the type rule, which may rely on params of the declared kinds.
    problem = _params_problem(e)
    if problem:
        raise fail(problem)
    for i, sub in enumerate(_subprograms(e)):
        if not isinstance(sub, ClosedJaxpr):
            raise fail(f"its program {i} must be a ClosedJaxpr; got {type(sub).__name__}")
        binding = p.region_signature.axis_binding  # type: ignore[union-attr]
        _check(sub, f"{where}equation {n} ({p.name}), program {i}: ", done,
               axes | binding.names(e.params) if binding else axes)
    try:
        out = p.infer(*[a.aval for a in e.invars], **e.params)
    except LaminaError as err:
        raise fail(str(err)) from err
    # Report the wrong number of operands as such, not as the TypeError of calling the rule.
    except Exception as err:  # a type rule may raise anything for malformed operands
        wanted = count_operands(p)
        if wanted is not None and wanted != len(e.invars):
            raise fail(f"{p.name} takes {wanted} operands; got {len(e.invars)}") from None
        raise fail(f"{p.name} has no type for these operands: {type(err).__name__}: {err}") from err
    if p.region_signature is not None and p.region_signature.operands:
        try:
            RegionView.of(e).check()
        except ProgramError as err:
            raise fail(str(err)) from None
    outs = list(out) if p.multiple else [out]
    if len(outs) != len(e.outvars):
        raise fail(f"it has {len(e.outvars)} results; {p.name} returns {len(outs)}")
    for i, (v, aval) in enumerate(zip(e.outvars, outs)):
        if not isinstance(v, Var):
            raise fail(f"result {i} must be a variable; got {v!r}")
        if v in bound:
            raise fail(f"result {i} is bound already")
        if _is_too_long(v.aval):
            raise fail(f"result {i} {_TOO_LONG}; got {_type_text(v.aval)}")
        if not v.aval.same_type(aval):
            raise fail(f"result {i} is {_type_text(v.aval)}; {p.name} returns {_type_text(aval)}")
        if not isinstance(v, DropVar):
            # A dropped result cannot be read, so a DropVar may occur more than once.
            bound.add(v)
    # Last, because the inference assumes well-formed nested programs and types.
    problem = explain_bad_varying_axes(e, axes)
    if problem:
        raise fail(problem)


class _Match:
    """A bijection between the variables and unnamed axes of two programs, built up while they are compared."""

    def __init__(self, weak: bool) -> None:
        self.weak = weak
        self.left: dict[Hashable, Hashable] = {}
        self.right: dict[Hashable, Hashable] = {}
        self.programs: set[tuple[int, int]] = set()

    def types(self, a: ShapedArray, b: ShapedArray) -> bool:
        return a is b or (a == b if self.weak else a.same_type(b) and a.varying_axes == b.varying_axes)

    def pair(self, a: Hashable, b: Hashable) -> bool:
        """Return whether `a` corresponds to `b`; if neither has a counterpart yet, make them correspond."""
        # Both directions, or two variables of one program could correspond to one variable of the other.
        if a in self.left or b in self.right:
            return self.left.get(a) is b and self.right.get(b) is a
        self.left[a] = b
        self.right[b] = a
        return True

    def bind(self, a: Var, b: Var) -> bool:
        return self.types(a.aval, b.aval) and self.pair(a, b)

    def atom(self, a: Atom, b: Atom) -> bool:
        if isinstance(a, Literal) or isinstance(b, Literal):
            return (isinstance(a, Literal) and isinstance(b, Literal) and self.types(a.aval, b.aval)
                    and _equal(np.asarray(a.val, a.aval.dtype), np.asarray(b.val, b.aval.dtype)))
        # One direction suffices where a variable is read, because `pair` keeps the mapping one-to-one.
        return self.left.get(a) is b

    def program(self, a: Jaxpr, b: Jaxpr) -> bool:
        if len(a.eqns) != len(b.eqns) or len(a.outvars) != len(b.outvars):
            return False
        for vs, ws in ((a.constvars, b.constvars), (a.invars, b.invars)):
            if len(vs) != len(ws) or not all(self.bind(v, w) for v, w in zip(vs, ws)):
                return False
        return (all(self.eqn(e, f) for e, f in zip(a.eqns, b.eqns))
                and all(self.atom(v, w) for v, w in zip(a.outvars, b.outvars)))

    def eqn(self, e: Eqn, f: Eqn) -> bool:
        return (e.primitive is f.primitive and len(e.invars) == len(f.invars) and len(e.outvars) == len(f.outvars)
                and e.params.keys() == f.params.keys()
                and all(self.atom(a, b) for a, b in zip(e.invars, f.invars))
                and all(self.value(v, f.params[k]) for k, v in e.params.items())
                and all(self.bind(v, w) for v, w in zip(e.outvars, f.outvars)))

    def value(self, a: ParamValue, b: ParamValue) -> bool:
        if type(a) is not type(b):
            return False
        if isinstance(a, ClosedJaxpr):
            # A pair that was compared before, or is being compared. Sharing makes the number of occurrences
            # exponential in the depth; a pair that differs ends the whole comparison, so a known pair is equal.
            if (id(a), id(b)) in self.programs:
                return True
            self.programs.add((id(a), id(b)))
            inner = _Match(self.weak)
            inner.programs = self.programs
            # A nested program reads no outer variables, but it refers to the outer axes.
            inner.left = {k: v for k, v in self.left.items() if isinstance(k, UnnamedAxis)}
            inner.right = {k: v for k, v in self.right.items() if isinstance(k, UnnamedAxis)}
            return (inner.program(a.jaxpr, b.jaxpr) and len(a.consts) == len(b.consts)
                    and all(_equal(x, y) for x, y in zip(a.consts, b.consts)))
        if isinstance(a, UnnamedAxis):
            return self.pair(a, b)
        if isinstance(a, (tuple, list)):
            return len(a) == len(b) and all(self.value(x, y) for x, y in zip(a, b))
        if isinstance(a, np.ndarray):
            return _equal(a, b)
        # NaN params are equal.
        return bool(a is b or a == b or (a != a and b != b))


def _equal(a: Value, b: Value) -> bool:
    """Return whether dtype, shape and values are equal (NaN equals NaN)."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    # Bytes first, since equal programs mostly share their constants. The rest equates all NaNs, and 0.0 with -0.0.
    return a.tobytes() == b.tobytes() or bool(np.all((a == b) | ((a != a) & (b != b))))


@check_args(a=PROGRAM, b=PROGRAM)
@with_recursion_limit()
def alpha_equal(a: Jaxpr | ClosedJaxpr, b: Jaxpr | ClosedJaxpr, *, weak: bool = False) -> bool:
    """Return whether two programs are equal up to the identity of their variables and unnamed axes.

    Args:
      a, b: programs. Constants are compared by value if both are `ClosedJaxpr`.
      weak: whether weak types must agree too; program text does not show them by default.

    >>> from lamina_ir import parse
    >>> text = "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"
    >>> alpha_equal(parse(text), parse(text)), alpha_equal(parse(text), parse(text.replace("sin", "cos")))
    (True, False)
    """
    match = _Match(weak)
    if isinstance(a, ClosedJaxpr) and isinstance(b, ClosedJaxpr):
        return match.value(a, b)
    return match.program(a.jaxpr if isinstance(a, ClosedJaxpr) else a, b.jaxpr if isinstance(b, ClosedJaxpr) else b)
