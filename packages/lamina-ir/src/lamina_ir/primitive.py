"""`Primitive`: everything that is true of an op whatever is done with it: its name, params, types, meaning, linearity."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .errors import MissingRuleError
from .flow import Flow

__all__ = ["Primitive", "by_name", "register"]


class Primitive:
    """One op's facts.

    Args:
      name: printed name; an identifier, unique among all primitives.
      params: the keyword parameters every use must give, in the order they are printed.
      infer: `infer(*avals, **params)` gives the result's aval (a tuple of avals when `multiple`), or raises.
      numpy: `numpy(*arrays, **params)` gives the meaning on NumPy arrays (a tuple when `multiple`). With a `flow`
        it is `numpy(run, *arrays, **params)`, where `run(program, arrays)` gives a list of a program's results. With
        `axis_params` it is `numpy(env, *operands, **params)`: the `AxisEnv`, and a list with one array per device for
        each operand; so are the results. Left out, evaluating the op raises MissingRuleError.
      spmd: for ops that hold programs which may use mapped axes, `spmd(run, env, operands, params)` gives the meaning
        on all devices in lockstep: operands and results are lists with one array per device, and
        `run(program, operands, env)` gives a program's results in the same form.
      linear_in: operand positions in which the op is jointly linear (`add`: both; `select`: 1 and 2).
      bilinear_in: two positions in each of which the op is linear while the other is held (`mul`, `dot_general`).
      family: file name that holds its rows in every room.
      multiple: whether it has a tuple of results.
      spec: section of the StableHLO specification or other source of its meaning.
      elementwise: operands share one shape (a rank-0 operand broadcasts) and so does the result.
      flow: of an op that holds programs, how its operands and results run through them.
      defaults: params that are left out of the printed text while they have this value.
      effectful: has a meaning beyond its results; never removed as dead code.
      axis_params: names of params that hold the name, or a tuple of names, of mapped axes (collectives).
      kinds: param -> what it holds, a key of `param_kinds.KINDS` such as `int` or `ints`, for `check` to compare with.
    """

    __slots__ = ("name", "params", "infer", "numpy", "linear_in", "bilinear_in", "family", "multiple", "spec",
                 "elementwise", "flow", "subprograms", "defaults", "effectful", "axis_params", "kinds", "may_read_axes", "spmd",
                 "__weakref__")

    def __init__(self, name: str, *, infer: Callable[..., Any], numpy: Callable[..., Any] | None = None,
                 params: Sequence[str] = (), linear_in: Sequence[int] = (), bilinear_in: Sequence[int] = (),
                 family: str = "", multiple: bool = False, spec: str = "", elementwise: bool = False,
                 flow: Flow | None = None, defaults: dict[str, Any] | None = None,
                 effectful: bool = False, axis_params: Sequence[str] = (),
                 kinds: dict[str, str] | None = None, spmd: Callable[..., Any] | None = None) -> None:
        self.name = name
        self.params = tuple(params)
        self.infer = infer
        self.numpy: Callable[..., Any] = numpy or _no_meaning(name)
        self.linear_in = tuple(linear_in)
        self.bilinear_in = tuple(bilinear_in)
        self.family = family
        self.multiple = multiple
        self.spec = spec
        self.elementwise = elementwise
        self.flow = flow
        self.subprograms = () if flow is None else flow.programs  # params that hold a `ClosedJaxpr`, or a tuple of them
        self.defaults = defaults or {}
        self.effectful = effectful
        self.axis_params = tuple(axis_params)
        self.kinds = dict(kinds or {})
        if flow is not None:
            flow.declared(name, self.params)
            self.kinds = {**flow.kinds(), **self.kinds}
        self.spmd = spmd
        self.may_read_axes = bool(axis_params or flow)  # may refer to mapped axes: `bind` looks for them

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return by_name, (self.name,)


def _no_meaning(name: str) -> Callable[..., Any]:
    def numpy(*args: Any, **params: Any) -> Any:
        raise MissingRuleError(f"`{name}` has no NumPy meaning, so it cannot be evaluated; give it one, Primitive({name!r}, "
                               "numpy=...), or run it where it is lowered")
    return numpy


_BY_NAME: dict[str, Primitive] = {}


def by_name(name: str) -> Primitive:
    """The primitive of this printed name; KeyError when there is none."""
    return _BY_NAME[name]


def register(prim: Primitive) -> Primitive:
    """Make a primitive from outside known by name, so that printed and saved programs that use it can be read.

    Args:
      prim: the primitive.
    Returns:
      The primitive itself.
    Raises:
      ValueError: another one has its name, ours included.

    >>> from lamina_ir import Primitive, parse
    >>> twice_p = register(Primitive("twice", infer=lambda x: x, numpy=lambda x: 2 * x))
    >>> parse("{ lambda ; a:f32[]. let b:f32[] = twice a in (b,) }").jaxpr.eqns[0].primitive is twice_p
    True
    """
    if _BY_NAME.setdefault(prim.name, prim) is not prim:
        raise ValueError(f"register: another primitive is already named {prim.name!r}")
    return prim
