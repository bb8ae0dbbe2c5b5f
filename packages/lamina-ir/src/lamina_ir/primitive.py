"""`Primitive`: everything that is true of an op whatever is done with it: its name, params, types, meaning, linearity."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ._excerpt import excerpt
from .errors import MissingRuleError, ProgramError
from .flow import Flow

__all__ = ["Primitive", "bound_by", "by_name", "register"]


def _names(v: Any) -> bool:
    return type(v) in (tuple, list) and all(map(_name, v)) and len(set(v)) == len(v)


def _name(v: Any) -> bool:
    return isinstance(v, str) and v.isidentifier()


def _positions(v: Any) -> bool:
    return type(v) in (tuple, list) and all(type(i) is int and i >= 0 for i in v) and len(set(v)) == len(v)


def _two_positions(v: Any) -> bool:
    return _positions(v) and len(v) in (0, 2)


# fact -> how it must be in words, and whether it is so. What is left out is not looked at.
_FACTS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "name": ("an identifier", _name),
    "infer": ("a function", callable),
    **dict.fromkeys(("numpy", "spmd", "over"), ("a function or None", callable)),
    **dict.fromkeys(("params", "axis_params"), ("a tuple of different identifiers", _names)),
    "linear_in": ("a tuple of different operand positions", _positions),
    "bilinear_in": ("two operand positions, or none", _two_positions),
    **dict.fromkeys(("family", "spec"), ("a string", lambda v: type(v) is str)),
    **dict.fromkeys(("multiple", "elementwise", "effectful"), ("a bool", lambda v: type(v) is bool)),
    "flow": ("a Flow or None", lambda v: isinstance(v, Flow)),
    **dict.fromkeys(("defaults", "kinds"), ("a dict by param, or None", lambda v: type(v) is dict)),
    "version": ("an int, 1 or more", lambda v: type(v) is int and v >= 1),
}


def _refuse_ill_formed(facts: dict[str, Any], left_out: dict[str, Any]) -> None:
    for field, v in facts.items():
        if field == "self" or field in left_out and v is left_out[field]:
            continue
        words, fits = _FACTS[field]
        if not fits(v):
            raise ProgramError(f"Primitive {facts['name']!r}: {field}: must be {words}; got {type(v).__name__}: {v!r:.60}")
    params = facts["params"]
    for field in ("axis_params", "defaults", "kinds"):
        for param in facts[field] or ():
            if param not in params:
                raise ProgramError(f"Primitive {facts['name']!r}: {field}: must name params of the op, which are "
                                   f"{', '.join(params) or 'none'}; got {param!r}")


def _told_later(*avals: Any, **params: Any) -> Any:
    """The type rule of an op that is made by its name alone."""


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
      over: of an op that is an exception from the rule that results differ over the mapped axes over which operands differ
        (and, of a collective, over its own; of an op with effects, over all): `over(total, names, params, bound)` gives what
        they do, from what the operands differ over together, the axes the op refers to, its params and all that are bound. A
        frozenset for all results, or one for each.
      kinds: param -> what it holds, a key of `param_kinds.KINDS` such as `int` or `ints`, for `check` to compare with.
      version: which meaning of name, operands and params this is. Saved programs say it. Count it up where one of the version
        before would be read wrongly, and say in `extend.upgrades` what it means now; a param with a default needs neither.
    Raises:
      ProgramError: a fact that cannot be one.

    An op can also be made by its name alone and be told the rest: `multiple_results`, `def_abstract_eval`, `def_impl`.

    >>> import numpy as np
    >>> twice_p = Primitive("twice_of_docs")
    >>> twice_p.def_impl(lambda x: 2 * x).__name__, twice_p.def_abstract_eval(lambda x: x).__name__
    ('<lambda>', '<lambda>')
    >>> twice_p.bind(np.float32(3))
    np.float32(6.0)
    """

    __slots__ = ("name", "params", "infer", "numpy", "linear_in", "bilinear_in", "family", "multiple", "spec",
                 "elementwise", "flow", "subprograms", "defaults", "effectful", "axis_params", "kinds", "may_read_axes", "spmd",
                 "unsaid", "over", "plainly_over", "own_bind", "own_impl", "version", "__weakref__")

    def __init__(self, name: str, *, infer: Callable[..., Any] = _told_later, numpy: Callable[..., Any] | None = None,
                 params: Sequence[str] = (), linear_in: Sequence[int] = (), bilinear_in: Sequence[int] = (),
                 family: str = "", multiple: bool = False, spec: str = "", elementwise: bool = False,
                 flow: Flow | None = None, defaults: dict[str, Any] | None = None,
                 effectful: bool = False, axis_params: Sequence[str] = (),
                 kinds: dict[str, str] | None = None, spmd: Callable[..., Any] | None = None,
                 over: Callable[..., Any] | None = None, version: int = 1) -> None:
        _refuse_ill_formed(locals(), Primitive.__init__.__kwdefaults__)  # type: ignore[arg-type]
        self.name = name
        self.params = tuple(params)
        self.infer: Callable[..., Any] = _no_type_rule(name) if infer is _told_later else infer
        self.numpy: Callable[..., Any] = numpy or _no_meaning(name)
        self.own_bind: Callable[..., Any] | None = None  # stands in for `bind`, of an op that is several equations
        self.own_impl: Callable[..., Any] | None = None  # runs the op on concrete values
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
        # Params in which a program may stand although no flow says how it runs: `Jaxpr` refuses that.
        self.unsaid = () if flow else tuple([p for p in self.params if self.kinds.get(p, "program") in ("program", "programs")])
        self.spmd = spmd
        self.over = over
        self.version = version
        self.plainly_over = not (over or flow or axis_params or effectful)  # results differ over what operands differ over
        self.may_read_axes = bool(axis_params or flow)  # may refer to mapped axes: `bind` looks for them

    # What programs that read programs ask an op for, under the names they know.
    def bind(self, /, *args: Any, **params: Any) -> Any:
        """Apply the op, to values or to what is traced: `bind(op, *args, **params)`.

        Args:
          *args: its operands.
          **params: its params, all of them.
        Returns:
          The result; of an op with several a tuple.
        Raises:
          TypeError, ValueError: operands or params that do not fit the op, in its own words.

        >>> import numpy as np
        >>> from lamina_ir import prims
        >>> float(prims.mul_p.bind(np.float32(2), np.float32(3)))
        6.0
        """
        if self.own_bind is not None:
            return self.own_bind(*args, **params)
        return _bind(self, *args, **params)

    def bind_with_trace(self, trace: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Apply the op in a given transformation, `trace.process(op, args, params)`."""
        return trace.process(self, tuple(args), params)

    def get_bind_params(self, params: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """What `bind` takes beside the operands of an equation with these params: functions (none here: programs are
        params), and params.

        >>> from lamina_ir import prims
        >>> prims.reduce_sum_p.get_bind_params({"axes": (0,)})
        ([], {'axes': (0,)})
        """
        return [], dict(params)

    @property
    def multiple_results(self) -> bool:
        """Whether `bind` gives a tuple of results."""
        return self.multiple

    @multiple_results.setter
    def multiple_results(self, many: bool) -> None:
        self.multiple = bool(many)

    @property
    def call_primitive(self) -> bool:
        """Whether it does nothing but run the program in its param `call_jaxpr` on its operands."""
        return self.name == "xla_call"

    @property
    def map_primitive(self) -> bool:
        """Whether it runs the program in its param `call_jaxpr` once for each member of an axis."""
        return self.name in ("xla_pmap", "xmap")

    def abstract_eval(self, *avals: Any, **params: Any) -> Any:
        """The types of the results: `infer`."""
        return self.infer(*avals, **params)

    def impl(self, *args: Any, **params: Any) -> Any:
        """The op on concrete values: what `def_impl` was given, else its NumPy meaning."""
        return (self.own_impl or self.numpy)(*args, **params)

    def def_impl(self, impl: Callable[..., Any]) -> Callable[..., Any]:
        """Say what the op does to concrete values. Compiled programs want a row of `lowering_rules` beside it.

        Args:
          impl: `impl(*arrays, **params)`.
        Returns:
          `impl`, so that this can be a decorator.
        """
        self.own_impl = self.numpy = impl
        return impl

    def def_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Say what types the results have: `infer`.

        Args:
          rule: `rule(*avals, **params)`.
        Returns:
          `rule`, so that this can be a decorator.
        """
        self.infer = rule
        return rule

    def def_effectful_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """`def_abstract_eval` of an op with effects: `rule` gives the types and what effects there are."""
        self.effectful, self.plainly_over = True, False
        self.infer = lambda *avals, **params: rule(*avals, **params)[0]
        return rule

    def def_custom_bind(self, bind: Callable[..., Any]) -> Callable[..., Any]:
        """Have `bind(*args, **params)` called in place of this op's own: it may be several equations."""
        self.own_bind = bind
        return bind

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> Any:
        return by_name, (self.name,)


def _no_meaning(name: str) -> Callable[..., Any]:
    def numpy(*args: Any, **params: Any) -> Any:
        raise MissingRuleError(f"`{name}` has no NumPy meaning, so it cannot be evaluated; give it one, Primitive({name!r}, "
                               "numpy=...), or run it where it is lowered")
    return numpy


def _no_type_rule(name: str) -> Callable[..., Any]:
    def infer(*avals: Any, **params: Any) -> Any:
        raise MissingRuleError(f"`{name}` has no type rule, so it cannot stand in a program; give it one, Primitive({name!r}, "
                               f"infer=...), or call its def_abstract_eval")
    return infer


def _evaluate(prim: Primitive, /, *args: Any, **params: Any) -> Any:
    return prim.impl(*args, **params)


_bind: Callable[..., Any] = _evaluate


def bound_by(bind: Callable[..., Any]) -> Callable[..., Any]:
    """Have `Primitive.bind` call `bind(op, *args, **params)`: tracing does, which knows the transformations in force.

    Args:
      bind: the function.
    Returns:
      The one before.

    >>> from lamina_ir import prims
    >>> before = bound_by(lambda op, *args, **params: op.name)
    >>> prims.add_p.bind(1.0, 2.0)
    'add'
    >>> _ = bound_by(before)
    """
    global _bind
    before, _bind = _bind, bind
    return before


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
    if not isinstance(prim, Primitive):
        raise TypeError(f"register: expected a Primitive; got {excerpt(prim)}")
    if _BY_NAME.setdefault(prim.name, prim) is not prim:
        raise ValueError(f"register: another primitive is already named {prim.name!r}")
    return prim
